#include "cli/options.hpp"

#include "cli/files.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace stagger::cli {
namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

Mask mask_of(const Options& options) {
  if (!options.mask_file.empty()) {
    return read_mask_json(read_file(options.mask_file), options.mask_file);
  }
  try {
    if (options.mask.starts_with('{')) return read_mask_json(options.mask, "--mask");
    return parse_mask(options.mask);
  } catch (const Error& error) {
    reject(std::string("--mask: ") + error.what());
  }
}

std::int64_t tokens_of(std::int64_t tiles, std::int64_t tile) {
  if (tiles < 1 || tiles > kMaxTiles) {
    throw Error(
        tiles < 1 ? ErrorKind::usage : ErrorKind::limit,
        "--n " + std::to_string(tiles) + " is not within 1 to " + std::to_string(kMaxTiles));
  }
  if (tile < 1 || tile > kMaxTokens) {
    reject("tile sizes must be 1 to " + std::to_string(kMaxTokens) + " tokens");
  }
  return tiles * tile;
}

/// The sequence lengths, from the options or from what the mask says of itself.
Lengths lengths_of(const Options& options, const Mask& mask) {
  const bool block_sparse = mask.family->tiles != nullptr;
  if (options.n) {
    const std::int64_t tokens = tokens_of(*options.n, options.tile_kv);
    // Block-sparse masks count tiles, so n of them need n tiles on both sides.
    return {block_sparse ? tokens_of(*options.n, options.tile_q) : tokens, tokens};
  }
  const auto either = [](const auto& first, const auto& second) { return first ? first : second; };
  const auto q = either(options.seq_q, options.seq);
  const auto kv = either(options.seq_kv, options.seq);
  if (q || kv) return {either(q, kv).value(), either(kv, q).value()};
  if (mask.family->implied == nullptr) {
    reject(std::string("the size is missing: give --n TILES or --seq TOKENS for a ") +
           mask.family->name + " mask");
  }
  const Lengths implied = mask.family->implied(mask);
  if (!block_sparse) return implied;
  return {implied.q == 0 ? 0 : tokens_of(implied.q, options.tile_q),
          implied.kv == 0 ? 0 : tokens_of(implied.kv, options.tile_kv)};
}

}  // namespace

const std::vector<std::vector<std::string>>& exclusive_options() {
  static const std::vector<std::vector<std::string>> groups = {
      {"mask", "mask-file"}, {"n", "seq", "seq-q", "seq-kv"}, {"schedule", "table", "timeline"}};
  return groups;
}

void add_problem_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Problem";
  auto* mask = app.add_option("--mask", options.mask, "mask, as `stagger list masks` shows them")
                   ->type_name("MASK")
                   ->capture_default_str()
                   ->group(kGroup);
  app.add_option("--mask-file", options.mask_file, "mask description as JSON")
      ->type_name("FILE")
      ->excludes(mask)
      ->group(kGroup);
  auto* n = app.add_option("--n", options.n, "KV tiles (and Q tiles, at equal tile sizes)")
                ->type_name("TILES")
                ->group(kGroup);
  for (const auto& [name, target, what] :
       {std::tuple{"--seq", &options.seq, "query and key length"},
        std::tuple{"--seq-q", &options.seq_q, "query length"},
        std::tuple{"--seq-kv", &options.seq_kv, "key length"}}) {
    app.add_option(name, *target, what)->type_name("TOKENS")->excludes(n)->group(kGroup);
  }
  app.add_option("--tile-q", options.tile_q, "tokens of a Q tile")
      ->type_name("TOKENS")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--tile-kv", options.tile_kv, "tokens of a KV tile")
      ->type_name("TOKENS")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--heads", options.heads, "heads, the batch folded in")
      ->type_name("M")
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--sms", options.sms, "SMs; default: one per KV tile")
      ->type_name("S")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
}

void add_timing_options(CLI::App& app, Options& options, std::vector<std::string> models) {
  constexpr const char* kGroup = "Timing model (ticks)";
  const std::string slot = models.size() > 2 ? " or slot (no collisions, in slots)" : "";
  app.add_option("--model", options.model, "chain (the paper) or overlap (a dQ writer)" + slot)
      ->type_name("MODEL")
      ->check(CLI::IsMember(std::move(models)))
      ->default_str("chain")
      ->group(kGroup);
  const auto add = [&](const char* name, std::optional<Ticks>& target, const char* what) {
    return app.add_option(name, target, what)
        ->type_name("TICKS")
        ->check(CLI::NonNegativeNumber)
        ->group(kGroup);
  };
  add("--compute", options.compute, "c: compute phase of a task")->default_str("5");
  add("--compute-partial", options.compute_partial,
      "compute phase of a task on a partial tile; default: as --compute");
  add("--reduce", options.reduce, "r: reduction of a task into dQ")->default_str("1");
  add("--latency", options.latency, "from a release until the next rank may start")
      ->default_str("0");
  add("--launch", options.launch, "before each KV tile's chain")->default_str("0");
  add("--epilogue", options.epilogue, "after each KV tile's chain")->default_str("0");
  app.add_option("--release", options.release, "when a lock lets go: immediate or delayed")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"immediate", "delayed"}))
      ->default_str("immediate")
      ->group(kGroup);
  app.add_option("--residency", options.residency, "SMs that are really there; default: all")
      ->type_name("SMS")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
  add_machine_options(app, options);
}

void add_schedule_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Schedule";
  auto* schedule = app.add_option("--schedule", options.schedule,
                                  "name or name:key=value, as `stagger list schedules` shows them")
                       ->type_name("NAME")
                       ->group(kGroup);
  app.add_option("--table", options.table, "a table from a file (.json, .csv, - for stdin)")
      ->type_name("FILE")
      ->excludes(schedule)
      ->group(kGroup);
  app.add_option("--ranks", options.ranks,
                 "position among the live tiles, or kv-index: absolute lock values")
      ->type_name("RANKS")
      ->check(CLI::IsMember({"position", "kv-index"}))
      ->capture_default_str()
      ->group(kGroup);
}

void add_output_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Output";
  app.add_flag("--json", options.json, "print JSON")->group(kGroup);
  app.add_option("--color", options.color, "auto, always or never; NO_COLOR is respected")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->group(kGroup);
  app.add_flag("--ascii", options.ascii, "no Unicode")->group(kGroup);
  app.add_option("--width", options.width, "columns of the terminal; default: its own, or 80")
      ->type_name("COLUMNS")
      ->check(CLI::Range(20, 10'000))
      ->group(kGroup);
  app.add_option("--config", options.config, "options from a JSON file; the command line wins")
      ->type_name("FILE")
      ->group(kGroup);
}

Problem problem_of(const Options& options) {
  Mask mask = mask_of(options);
  const Lengths lengths = lengths_of(options, mask);
  return make_problem(std::move(mask), lengths, {options.tile_q, options.tile_kv}, options.heads,
                      options.sms);
}

Table read_table(const std::string& path, const Options& options) {
  const std::string text = read_file(path);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = path.ends_with(".json") ||
                    (!path.ends_with(".csv") && begin != std::string::npos && text[begin] == '{');
  if (json) return read_table_json(text, path);
  if (!options.problem_given) return read_table_csv(text, path, nullptr);
  const Problem problem = problem_of(options);
  return read_table_csv(text, path, &problem);
}

Source source_of(const Options& options) {
  Source source;
  if (!options.table.empty()) {
    source.table = read_table(options.table, options);
    source.model = time_model_of(options, source.table.problem);
  } else if (!options.schedule.empty()) {
    source.selection = schedules::select(options.schedule);
    const Problem problem = problem_of(options);
    source.model = time_model_of(options, problem);
    source.table = schedules::build(*source.selection, problem, source.model.timing);
  } else {
    reject("give --schedule NAME (see `stagger list schedules`) or --table FILE");
  }
  if (options.ranks == "kv-index") use_kv_index_ranks(source.table);
  return source;
}

}  // namespace stagger::cli
