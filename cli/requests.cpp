#include "cli/requests.hpp"

#include "cli/designs.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/options.hpp"
#include "cli/rows.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
#include "workbench/kernels.hpp"

#include <charconv>
#include <chrono>
#include <string_view>

namespace stagger::cli {
namespace {

/// Tiles of a side that are one token each without being asked for.
constexpr std::int64_t kMostOneTokenTiles = 256;

[[noreturn]] void fail(const std::string& what) {
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
    fail(std::string("--mask: ") + error.what());
  }
}

/// Tiles of one token each are for tables drawn by hand; of a real sequence they are a mistake that
/// takes minutes.
void check_tiles(const Options& options, const Lengths& lengths) {
  const auto check = [](std::int64_t tokens, const std::optional<std::int64_t>& tile,
                        const char* option) {
    if (tile || tokens <= kMostOneTokenTiles) return;
    fail(std::to_string(tokens) + " tokens would be as many tiles: give " + option +
         " (64 or 128, say), or --n TILES");
  };
  check(lengths.q, options.tile_q, "--tile-q");
  check(lengths.kv, options.tile_kv, "--tile-kv");
}

/// The sequence lengths, from the options or from what the mask says of itself.
Lengths lengths_of(const Options& options, const Mask& mask) {
  const bool block_sparse = mask.family->tiles != nullptr;
  if (options.n) {
    const std::int64_t tokens = *options.n * options.tile().kv;
    // Block-sparse masks count tiles, so n of them need n tiles on both sides.
    return {block_sparse ? *options.n * options.tile().q : tokens, tokens};
  }
  const auto either = [](const auto& first, const auto& second) { return first ? first : second; };
  const auto q = either(options.seq_q, options.seq);
  const auto kv = either(options.seq_kv, options.seq);
  if (q || kv) return {either(q, kv).value(), either(kv, q).value()};
  if (mask.family->implied == nullptr) {
    fail(std::string("the size is missing: give --n TILES or --seq TOKENS for a ") +
         mask.family->name + " mask");
  }
  const Lengths implied = mask.family->implied(mask);
  if (!block_sparse) return implied;
  return {implied.q * options.tile().q, implied.kv * options.tile().kv};
}

/// How heads share K and V and chains.
Grouping grouping_of(const Options& options) {
  Grouping grouping{.heads_kv = options.heads_kv.value_or(0),
                    .combine = options.combine.value_or(Combine::partials)};
  if (options.span == kAutoSpan) return grouping;
  const std::string& word = options.span;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), grouping.span);
  if (error != std::errc{} || end != word.data() + word.size() || grouping.span < 1) {
    fail("--span: '" + word + "' is neither auto nor a number of heads");
  }
  return grouping;
}

/// What is given, else the profile's; 0 is one per KV tile.
std::int64_t sms_of(const Options& options) {
  if (options.sms > 0 || options.machine.empty()) return options.sms;
  return read_machine_json(read_file(options.machine), options.machine).sms;
}

workbench::GivenTiming given_timing(const Options& options) {
  return {.model = options.model,
          .compute = options.compute,
          .compute_partial = options.compute_partial,
          .reduce = options.reduce,
          .latency = options.latency,
          .launch = options.launch,
          .epilogue = options.epilogue,
          .reduce_kv = options.reduce_kv,
          .reduce_kv_async = options.reduce_kv_async,
          .release = options.release,
          .l2 = options.l2,
          .bandwidth = options.bandwidth};
}

}  // namespace

Problem problem_of(const Options& options) {
  Mask mask = mask_of(options);
  const Lengths lengths = lengths_of(options, mask);
  if (!options.n && mask.family->tiles == nullptr) check_tiles(options, lengths);
  Problem problem = make_problem(std::move(mask), lengths, options.tile(), options.heads,
                                 sms_of(options), grouping_of(options));
  if (options.combine && problem.combine == Combine::none) {
    fail("--combine is for chains of some of the heads that share K and V; here a chain has all " +
         std::to_string(problem.group()) + " of its group (--heads-kv, --span)");
  }
  return problem;
}

Table read_table(const std::string& path, const Options& options) {
  const std::string file = read_file(path);
  const std::string_view text = without_bom(file);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = path.ends_with(".json") ||
                    (!path.ends_with(".csv") && begin != std::string::npos && text[begin] == '{');
  const std::string option = given_in(options, Group::problem);
  // `compare` holds what it is given against the table's.
  const bool says_problem = json || text.starts_with("stagger.table/");
  if (says_problem && !option.empty() && options.tables.empty()) {
    fail(option + " is for tables that do not say their problem; " + path + " does");
  }
  if (json) return read_table_json(text, path);
  if (says_problem || (!options.problem_given && option.empty())) {
    return read_table_csv(text, path, nullptr);
  }
  const Problem problem = problem_of(options);
  return read_table_csv(text, path, &problem);
}

workbench::TimeRequest time_request(const Options& options) {
  const std::string kernel = std::string("--kernel ") + options.kernel->name;
  if (options.kernel->spins()) {
    reject(given_of(options, "dtype head-dim"),
           "means nothing beside " + kernel + ", which computes nothing");
  } else if (options.timelines.empty()) {
    reject(given_of(options, "tick-ns"), "is for a replay; " + kernel + " takes what it takes");
  }
  if (options.residency > kMaxSms) {
    throw Error(ErrorKind::limit, "--residency is above " + std::to_string(kMaxSms));
  }
  workbench::TimeRequest request{
      .given = given_timing(options),
      .kernel = workbench::kernel_key(options.kernel->name, gpu::dtype_name(options.dtype),
                                      options.head_dim),
      .residency = static_cast<std::int32_t>(options.residency),
      .tick_ns = options.replay_tick_ns()};
  if (!options.machine.empty()) {
    request.machine = read_machine_json(read_file(options.machine), options.machine);
  }
  return request;
}

workbench::TimeModel time_model_of(const Options& options, const Problem& problem) {
  return time_model_of(time_request(options), problem);
}

workbench::Source source_of(const Options& options, void (*expect)(const Problem&)) {
  workbench::Source source;
  if (!options.table.empty()) {
    source.table = read_table(options.table, options);
    expect(source.table.problem);
    source.model = time_model_of(options, source.table.problem);
  } else if (!options.design.empty()) {
    expect(problem_of(options));
    source = design_source(options);
  } else if (!options.schedule.empty()) {
    schedules::Selection selection = schedules::select(options.schedule);
    const Problem problem = problem_of(options);
    expect(problem);
    source = workbench::source_of(std::move(selection), problem, time_model_of(options, problem));
  } else {
    fail("give --schedule NAME (see `stagger list schedules`), --design NAME or --table FILE");
  }
  if (options.ranks == dag::LockValues::absolute) use_kv_index_ranks(source.table);
  return source;
}

workbench::AnalysisOptions analysis_options(const Options& options) {
  workbench::AnalysisOptions analysis{.lock_values = options.ranks,
                                      .always_build_graph = options.check};
  if (options.limit) analysis.limit = *options.limit;
  return analysis;
}

workbench::ExecutionRequest execution_request(const Options& options) {
  workbench::ExecutionRequest request{.source = source_of(options),
                                      .analysis = analysis_options(options),
                                      .kernel = options.kernel,
                                      .mode = options.mode,
                                      .dtype = options.dtype,
                                      .head_dim = options.head_dim,
                                      .seed = static_cast<std::uint64_t>(options.seed),
                                      .repeats = options.runs,
                                      .reference = options.reference,
                                      .adds_partials = !options.no_partials,
                                      .timeout = std::chrono::milliseconds(options.timeout_ms),
                                      .threads = static_cast<std::int32_t>(options.threads),
                                      .spun = given_timing(options).over({}),
                                      .tick_ns = options.replay_tick_ns()};
  if (options.device == Device::cuda) request.cuda = gpu::cuda_device();
  if (options.perturb) request.perturb = static_cast<std::uint64_t>(*options.perturb);
  return request;
}

workbench::OptimizationRequest search_request(const Options& options) {
  workbench::OptimizationRequest request{.problem = {},
                                         .slot_model = options.slot_model,
                                         .time_limit = options.time_limit,
                                         .threads = options.threads,
                                         .seed = static_cast<std::uint64_t>(options.seed),
                                         .effort = options.effort,
                                         .proof_file = link_target(options.proof)};
  if (!options.solution.empty()) {
    request.answer = {
        .text = read_file(options.solution), .source = options.solution, .rounds = options.rounds};
  }
  return request;
}

}  // namespace stagger::cli
