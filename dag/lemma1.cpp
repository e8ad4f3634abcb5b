#include "dag/lemma1.hpp"

#include "core/error.hpp"
#include "core/rank_places.hpp"
#include "dag/dag.hpp"
#include "dag/longest_path.hpp"

#include <algorithm>

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
      return "lanes are not isomorphic: one has " + std::to_string(first.size()) +
             " tasks, another " + std::to_string(slots.size());
    }
    if (timing.launch + timing.epilogue > 0 && chain_starts(table, lane) != first_starts) {
      return "lanes are not isomorphic: launches and epilogues are at different places";
    }
    if (!timing.uniform() && compute_phases(table.problem, timing, slots) != first_phases) {
      return "lanes are not isomorphic: partial tiles are at different places";
    }
  }
  return {};
}

/// Compares the places of consecutive ranks: 2p+2 <= 2p'+1 if and only if p < p'.
void compare_depths(const Table& table, std::int64_t limit, Lemma1& lemma) {
  const TileGrid& grid = table.problem.grid;
  const RankPlaces index(table.problem);
  struct Place {
    std::int32_t kv = -1;
    std::int32_t place = 0;
  };
  std::vector<Place> places(table.slots.size());  // by (head, q, rank)
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const auto slots = table.lane(lane);
    std::int32_t place = 0;
    for (const auto& [task, rank] : slots) {
      places[index.of(task, rank)] = {task.kv.value, place++};
    }
  }
  std::size_t next = 0;
  for (Head head{0}; head.value < table.problem.heads; ++head) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      for (std::int32_t rank = 0; rank < grid.contributions(q); ++rank, ++next) {
        if (rank == 0) continue;
        ++lemma.dependency_edges;
        const Place& from = places[next - 1];
        const Place& to = places[next];
        if (from.place < to.place) continue;
        if (lemma.violation_count++ >= limit) continue;
        lemma.violations.push_back({.from = {head, KvTile{from.kv}, q},
                                    .to = {head, KvTile{to.kv}, q},
                                    .depth_from = 2 * std::int64_t{from.place} + 2,
                                    .depth_to = 2 * std::int64_t{to.place} + 1});
      }
    }
  }
  lemma.monotone = lemma.violation_count == 0;
}

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
                              .depth_from = from.depth,
                              .depth_to = to.depth,
                              .earliest_from = earliest,
                              .latest_to = latest});
  }
}

}  // namespace

Lemma1 check_lemma1(const Table& table, const Timing& timing, std::int64_t limit,
                    bool build_graph) {
  Lemma1 lemma;
  lemma.premise_fails = premise_fails(table, timing);
  lemma.premise = lemma.premise_fails.empty();
  compare_depths(table, limit, lemma);
  if (!lemma.premise && build_graph) judge_edges(table, timing, limit, lemma);
  return lemma;
}

}  // namespace stagger::dag
