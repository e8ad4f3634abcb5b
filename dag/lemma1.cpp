#include "dag/lemma1.hpp"

#include "core/as_played.hpp"
#include "core/error.hpp"
#include "core/huge_pages.hpp"
#include "core/rank_places.hpp"
#include "core/text.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace stagger::dag {
namespace {

/// The places in a lane at which chains begin: two lanes with launches are isomorphic if these
/// are the same.
std::vector<std::int64_t> chain_starts(const Table& table, Lane lane) {
  std::vector<std::int64_t> starts;
  for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
    if (table.begins_chain(lane, slot)) starts.push_back(slot - table.begin_of(lane));
  }
  return starts;
}

/// The compute phases of a lane, one a place.
std::vector<Ticks> compute_phases(const Problem& problem, const Timing& timing,
                                  std::span<const Slot> lane) {
  std::vector<Ticks> ticks;
  for (const Slot& slot : lane)
    ticks.push_back(timing.compute_of(problem, slot.task));
  return ticks;
}

/// Why the lanes are not the lemma's parallel isomorphic chains; empty if they are.
std::string premise_fails(const Table& table, const Timing& timing) {
  if (timing.model != Model::chain) return "in the overlap model a lane is no chain";
  if (timing.shortest_compute() == 0 || timing.reduce == 0) return "an edge of a chain weighs 0";
  if (timing.latency > 0) return "dependency edges weigh the latency, not 0";
  const bool combines = table.problem.combine == Combine::ordered;
  if (combines && timing.reduce_kv == 0) return "an edge of a chain weighs 0";
  if (combines && timing.reduce_kv_async) return "beside a writer of dK and dV a lane is no chain";
  if (timing.release == Release::delayed) return "locks are released late, not at a chain's node";
  if (table.lanes() > resident_lanes(table.problem, timing.residency)) {
    return "lanes wait for an SM instead of starting at the source";
  }
  std::span<const Slot> first;
  std::vector<std::int64_t> first_starts;
  std::vector<Ticks> first_phases;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const auto slots = table.lane(lane);
    if (slots.empty()) continue;
    if (first.empty()) {
      first = slots;
      first_starts = chain_starts(table, lane);
      if (!timing.uniform()) first_phases = compute_phases(table.problem, timing, slots);
    }
    if (slots.size() != first.size()) {
      return "lanes are not isomorphic: one has " + counted(std::ssize(first), "task") +
             ", another " + std::to_string(slots.size());
    }
    if ((timing.launch + timing.epilogue > 0 || combines) &&
        chain_starts(table, lane) != first_starts) {
      return "lanes are not isomorphic: chains begin and end at different places";
    }
    if (!timing.uniform() && compute_phases(table.problem, timing, slots) != first_phases) {
      return "lanes are not isomorphic: partial tiles are at different places";
    }
  }
  return {};
}

/// Compares the places of consecutive ranks: 2p+2 <= 2p'+1 if and only if p < p'.
class Depths {
 public:
  Depths(const Table& table, std::int64_t limit, Lemma1& lemma)
      : table_(table), problem_(table.problem), limit_(limit), lemma_(lemma) {}

  void compare() {
    find_places();
    compare_dq();
    if (combines_) compare_dkv();
    lemma_.monotone = lemma_.violation_count == 0;
  }

 private:
  /// A reduction into a dQ tile, and its place among those of its lane.
  struct Reduction {
    std::int32_t place = 0;
    KvTile kv;
  };
  /// A chain's reduction into dK and dV, likewise.
  struct Combination {
    std::int32_t place = 0;
    Task task;
  };

  void find_places() {
    const RankPlaces index(problem_);
    reserve_filled(dq_, index.size());
    dq_.resize(index.size());
    if (combines_) dkv_.resize(at(problem_.chains()));
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      std::int32_t place = 0;
      const std::int64_t end = table_.end_of(lane);
      for (std::int64_t slot = table_.begin_of(lane); slot < end; ++slot) {
        const auto& [task, rank] = table_.slots[slot];
        dq_[index.of(task, rank)] = {place++, task.kv};
        if (!combines_ || !table_.ends_chain(lane, slot)) continue;
        dkv_[at(problem_.dkv_place(task) * problem_.group_parts() + table_.dkv_rank(task))] = {
            place++, task};
      }
    }
  }

  void compare_dq() {
    std::size_t first = 0;
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
        const auto ranks = std::span(dq_).subspan(first, at(problem_.contributions(head, q)));
        first += ranks.size();
        compare(ranks, false, [&](const Reduction& reduction) {
          return Task{head, reduction.kv, q};
        });
      }
    }
  }

  void compare_dkv() {
    for (KvHead kv_head{0}; kv_head.value < problem_.heads_kv; ++kv_head) {
      for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
        const std::size_t first = at(problem_.dkv_place(kv_head, kv) * problem_.group_parts());
        const auto ranks =
            std::span(dkv_).subspan(first, at(problem_.dkv_contributions(kv_head, kv)));
        compare(ranks, true, [](const Combination& combination) { return combination.task; });
      }
    }
  }

  /// Compares what is reduced into one tile, by rank.
  template <class Ranks, class TaskOf>
  void compare(const Ranks& ranks, bool dkv, TaskOf task_of) {
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      const auto& from = ranks[rank - 1];
      const auto& to = ranks[rank];
      ++lemma_.dependency_edges;
      if (from.place < to.place) continue;
      if (lemma_.violation_count++ >= limit_) continue;
      lemma_.violations.push_back({.from = task_of(from),
                                   .to = task_of(to),
                                   .dkv = dkv,
                                   .depth_from = 2 * std::int64_t{from.place} + 2,
                                   .depth_to = 2 * std::int64_t{to.place} + 1});
    }
  }

  const Table& table_;
  const Problem& problem_;
  std::int64_t limit_;
  Lemma1& lemma_;
  bool combines_ = problem_.combine == Combine::ordered;
  std::vector<Reduction> dq_;     ///< by (head, q, rank)
  std::vector<Combination> dkv_;  ///< by (KV head, kv, rank)
};

void judge_edges(const Table& table, const Timing& timing, std::int64_t limit, Lemma1& lemma) {
  const std::optional<Dag> dag = build(table, timing);
  if (!dag) return;
  const Dag chains = without_dependencies(*dag);
  const std::optional<PathTimes> times = path_times(chains);
  STAGGER_EXPECTS(times.has_value());
  lemma.harmful.emplace();
  for (std::int64_t index = dag->first_dependency; index < std::ssize(dag->edges); ++index) {
    const Edge& edge = dag->edges[index];
    const Ticks earliest = times->earliest[edge.from] + edge.weight;
    const Ticks latest = times->latest[edge.to];
    if (earliest <= latest || lemma.harmful_count++ >= limit) continue;
    const Node& from = dag->nodes[edge.from];
    const Node& to = dag->nodes[edge.to];
    lemma.harmful->push_back({.from = table.slots[from.slot].task,
                              .to = table.slots[to.slot].task,
                              .dkv = to.kind == NodeKind::kv_turn,
                              .depth_from = from.depth,
                              .depth_to = to.depth,
                              .earliest_from = earliest,
                              .latest_to = latest});
  }
}

}  // namespace

Lemma1 check_lemma1(const Table& table, const Timing& timing, std::int64_t limit,
                    bool build_graph) {
  STAGGER_EXPECTS(plays_itself(table.problem, timing));
  Lemma1 lemma;
  lemma.premise_fails = premise_fails(table, timing);
  lemma.premise = lemma.premise_fails.empty();
  Depths(table, limit, lemma).compare();
  if (!lemma.premise && build_graph) judge_edges(table, timing, limit, lemma);
  return lemma;
}

}  // namespace stagger::dag
