#include "workbench/run_file.hpp"

#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"

#include <cmath>
#include <string_view>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr Ticks kLongest = Ticks{1} << 62;
constexpr double kLongestMs = 1e9;

/// The objects of a text that are one after the other: where braces close. What is between them is
/// left to the parser to refuse.
std::vector<std::string_view> documents_of(std::string_view text) {
  std::vector<std::string_view> documents;
  std::size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (quoted) {
      if (letter == '\\') ++at;
      quoted = letter != '"';
    } else if (letter == '"') {
      quoted = true;
    } else if (letter == '{') {
      ++depth;
    } else if (letter == '}' && --depth <= 0) {
      documents.push_back(text.substr(begin, at + 1 - begin));
      begin = at + 1;
      depth = 0;
    }
  }
  const std::string_view rest = text.substr(begin);
  if (documents.empty() || rest.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    documents.push_back(rest);
  }
  return documents;
}

Timing read_timing(const JsonValue& model, const Problem& problem) {
  const auto ticks = [&](const char* key) { return model.at(key).integer(0, kLongest); };
  Timing timing{.model = model.at("kind").string() == "overlap" ? Model::overlap : Model::chain,
                .compute = ticks("compute"),
                .reduce = ticks("reduce"),
                .latency = ticks("latency"),
                .launch = ticks("launch"),
                .epilogue = ticks("epilogue")};
  if (model.has("compute_partial")) timing.compute_partial = ticks("compute_partial");
  if (model.at("release").string() == "delayed") timing.release = Release::delayed;
  if (model.has("residency")) {
    timing.residency = static_cast<std::int32_t>(model.at("residency").integer(1, kMaxSms));
  }
  check_timing(timing, problem);
  return timing;
}

KernelKey read_key(const JsonValue& run, const TileShape& tile) {
  KernelKey key{.kernel = run.at("kernel").string()};
  if (run.has("tick_ns")) return key;  // a replay
  key.dtype = run.has("dtype") ? run.at("dtype").string() : "fp32";
  key.head_dim = run.at("head_dim").integer(1, kMaxTokens);
  key.tile = tile;
  return key;
}

/// Why nothing is predicted of a run; empty if something is.
std::string reason_to_skip(const JsonValue& run) {
  if (run.at("mode").string() != "deterministic") return "mode " + run.at("mode").string();
  if (run.at("verdict").string() != "ok") return "verdict " + run.at("verdict").string();
  const JsonValue measured = run.at("measured");
  if (!measured.is_object() || !measured.has("makespan_ns")) {
    return "no makespan was measured: only a GPU's is";
  }
  return {};
}

MeasuredRun read_run(const JsonValue& run, std::string source) {
  const JsonValue schedule = run.at("schedule");
  MeasuredRun read{.source = std::move(source),
                   .problem = read_problem(run.at("problem")),
                   .schedule = schedule.at("name").string(),
                   .from_file = schedule.at("source").string() == "file"};
  read.kernel = read_key(run, read.problem.shape);
  read.timing = read_timing(run.at("model"), read.problem);
  read.spun = run.has("spins") ? read_timing(run.at("spins"), read.problem) : read.timing;
  if (run.has("tick_ns")) read.tick_ns = run.at("tick_ns").integer(1, 1'000'000);
  const JsonValue measured = run.at("measured");
  const char* const makespan =
      measured.has("untimed_makespan_ns") ? "untimed_makespan_ns" : "makespan_ns";
  read.measured = measured.at(makespan).integer(1, kLongest);
  if (measured.has("untimed_ms")) {
    read.elapsed = std::llround(1e6 * measured.at("untimed_ms").number(1e-6, kLongestMs));
  }
  const JsonValue predicted = run.at("predicted");
  if (!predicted.is_object()) return read;
  if (predicted.has("last_reduction_ns")) {
    read.predicted = predicted.at("last_reduction_ns").integer(0, kLongest);
  }
  if (predicted.has("elapsed_ns")) {
    read.predicted_elapsed = predicted.at("elapsed_ns").integer(0, kLongest);
  }
  return read;
}

}  // namespace

MeasuredRuns read_runs(std::string_view text, const std::string& source) {
  MeasuredRuns all;
  const std::vector<std::string_view> documents = documents_of(text);
  for (std::size_t index = 0; index < documents.size(); ++index) {
    const std::string name =
        documents.size() == 1 ? source : source + " (" + std::to_string(index + 1) + ")";
    const JsonDocument document(documents[index], name);
    document.root().expect_schema("stagger.run/1");
    const std::string reason = reason_to_skip(document.root());
    if (reason.empty()) {
      all.runs.push_back(read_run(document.root(), name));
    } else {
      all.skipped.push_back(name + ": " + reason);
    }
  }
  return all;
}

}  // namespace stagger::workbench
