#include "cli/requests.hpp"

#include "cli/builtin.hpp"
#include "cli/designs.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/masks.hpp"
#include "cli/options.hpp"
#include "cli/rows.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
#include "workbench/invariance.hpp"
#include "workbench/kernels.hpp"

#include <charconv>
#include <chrono>
#include <string_view>

namespace stagger::cli {
namespace {

[[noreturn]] void reject_usage(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

/// How heads share K and V and chains.
Grouping grouping_of(const Options& options) {
  Grouping grouping{.heads_kv = options.heads_kv.value_or(0),
                    .combine = options.combine.value_or(Combine::partials)};
  if (options.span == kAutoSpan) return grouping;
  const std::string& word = options.span;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), grouping.span);
  if (error != std::errc{} || end != word.data() + word.size() || grouping.span < 1) {
    reject_usage("--span: '" + word + "' is neither auto nor a number of heads");
  }
  return grouping;
}

/// What is given, else the profile's; 0 is one per KV tile.
std::int64_t sms_of(const Options& options) {
  if (options.sms > 0 || options.machine.empty()) return options.sms;
  return find_machine(options.machine).sms;
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
          .next_lane = options.next_lane,
          .release = options.release,
          .steps = options.steps,
          .cut_partial = options.cut_partial,
          .l2 = options.l2,
          .bandwidth = options.bandwidth,
          .add_permille = options.add_permille,
          .memory_latency = options.memory_latency,
          .congestion = options.congestion,
          .spread = options.spread,
          .dip = options.dip,
          .dip_loss = options.dip_loss,
          .draw = options.draw};
}

}  // namespace

Problem problem_of(const Options& options) {
  SizedMask sized = sized_mask(options);
  const std::int64_t of_mask = std::max<std::int64_t>(mask_heads(sized.mask), 1);
  Problem problem =
      make_problem(std::move(sized.mask), sized.lengths, sized.shape,
                   options.heads.value_or(of_mask), sms_of(options), grouping_of(options));
  if (!problem.mask.origin.format.empty()) note_import(options, problem);
  if (options.combine && problem.combine == Combine::none) {
    reject_usage(
        "--combine is for chains of some of the heads that share K and V; here a chain has all " +
        std::to_string(problem.group()) + " of its group (--heads-kv, --span)");
  }
  return problem;
}

void expect_fixed_span(const Options& options, const Problem& problem) {
  if (!options.invariant || problem.group() == 1 || options.span != kAutoSpan) return;
  reject_usage("--invariant: --span auto moves with heads and SMs; give --span P, auto is " +
               std::to_string(problem.span) + " here");
}

Table read_table(const std::string& path, const Options& options) {
  const std::string file = read_file(path);
  const std::string_view text = without_bom(file);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = path.ends_with(".json") ||
                    (!path.ends_with(".csv") && begin != std::string::npos && text[begin] == '{');
  const std::string option = given_in(options, Group::problem);
  // `compare` holds what it is given against the table's.
  const bool says_problem = json || is_table_csv(text);
  if (says_problem && !option.empty() && options.tables.empty()) {
    reject_usage(option + " is for tables that do not say their problem; " + path + " does");
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
  if (!options.machine.empty()) request.machine = find_machine(options.machine);
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
    workbench::TimeModel model = time_model_of(options, problem);
    expect_fixed_span(options, problem);
    source = options.invariant
                 ? workbench::invariant_source_of(std::move(selection), problem, std::move(model))
                 : workbench::source_of(std::move(selection), problem, std::move(model));
  } else {
    reject_usage(
        "give --schedule NAME (see `stagger list schedules`), --design NAME or --table FILE");
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

workbench::ExecutionRequest execution_request(const Options& options, workbench::Source source) {
  workbench::ExecutionRequest request{.source = std::move(source),
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
  if (options.dropped) {
    request.dropout = {.probability = *options.dropped,
                       .seed = static_cast<std::uint64_t>(options.dropout_seed),
                       .offset = static_cast<std::uint64_t>(options.dropout_offset),
                       .rounds = static_cast<int>(options.philox),
                       .bits = static_cast<int>(options.bits),
                       .mask_bits = options.mask_bits};
  }
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
