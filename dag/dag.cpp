#include "dag/dag.hpp"

#include "core/rank_places.hpp"
#include "dag/longest_path.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace stagger::dag {
namespace {

/// The nodes of one task. In the chain model its reduction starts at `computed`.
struct TaskNodes {
  std::int64_t computed = 0;
  std::int64_t turn = 0;
  std::int64_t reduced = 0;
  std::int64_t kv_turn = 0;  ///< of the chain that it ends
  std::int64_t written = 0;  ///< the end of the last reduction for it: `combined`, or `reduced`
};

/// A node that ends a lane, and what passes from there until its SM can launch the next.
struct LaneEnd {
  std::int64_t node = 0;
  Ticks gap = 0;
};

class Builder {
 public:
  Builder(const Table& table, const Timing& timing)
      : table_(table),
        timing_(timing),
        resident_(resident_lanes(table.problem, timing.residency)),
        overlap_(timing.model == Model::overlap),
        combines_(table.problem.combine == Combine::ordered),
        stays_(combines_ && !timing.reduce_kv_async),
        drains_(timing.drains(table.dispatch) && !stays_),
        lane_gap_(timing.lane_gap(table.dispatch)),
        tasks_(table.slots.size()),
        lane_ends_(table.lanes()),
        waits_for_sm_(table.lanes(), -1) {
    dag_.nodes = {{.kind = NodeKind::source}, {.kind = NodeKind::sink}};
    dag_.edges = {{kSource, kSink, 0, EdgeKind::order}};  // a table may have no task
    dag_.sm_of_lane.resize(table.lanes());
  }

  std::optional<Dag> run() {
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane)
      add_lane(lane);
    dag_.first_dependency = std::ssize(dag_.edges);
    add_dependencies();
    add_dkv_dependencies();
    if (!settle_dispatch()) return std::nullopt;
    return std::move(dag_);
  }

 private:
  std::int64_t add_node(NodeKind kind, std::int64_t slot, Lane lane, std::int64_t before) {
    const std::int32_t depth = dag_.nodes[before].depth + 1;
    dag_.nodes.push_back({kind, slot, lane, depth});
    return std::ssize(dag_.nodes) - 1;
  }

  void add_edge(std::int64_t from, std::int64_t to, Ticks weight, EdgeKind kind) {
    dag_.edges.push_back({from, to, weight, kind});
  }

  std::int64_t step(NodeKind kind, EdgeKind edge, Ticks weight, std::int64_t slot, Lane lane,
                    std::int64_t before) {
    const std::int64_t node = add_node(kind, slot, lane, before);
    add_edge(before, node, weight, edge);
    return node;
  }

  void add_lane(Lane lane) {
    const std::int64_t begin = table_.begin_of(lane);
    const std::int64_t end = table_.end_of(lane);
    if (begin == end) return;
    std::int64_t free = kSource;  // the node at which the SM can go on
    if (lane.value >= resident_) {
      waits_for_sm_[lane] = std::ssize(dag_.edges);
      free = step(NodeKind::dispatched, EdgeKind::dispatch, 0, begin, lane, kSource);
    }
    for (std::int64_t slot = begin; slot < end; ++slot)
      free = add_task(lane, slot, free);
    for (const LaneEnd& end_of_lane : lane_ends_[lane]) {
      add_edge(end_of_lane.node, kSink, 0, EdgeKind::order);
    }
  }

  /// Adds a task and, at a chain's ends, the launch and the epilogue; returns where the SM is free.
  std::int64_t add_task(Lane lane, std::int64_t slot, std::int64_t free) {
    TaskNodes& task = tasks_[slot];
    if (timing_.launch > 0 && table_.begins_chain(lane, slot)) {
      free = step(NodeKind::launched, EdgeKind::launch, timing_.launch, slot, lane, free);
    }
    const Ticks compute = timing_.compute_of(table_.problem, table_.slots[slot].task);
    task.computed = step(NodeKind::computed, EdgeKind::compute, compute, slot, lane, free);
    task.turn = task.computed;
    const bool beside = overlap_ || (combines_ && !stays_);  // the SM goes on while a writer writes
    const bool first = slot == table_.begin_of(lane);
    if (beside && !first) add_edge(tasks_[slot - 1].written, task.computed, 0, EdgeKind::order);
    if (overlap_) task.turn = step(NodeKind::turn, EdgeKind::order, 0, slot, lane, task.computed);
    task.reduced = step(NodeKind::reduced, EdgeKind::reduce, timing_.reduce, slot, lane, task.turn);
    task.written = task.reduced;
    if (!table_.ends_chain(lane, slot)) return overlap_ ? task.computed : task.reduced;

    if (combines_) add_combination(lane, slot, task);
    free = stays_ ? task.written : drains_ ? task.computed : task.reduced;
    if (timing_.epilogue > 0) {
      free = step(NodeKind::written, EdgeKind::epilogue, timing_.epilogue, slot, lane, free);
    }
    lane_ends_[lane] = {{.node = free}};
    if (drains_ || lane_gap_ > 0 || (combines_ && !stays_)) {
      lane_ends_[lane].push_back({.node = task.written, .gap = lane_gap_});
    }
    return free;
  }

  /// Adds the reduction of the chain that a slot ends into dK and dV.
  void add_combination(Lane lane, std::int64_t slot, TaskNodes& task) {
    task.kv_turn = step(NodeKind::kv_turn, EdgeKind::order, 0, slot, lane, task.reduced);
    task.written =
        step(NodeKind::combined, EdgeKind::reduce_kv, timing_.reduce_kv, slot, lane, task.kv_turn);
    ends_.push_back(slot);
  }

  void add_dependencies() {
    const RankPlaces places(table_.problem);
    std::vector<std::int64_t> order(table_.slots.size());  // slots by (head, q, rank)
    IndexVector<std::int64_t, Lane> lane_of(table_.slots.size());
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot) {
        const auto& [task, rank] = table_.slots[slot];
        order[places.of(task, rank)] = slot;
        lane_of[slot] = lane;
      }
    }
    for (std::size_t place = 1; place < order.size(); ++place) {
      const std::int64_t before = order[place - 1];
      if (table_.slots[order[place]].rank > 0) {
        add_dependency(lane_of[before], before, order[place]);
      }
    }
  }

  /// The edges between the parts of each KV tile.
  void add_dkv_dependencies() {
    const Problem& problem = table_.problem;
    const std::int32_t parts = problem.group_parts();
    IndexVector<std::int64_t, std::int64_t> order(problem.chains(), -1);  // by (KV head, kv, rank)
    for (const std::int64_t slot : ends_) {
      const Task& task = table_.slots[slot].task;
      order[problem.dkv_place(task) * parts + table_.dkv_rank(task)] = slot;
    }
    for (const std::int64_t slot : ends_) {
      const Task& task = table_.slots[slot].task;
      const std::int32_t rank = table_.dkv_rank(task);
      if (rank == 0) continue;
      const std::int64_t before = order[problem.dkv_place(task) * parts + rank - 1];
      add_edge(tasks_[before].written, tasks_[slot].kv_turn, timing_.latency, EdgeKind::dependency);
    }
  }

  void add_dependency(Lane lane, std::int64_t before, std::int64_t after) {
    std::int64_t released = tasks_[before].reduced;
    Ticks weight = timing_.latency;
    if (timing_.release == Release::delayed && !table_.ends_chain(lane, before)) {
      released = tasks_[before + 1].turn;
      weight += timing_.reduce / 2;
    }
    add_edge(released, tasks_[after].turn, weight, EdgeKind::dependency);
  }

  /// Iterates lane starts up from 0: each round relaxes the graph and lets every waiting lane start
  /// at the end it waits for. Starts only grow, so the first repetition is the least fixed point.
  bool settle_dispatch() {
    const bool all_resident = std::all_of(waits_for_sm_.begin(), waits_for_sm_.end(),
                                          [](std::int64_t edge) { return edge < 0; });
    if (all_resident) {
      for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
        dag_.sm_of_lane[lane] = Sm{std::min(lane.value, resident_ - 1)};
      }
      return true;
    }
    const auto relaxation = Relaxation::of(dag_);
    if (!relaxation) return false;
    Ticks horizon = 0;
    for (const auto& ends : lane_ends_)
      horizon += ends.empty() ? 0 : lane_gap_;
    for (const Edge& edge : dag_.edges)
      horizon += edge.weight;
    IndexVector<Lane, Lane> predecessor;
    while (true) {
      const auto starts = lane_starts(relaxation->earliest(dag_), predecessor);
      bool settled = true;
      for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
        if (waits_for_sm_[lane] < 0) continue;
        Ticks& start = dag_.edges[waits_for_sm_[lane]].weight;
        settled = settled && start == starts[lane];
        start = starts[lane];
        if (start > horizon) return false;
      }
      if (settled) break;
    }
    connect_dispatch(predecessor);
    return true;
  }

  /// Deals the lanes to the SMs, each to the one that frees first; `predecessor` gets the last lane
  /// with tasks before it on its SM, or -1.
  IndexVector<Lane, Ticks> lane_starts(const IndexVector<std::int64_t, Ticks>& earliest,
                                       IndexVector<Lane, Lane>& predecessor) {
    using Free = std::pair<Ticks, Sm>;
    std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
    for (Sm sm{0}; sm.value < resident_; ++sm)
      free.emplace(0, sm);
    IndexVector<Sm, Lane> last(resident_, Lane{-1});
    IndexVector<Lane, Ticks> starts;
    predecessor.clear();
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      const auto [start, sm] = free.top();
      free.pop();
      Ticks end = start;
      for (const auto& [node, gap] : lane_ends_[lane]) {
        end = std::max(end, earliest[node] + gap);
      }
      free.emplace(end, sm);
      starts.push_back(start);
      dag_.sm_of_lane[lane] = sm;
      predecessor.push_back(last[sm]);
      if (!lane_ends_[lane].empty()) last[sm] = lane;
    }
    return starts;
  }

  /// Replaces the constant starts by edges from the ends of the lanes before.
  void connect_dispatch(const IndexVector<Lane, Lane>& predecessor) {
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      if (waits_for_sm_[lane] < 0 || predecessor[lane].value < 0) continue;
      const auto& ends = lane_ends_[predecessor[lane]];
      Edge& edge = dag_.edges[waits_for_sm_[lane]];
      edge.weight = ends.front().gap;
      edge.from = ends.front().node;
      if (ends.size() > 1) {
        dag_.edges.insert(dag_.edges.begin() + dag_.first_dependency++,
                          {ends.back().node, edge.to, ends.back().gap, EdgeKind::dispatch});
      }
    }
  }

  const Table& table_;
  const Timing& timing_;
  std::int32_t resident_;
  bool overlap_;
  bool combines_;
  bool stays_;  ///< the SM stays with a chain until it is reduced into dK and dV
  bool drains_;
  Ticks lane_gap_;  ///< from a lane's last reduction to the next lane's start
  Dag dag_;
  std::vector<std::int64_t> ends_;  ///< slots that end chains, where those are combined in order
  IndexVector<std::int64_t, TaskNodes> tasks_;  ///< by slot
  IndexVector<Lane, std::vector<LaneEnd>> lane_ends_;
  IndexVector<Lane, std::int64_t> waits_for_sm_;  ///< a lane's dispatch edge, or -1
};

}  // namespace

bool is_graph_cheap(const Table& table, const Timing& timing) {
  constexpr std::int64_t kTasks = 100'000;
  constexpr std::int64_t kTaskRounds = 20'000'000;
  const std::int64_t tasks = std::ssize(table.slots);
  const std::int64_t rounds = 1 + table.lanes() / resident_lanes(table.problem, timing.residency);
  return tasks <= kTasks && tasks * rounds <= kTaskRounds;
}

std::optional<Dag> build(const Table& table, const Timing& timing) {
  STAGGER_EXPECTS(plays_itself(table.problem, timing));
  return Builder(table, timing).run();
}

Dag without_dependencies(const Dag& dag) {
  Dag rest = dag;
  rest.edges.resize(dag.first_dependency);
  return rest;
}

}  // namespace stagger::dag
