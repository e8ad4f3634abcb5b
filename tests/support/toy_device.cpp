#include "tests/support/toy_device.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace stagger::test {
namespace {

struct ToyTask {
  Slot slot;
  std::size_t lane = 0;
  std::int32_t step = 0;  ///< of its task, which is as many of these as it has
  bool first = false;     ///< of its chain
  bool last = false;
  Ticks launch = 0;
  Ticks compute = 0;
  Ticks reduce = 0;
  Ticks latency = 0;
  Ticks epilogue = 0;
  // When:
  Ticks begins = 0;  ///< the launch, or the compute phase
  Ticks computes = 0;
  Ticks turn = 0;
};

class Toy {
 public:
  Toy(const ToyDevice& device, const Table& table, gpu::Mode mode, Random& random)
      : device_(device),
        table_(table),
        reduces_(mode == gpu::Mode::deterministic),
        overlap_(device.timing.model == Model::overlap),
        random_(random) {
    for (Lane lane{0}; lane.value < table.lanes(); ++lane)
      add_lane(lane);
    lane_sms_.resize(static_cast<std::size_t>(table.lanes()));
  }

  gpu::Backward run() {
    // Times only grow from sweep to sweep, and are right once nothing moves.
    while (sweep()) {
    }
    gpu::Backward run;
    for (const ToyTask& task : tasks_) {
      const Ticks stamp = device_.stamps_launch ? task.begins : task.computes;
      const auto index = static_cast<std::size_t>(&task - tasks_.data());
      const Ticks computed =
          device_.stamps_hand_over ? handed(index) : task.computes + task.compute;
      if (task.step == 0) run.times.push_back({.compute_start = stamped(stamp)});
      run.times.back().compute_end = stamped(computed);
      run.times.back().turn = reduces_ ? stamped(task.turn) : -1;
      run.times.back().reduce_end = reduces_ ? stamped(reduced(task)) : -1;
      run.elapsed_ns = std::max(run.elapsed_ns, ended(task));
    }
    if (device_.passes > 0) run.passes_ns = passes();
    run.elapsed_ns += device_.start + run.passes_ns;
    run.lane_sms = lane_sms_;
    begin_at_zero(run);
    return run;
  }

 private:
  Ticks varied(Ticks ticks) {
    const double part = static_cast<double>(random_.between(-1000, 1000)) / 1000;
    return ticks + static_cast<Ticks>(static_cast<double>(ticks) * device_.noise * part);
  }

  Ticks passes() {
    const std::int64_t rows = table_.problem.heads * table_.problem.lengths.q;
    return varied(device_.passes + rows * device_.head_dim * device_.passes_per_mi / (1 << 20));
  }

  void add_lane(Lane lane) {
    const Timing& timing = device_.timing;
    for (std::int64_t index = table_.begin_of(lane); index < table_.end_of(lane); ++index) {
      const Slot& slot = table_.slots[index];
      for (std::int32_t step = 0; step < timing.steps; ++step) {
        ToyTask task{.slot = slot, .lane = at(lane), .step = step};
        task.first = step == 0 && table_.begins_chain(lane, index);
        task.last = step + 1 == timing.steps && table_.ends_chain(lane, index);
        add(task);
      }
    }
  }

  void add(ToyTask task) {
    const Timing& timing = device_.timing;
    const Slot& slot = task.slot;
    const bool partial = table_.problem.kind(slot.task) == TileKind::partial;
    task.launch = task.first ? varied(timing.launch) : 0;
    task.compute =
        varied((partial && timing.compute_partial ? *timing.compute_partial : timing.compute) /
               timing.steps);
    if (device_.slow_one_in > 0 && random_.chance(device_.slow_one_in)) task.compute *= 2;
    task.reduce = reduces_ ? varied(timing.reduce / timing.steps) : 0;
    task.latency = varied(timing.latency);
    task.epilogue = task.last ? varied(timing.epilogue) : 0;
    place_of_[{slot.task.head.value, slot.task.q.value, task.step, slot.rank}] = tasks_.size();
    tasks_.push_back(task);
  }

  [[nodiscard]] Ticks reduced(const ToyTask& task) const {
    return reduces_ ? task.turn + task.reduce : task.computes + task.compute;
  }
  [[nodiscard]] Ticks handed(std::size_t index) const {
    const ToyTask& task = tasks_[index];
    const bool alone = index == 0 || tasks_[index - 1].lane != task.lane || !overlap_;
    const Ticks computed = task.computes + task.compute;
    return alone ? computed : std::max(computed, reduced(tasks_[index - 1]));
  }
  [[nodiscard]] bool drains() const {
    return overlap_ && (table_.dispatch == Dispatch::static_ || device_.timing.next_lane);
  }

  /// When the SM goes on after a task.
  [[nodiscard]] Ticks frees(std::size_t index) const {
    const ToyTask& task = tasks_[index];
    const bool at_hand_over = overlap_ && (!task.last || drains());
    return (at_hand_over ? handed(index) : reduced(task)) + task.epilogue;
  }
  [[nodiscard]] Ticks ended(const ToyTask& task) const {
    const auto index = static_cast<std::size_t>(&task - tasks_.data());
    return std::max(reduced(task), frees(index));
  }

  bool sweep() {
    bool moved = false;
    std::vector<Ticks> free(static_cast<std::size_t>(table_.problem.sms), 0);
    std::size_t sm = 0;
    for (std::size_t index = 0; index < tasks_.size(); ++index) {
      ToyTask& task = tasks_[index];
      const bool opens = index == 0 || tasks_[index - 1].lane != task.lane;
      if (opens) {
        sm = table_.dispatch == Dispatch::static_
                 ? task.lane
                 : static_cast<std::size_t>(std::min_element(free.begin(), free.end()) -
                                            free.begin());
        lane_sms_[task.lane] = Sm{static_cast<std::int32_t>(sm)};
      }
      const ToyTask before = task;
      task.begins = opens ? free[sm] : frees(index - 1);
      task.computes = task.begins + task.launch;
      task.turn = handed(index) + device_.taking;
      if (task.slot.rank > 0) {
        const ToyTask& rank_before = tasks_[place_of_.at(
            {task.slot.task.head.value, task.slot.task.q.value, task.step, task.slot.rank - 1})];
        task.turn = std::max(task.turn, reduced(rank_before) + task.latency);
      }
      free[sm] = std::max(free[sm], ended(task));
      const bool closes = index + 1 == tasks_.size() || tasks_[index + 1].lane != task.lane;
      if (closes && drains() && table_.dispatch == Dispatch::in_order) {
        free[sm] = std::max(free[sm], reduced(task) + device_.timing.next_lane.value_or(0));
      }
      moved = moved || before.begins != task.begins || before.turn != task.turn;
    }
    return moved;
  }

  [[nodiscard]] std::int64_t stamped(Ticks time) const {
    return time / device_.timer * device_.timer;
  }

  static void begin_at_zero(gpu::Backward& run) {
    std::int64_t start = INT64_MAX;
    for (const gpu::TaskTimes& times : run.times)
      start = std::min(start, times.compute_start);
    for (gpu::TaskTimes& times : run.times) {
      for (std::int64_t* time :
           {&times.compute_start, &times.compute_end, &times.turn, &times.reduce_end}) {
        if (*time >= 0) *time -= start;
      }
    }
  }

  const ToyDevice& device_;
  const Table& table_;
  bool reduces_;
  bool overlap_;
  Random& random_;
  std::vector<ToyTask> tasks_;
  /// By head, Q tile, step and rank.
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>, std::size_t>
      place_of_;
  std::vector<Sm> lane_sms_;
};

}  // namespace

gpu::Backward run_on_toy(const ToyDevice& device, const Table& table, gpu::Mode mode,
                         Random& random) {
  return Toy(device, table, mode, random).run();
}

}  // namespace stagger::test
