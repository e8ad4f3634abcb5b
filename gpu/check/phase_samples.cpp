// Every duration is looked for where the timing model says that nothing else is part of it: a
// latency where the task was ready before its predecessor had reduced; a compute phase, in the
// overlap model, where the dQ slot was free well before it ended. What lies in between (waited for
// a part of the latency, handed over just as the slot became free) says nothing and is left out.

#include "gpu/check/phase_samples.hpp"

#include "core/median.hpp"
#include "core/rank_places.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::gpu {
namespace {

class Sampling {
 public:
  Sampling(const TimedRun& timed, Model model)
      : table_(*timed.table),
        run_(*timed.run),
        overlap_(model == Model::overlap),
        previous_(table_.slots.size(), kNone),
        before_(table_.slots.size(), kNone) {
    order_by_sm();
    order_by_rank();
  }

  /// Adds reductions, and the turns that were waited for.
  void add_reductions(PhaseSamples& samples) const {
    for (std::int64_t slot = 0; slot < std::ssize(table_.slots); ++slot) {
      const TaskTimes& times = run_.times[at(slot)];
      if (times.reduce_end < 0) continue;
      samples.reduce.push_back(times.reduce_end - times.turn);
      if (released(slot) > ready(slot)) samples.latency.push_back(times.turn - released(slot));
    }
  }

  /// Adds the load of each latency and the parts of dK and dV that were waited for, once it is
  /// known about how long a cycle is.
  void add_loads(std::int64_t cycle, PhaseSamples& samples) const {
    std::vector<std::int64_t> turns;
    for (const TaskTimes& times : run_.times) {
      if (times.reduce_end >= 0) turns.push_back(times.turn);
    }
    std::ranges::sort(turns);
    const auto load_at = [&](std::int64_t time) {
      const auto recent = std::ranges::upper_bound(turns, time - cycle);
      const std::int64_t sms = table_.problem.sms;
      const auto busy = std::min<std::int64_t>(std::ranges::upper_bound(turns, time) - recent, sms);
      return kFullLoad * busy / sms;
    };
    for (std::int64_t slot = 0; slot < std::ssize(table_.slots); ++slot) {
      if (run_.times[at(slot)].reduce_end < 0 || released(slot) <= ready(slot)) continue;
      samples.load.push_back(load_at(run_.times[at(before_[at(slot)])].turn));
    }
    each_part_that_waited([&](const ChainTimes& before, const ChainTimes& part) {
      samples.parts.push_back(part.end - before.end);
      samples.parts_load.push_back(load_at(before.end));
    });
  }

  void add_computes(std::vector<std::int64_t>& durations) const {
    for (const TaskTimes& times : run_.times)
      durations.push_back(times.compute_end - times.compute_start);
  }

  /// Adds what is left, once it is known about how long a hand-over and a compute phase take.
  void add_phases(std::int64_t latency, std::int64_t compute, PhaseSamples& samples) const {
    for (std::int64_t slot = 0; slot < std::ssize(table_.slots); ++slot) {
      const TaskTimes& times = run_.times[at(slot)];
      const std::int64_t previous = previous_[at(slot)];
      const bool follows = previous != kNone && !(overlap_ && begins_lane(slot));
      if (follows && handed_when_computed(previous)) {
        (begins(slot) ? samples.chain_gap : samples.between)
            .push_back(times.compute_start - free_after(previous));
      }
      const bool blocked = overlap_ && slot_free(slot) + compute / 8 > times.compute_end;
      if (!blocked) durations(slot, samples).push_back(times.compute_end - times.compute_start);
      const bool waited = before_[at(slot)] != kNone && released(slot) + 2 * latency > ready(slot);
      if (times.turn >= 0 && !waited) samples.taking.push_back(times.turn - ready(slot));
    }
  }

 private:
  static constexpr std::int64_t kNone = -1;

  /// Calls `use(before, part)` for every part of dK and dV that waited for the rank before it.
  template <class Use>
  void each_part_that_waited(Use use) const {
    if (run_.chain_times.empty()) return;
    const Problem& problem = table_.problem;
    const std::int32_t parts = problem.group_parts();
    std::vector<const ChainTimes*> of_rank(at(problem.chains()),
                                           nullptr);  // by (KV head, kv, rank)
    for (Part part{0}; part.value < problem.heads / problem.span; ++part.value) {
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
        const std::int32_t rank = table_.dkv_rank(part, kv);
        if (rank < 0) continue;
        const KvHead kv_head = problem.kv_head_of(Head{part.value * problem.span});
        of_rank[at(problem.dkv_place(kv_head, kv) * parts + rank)] =
            &run_.chain_times[at(problem.chain_place(part, kv))];
      }
    }
    for (std::size_t place = 1; place < of_rank.size(); ++place) {
      const ChainTimes* const before = of_rank[place - 1];
      const ChainTimes* const part = of_rank[place];
      const bool first = place % at(parts) == 0;
      if (first || before == nullptr || part == nullptr || part->end < 0) continue;
      if (part->ready < before->end) use(*before, *part);
    }
  }

  /// Fills previous_: an SM runs its lanes one after the other.
  void order_by_sm() {
    std::vector<Lane> lanes;
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      if (!table_.lane(lane).empty()) lanes.push_back(lane);
    }
    const auto start = [&](Lane lane) {
      return run_.times[at(table_.begin_of(lane))].compute_start;
    };
    std::stable_sort(lanes.begin(), lanes.end(),
                     [&](Lane left, Lane right) { return start(left) < start(right); });
    std::map<Sm, std::int64_t> last;
    for (const Lane lane : lanes) {
      std::int64_t& previous = last.emplace(run_.lane_sms[at(lane)], kNone).first->second;
      for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot)
        previous_[at(slot)] = std::exchange(previous, slot);
    }
  }

  void order_by_rank() {
    const RankPlaces places(table_.problem);
    std::vector<std::int64_t> slot_of(places.size(), kNone);
    for (std::int64_t slot = 0; slot < std::ssize(table_.slots); ++slot)
      slot_of[places.of(table_.slots[slot].task, table_.slots[slot].rank)] = slot;
    for (std::size_t place = 1; place < slot_of.size(); ++place) {
      const std::int64_t slot = slot_of[place];
      if (table_.slots[slot].rank > 0) before_[at(slot)] = slot_of[place - 1];
    }
  }

  [[nodiscard]] bool begins(std::int64_t slot) const {
    if (previous_[at(slot)] == kNone) return true;
    const Task& previous = table_.slots[at(previous_[at(slot)])].task;
    const Task& task = table_.slots[slot].task;
    return previous.head != task.head || previous.kv != task.kv;
  }

  [[nodiscard]] bool begins_lane(std::int64_t slot) const {
    return std::ranges::binary_search(table_.lane_begin, slot);
  }

  /// Returns when the dQ slot of the task's SM was free; -1: it always was.
  [[nodiscard]] std::int64_t slot_free(std::int64_t slot) const {
    const std::int64_t previous = previous_[at(slot)];
    return previous == kNone ? -1 : run_.times[at(previous)].reduce_end;
  }

  /// Returns when a task is ready to reduce.
  [[nodiscard]] std::int64_t ready(std::int64_t slot) const {
    const std::int64_t computed = run_.times[at(slot)].compute_end;
    return overlap_ ? std::max(computed, slot_free(slot)) : computed;
  }

  /// Returns when the reduction that a task waits for has ended; -1 if there is none.
  [[nodiscard]] std::int64_t released(std::int64_t slot) const {
    const std::int64_t before = before_[at(slot)];
    return before == kNone ? -1 : run_.times[at(before)].reduce_end;
  }

  /// Whether the hand-over of a task did not wait for the dQ slot, so that it is known when it was
  /// even if the kernel frees the slot before the reduction ends.
  [[nodiscard]] bool handed_when_computed(std::int64_t slot) const {
    return !overlap_ || slot_free(slot) <= run_.times[at(slot)].compute_end;
  }

  /// Returns when the lane's next task could start its compute phase; epilogue and launch aside.
  [[nodiscard]] std::int64_t free_after(std::int64_t slot) const {
    const TaskTimes& times = run_.times[at(slot)];
    return overlap_ ? ready(slot) : std::max(times.compute_end, times.reduce_end);
  }

  std::vector<std::int64_t>& durations(std::int64_t slot, PhaseSamples& samples) const {
    const bool partial = table_.problem.kind(table_.slots[slot].task) == TileKind::partial;
    if (begins(slot)) return partial ? samples.first_partial : samples.first;
    return partial ? samples.compute_partial : samples.compute;
  }

  const Table& table_;
  const Backward& run_;
  bool overlap_;
  std::vector<std::int64_t> previous_;  ///< by slot: the one before on its SM
  std::vector<std::int64_t> before_;    ///< by slot: that of the rank before
};

}  // namespace

PhaseSamples phase_samples(std::span<const TimedRun> runs, Model model) {
  std::vector<Sampling> samplings;
  samplings.reserve(runs.size());
  for (const TimedRun& run : runs)
    samplings.emplace_back(run, model);
  PhaseSamples samples;
  std::vector<std::int64_t> computes;
  for (const Sampling& sampling : samplings) {
    sampling.add_reductions(samples);
    sampling.add_computes(computes);
  }
  const std::int64_t latency = median(samples.latency);
  const std::int64_t compute = median(std::move(computes));
  const std::int64_t reduce = median(samples.reduce);
  for (const Sampling& sampling : samplings) {
    sampling.add_loads(model == Model::chain ? compute + reduce : std::max(compute, reduce),
                       samples);
    sampling.add_phases(latency, compute, samples);
  }
  return samples;
}

}  // namespace stagger::gpu
