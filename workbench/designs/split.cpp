// G workers for each head, each with a dQ buffer of its own, which a pass adds up in their order:
// nobody waits for anybody, and what it costs is that few workers fill waves badly.
//
//   G = 2, n = 4, causal     worker 0: KV 0: 3 2 1 0 | KV 2: 3 2        dQ = buffer 0 + buffer 1
//                            worker 1: KV 1: 3 2 1   | KV 3: 3
//
// FlashAttention-2 with deterministic=True: nsplits = ceil(SMs / (batch * heads)), a grid of
// (nsplits, batch, heads), KV tiles n = x, x + G, ... of worker x, Q tiles descending. Its partials
// are a worker's, not a tile's.
// Source: csrc/flash_attn/flash_api.cpp:928, flash_bwd_kernel.h:835,
// flash_bwd_preprocess_kernel.h:243.

#include "workbench/designs/split.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "workbench/designs/free_lanes.hpp"
#include "workbench/designs/lanes.hpp"
#include "workbench/designs/pass_time.hpp"
#include "workbench/designs/sizes.hpp"
#include "workbench/designs/units.hpp"

#include <algorithm>

namespace stagger::designs {
namespace {

constexpr schedules::Parameter kBuffers = {
    "buffers", "dQ buffers of a head; 0: as FlashAttention-2 chooses", 0, 0, 1 << 20};

/// How long the chain of each KV tile takes, whichever its head.
std::vector<Ticks> chain_durations(const Problem& problem, const Timing& timing) {
  Stage stage{.name = "one head", .problem = problem, .timing = timing, .work = {}};
  stage.problem.heads = stage.problem.heads_kv = stage.problem.span = 1;
  stage.problem.combine = Combine::none;
  stage.work = split_lanes(stage.problem, problem.kv_tiles());
  return lane_durations(stage);
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return divide_up(value, multiple) * multiple;
}

/// Elements of one buffer of dQ, whose rows and columns are rounded up.
Checked buffer_elements(const Request& request) {
  const Problem& problem = request.problem;
  return Checked(problem.heads) * round_up(problem.lengths.q, 128) *
         round_up(request.head_dim, request.head_dim <= 128 ? 32 : 64);
}

/// Bytes of all buffers of dQ.
std::int64_t buffer_bytes(const Request& request, std::int64_t buffers) {
  return counted_up(buffer_elements(request) * 4 * buffers);
}

/// The passes that a number of buffers makes longer.
std::vector<Pass> passes_of(const Request& request, std::int64_t buffers) {
  const Sizes sizes = sizes_of(request);
  const std::int64_t sums = buffer_bytes(request, buffers);
  return {{.name = "clear dQ buffers", .bytes = sums},
          {.name = "add dQ buffers", .bytes = sums + sizes.e * sizes.x}};
}

/// Bytes that the workers move at least.
std::int64_t worker_bytes(const Sizes& sizes) {
  return sizes.e * (2 * sizes.x + 2 * sizes.y);
}

Plan plan_with(const Request& request, std::int64_t buffers) {
  // Each head has dK and dV of its own, whatever is shared.
  const Problem problem = with_span(request.problem, 1, Combine::partials);
  const Sizes sizes = sizes_of(request);
  const auto [timing, per_tick] = gemm_units(request.model.timing);
  const bool shares = problem.group() > 1;
  Plan plan{
      .note = counted(buffers, "dQ buffer") + ", " + counted(problem.heads * buffers, "worker"),
      .stages = {{.name = "dQ, dK, dV",
                  .problem = problem,
                  .timing = timing,
                  .work = split_lanes(problem, buffers),
                  .bytes = worker_bytes(sizes)}},
      .units = per_tick,
      .flops = flops_of(problem, request.head_dim, kGemms),
      .dq_targets = problem.heads * buffers * problem.q_tiles(),
      .bits_depend_on = {bits::kTileQ, bits::kTileKv, bits::kSplits}};
  const std::int64_t expanded = shares ? 2 * sizes.e * sizes.yh : 0;
  const std::int64_t sums = buffer_bytes(request, buffers);
  plan.workspace_bytes = counted_up(Checked(sums) + expanded);
  plan.hbm_bytes = counted_up(Checked(sums) * 2 + 2 * expanded + least_bytes(sizes));
  const std::vector<Pass> passes = passes_of(request, buffers);
  plan.passes = {passes[0], d_pass(sizes), passes[1]};
  if (shares) {
    plan.passes.push_back(
        {.name = "add heads' dK, dV", .bytes = expanded + 2 * sizes.e * sizes.y, .launches = 2});
  }
  return plan;
}

/// Units that the workers of so many buffers take.
Ticks workers_makespan(const Problem& problem, const std::vector<Ticks>& chains,
                       std::int64_t buffers, std::int32_t sms) {
  std::vector<Ticks> workers(at(buffers), 0);
  for (std::size_t kv = 0; kv < chains.size(); ++kv)
    workers[kv % at(buffers)] += chains[kv];
  std::vector<Ticks> all;
  for (std::int32_t head = 0; head < problem.heads; ++head)
    all.insert(all.end(), workers.begin(), workers.end());
  return in_order_makespan(all, sms);
}

/// What the workers' bytes take at least; 0 where no rate of device memory is known.
Ticks least_ticks(const Request& request) {
  const std::optional<Memory>& memory = request.model.timing.memory;
  return memory ? divide_up(worker_bytes(sizes_of(request)), memory->streamed()) : 0;
}

/// What clearing and adding so many buffers takes, where ns and a rate of device memory are known.
Ticks passes_of_buffers(const Request& request, std::int64_t buffers) {
  const workbench::TimeModel& model = request.model;
  if (model.clock != workbench::Clock::ns || !model.timing.memory) return 0;
  Ticks all = 0;
  for (const Pass& pass : passes_of(request, buffers))
    all += pass_ns(pass, model.timing.memory->streamed());
  return all;
}

Plan plan_split(const Request& request) {
  const std::int64_t given = request.parameters.at(kBuffers.name);
  Plan plan = plan_with(request, given == 0 ? flash_buffers(request.problem) : given);
  if (given == 0) {
    plan.bits_depend_on.insert(plan.bits_depend_on.end(), {bits::kSms, bits::kBatch});
  }
  return plan;
}

Plan plan_best(const Request& request) {
  Plan plan = plan_with(request, best_buffers(request));
  plan.bits_depend_on.insert(plan.bits_depend_on.end(), {bits::kSms, bits::kBatch, bits::kTiming});
  return plan;
}

constexpr schedules::Parameter kSplitParameters[] = {kBuffers};

}  // namespace

std::int64_t flash_buffers(const Problem& problem) {
  return divide_up(problem.sms, problem.heads);
}

FreeLanes split_lanes(const Problem& problem, std::int64_t buffers) {
  constexpr std::int64_t kMostLanes = std::int64_t{1} << 24;
  if (!(Checked(problem.heads) * buffers).within(kMostLanes)) {
    throw Error(ErrorKind::limit, "more than 2^24 workers have dQ buffers");
  }
  FreeLanes lanes{.q_order = TileOrder::descending};
  for (std::int32_t head = 0; head < problem.heads; ++head) {
    for (std::int64_t buffer = 0; buffer < buffers; ++buffer) {
      for (std::int64_t kv = buffer; kv < problem.kv_tiles(); kv += buffers) {
        const auto tile = static_cast<std::int32_t>(kv);
        if (chain_tasks(problem.common_grid(), Keeps::kv, tile) == 0) continue;
        lanes.chains.push_back(
            {.head = {head}, .tile = tile, .buffer = static_cast<std::int32_t>(buffer)});
      }
      lanes.end_lane();
    }
  }
  return lanes;
}

std::int64_t best_buffers(const Request& request) {
  constexpr std::int64_t kMostWorkers = 32;  // an SM
  const Problem& problem = request.problem;
  const std::int64_t room = std::max<std::int64_t>(kMostWorkers * problem.sms / problem.heads, 1);
  // A problem without a token has no KV tile, and one buffer all the same.
  const std::int64_t most = std::clamp<std::int64_t>(problem.kv_tiles(), 1, room);
  const Units units = gemm_units(request.model.timing);
  const std::vector<Ticks> chains = chain_durations(problem, units.timing);
  const std::int32_t sms = resident_lanes(problem, units.timing.residency);
  const Ticks least = least_ticks(request);
  std::int64_t best = 1;
  Ticks shortest = 0;
  for (std::int64_t buffers = 1; buffers <= most; ++buffers) {
    const Ticks workers =
        divide_up(workers_makespan(problem, chains, buffers, sms), units.per_tick);
    const Ticks takes = std::max(workers, least) + passes_of_buffers(request, buffers);
    if (buffers > 1 && takes >= shortest) continue;
    shortest = takes;
    best = buffers;
  }
  return best;
}

extern const Design kSplit;
constinit const Design kSplit{
    .name = "split",
    .summary = "a dQ buffer for each of a head's workers, added up in a pass",
    .who = "FlashAttention-2 with deterministic=True",
    .runs = true,
    .head_sums = HeadSums::rounded,
    .parameters = kSplitParameters,
    .plan = plan_split,
};

extern const Design kSplitBest;
constinit const Design kSplitBest{
    .name = "split-best",
    .summary = "split, with as many buffers as make it fastest",
    .who = "nobody",
    .runs = true,
    .head_sums = HeadSums::rounded,
    .plan = plan_best,
};

}  // namespace stagger::designs
