#include "cli/requests.hpp"

#include "cli/files.hpp"
#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
#include "workbench/kernels.hpp"

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

workbench::GivenTiming given_timing(const Options& options) {
  return {.model = options.model,
          .compute = options.compute,
          .compute_partial = options.compute_partial,
          .reduce = options.reduce,
          .latency = options.latency,
          .launch = options.launch,
          .epilogue = options.epilogue,
          .release = options.release,
          .l2 = options.l2,
          .bandwidth = options.bandwidth};
}

}  // namespace

Problem problem_of(const Options& options) {
  Mask mask = mask_of(options);
  const Lengths lengths = lengths_of(options, mask);
  return make_problem(std::move(mask), lengths, {options.tile_q, options.tile_kv}, options.heads,
                      options.sms);
}

Table read_table(const std::string& path, const Options& options) {
  const std::string file = read_file(path);
  const std::string_view text = without_bom(file);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const bool json = path.ends_with(".json") ||
                    (!path.ends_with(".csv") && begin != std::string::npos && text[begin] == '{');
  if (json) return read_table_json(text, path);
  if (!options.problem_given) return read_table_csv(text, path, nullptr);
  const Problem problem = problem_of(options);
  return read_table_csv(text, path, &problem);
}

workbench::TimeModel time_model_of(const Options& options, const Problem& problem) {
  if (options.residency > kMaxSms) {
    throw Error(ErrorKind::limit, "--residency is above " + std::to_string(kMaxSms));
  }
  KernelKey touching = kernel_key_of(options);
  touching.tile = problem.shape;
  workbench::TimeRequest request{.given = given_timing(options),
                                 .tile = tile_bytes(touching),
                                 .residency = static_cast<std::int32_t>(options.residency)};
  if (!options.machine.empty()) {
    request.entry = {.machine = read_machine_json(read_file(options.machine), options.machine),
                     .kernel = kernel_key_of(options),
                     .tick_ns = options.replay_tick_ns()};
  }
  return time_model_of(request, problem);
}

KernelKey kernel_key_of(const Options& options) {
  return workbench::kernel_key(options.kernel->name, gpu::dtype_name(options.dtype),
                               options.head_dim);
}

Timing spun_timing(const Options& options) {
  return given_timing(options).over({});
}

workbench::Source source_of(const Options& options) {
  workbench::Source source;
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
  if (options.ranks == dag::LockValues::absolute) use_kv_index_ranks(source.table);
  return source;
}

workbench::AnalysisOptions analysis_options(const Options& options) {
  return {
      .lock_values = options.ranks, .limit = options.limit, .always_build_graph = options.check};
}

}  // namespace stagger::cli
