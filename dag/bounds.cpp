#include "dag/bounds.hpp"

#include "core/as_played.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "dag/packing.hpp"
#include "dag/traffic.hpp"

#include <algorithm>
#include <limits>

namespace stagger::dag {
namespace {

constexpr Ticks kFar = std::numeric_limits<Ticks>::max();

/// The live tiles of a chain, or of all of them, by how long they compute.
struct Load {
  std::int64_t full = 0;
  std::int64_t partial = 0;
  [[nodiscard]] std::int64_t tasks() const { return full + partial; }
};

/// What chains cost at least: a lane of several costs `once` plus what each adds, a chain that has
/// its SM to itself the same. Formulas and why they hold: dag/README.md.
class Costs {
 public:
  Costs(const Timing& timing, Dispatch dispatch, Combine combine, const Load& all)
      : timing_(timing),
        overlap_(timing.model == Model::overlap),
        combines_(combine == Combine::ordered && !timing.reduce_kv_async),
        drains_(timing.drains(dispatch) && !combines_) {
    if (!drains_) return;
    const Ticks between =
        std::max(timing.epilogue, timing.reduce - timing.launch - shortest_compute(all));
    once_ = std::max(timing.reduce, timing.epilogue) - between;
  }

  [[nodiscard]] Ticks once() const { return once_; }
  /// Whether the SM goes on after a chain while its writer drains.
  [[nodiscard]] bool drains() const { return drains_; }
  /// After a chain's last reduction into dQ, on its SM.
  [[nodiscard]] Ticks chain_end() const {
    return timing_.epilogue + (combines_ ? timing_.reduce_kv : 0);
  }
  /// From a chain's launch to the end of its last reduction into dQ.
  [[nodiscard]] Ticks until_reduced(const Load& chain) const {
    const Ticks c = shortest_compute(chain);
    return timing_.launch + tasks(chain) + (overlap_ ? c - step(c) + timing_.reduce : 0);
  }

  /// What a chain adds to its lane.
  [[nodiscard]] Ticks of(const Load& chain) const {
    return tasks(chain) + ends(shortest_compute(chain));
  }

  /// What `count` of these tasks and the ends of one chain add, whichever they are.
  [[nodiscard]] Ticks of_some(std::int64_t count, const Load& all) const {
    const bool partial_first = timing_.compute_of(TileKind::partial) < timing_.compute;
    Load some;
    (partial_first ? some.partial : some.full) =
        std::min(count, partial_first ? all.partial : all.full);
    (partial_first ? some.full : some.partial) = count - some.tasks();
    return tasks(some) + ends(shortest_compute(all));
  }

  /// The shortest compute phase there is.
  [[nodiscard]] Ticks shortest_compute(const Load& load) const {
    if (load.partial == 0) return timing_.compute;
    const Ticks partial = timing_.compute_of(TileKind::partial);
    return load.full == 0 ? partial : std::min(partial, timing_.compute);
  }

 private:
  /// The steady part: every task behind another one of its chain.
  [[nodiscard]] Ticks tasks(const Load& load) const {
    return load.full * step(timing_.compute) +
           load.partial * step(timing_.compute_of(TileKind::partial));
  }
  [[nodiscard]] Ticks step(Ticks c) const {
    return overlap_ ? std::max(c, timing_.reduce) : c + timing_.reduce;
  }
  /// Launch and epilogue, and a first task of `c` that follows another chain or none.
  [[nodiscard]] Ticks ends(Ticks c) const {
    const Ticks around = timing_.launch + chain_end();
    if (!overlap_) return around;
    if (drains_) return std::max(around + c, timing_.reduce) - step(c);
    return around + c - step(c) + timing_.reduce;
  }

  const Timing& timing_;
  bool overlap_;
  bool combines_;  ///< the SM stays with a chain until it is reduced into dK and dV
  bool drains_;
  Ticks once_ = 0;
};

/// The chains of the parts that have one grid, by KV tile: those of empty ones have no tasks.
struct Alike {
  std::int64_t parts = 0;
  IndexVector<KvTile, Load> loads = {};
};

IndexVector<KvTile, Load> loads_of(const TileGrid& grid, std::int32_t span, const Timing& timing) {
  IndexVector<KvTile, Load> loads;
  loads.reserve(grid.kv_tiles());
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    Load load{.full = grid.chain_length(kv)};
    for (QTile q{0}; !timing.uniform() && q.value < grid.q_tiles(); ++q)
      load.partial += grid.kind(kv, q) == TileKind::partial ? 1 : 0;
    load.full -= load.partial;
    load.full *= span;
    load.partial *= span;
    loads.push_back(load);
  }
  return loads;
}

/// By distinct grid.
std::vector<Alike> chains_of(const Problem& problem, const Timing& timing) {
  const std::vector<std::int32_t> heads = problem.grids.counts(problem.heads);
  std::vector<Alike> all;
  for (std::size_t place = 0; place < heads.size(); ++place) {
    all.push_back({.parts = heads[place] / problem.span,
                   .loads = loads_of(problem.grids.distinct()[place], problem.span, timing)});
  }
  return all;
}

/// What is before and after one reduction on its SM at least.
struct Margins {
  Ticks head = 0;          ///< before the first contribution
  Ticks tail = 0;          ///< after the last one
  Ticks chain_before = 0;  ///< a whole chain before
  Ticks chain_after = 0;   ///< a whole chain after
};

Margins margins(const Timing& timing, const Costs& costs, const std::vector<Load>& chains) {
  const bool drains = costs.drains();
  Margins least{.head = kFar,
                .tail = drains ? 0 : costs.chain_end(),
                .chain_before = kFar,
                .chain_after = kFar};
  for (const Load& load : chains) {
    const Ticks computed = timing.launch + load.full * timing.compute +
                           load.partial * timing.compute_of(TileKind::partial) + timing.epilogue;
    const Ticks before = drains ? computed : costs.of(load);
    const Ticks after = drains ? load.tasks() * timing.reduce : costs.of(load);
    least.head = std::min(least.head, timing.launch + costs.shortest_compute(load));
    least.chain_before = std::min(least.chain_before, before);
    least.chain_after = std::min(least.chain_after, after);
  }
  return least;
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

/// The reductions of a KV tile's parts in sequence, after the shortest of their chains: of the KV
/// tile that takes the longest.
Ticks dkv_accumulation(const Problem& problem, const Timing& timing, const Costs& costs,
                       const std::vector<Alike>& alike) {
  const std::int32_t kv_heads = problem.grids.all_alike() ? 1 : problem.heads_kv;
  const Ticks end = timing.reduce_kv_async ? 0 : timing.epilogue;
  Ticks longest = 0;
  for (KvHead kv_head{0}; kv_head.value < kv_heads; ++kv_head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::int64_t parts = problem.dkv_contributions(kv_head, kv);
      if (parts == 0) continue;
      Ticks first = kFar;
      for (std::int32_t place = 0; place < problem.group_parts(); ++place) {
        const Head head{(kv_head.value * problem.group_parts() + place) * problem.span};
        const Load& load = alike[at(problem.grids.place_of(head))].loads[kv];
        if (load.tasks() > 0) first = std::min(first, costs.until_reduced(load));
      }
      longest =
          std::max(longest, first + parts * timing.reduce_kv + (parts - 1) * timing.latency + end);
    }
  }
  return longest;
}

/// The most tasks of a chain, or of a dQ tile.
std::int64_t degree_rounds(const Problem& problem) {
  std::int64_t most = 0;
  for (const TileGrid& grid : problem.grids.distinct()) {
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
      most = std::max(most, std::int64_t{problem.span} * grid.chain_length(kv));
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      most = std::max<std::int64_t>(most, grid.contributions(q));
  }
  return most;
}

}  // namespace

Bound largest_of(const std::vector<Bound>& bounds) {
  STAGGER_EXPECTS(!bounds.empty());
  return *std::max_element(bounds.begin(), bounds.end(), [](const Bound& left, const Bound& right) {
    return left.ticks < right.ticks;
  });
}

Bounds lower_bounds(const Problem& problem, const Timing& timing, Dispatch dispatch,
                    const Stop& stop) {
  if (!plays_itself(problem, timing)) {
    Bounds bounds = lower_bounds(as_played(problem, timing), as_played(timing), dispatch, stop);
    bounds.degree_rounds = degree_rounds(problem);
    return bounds;
  }
  Bounds bounds;
  if (problem.tasks() == 0) {
    bounds.best = {"work", 0, "there is nothing to do"};
    bounds.all = {bounds.best};
    return bounds;
  }
  const std::int64_t sms = resident_lanes(problem, timing.residency);
  const std::vector<Alike> alike = chains_of(problem, timing);
  std::vector<Load> loads;  // of chains that have tasks, once for all parts that are alike
  Load all;
  for (const auto& [parts, of_kv] : alike) {
    for (const Load& load : of_kv) {
      if (load.tasks() == 0) continue;
      loads.push_back(load);
      all.full += parts * load.full;
      all.partial += parts * load.partial;
    }
  }
  const Costs costs(timing, dispatch, problem.combine, all);
  std::vector<Ticks> chains;
  Ticks sum = 0;
  for (const auto& [parts, of_kv] : alike) {
    for (const Load& load : of_kv) {
      if (load.tasks() == 0) continue;
      sum += parts * costs.of(load);
      chains.insert(chains.end(), at(parts), costs.of(load));
    }
  }
  const Ticks costliest = *std::max_element(chains.begin(), chains.end());
  const Packing packing = pack(chains, static_cast<std::int32_t>(sms), kMostNodes, stop);
  const Margins margin = margins(timing, costs, loads);
  Ticks accumulated = 0;
  for (const TileGrid& grid : problem.grids.distinct()) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      accumulated = std::max(accumulated, accumulation(grid.contributions(q), sms, timing, margin));
  }
  const Ticks busiest = costs.of_some(divide_up(problem.tasks(), sms), all);
  bounds.all = {
      {"work", costs.once() + std::max(divide_up(sum, sms), busiest),
       "all tasks spread evenly over the SMs"},
      {"chain", costs.once() + costliest, "the longest chain of one KV tile"},
      {"packing", costs.once() + packing.lower, "whole chains packed on the SMs"},
      {"accumulation", accumulated, "the reductions of one dQ tile one after the other"},
  };
  if (problem.combine == Combine::ordered) {
    bounds.all.push_back({"dkv", dkv_accumulation(problem, timing, costs, alike),
                          "the parts of one KV tile's dK and dV one after the other"});
  }
  if (timing.memory) {
    const std::int64_t bytes =
        least_traffic(problem, *timing.memory, sms) + additions(problem, *timing.memory);
    bounds.all.push_back(
        {"traffic", divide_up(bytes, timing.memory->rate),
         "what has to come from device memory or go there, and additions, at its rate"});
  }
  bounds.packing_exact = packing.exact();
  bounds.degree_rounds = degree_rounds(problem);
  bounds.best = largest_of(bounds.all);
  return bounds;
}

}  // namespace stagger::dag
