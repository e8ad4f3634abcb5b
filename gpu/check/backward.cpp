#include "gpu/check/backward.hpp"

#include "core/median.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace stagger::gpu {
namespace {

/// A value of a lock, and the task that reduces at it: at a dQ tile's or, as the last of its chain,
/// at a KV tile's.
struct Turn {
  bool dkv = false;
  std::int64_t lock = 0;  ///< (head, q), or Problem::dkv_place
  std::int32_t value = 0;

  friend auto operator<=>(const Turn&, const Turn&) = default;
};
struct Holder {
  Task task;
  std::int32_t rank = 0;
  Lane lane;
};

Turn turn_at(const Table& table, const Slot& slot) {
  return {.lock = std::int64_t{slot.task.head.value} * table.problem.q_tiles() + slot.task.q.value,
          .value = slot.rank};
}

Turn dkv_turn_at(const Table& table, const Slot& slot) {
  return {
      .dkv = true, .lock = table.problem.dkv_place(slot.task), .value = table.dkv_rank(slot.task)};
}

Turn at_value(Turn turn, std::int32_t value) {
  turn.value = value;
  return turn;
}

/// Finds the tasks that reduce at these turns, where there are any.
std::map<Turn, Holder> holders(const Table& table, const std::set<Turn>& turns) {
  const bool ordered = table.problem.combine == Combine::ordered;
  std::map<Turn, Holder> found;
  const auto look = [&](const Turn& turn, const Slot& slot, Lane lane) {
    if (turns.contains(turn)) found[turn] = {slot.task, turn.value, lane};
  };
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t index = table.begin_of(lane); index < table.end_of(lane); ++index) {
      const Slot& slot = table.slots[index];
      look(turn_at(table, slot), slot, lane);
      if (ordered && table.ends_chain(lane, index)) look(dkv_turn_at(table, slot), slot, lane);
    }
  }
  return found;
}

/// Whether a slot has reduced and its chain, of which it is the last, waits for its turn.
bool waits_at_dkv(const Table& table, const Backward& backward, std::int64_t slot) {
  if (backward.chain_times.empty()) return false;
  const ChainTimes& times =
      backward.chain_times[at(table.problem.chain_place(table.slots[slot].task))];
  return times.ready >= 0 && times.turn < 0;
}

/// Whether a lane's next task is computed and its turn has not come, nor its chain's.
bool is_waiting(const Table& table, const Backward& backward, Lane lane) {
  const std::int64_t slot = backward.next_slots[at(lane)];
  if (slot == table.end_of(lane)) return false;
  const TaskTimes& times = backward.times[at(slot)];
  return waits_at_dkv(table, backward, slot) || (times.compute_end >= 0 && times.turn < 0);
}

Turn awaited(const Table& table, const Backward& backward, Lane lane) {
  const std::int64_t index = backward.next_slots[at(lane)];
  const Slot& slot = table.slots[index];
  return waits_at_dkv(table, backward, index) ? dkv_turn_at(table, slot) : turn_at(table, slot);
}

Wait wait_of(const Table& table, const Backward& backward, Lane lane) {
  const Task& task = table.slots[backward.next_slots[at(lane)]].task;
  const Turn turn = awaited(table, backward, lane);
  const auto& values = turn.dkv ? backward.dkv_lock_values : backward.lock_values;
  return {.lane = lane,
          .task = task,
          .dkv = turn.dkv,
          .kv_head = table.problem.kv_head_of(task.head),
          .rank = turn.value,
          .value = values[at(turn.lock)],
          .promised = false};
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
      if (!backward_.chain_times.empty() && table_.ends_chain(lane, slot)) add_chain(sm, slot);
    }
  }

  /// A chain's reduction into dK and dV, behind its last task.
  void add_chain(Sm sm, std::int64_t slot) {
    const Task& task = table_.slots[slot].task;
    const ChainTimes& times = backward_.chain_times[at(table_.problem.chain_place(task))];
    if (times.ready < 0) return;
    const std::int32_t rank = table_.dkv_rank(task);
    add(sm, task, rank, Phase::wait, times.ready,
        times.turn < 0 ? backward_.elapsed_ns : times.turn);
    add(sm, task, rank, Phase::reduce_kv, times.turn, times.end);
  }

  void add(Sm sm, std::int64_t slot, Phase phase, std::int64_t start, std::int64_t end) {
    const Slot& source = table_.slots[slot];
    add(sm, source.task, source.rank, phase, start, end);
  }

  void add(Sm sm, const Task& task, std::int32_t rank, Phase phase, std::int64_t start,
           std::int64_t end) {
    // Where a run hangs, reductions that take no time tell which waits ended.
    if (start < 0 || start > end || (start == end && !timeline_.hangs)) return;
    timeline_.intervals.push_back(
        {.sm = sm, .task = task, .phase = phase, .start = start, .end = end, .rank = rank});
    timeline_.makespan = std::max(timeline_.makespan, end);
  }

  const Table& table_;
  const Backward& backward_;
  Timeline timeline_;
};

/// Returns the parts that are added to a KV tile's dK and dV, in their order: a pass adds those too
/// that have no tasks there, if others have.
std::vector<std::int32_t> added_parts(const Table& table, KvHead head, KvTile kv) {
  const Problem& problem = table.problem;
  const std::int32_t parts = problem.group_parts();
  const bool ordered = problem.combine == Combine::ordered;
  const std::int32_t count = problem.dkv_contributions(head, kv);
  std::vector<std::int32_t> order(at(ordered || count == 0 ? count : parts));
  std::iota(order.begin(), order.end(), head.value * parts);
  for (Part part{head.value * parts}; ordered && part.value < (head.value + 1) * parts; ++part) {
    if (problem.chain_length(part, kv) > 0) order[at(table.dkv_rank(part, kv))] = part.value;
  }
  return order;
}

}  // namespace

void end_dq(Backward& run, float scale, Dtype dtype) {
  if (dtype == Dtype::fp32) return;
  run.dq_sums = run.gradients.dq;
  for (float& element : run.gradients.dq)
    element = rounded(element * scale, dtype);
}

std::vector<float> sum_of_parts(const Table& table, const std::vector<float>& partials) {
  const Problem& problem = table.problem;
  const std::size_t of_part = partials.size() / at(problem.parts());
  const std::size_t of_key = of_part / at(problem.lengths.kv);
  std::vector<float> sums(of_part * at(problem.heads_kv), 0);
  for (KvHead head{0}; head.value < problem.heads_kv; ++head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::vector<std::int32_t> order = added_parts(table, head, kv);
      const std::size_t begin = at(kv.value * problem.shape.kv) * of_key;
      const std::size_t end = std::min(begin + at(problem.shape.kv) * of_key, of_part);
      float* const sum = &sums[at(head) * of_part];
      for (const std::int32_t part : order) {
        const float* const partial = &partials[at(part) * of_part];
        for (std::size_t index = begin; index < end; ++index)
          sum[index] = part == order.front() ? partial[index] : sum[index] + partial[index];
      }
    }
  }
  return sums;
}

void end_dkv(Backward& run, float scale, Dtype dtype) {
  const auto ended = [dtype](float factor) {
    return [dtype, factor](float sum) { return rounded(sum * factor, dtype); };
  };
  std::ranges::transform(run.dk_sums, run.gradients.dk.begin(), ended(scale));
  std::ranges::transform(run.dv_sums, run.gradients.dv.begin(), ended(1));
}

bool is_complete(const Table& table) {
  const Problem& problem = table.problem;
  if (std::ssize(table.slots) != problem.tasks()) return false;
  const std::int64_t q_tiles = problem.q_tiles();
  const std::int64_t kv_tiles = problem.kv_tiles();
  std::vector<bool> seen(at(problem.heads * kv_tiles * q_tiles));
  std::vector<bool> begun(at(problem.chains()));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      const Task& task = table.slots[slot].task;
      if (!problem.contains(task) || !problem.live(task)) return false;
      const std::size_t chain = at(problem.chain_place(task));
      const std::size_t tile =
          at((task.head.value * kv_tiles + task.kv.value) * q_tiles + task.q.value);
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
    const Turn turn = awaited(table, backward, lane);
    turns.insert({at_value(turn, wait.value), at_value(turn, wait.rank - 1)});
    waiting.push_back(wait);
  }
  const std::map<Turn, Holder> found = holders(table, turns);
  std::set<Lane> unlaunched;
  for (Wait& wait : waiting) {
    // Its value comes if a task brings it, unless that takes all that reduce there, and so its own;
    // the task whose turn it is now must reduce before.
    const Turn turn = awaited(table, backward, wait.lane);
    const auto brings = found.find(at_value(turn, wait.rank - 1));
    const auto now = found.find(at_value(turn, wait.value));
    const Problem& problem = table.problem;
    const std::int32_t contributions =
        wait.dkv ? problem.dkv_contributions(problem.kv_head_of(wait.task.head), wait.task.kv)
                 : problem.contributions(wait.task);
    const bool comes = wait.rank > wait.value && brings != found.end() && wait.rank < contributions;
    if (!comes && wait.rank != wait.value) continue;
    const Holder& holder = (now == found.end() ? brings : now)->second;
    wait.promised = true;
    wait.for_task = holder.task;
    wait.for_rank = holder.rank;
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
