#include "dag/bounds.hpp"

#include "dag/packing.hpp"

#include <algorithm>

namespace stagger::dag {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

Ticks divide_up(Ticks dividend, Ticks divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

/// What a lane costs at least: `once` plus, for each chain of d tasks, `task` * d + `chain`.
struct LaneCost {
  Ticks task = 0;
  Ticks chain = 0;
  Ticks once = 0;
  [[nodiscard]] Ticks of(Ticks tasks) const { return task * tasks + chain; }
};

LaneCost lane_cost(const Timing& timing, Dispatch dispatch) {
  const auto& [model, c, r, latency, launch, epilogue, release, residency] = timing;
  if (model == Model::chain) return {.task = c + r, .chain = launch + epilogue};
  const Ticks task = std::max(c, r);
  if (dispatch == Dispatch::in_order) {
    return {.task = task, .chain = launch + c + r - task + epilogue};
  }
  const Ticks between = std::max(epilogue + launch + c, r);
  return {
      .task = task, .chain = between - task, .once = launch + c - between + std::max(r, epilogue)};
}

/// What is before and after one reduction on its SM at least.
struct Margins {
  Ticks head = 0;          ///< before the first contribution
  Ticks tail = 0;          ///< after the last one
  Ticks chain_before = 0;  ///< a whole chain before
  Ticks chain_after = 0;   ///< a whole chain after
};

Margins margins(const Timing& timing, Dispatch dispatch, std::int32_t shortest_chain) {
  const Ticks whole = lane_cost(timing, dispatch).of(shortest_chain);
  const Ticks head = timing.launch + timing.compute;
  if (timing.model == Model::chain || dispatch == Dispatch::in_order) {
    return {head, timing.epilogue, whole, whole};
  }
  const Ticks computed = timing.launch + shortest_chain * timing.compute + timing.epilogue;
  return {head, 0, computed, shortest_chain * timing.reduce};
}

/// k reductions in sequence. All but S of them have a whole chain of their SM before them, all but
/// 2S two, and so on; likewise after. Leaving the `first` S-groups to heads and the `last` ones to
/// tails is linear in both, so the extremes suffice (the preemptive one-machine bound).
Ticks accumulation(std::int64_t contributions, std::int64_t sms, const Timing& timing,
                   const Margins& margin) {
  if (contributions == 0) return 0;
  const std::int64_t groups = (contributions - 1) / sms;
  const auto bound = [&](std::int64_t first, std::int64_t last) {
    const std::int64_t inner = contributions - (first + last) * sms;
    return margin.head + first * margin.chain_before + inner * timing.reduce +
           (inner - 1) * timing.latency + last * margin.chain_after + margin.tail;
  };
  return std::max({bound(0, 0), bound(groups, 0), bound(0, groups)});
}

}  // namespace

Bounds lower_bounds(const Problem& problem, const Timing& timing, Dispatch dispatch) {
  const TileGrid& grid = problem.grid;
  Bounds bounds;
  if (grid.live_tiles() == 0) {
    bounds.best = {"work", 0, "there is nothing to do"};
    bounds.all = {bounds.best};
    return bounds;
  }
  const std::int64_t sms = resident_lanes(problem, timing.residency);
  const LaneCost cost = lane_cost(timing, dispatch);
  std::vector<Ticks> chains;
  std::int32_t longest = 0;
  std::int32_t shortest = grid.q_tiles();
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    const std::int32_t length = grid.chain_length(kv);
    if (length == 0) continue;
    longest = std::max(longest, length);
    shortest = std::min(shortest, length);
    chains.insert(chains.end(), at(problem.heads), cost.of(length));
  }
  Ticks sum = 0;
  for (const Ticks chain : chains)
    sum += chain;
  const Packing packing = pack(chains, static_cast<std::int32_t>(sms));
  const Margins margin = margins(timing, dispatch, shortest);
  Ticks accumulated = 0;
  std::int32_t most = 0;
  for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
    most = std::max(most, grid.contributions(q));
    accumulated = std::max(accumulated, accumulation(grid.contributions(q), sms, timing, margin));
  }
  const Ticks busiest = cost.of(divide_up(problem.tasks(), sms));
  bounds.all = {
      {"work", cost.once + std::max(divide_up(sum, sms), busiest),
       "all tasks spread evenly over the SMs"},
      {"chain", cost.once + cost.of(longest), "the longest chain of one KV tile"},
      {"packing", cost.once + packing.lower, "whole chains packed on the SMs"},
      {"accumulation", accumulated, "the reductions of one dQ tile one after the other"},
  };
  bounds.packing_exact = packing.exact();
  bounds.degree_slots = std::max(longest, most);
  bounds.best = *std::max_element(
      bounds.all.begin(), bounds.all.end(),
      [](const Bound& left, const Bound& right) { return left.ticks < right.ticks; });
  return bounds;
}

}  // namespace stagger::dag
