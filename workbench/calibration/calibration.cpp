// The times of single tasks (workbench/calibration/evidence.hpp) miss what no single task shows:
// times are stamped a little late, which costs time itself. So the values are moved, one at a time
// and in ever smaller steps, as long as that lowers
//
//   mean over the runs of (predicted / measured - 1)^2  +  kPull * sum of (moved / width)^2
//
// where the runs are those that tell: large ones, and small ones in which chance orders everything.
// What is measured is without what the stamps cost, if that is known, and a value's width is its
// interquartile range, but at least a twentieth of it and 32 ns: to move a value by its width must
// lower the error of every run, which is 1 % say, to nothing. A value of which there are no samples
// is as wide as a compute phase: runs alone say what it is. So they do of next_lane, which begins
// as a launch and is not in the sum.
//
// What is rare no quartile of hand-overs shows, but a table in step does: so spread is tried as
// they show it, and in halves of that more, as long as makespans are predicted the better for it.

#include "workbench/calibration/calibration.hpp"

#include "core/beside.hpp"
#include "core/error.hpp"
#include "gpu/check/phase_samples.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "workbench/calibration/sample_value.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <numeric>
#include <thread>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr double kPull = 1e-4;
constexpr Ticks kTimerNs = 32;  ///< a step of the global timer

/// Those whose makespans tell the phases.
std::vector<const TimedTable*> telling(const std::vector<TimedTable>& tables) {
  const bool all_tell = std::ranges::none_of(tables, &TimedTable::tells);
  std::vector<const TimedTable*> those;
  for (const TimedTable& timed : tables) {
    if (all_tell || timed.tells) those.push_back(&timed);
  }
  return those;
}

/// Whether an SM takes another lane in some table whose makespan tells.
bool takes_lanes(const std::vector<TimedTable>& tables) {
  return std::ranges::any_of(telling(tables), [](const TimedTable* timed) {
    const Table& table = timed->table;
    return table.dispatch == Dispatch::in_order && table.lanes() > table.problem.sms;
  });
}

/// What the times of single tasks say, with so many halves of the spread that quartiles show. Of
/// what chance adds the interquartile mean is 3/4 of the mean.
KernelTimes with_halves(const Evidence& evidence, Ticks halves) {
  KernelTimes times = evidence.shown;
  if (times.spread) {
    times.spread->value = times.spread->value * halves / 2;
    times.latency = shifted(times.latency, -(3 * times.spread->value / 4));
  }
  if (times.model == Model::overlap && takes_lanes(evidence.tables)) {
    times.next_lane = MeasuredNs{.value = times.launch.value};
  }
  return times;
}

/// The kernel's timing model, with nothing of a memory but what it does to hand-overs and the
/// clock.
Timing timing_of(const KernelTimes& times) {
  const Timing timing = times.timing({.l2 = 1, .rate = 1});
  const Memory& memory = *timing.memory;
  const bool varies = memory.congestion > 0 || memory.spread > 0 || memory.dip_loss > 0;
  return varies ? timing : times.timing();
}

/// A table in model time: what measured times show of it, and what comes after.
struct Simulated {
  Ticks span = {};  ///< to the last reduction's end
  Ticks tail = {};  ///< from there to the end of the last epilogue
};

/// A table on so many of a device's SMs as it has.
Simulated simulated(const Table& table, Timing timing, std::int32_t all_sms) {
  if (timing.memory) {
    timing.memory->dip_loss = lost_on(timing.memory->dip_loss, table.problem.sms, all_sms);
    const sim::MemoryPlay play = sim::play_memory(table, timing);
    return {.span = play.last_reduction, .tail = play.makespan - play.last_reduction};
  }
  const sim::Simulation simulation = sim::simulate(table, timing);
  STAGGER_EXPECTS(simulation.complete);
  return {.span = simulation.last_reduction,
          .tail = simulation.makespan - simulation.last_reduction};
}

/// The SMs of the device, all of which calibration's largest tables have.
std::int32_t all_sms_of(const std::vector<TimedTable>& tables) {
  std::int32_t most = 1;
  for (const TimedTable& timed : tables)
    most = std::max(most, timed.table.problem.sms);
  return most;
}

/// What a chain's reduction into dK and dV takes, behind hand-overs as the other phases have them:
/// what those are, chance's mean among it, together with this is as long as was measured.
std::optional<MeasuredNs> reduce_kv_of(const Evidence& evidence, const KernelTimes& times) {
  if (evidence.parts.samples == 0) return std::nullopt;
  const Ticks held_up =
      times.congestion.value_or(MeasuredNs{}).value * evidence.parts_load / gpu::kFullLoad;
  return shifted(evidence.parts,
                 -(times.latency.value + times.spread.value_or(MeasuredNs{}).value + held_up));
}

/// What whole runs take beyond what is simulated and the passes.
MeasuredNs start_of(const std::vector<TimedTable>& tables, const KernelTimes& times) {
  const Timing timing = timing_of(times);
  Samples starts;
  for (const TimedTable& timed : tables) {
    starts.push_back(timed.whole - timed.span -
                     simulated(timed.table, timing, all_sms_of(tables)).tail -
                     times.passes_ns(timed.q_elements));
  }
  return value_of(std::move(starts));
}

class Refinement {
 public:
  Refinement(const std::vector<TimedTable>& tables, KernelTimes& times)
      : times_(times),
        tables_(telling(tables)),
        all_sms_(all_sms_of(tables)),
        predicted_(tables_.size()) {
    // In the overlap model a reduction ends when its slot is free, in a kernel when its additions
    // are performed, which may be later: how the two divide a hand-over no sample shows.
    trades_ = times.model == Model::overlap && std::ranges::any_of(tables, &TimedTable::tells);
    for (MeasuredNs* value :
         {&times.compute, &times.reduce, &times.latency, &times.launch, &times.epilogue})
      add(*value, trades_ && (value == &times.reduce || value == &times.latency));
    if (times.compute_partial) add(*times.compute_partial);
    if (times.next_lane) {
      add(*times.next_lane);
      values_.back().is_pulled = false;
    }
    if (times.congestion) add(*times.congestion);
  }

  /// Moves the values. Returns what is left of errors, and of the pull towards what samples say.
  double run() {
    Ticks step = 1;
    for (const Value& value : values_)
      step = std::max(step, value.phase->value / 8);
    double best = objective();
    for (; step > 0; step /= 2) {
      while (improve(step, best)) {
      }
    }
    return best;
  }

 private:
  struct Value {
    MeasuredNs* phase;
    Ticks from = {};
    double width = {};
    bool is_pulled = true;  ///< towards `from`
  };

  void add(MeasuredNs& phase, bool unseen = false) {
    const Ticks width = phase.samples == 0 || unseen
                            ? std::max(times_.compute.value, kTimerNs)
                            : std::max({phase.high - phase.low, phase.value / 20, kTimerNs});
    values_.push_back({&phase, phase.value, static_cast<double>(width)});
  }

  /// Moves each value by a step if that is better; whether any was.
  bool improve(Ticks step, double& best) {
    bool any = false;
    for (const Value& value : values_) {
      const Ticks before = value.phase->value;
      for (const Ticks moved : {before + step, before - step}) {
        const Ticks room = std::max<Ticks>(200 * kTimerNs, std::llround(value.width));
        if (moved < 0 || moved > 2 * value.from + room) continue;
        value.phase->value = moved;
        const double found = objective();
        if (found < best) {
          best = found;
          any = true;
          break;
        }
        value.phase->value = before;
      }
    }
    return (trades_ && trade(step, best)) || any;
  }

  /// Moves a step from the reduction to the hand-over after it or back, if that is better.
  bool trade(Ticks step, double& best) {
    for (const Ticks moved : {step, -step}) {
      const Ticks of_all_steps = moved * times_.steps;
      if (times_.reduce.value < of_all_steps || times_.latency.value < -moved) continue;
      times_.reduce.value -= of_all_steps;
      times_.latency.value += moved;
      const double found = objective();
      if (found < best) {
        best = found;
        return true;
      }
      times_.reduce.value += of_all_steps;
      times_.latency.value -= moved;
    }
    return false;
  }

  double objective() {
    const Timing timing = timing_of(times_);
    if (timing.shortest_compute() + timing.reduce == 0) return HUGE_VAL;
    simulate(timing);
    double errors = 0;
    for (std::size_t run = 0; run < tables_.size(); ++run) {
      const auto measured = static_cast<double>(std::max<Ticks>(tables_[run]->span, 1));
      const double error = static_cast<double>(predicted_[run]) / measured - 1;
      errors += error * error;
    }
    double pull = 0;
    for (const Value& value : values_) {
      if (!value.is_pulled) continue;
      const double moved = static_cast<double>(value.phase->value - value.from) / value.width;
      pull += moved * moved;
    }
    return errors / static_cast<double>(tables_.size()) + kPull * pull;
  }

  /// Predicts the tables, on as many threads as there are if they are worth it.
  void simulate(const Timing& timing) {
    std::atomic<std::size_t> next = 0;
    std::int64_t tasks = 0;
    for (const TimedTable* timed : tables_)
      tasks += std::ssize(timed->table.slots);
    const auto work = [&] {
      for (std::size_t run = next++; run < tables_.size(); run = next++)
        predicted_[run] = simulated(tables_[run]->table, timing, all_sms_).span;
    };
    std::vector<std::future<void>> threads;
    for (unsigned thread = 1; thread < std::thread::hardware_concurrency(); ++thread)
      threads.push_back(std::async(beside(tasks), work));
    work();
    for (std::future<void>& thread : threads)
      thread.get();
  }

  KernelTimes& times_;
  std::vector<const TimedTable*> tables_;  ///< those that tell
  std::int32_t all_sms_;                   ///< of the device
  std::vector<Ticks> predicted_;           ///< of each
  bool trades_ = false;  ///< whether reductions and hand-overs are told apart by runs
  std::vector<Value> values_;
};

/// The phases by which makespans are predicted best.
KernelTimes refined(const Evidence& evidence) {
  constexpr Ticks kHalves = 2;
  KernelTimes best;
  double least = HUGE_VAL;
  for (Ticks halves = kHalves;; ++halves) {
    KernelTimes times = with_halves(evidence, halves);
    const double found = Refinement(evidence.tables, times).run();
    if (halves > kHalves && !(found < least)) return best;
    least = found;
    best = times;
    if (times.spread.value_or(MeasuredNs{}).value == 0) return best;
  }
}

std::vector<Residual> residuals_of(const std::vector<TimedTable>& tables,
                                   const KernelTimes& times) {
  const Timing timing = timing_of(times);
  std::vector<Residual> residuals;
  residuals.reserve(tables.size());
  for (const TimedTable& timed : tables) {
    residuals.push_back({.measured = timed.span,
                         .predicted = simulated(timed.table, timing, all_sms_of(tables)).span});
  }
  return residuals;
}

FitErrors errors_of(const std::vector<Residual>& residuals) {
  Samples ppm;
  for (const auto& [measured, predicted] : residuals) {
    ppm.push_back(
        std::llround(1e6 * std::abs(static_cast<double>(predicted) /
                                        static_cast<double>(std::max<Ticks>(measured, 1)) -
                                    1)));
  }
  std::sort(ppm.begin(), ppm.end());
  return {.median_ppm = ppm[ppm.size() / 2], .worst_ppm = ppm.back(), .runs = std::ssize(ppm)};
}

}  // namespace

Calibration calibrate(const Evidence& evidence) {
  STAGGER_EXPECTS(!evidence.tables.empty());
  Calibration calibration;
  calibration.times = refined(evidence);
  KernelTimes& times = calibration.times;
  times.reduce_kv = reduce_kv_of(evidence, times);
  times.start = start_of(evidence.tables, times);
  calibration.residuals = residuals_of(evidence.tables, times);
  times.fit = errors_of(calibration.residuals);
  return calibration;
}

}  // namespace stagger::workbench
