#include "tests/support/naive.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace stagger::test {
namespace {

constexpr Ticks kNever = -1;

struct NaiveTask {
  Slot slot;
  std::int32_t step = 0;  ///< of the slot's task, which is as many of these as it has
  std::size_t lane = 0;
  bool first_of_lane = false;
  bool first_of_chain = false;
  bool last_of_chain = false;
  bool last_of_lane = false;
  Ticks computing = kNever;  ///< start of the compute phase
  Ticks reducing = kNever;   ///< start of the reduction
  Ticks combining = kNever;  ///< start of its chain's reduction into dK and dV, if it is the last
};

class Clock {
 public:
  Clock(const Table& table, const Timing& timing) : table_(table), timing_(timing) {
    launched_.assign(static_cast<std::size_t>(table.lanes()), kNever);
    for (Lane lane{0}; lane.value < table.lanes(); ++lane)
      add_lane(lane);
  }

  NaivePlay run() {
    const Ticks patience = 2 + timing_.longest_compute() + timing_.reduce + timing_.latency +
                           timing_.launch + timing_.epilogue + timing_.reduce_kv +
                           timing_.next_lane.value_or(0);
    Ticks last_move = 0;
    for (Ticks now = 0; now <= last_move + patience; ++now) {
      while (move(now))
        last_move = now;
    }
    NaivePlay play{.makespan = makespan()};
    for (const NaiveTask& task : tasks_) {
      play.compute_start.push_back(task.computing);
      play.reduce_start.push_back(task.reducing);
    }
    return play;
  }

 private:
  void add_lane(Lane lane) {
    const auto slots = table_.lane(lane);
    for (std::size_t place = 0; place < slots.size(); ++place) {
      const auto same_chain = [&](std::size_t a, std::size_t b) {
        return slots[a].task.head.value / table_.problem.span ==
                   slots[b].task.head.value / table_.problem.span &&
               slots[a].task.kv == slots[b].task.kv;
      };
      NaiveTask task;
      task.slot = slots[place];
      task.lane = static_cast<std::size_t>(lane.value);
      task.first_of_lane = place == 0;
      task.last_of_lane = place + 1 == slots.size();
      task.first_of_chain = task.first_of_lane || !same_chain(place - 1, place);
      task.last_of_chain = task.last_of_lane || !same_chain(place, place + 1);
      add_steps(task);
    }
  }

  void add_steps(NaiveTask task) {
    const bool first_of_lane = task.first_of_lane;
    const bool first_of_chain = task.first_of_chain;
    const bool last_of_chain = task.last_of_chain;
    const bool last_of_lane = task.last_of_lane;
    for (task.step = 0; task.step < timing_.steps; ++task.step) {
      const bool last = task.step == timing_.steps - 1;
      task.first_of_lane = first_of_lane && task.step == 0;
      task.first_of_chain = first_of_chain && task.step == 0;
      task.last_of_chain = last_of_chain && last;
      task.last_of_lane = last_of_lane && last;
      tasks_.push_back(task);
    }
  }

  /// A step's part of a phase, rounded up.
  [[nodiscard]] Ticks of_step(Ticks phase) const {
    return (phase + timing_.steps - 1) / timing_.steps;
  }
  [[nodiscard]] Ticks reduce() const { return of_step(timing_.reduce); }

  [[nodiscard]] std::optional<Ticks> makespan() const {
    Ticks makespan = 0;
    for (std::size_t lane = 0; lane < launched_.size(); ++lane) {
      if (launched_[lane] == kNever || lane_end(lane) == kNever) return std::nullopt;
      if (lane_end(lane) > launched_[lane]) makespan = std::max(makespan, lane_end(lane));
    }
    return makespan;
  }

  /// Starts one thing that may start now; false if nothing may.
  bool move(Ticks now) {
    if (launch_one(now)) return true;
    for (std::size_t index = 0; index < tasks_.size(); ++index) {
      NaiveTask& task = tasks_[index];
      if (task.computing == kNever && may_compute(index, now)) {
        task.computing = now;
        return true;
      }
      if (task.computing != kNever && task.reducing == kNever && may_reduce(index, now)) {
        task.reducing = now;
        return true;
      }
      if (task.combining == kNever && may_combine(index, now)) {
        task.combining = now;
        return true;
      }
    }
    return false;
  }

  bool launch_one(Ticks now) {
    std::int64_t running = 0;
    std::size_t next = launched_.size();
    for (std::size_t lane = launched_.size(); lane-- > 0;) {
      if (launched_[lane] == kNever) {
        next = lane;
      } else if (lane_end(lane) == kNever || lane_end(lane) > now || writer_rests(lane) > now) {
        ++running;
      }
    }
    if (next == launched_.size() || running >= resident_lanes(table_.problem, timing_.residency)) {
      return false;
    }
    launched_[next] = now;
    return true;
  }

  /// When a lane has done everything, kNever if that is not known yet.
  [[nodiscard]] Ticks lane_end(std::size_t lane) const {
    Ticks end = launched_[lane];
    for (std::size_t index = 0; index < tasks_.size(); ++index) {
      const NaiveTask& task = tasks_[index];
      if (task.lane != lane) continue;
      if (task.reducing == kNever) return kNever;
      if (writer_end(index) == kNever) return kNever;
      end = std::max(end, writer_end(index));
      if (task.last_of_chain) end = std::max(end, chain_end(index));
    }
    return end;
  }

  /// When the SM has taken a lane after one that has done everything, as far as its writer goes.
  [[nodiscard]] Ticks writer_rests(std::size_t lane) const {
    Ticks rests = launched_[lane];
    for (std::size_t index = 0; index < tasks_.size(); ++index) {
      if (tasks_[index].lane != lane || timing_.model != Model::overlap) continue;
      if (table_.dispatch == Dispatch::static_) continue;
      rests = std::max(rests, writer_end(index) + timing_.next_lane.value_or(0));
    }
    return rests;
  }

  /// When the SM is free for another chain after a chain's last task.
  [[nodiscard]] Ticks chain_end(std::size_t index) const {
    const NaiveTask& task = tasks_[index];
    if (ordered() && !timing_.reduce_kv_async) {
      return writer_end(index) == kNever ? kNever : writer_end(index) + timing_.epilogue;
    }
    const bool goes_on = table_.dispatch == Dispatch::static_ || timing_.next_lane.has_value();
    if (timing_.model == Model::overlap && goes_on) {
      return handed(index) == kNever ? kNever : handed(index) + timing_.epilogue;
    }
    return task.reducing == kNever ? kNever : task.reducing + reduce() + timing_.epilogue;
  }

  /// When a task is ready to reduce, kNever if that is not known yet.
  [[nodiscard]] Ticks handed(std::size_t index) const {
    const NaiveTask& task = tasks_[index];
    if (task.computing == kNever) return kNever;
    const Problem& problem = table_.problem;
    const std::int64_t keys_end = (task.slot.task.kv.value + 1) * problem.shape.kv;
    const bool partial = problem.kind(task.slot.task) == TileKind::partial ||
                         (timing_.cut_partial && keys_end > problem.lengths.kv);
    const Ticks compute =
        partial ? timing_.compute_partial.value_or(timing_.compute) : timing_.compute;
    const Ticks computed = task.computing + of_step(compute);
    if (task.first_of_lane) return computed;
    if (timing_.model == Model::chain && !(ordered() && timing_.reduce_kv_async)) return computed;
    if (writer_end(index - 1) == kNever) return kNever;
    return std::max(computed, writer_end(index - 1));
  }

  [[nodiscard]] bool ordered() const { return table_.problem.combine == Combine::ordered; }

  /// When the last reduction for a task ends, into dQ or into dK and dV; kNever if not known yet.
  [[nodiscard]] Ticks writer_end(std::size_t index) const {
    const NaiveTask& task = tasks_[index];
    if (!ordered() || !task.last_of_chain) {
      return task.reducing == kNever ? kNever : task.reducing + reduce();
    }
    return task.combining == kNever ? kNever : task.combining + timing_.reduce_kv;
  }

  /// The KV head of a task, the part's number in its group, and its rank.
  struct PartOf {
    std::int32_t kv_head;
    std::int32_t kv;
    std::int32_t rank;
  };
  [[nodiscard]] PartOf part_of(std::size_t index) const {
    const Problem& problem = table_.problem;
    const Task& task = tasks_[index].slot.task;
    const std::int32_t group = problem.heads / problem.heads_kv;
    const std::int32_t number = task.head.value % group / problem.span;
    const std::int32_t first = task.head.value / group * (group / problem.span);
    std::int32_t rank = 0;  // by default, of the parts before those that have tasks of the KV tile
    for (std::int32_t part = first; part < first + number; ++part) {
      const TileGrid& grid = problem.grid_of(Head{part * problem.span});
      rank += grid.live_q(task.kv).empty() ? 0 : 1;
    }
    if (!table_.dkv_ranks.empty()) {
      rank = table_.dkv_ranks[(first + number) * problem.kv_tiles() + task.kv.value];
    }
    return {task.head.value / group, task.kv.value, rank};
  }

  [[nodiscard]] bool may_combine(std::size_t index, Ticks now) const {
    const NaiveTask& task = tasks_[index];
    if (!ordered() || !task.last_of_chain || task.reducing == kNever) return false;
    if (now < task.reducing + reduce()) return false;
    const PartOf part = part_of(index);
    if (part.rank == 0) return true;
    for (std::size_t other = 0; other < tasks_.size(); ++other) {
      if (!tasks_[other].last_of_chain) continue;
      const PartOf before = part_of(other);
      if (before.kv_head != part.kv_head || before.kv != part.kv) continue;
      if (before.rank != part.rank - 1) continue;
      return writer_end(other) != kNever && now >= writer_end(other) + timing_.latency;
    }
    return false;
  }

  [[nodiscard]] bool may_compute(std::size_t index, Ticks now) const {
    const NaiveTask& task = tasks_[index];
    Ticks free = kNever;
    if (task.first_of_lane) {
      free = launched_[task.lane];
    } else if (task.first_of_chain) {
      free = chain_end(index - 1);
    } else if (timing_.model == Model::overlap) {
      free = handed(index - 1);
    } else if (tasks_[index - 1].reducing != kNever) {
      free = tasks_[index - 1].reducing + reduce();
    }
    return free != kNever && now >= free + (task.first_of_chain ? timing_.launch : 0);
  }

  [[nodiscard]] bool may_reduce(std::size_t index, Ticks now) const {
    if (handed(index) == kNever || now < handed(index)) return false;
    const Slot& slot = tasks_[index].slot;
    if (slot.rank == 0) return true;
    for (std::size_t other = 0; other < tasks_.size(); ++other) {
      const Slot& before = tasks_[other].slot;
      if (before.task.head != slot.task.head || before.task.q != slot.task.q ||
          before.rank != slot.rank - 1 || tasks_[other].step != tasks_[index].step) {
        continue;
      }
      return released(other) != kNever && now >= released(other) + timing_.latency;
    }
    return false;
  }

  [[nodiscard]] Ticks released(std::size_t index) const {
    const NaiveTask& task = tasks_[index];
    if (task.reducing == kNever) return kNever;
    if (timing_.release == Release::immediate || task.last_of_chain) {
      return task.reducing + reduce();
    }
    const NaiveTask& next = tasks_[index + 1];
    return next.reducing == kNever ? kNever : next.reducing + reduce() / 2;
  }

  const Table& table_;
  const Timing& timing_;
  std::vector<Ticks> launched_;
  std::vector<NaiveTask> tasks_;
};

/// All tables: chains to lanes in every order, Q tiles in every order, every accumulation order
/// (as the order in which tasks are appended to a run).
class AllTables {
 public:
  AllTables(const Problem& problem, Dispatch dispatch,
            const std::function<void(const Table&)>& visit)
      : visit_(visit) {
    table_.problem = problem;
    table_.dispatch = dispatch;
    for (Head head{0}; head.value < problem.heads; ++head) {
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
        std::vector<Task> chain;
        for (const QTile q : problem.grid_of(head).live_q(kv))
          chain.push_back({head, kv, q});
        if (!chain.empty()) chains_.push_back(chain);
      }
    }
    lanes_.resize(dispatch == Dispatch::static_ ? at(problem.sms) : chains_.size());
  }

  void run() { place(0); }

 private:
  void place(std::size_t chain) {
    if (chain == chains_.size()) {
      rank(0);
      return;
    }
    std::vector<Task> tasks = chains_[chain];
    do {
      for (auto& lane : lanes_) {
        for (std::size_t before = 0; before <= lane.size(); ++before) {
          lane.insert(lane.begin() + std::ptrdiff_t(before), tasks);
          place(chain + 1);
          lane.erase(lane.begin() + std::ptrdiff_t(before));
        }
        // Empty lanes are alike, but for the order of launches.
        if (lane.empty() && table_.dispatch == Dispatch::static_) break;
      }
    } while (std::next_permutation(tasks.begin(), tasks.end()));
  }

  /// Every combination of accumulation orders.
  void rank(std::int32_t tile) {
    const std::int32_t q_tiles = table_.problem.q_tiles();
    if (tile == table_.problem.heads * q_tiles) {
      visit();
      return;
    }
    std::vector<std::int32_t> kv;
    const QTile q{tile % q_tiles};
    for (KvTile live{0}; live.value < table_.problem.kv_tiles(); ++live) {
      if (table_.problem.live({Head{tile / q_tiles}, live, q})) kv.push_back(live.value);
    }
    do {
      for (std::size_t place = 0; place < kv.size(); ++place) {
        ranks_[{tile / q_tiles, kv[place], q.value}] = static_cast<std::int32_t>(place);
      }
      rank(tile + 1);
    } while (std::next_permutation(kv.begin(), kv.end()));
  }

  void visit() {
    table_.slots.clear();
    table_.lane_begin = {0};
    for (const auto& lane : lanes_) {
      for (const auto& chain : lane) {
        for (const Task& task : chain) {
          table_.slots.push_back({task, ranks_[{task.head.value, task.kv.value, task.q.value}]});
        }
      }
      table_.end_lane();
    }
    visit_(table_);
  }

  const std::function<void(const Table&)>& visit_;
  Table table_;
  std::vector<std::vector<Task>> chains_;
  std::vector<std::vector<std::vector<Task>>> lanes_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> ranks_;
};

}  // namespace

NaivePlay naive_play(const Table& table, const Timing& timing) {
  return Clock(table, timing).run();
}

std::optional<Ticks> naive_makespan(const Table& table, const Timing& timing) {
  return naive_play(table, timing).makespan;
}

void each_table(const Problem& problem, Dispatch dispatch,
                const std::function<void(const Table&)>& visit) {
  AllTables(problem, dispatch, visit).run();
}

Ticks naive_optimum(const Problem& problem, const Timing& timing) {
  Ticks best = INT64_MAX;
  each_table(problem, Dispatch::static_, [&](const Table& table) {
    if (const auto makespan = naive_makespan(table, timing)) best = std::min(best, *makespan);
  });
  return best;
}

}  // namespace stagger::test
