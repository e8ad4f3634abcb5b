#include "workbench/advice.hpp"

#include "core/limits.hpp"

#include <cstdint>
#include <utility>

namespace stagger::workbench {
namespace {

Problem with_sms(Problem problem, std::int32_t sms) {
  problem.sms = sms;
  return problem;
}

KvTile longest_chain(const TileGrid& grid) {
  KvTile longest{0};
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (grid.chain_length(kv) > grid.chain_length(longest)) longest = kv;
  }
  return longest;
}

/// A grid with the longest KV tile's chain in two halves.
TileGrid with_split_tile(const TileGrid& grid) {
  const KvTile longest = longest_chain(grid);
  std::vector<TileKind> kinds;
  const auto add_row = [&](KvTile kv, std::int32_t from, std::int32_t to) {
    std::int32_t live = 0;
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const bool taken = grid.live(kv, q) && live >= from && live < to;
      live += grid.live(kv, q) ? 1 : 0;
      kinds.push_back(taken ? grid.kind(kv, q) : TileKind::empty);
    }
  };
  const std::int32_t half = (grid.chain_length(longest) + 1) / 2;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    add_row(kv, 0, kv == longest ? half : grid.q_tiles());
    if (kv == longest) add_row(kv, half, grid.q_tiles());
  }
  return {grid.kv_tiles() + 1, grid.q_tiles(), std::move(kinds)};
}

/// The problem with the longest chain of every head in two halves: dK and dV are spilled once a
/// head.
Problem with_split_tile(Problem problem) {
  std::vector<TileGrid> grids;
  for (const TileGrid& grid : problem.grids.distinct())
    grids.push_back(with_split_tile(grid));
  problem.grids =
      problem.grids.all_alike() ? grids.front() : HeadGrids(grids, problem.grids.places());
  return problem;
}

/// Whether there are KV tiles of half the tokens, which take half the ticks.
bool has_halves(const Problem& problem, const Timing& timing) {
  return !is_of_tiles(problem.mask) && problem.shape.kv % 2 == 0 && timing.compute % 2 == 0 &&
         timing.compute_of(TileKind::partial) % 2 == 0;
}

Timing with_half_compute(Timing timing) {
  timing.compute /= 2;
  if (timing.compute_partial) *timing.compute_partial /= 2;
  return timing;
}

}  // namespace

std::vector<Advice> advise(const Optimization& optimization, const dag::Stop& stop) {
  const Problem& problem = optimization.problem;
  const Timing& timing = optimization.model.timing;
  std::vector<Advice> all;
  bool cut_short = false;
  const dag::Stop asked = [&] { return cut_short = cut_short || stop(); };
  const auto add = [&](std::string change, const Problem& changed, const Timing& changed_timing) {
    if (cut_short) return;
    const dag::Bounds bounds = bounds_of(changed, changed_timing, optimization.slot_model, asked);
    if (!cut_short) all.push_back({std::move(change), bounds.best.ticks, bounds.best.by});
  };
  if (problem.tasks() == 0) return all;
  if (problem.sms < kMaxSms) add("one more SM", with_sms(problem, problem.sms + 1), timing);
  add("the longest KV tile in two (dK, dV spilled once)", with_split_tile(problem), timing);
  const bool in_ticks = !optimization.slot_model && optimization.model.clock == Clock::ticks;
  if (in_ticks && has_halves(problem, timing)) {
    add("KV tiles half as large (half the compute each)",
        make_problem(problem.mask, problem.lengths, {problem.shape.q, problem.shape.kv / 2},
                     problem.heads, problem.sms, problem.grouping()),
        with_half_compute(timing));
  }
  return all;
}

}  // namespace stagger::workbench
