#include "cli/commands.hpp"
#include "cli/expect.hpp"
#include "cli/files.hpp"
#include "cli/report/duration.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/table_digest.hpp"
#include "core/version.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "workbench/accuracy.hpp"
#include "workbench/run_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Accuracy;
using workbench::Clock;
using workbench::MeasuredRun;
using workbench::MeasuredRuns;
using workbench::Prediction;
using workbench::TimeModel;

using Json = nlohmann::ordered_json;

/// Directories replaced by the *.json in them.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".json") inside.push_back(entry.path().string());
    }
    if (error) throw Error(ErrorKind::io, path + ": cannot read: " + error.message());
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

/// Throws Error{invalid_input}, Error{io}.
MeasuredRuns read_all(const std::vector<std::string>& paths) {
  MeasuredRuns all;
  for (const std::string& path : files_of(paths)) {
    MeasuredRuns some = workbench::read_runs(read_file(path), path);
    std::ranges::move(some.runs, std::back_inserter(all.runs));
    std::ranges::move(some.skipped, std::back_inserter(all.skipped));
  }
  return all;
}

/// What a run takes, in ns.
struct Predicted {
  Ticks last_reduction = 0;                     ///< from the first task's start to its end
  std::optional<Ticks> elapsed = std::nullopt;  ///< of the whole run; absent: nothing says it
  std::uint64_t table = 0;                      ///< likeness(); 0: unknown
};

/// The timing model of a run on the machine.
TimeModel model_on(const Machine& machine, const MeasuredRun& run) {
  const KernelTimes& times = times_of(machine, run.kernel);
  TimeModel model = workbench::time_model_of(
      machine, times, run.problem,
      run.tick_ns > 0 ? workbench::in_ns(run.spun, run.tick_ns) : Timing{});
  model.timing.release = run.timing.release;
  model.timing.residency = run.timing.residency;
  workbench::fit(model.timing, run.problem, machine.sms);
  return model;
}

Table table_of(const MeasuredRun& run) {
  return schedules::build(schedules::select(run.schedule), run.problem, run.timing);
}

/// Equal for runs of a problem that no timing model of one machine tells apart.
std::uint64_t likeness(const Table& table, const MeasuredRun& run) {
  const auto rest = static_cast<std::uint64_t>(run.timing.residency) << 1 |
                    static_cast<std::uint64_t>(run.timing.release == Release::delayed);
  return table_digest(table) ^ rest * 0x9e3779b97f4a7c15;
}

/// 0 where finding the table again takes a search, or it was a file's.
std::uint64_t known_likeness(const MeasuredRun& run) {
  if (run.from_file || schedules::select(run.schedule).schedule->searches) return 0;
  return likeness(table_of(run), run);
}

/// A run's table on the machine.
Predicted predict(const Machine& machine, const MeasuredRun& run) {
  if (run.from_file) {
    throw Error(ErrorKind::usage, run.source + ": its table was a file's, and is not in it");
  }
  const TimeModel model = model_on(machine, run);
  const Timing& timing = model.timing;
  const Table table = table_of(run);
  check_timing(timing, run.problem);
  if (dag::verify(table, timing).verdict != dag::Verdict::ok || table.slots.empty()) {
    throw Error(ErrorKind::usage, run.source + ": its table would not run on this machine");
  }
  const sim::Simulation simulation = sim::simulate(table, timing);
  Predicted predicted{.last_reduction = simulation.last_reduction,
                      .elapsed = model.elapsed(simulation.makespan),
                      .table = likeness(table, run)};
  if (timing.memory) {
    const sim::MemoryPlay memory = sim::play_memory(table, timing, simulation);
    predicted.last_reduction = memory.last_reduction;
    predicted.elapsed = model.elapsed(memory.makespan);
  }
  return predicted;
}

/// One duration of several runs, as measured and as predicted.
struct Judged {
  std::vector<std::size_t> runs;  ///< by prediction: which one, ascending
  std::vector<Prediction> predictions;
  Accuracy accuracy;

  [[nodiscard]] bool empty() const { return predictions.empty(); }
  /// nullptr: none.
  [[nodiscard]] const Prediction* of(std::size_t run) const {
    const auto found = std::lower_bound(runs.begin(), runs.end(), run);
    if (found == runs.end() || *found != run) return nullptr;
    return &predictions[static_cast<std::size_t>(found - runs.begin())];
  }
  void add(std::size_t run, Prediction prediction) {
    runs.push_back(run);
    predictions.push_back(std::move(prediction));
  }
  void end() {
    if (!empty()) accuracy = workbench::accuracy_of(predictions);
  }
};

/// `--expect` can ask for these.
constexpr std::array kNames = {
    ExpectName{"runs", "runs that something is predicted of"},
    ExpectName{"median_ppm", "median error of a makespan, in millionths"},
    ExpectName{"worst_ppm", "the largest error"},
    ExpectName{"pairs", "pairs of runs that differ by more than noise"},
    ExpectName{"misranked", "of them, those whose order is not the predicted one"},
    ExpectName{"noise_ppm", "what equal runs differ by"},
    ExpectName{"whole_runs", "of them, those whose whole time is known"},
    ExpectName{"whole_median_ppm", "as median_ppm, of whole runs"},
    ExpectName{"whole_worst_ppm", "as worst_ppm, of whole runs"},
    ExpectName{"whole_pairs", "as pairs, of whole runs"},
    ExpectName{"whole_misranked", "as misranked, of whole runs"},
    ExpectName{"whole_noise_ppm", "as noise_ppm, of whole runs"},
};

void add_values(Values& values, const std::string& prefix, const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  for (const auto& [name, value] :
       {std::pair{"runs", std::ssize(judged.runs)}, std::pair{"median_ppm", accuracy.median_ppm},
        std::pair{"worst_ppm", accuracy.worst_ppm}, std::pair{"pairs", accuracy.pairs},
        std::pair{"misranked", std::ssize(accuracy.misranked)},
        std::pair{"noise_ppm", accuracy.noise_ppm}})
    values[prefix + name] = exact(value);
}

std::string noise(const Accuracy& accuracy) {
  if (accuracy.alike == 0) return "";
  return fmt::format(
      "  noise: {} pair{} of one table, but for the names of tiles: apart by {:.1f} % in the "
      "median, {:.1f} % at most\n",
      accuracy.alike, accuracy.alike == 1 ? "" : "s",
      1e-4 * static_cast<double>(accuracy.noise_median_ppm),
      1e-4 * static_cast<double>(accuracy.noise_ppm));
}

std::string ranking(const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  if (accuracy.pairs == 0) {
    return "  ranking: no two schedules differ by more than 3 %\n" + noise(accuracy);
  }
  const std::int64_t right = accuracy.pairs - std::ssize(accuracy.misranked);
  std::string text =
      fmt::format("  ranking: {} of {} pairs that differ by more than 3 % are predicted\n", right,
                  accuracy.pairs);
  for (const auto& [faster, slower] : accuracy.misranked) {
    const Prediction& first = judged.predictions[faster];
    const Prediction& second = judged.predictions[slower];
    const double longer =
        static_cast<double>(second.measured) / static_cast<double>(first.measured) - 1;
    text += fmt::format("    not: {} takes {:.1f} % longer than {} ({})\n", second.schedule,
                        100 * longer, first.schedule, first.group);
  }
  return text + noise(accuracy);
}

/// `whole run, 3 runs: median error 4.9 %, worst 5.7 % (…)` and the ranking.
std::string summary(const char* what, const Judged& judged) {
  if (judged.empty()) return "";
  const Accuracy& accuracy = judged.accuracy;
  const Prediction& worst = judged.predictions[accuracy.worst];
  return fmt::format("{}, {} run{}: median error {:.1f} %, worst {:.1f} % ({}, {})\n", what,
                     judged.runs.size(), judged.runs.size() == 1 ? "" : "s",
                     1e-4 * static_cast<double>(accuracy.median_ppm),
                     1e-4 * static_cast<double>(accuracy.worst_ppm), worst.schedule, worst.group) +
         ranking(judged);
}

/// `measured, predicted, error`.
std::string columns(const Prediction& prediction) {
  return fmt::format(" {:>10} {:>10} {:>+5.1f} %", duration(prediction.measured, Clock::ns),
                     duration(prediction.predicted, Clock::ns), 100 * prediction.error());
}

Json accuracy_json(const Judged& judged) {
  Json json = {{"runs", judged.runs.size()},
               {"median_ppm", judged.accuracy.median_ppm},
               {"worst_ppm", judged.accuracy.worst_ppm},
               {"pairs", judged.accuracy.pairs},
               {"misranked", Json::array()}};
  for (const auto& [faster, slower] : judged.accuracy.misranked)
    json["misranked"].push_back({{"faster", judged.runs[faster]}, {"slower", judged.runs[slower]}});
  json["alike"] = judged.accuracy.alike;
  json["noise_median_ppm"] = judged.accuracy.noise_median_ppm;
  json["noise_ppm"] = judged.accuracy.noise_ppm;
  return json;
}

/// Measured runs beside what is predicted of them.
class Comparison {
 public:
  explicit Comparison(const Options& options) : measured_(read_all(options.measured)) {
    if (!options.machine.empty()) {
      machine_ = read_machine_json(read_file(options.machine), options.machine);
    }
    for (std::size_t index = 0; index < measured_.runs.size(); ++index)
      add(index);
    if (spans_.empty()) {
      throw Error(ErrorKind::usage, "there is no run that something is predicted of" + skipped());
    }
    spans_.end();
    wholes_.end();
  }

  [[nodiscard]] Values values() const {
    Values values;
    add_values(values, "", spans_);
    if (!wholes_.empty()) add_values(values, "whole_", wholes_);
    return values;
  }

  /// `each`: with a line for every run.
  [[nodiscard]] std::string text(int width, bool each) const {
    std::string text;
    if (machine_) text += fmt::format("{} ({})\n", machine_->name, machine_->device);
    if (each) text += lines(width);
    text += '\n' + wrapped(summary("first task to last", spans_) + summary("whole run", wholes_),
                           width, 6);
    return text + skipped() + (measured_.skipped.empty() ? "" : "\n");
  }

  [[nodiscard]] std::string lines(int width) const {
    std::string text;
    std::string group;
    for (const std::size_t index : by_group()) {
      const Prediction& span = spans_.predictions[index];
      if (span.group != group) text += heading(span.group, width);
      group = span.group;
      text += fmt::format("  {:<{}}", span.schedule, kName) + columns(span);
      const Prediction* const whole = wholes_.of(index);
      text += (whole == nullptr ? "" : " |" + columns(*whole)) + "\n";
    }
    return text;
  }

  [[nodiscard]] std::string json(const std::vector<Judgement>& judgements) const {
    Json json = {{"schema", "stagger.prediction/1"}, {"version", version()}};
    json["machine"] = machine_ ? Json(machine_->name) : Json(nullptr);
    json["runs"] = Json::array();
    for (std::size_t index = 0; index < spans_.predictions.size(); ++index) {
      const MeasuredRun& run = measured_.runs[index];
      const Prediction& span = spans_.predictions[index];
      json["runs"].push_back({{"source", run.source},
                              {"problem", Json::parse(cli::problem_json(run.problem))},
                              {"kernel", run.kernel.kernel},
                              {"dtype", run.kernel.dtype},
                              {"head_dim", run.kernel.head_dim},
                              {"schedule", run.schedule},
                              {"measured_ns", span.measured},
                              {"predicted_ns", span.predicted},
                              {"error", span.error()},
                              {"whole", nullptr}});
      const Prediction* const whole = wholes_.of(index);
      if (whole == nullptr) continue;
      json["runs"].back()["whole"] = {{"measured_ns", whole->measured},
                                      {"predicted_ns", whole->predicted},
                                      {"error", whole->error()}};
    }
    const Json spans = accuracy_json(spans_);
    for (const char* key : {"median_ppm", "worst_ppm", "pairs", "misranked", "alike",
                            "noise_median_ppm", "noise_ppm"})
      json[key] = spans[key];
    json["whole"] = wholes_.empty() ? Json(nullptr) : accuracy_json(wholes_);
    json["skipped"] = measured_.skipped;
    if (!judgements.empty()) json["expectations"] = Json::parse(judgements_json(judgements));
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  static constexpr int kName = 15;  ///< columns of a schedule's name: the table is 79 wide

  /// Runs, those of a group behind its first one.
  [[nodiscard]] std::vector<std::size_t> by_group() const {
    std::map<std::string, std::size_t> first;
    std::vector<std::size_t> order(spans_.runs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (const std::size_t index : order)
      first.try_emplace(spans_.predictions[index].group, index);
    std::ranges::stable_sort(
        order, {}, [&](std::size_t index) { return first.at(spans_.predictions[index].group); });
    return order;
  }

  void add(std::size_t index) {
    const MeasuredRun& run = measured_.runs[index];
    const Predicted predicted = prediction_of(run);
    const std::string group = group_of(run);
    spans_.add(index, {.group = group,
                       .schedule = run.schedule,
                       .measured = run.measured,
                       .predicted = predicted.last_reduction,
                       .table = predicted.table});
    if (!run.elapsed || !predicted.elapsed) return;
    wholes_.add(index, {.group = group,
                        .schedule = run.schedule,
                        .measured = *run.elapsed,
                        .predicted = *predicted.elapsed,
                        .table = predicted.table});
  }

  [[nodiscard]] static std::string group_of(const MeasuredRun& run) {
    return problem_line(run.problem) + "; " + run.kernel.kernel +
           (run.kernel.dtype.empty()
                ? fmt::format(", a tick is {} ns", run.tick_ns)
                : fmt::format(", {}, head_dim {}", run.kernel.dtype, run.kernel.head_dim));
  }

  [[nodiscard]] Predicted prediction_of(const MeasuredRun& run) const {
    if (machine_) return predict(*machine_, run);
    if (run.predicted) {
      return {.last_reduction = *run.predicted,
              .elapsed = run.predicted_elapsed,
              .table = known_likeness(run)};
    }
    throw Error(ErrorKind::usage, run.source + " holds no prediction in ns: give --machine FILE");
  }

  [[nodiscard]] std::string heading(const std::string& group, int width) const {
    const std::string names = fmt::format(" {:>10} {:>10} {:>7}", "measured", "predicted", "error");
    std::string text = "\n" + wrapped(group + "\n", width, 6);
    if (!wholes_.empty()) {
      text += fmt::format("  {:<{}} {:<29} | {}\n", "", kName, "first task to last", "whole run");
    }
    return text + fmt::format("  {:<{}}", "schedule", kName) + names +
           (wholes_.empty() ? "" : " |" + names) + "\n";
  }

  [[nodiscard]] std::string skipped() const {
    std::string text;
    for (const std::string& reason : measured_.skipped)
      text += (text.empty() && spans_.empty() ? "; skipped " : "\nskipped ") + reason;
    return text.starts_with('\n') ? text.substr(1) : text;
  }

  MeasuredRuns measured_;
  std::optional<Machine> machine_;
  Judged spans_;   ///< of every run, first task to last
  Judged wholes_;  ///< of those of which that is known
};

int run(const Options& options) {
  const std::vector<Expectation> expectations = expectations_of(options.expect, kNames);
  const Comparison comparison(options);
  const Values values = comparison.values();
  const std::vector<Judgement> judgements = judge(expectations, &values);
  if (options.json) {
    write_stdout(comparison.json(judgements));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(comparison.text(terminal.width, !options.summary), terminal);
  }
  return all_hold(judgements) ? kHolds : kViolated;
}

}  // namespace

extern const Command kPredict;
const Command kPredict{
    .name = "predict",
    .summary = "Measured runs beside what a machine profile predicts of them",
    .examples =
        "  stagger run --mask causal --seq 4096 --tile-q 64 --tile-kv 64 --heads 8 \\\n"
        "      --sms 132 --schedule descending --device cuda --json \\\n"
        "      > runs/descending.json\n"
        "  stagger predict runs --machine configs/machines/h200.json\n"
        "  stagger predict runs --machine configs/machines/h200.json \\\n"
        "      --expect 'median_ppm <= 50000' --expect 'worst_ppm <= 150000' \\\n"
        "      --expect 'misranked == 0'\n"
        "  scripts/bench_gpu.py --all-schedules --no-torch --runs grid.jsonl\n"
        "  stagger predict grid.jsonl --machine configs/machines/h200.json \\\n"
        "      --expect 'whole_median_ppm <= 50000' --expect 'whole_worst_ppm <= 150000'\n",
    .run = run,
    .names = kNames,
};

}  // namespace stagger::cli
