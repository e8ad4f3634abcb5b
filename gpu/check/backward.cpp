#include "gpu/check/backward.hpp"

#include "core/median.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace stagger::gpu {
namespace {

/// A value of a dQ tile's lock, and the task that reduces at it.
using Turn = std::tuple<Head, QTile, std::int32_t>;
struct Holder {
  Slot slot;
  Lane lane;
};

Turn turn_of(const Task& task, std::int32_t value) {
  return {task.head, task.q, value};
}

/// Finds the tasks that reduce at these turns, where there are any.
std::map<Turn, Holder> holders(const Table& table, const std::set<Turn>& turns) {
  std::map<Turn, Holder> found;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (const Slot& slot : table.lane(lane)) {
      const Turn turn = turn_of(slot.task, slot.rank);
      if (turns.contains(turn)) found[turn] = {slot, lane};
    }
  }
  return found;
}

Wait wait_of(const Table& table, const Backward& backward, Lane lane) {
  const Slot& slot = table.slots[at(backward.next_slots[at(lane)])];
  const std::int64_t lock =
      std::int64_t{slot.task.head.value} * table.problem.grid.q_tiles() + slot.task.q.value;
  return {.lane = lane,
          .task = slot.task,
          .rank = slot.rank,
          .value = backward.lock_values[at(lock)],
          .promised = false};
}

/// Whether a lane's next task is computed and its turn has not come.
bool is_waiting(const Table& table, const Backward& backward, Lane lane) {
  const std::int64_t slot = backward.next_slots[at(lane)];
  if (slot == table.end_of(lane)) return false;
  const TaskTimes& times = backward.times[at(slot)];
  return times.compute_end >= 0 && times.turn < 0;
}

class Measured {
 public:
  Measured(const Table& table, const Backward& backward) : table_(table), backward_(backward) {}

  Timeline run(const std::string& device) {
    timeline_.clock = "ns";
    timeline_.device = device;
    timeline_.heads = table_.problem.heads;
    timeline_.hangs = backward_.outcome != Outcome::finished;
    timeline_.title = table_.name;
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane)
      add_lane(lane);
    std::sort(timeline_.intervals.begin(), timeline_.intervals.end(), precedes);
    return std::move(timeline_);
  }

 private:
  void add_lane(Lane lane) {
    const Sm sm = backward_.lane_sms[at(lane)];
    if (sm.value < 0) return;
    timeline_.sms = std::max(timeline_.sms, sm.value + 1);
    for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot) {
      const TaskTimes& times = backward_.times[at(slot)];
      const std::int64_t turn = times.turn < 0 ? backward_.elapsed_ns : times.turn;
      add(sm, slot, Phase::compute, times.compute_start, times.compute_end);
      if (times.compute_end >= 0) add(sm, slot, Phase::wait, times.compute_end, turn);
      add(sm, slot, Phase::reduce, times.turn, times.reduce_end);
    }
  }

  void add(Sm sm, std::int64_t slot, Phase phase, std::int64_t start, std::int64_t end) {
    // Where a run hangs, reductions that take no time tell which waits ended.
    if (start < 0 || start > end || (start == end && !timeline_.hangs)) return;
    const Slot& source = table_.slots[slot];
    timeline_.intervals.push_back({.sm = sm,
                                   .task = source.task,
                                   .phase = phase,
                                   .start = start,
                                   .end = end,
                                   .rank = source.rank});
    timeline_.makespan = std::max(timeline_.makespan, end);
  }

  const Table& table_;
  const Backward& backward_;
  Timeline timeline_;
};

}  // namespace

void end_dq(Backward& run, float scale, Dtype dtype) {
  if (dtype == Dtype::fp32) return;
  run.dq_sums = run.gradients.dq;
  for (float& element : run.gradients.dq)
    element = rounded(element * scale, dtype);
}

bool is_complete(const Table& table) {
  const Problem& problem = table.problem;
  if (std::ssize(table.slots) != problem.tasks()) return false;
  const std::int64_t q_tiles = problem.grid.q_tiles();
  const std::int64_t kv_tiles = problem.grid.kv_tiles();
  std::vector<bool> seen(at(problem.heads * kv_tiles * q_tiles));
  std::vector<bool> begun(at(problem.heads * kv_tiles));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const Task& task = table.slots[slot].task;
      if (!problem.contains(task) || !problem.grid.live(task.kv, task.q)) return false;
      const std::size_t chain = at(task.head.value * kv_tiles + task.kv.value);
      const std::size_t tile = chain * at(q_tiles) + at(task.q.value);
      const bool begins = table.begins_chain(lane, slot);
      if (seen[tile] || begins == begun[chain]) return false;
      seen[tile] = true;
      begun[chain] = true;
    }
  }
  return true;
}

Outcome outcome_when_stopped(const Table& table, const Backward& backward, std::int32_t sms) {
  std::int32_t waiting = 0;
  bool unlaunched = false;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    if (backward.next_slots[at(lane)] == table.end_of(lane)) continue;
    if (backward.lane_sms[at(lane)].value < 0) {
      unlaunched = true;
      continue;
    }
    if (!is_waiting(table, backward, lane)) return Outcome::timeout;
    const Wait wait = wait_of(table, backward, lane);
    if (wait.rank == wait.value) return Outcome::timeout;
    ++waiting;
  }
  return unlaunched && waiting < sms ? Outcome::timeout : Outcome::deadlock;
}

std::vector<Wait> waits(const Table& table, const Backward& backward) {
  std::vector<Wait> waiting;
  std::set<Turn> turns;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    if (!is_waiting(table, backward, lane)) continue;
    const Wait wait = wait_of(table, backward, lane);
    turns.insert({turn_of(wait.task, wait.value), turn_of(wait.task, wait.rank - 1)});
    waiting.push_back(wait);
  }
  const std::map<Turn, Holder> found = holders(table, turns);
  std::set<Lane> unlaunched;
  for (Wait& wait : waiting) {
    // Its value comes if a task brings it, unless that takes all tasks of the dQ tile, and so its
    // own; the task whose turn it is now must reduce before.
    const auto brings = found.find(turn_of(wait.task, wait.rank - 1));
    const auto now = found.find(turn_of(wait.task, wait.value));
    const bool comes = wait.rank > wait.value && brings != found.end() &&
                       wait.rank < table.problem.grid.contributions(wait.task.q);
    if (!comes && wait.rank != wait.value) continue;
    const Holder& holder = (now == found.end() ? brings : now)->second;
    wait.promised = true;
    wait.for_task = holder.slot.task;
    wait.for_rank = holder.slot.rank;
    wait.for_lane = holder.lane;
    if (backward.lane_sms[at(wait.for_lane)].value < 0) unlaunched.insert(wait.for_lane);
  }
  for (const Lane lane : unlaunched)
    waiting.push_back({.lane = lane, .launched = false, .for_lane = waiting.front().lane});
  return waiting;
}

std::int64_t median_hand_over_ns(const Table& table, const Backward& backward) {
  std::vector<std::int64_t> took;
  for (std::size_t place = 1; place < backward.witness.size(); ++place) {
    const std::int64_t before = backward.witness[place - 1];
    const std::int64_t slot = backward.witness[place];
    if (before < 0 || slot < 0) continue;
    const Task& task = table.slots[slot].task;
    const Task& task_before = table.slots[before].task;
    if (task.head != task_before.head || task.q != task_before.q) continue;
    const std::int64_t released = backward.times[at(before)].reduce_end;
    const TaskTimes& times = backward.times[at(slot)];
    if (times.compute_end < released) took.push_back(times.turn - released);
  }
  return median(std::move(took));
}

Timeline measured_timeline(const Table& table, const Backward& backward,
                           const std::string& device) {
  return Measured(table, backward).run(device);
}

}  // namespace stagger::gpu
