// The fit. First what the times of single tasks say:
//
//   compute          of a full tile that follows another of its chain, plus the gap before it
//   (chain
//                    model: and what taking a turn takes that nobody has to wait for)
//   compute_partial  the same of a partial tile
//   reduce, latency  turn to end; end of the rank before to the turn, if it was waited for, less
//                    what the load adds to it
//   congestion       what that takes longer by the load: the line from the hand-overs of the least
//                    loaded third to those of the most loaded one. Not of a kernel that spins
//   spread           how far apart the quartiles of hand-overs are at one load, as they are by the
//                    mean of what chance adds (sim/spread.hpp): of thirds by the load the middle
//                    one. latency is without it. Not of a kernel that spins. What is rare no
//                    quartile shows, but a table in step does: so this, and in halves of it more,
//                    as long as makespans are predicted the better for it
//   launch           what the first compute phase of a chain takes longer than others
//   epilogue         the gap between two chains of an SM beyond the gap between two tasks
//   passes_per_mi    what the passes before and after the kernel take longer in one run than in
//                    another of at most a quarter of the elements, per 2^20 elements
//   next_lane        runs alone say what it is; a launch to begin with (overlap model)
//   reduce_kv        from the end of a part of dK and dV to that of the next, if it was waited for,
//                    less the hand-over between
//   start            of the whole run beyond these, first task to last and the last epilogue
//
// The value of a sample is its interquartile mean: as robust as the median, and finer than the
// device's clocks.
//
// These miss what no single task shows: times are stamped a little late, which costs time itself.
// So the values are moved, one at a time and in ever smaller steps, as long as that lowers
//
//   mean over the runs of (predicted / measured - 1)^2  +  kPull * sum of (moved / width)^2
//
// where the runs are those that tell: large ones, and small ones in which chance orders everything.
// where what is measured is without what the stamps cost, if that is known, and a value's width is
// its interquartile range, but at least a twentieth of it and 32 ns: to move a value by its width
// must lower the error of every run, which is 1 % say, to nothing. A value of which there are no
// samples is as wide as a compute phase: runs alone say what it is. next_lane is not in the sum.

#include "workbench/calibration/calibration.hpp"

#include "core/beside.hpp"
#include "core/error.hpp"
#include "gpu/check/phase_samples.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr double kPull = 1e-4;
constexpr Ticks kTimerNs = 32;  ///< a step of the global timer
constexpr std::int64_t kFullLoad = 1'000;

using Samples = std::vector<std::int64_t>;

/// The interquartile mean and the quartiles, all plus an offset, at least 0.
MeasuredNs value_of(Samples samples, Ticks offset = 0) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::int64_t quarter = std::ssize(samples) / 4;
  const auto begin = samples.begin() + quarter;
  const auto end = samples.end() - quarter;
  const std::int64_t sum = std::accumulate(begin, end, std::int64_t{0});
  const std::int64_t count = end - begin;
  const auto shifted = [&](std::int64_t value) { return std::max<Ticks>(value + offset, 0); };
  return {.value = shifted(std::llround(static_cast<double>(sum) / static_cast<double>(count))),
          .low = shifted(*begin),
          .high = shifted(*(end - 1)),
          .samples = std::ssize(samples)};
}

/// When the last phase ends, by the times.
Ticks end_of(const gpu::Backward& run) {
  Ticks end = 0;
  for (const gpu::TaskTimes& times : run.times)
    end = std::max({end, times.compute_end, times.reduce_end});
  return end;
}

std::vector<gpu::TimedRun> timed_runs(const std::vector<CalibrationRun>& runs, gpu::Mode mode) {
  std::vector<gpu::TimedRun> timed;
  for (const CalibrationRun& run : runs) {
    if (run.mode == mode && !tells_parts(run)) timed.push_back({&run.table, &run.run});
  }
  return timed;
}

/// Whether a kernel moves anything through L2, so that its hand-overs are held up by the others.
bool moves(const std::vector<CalibrationRun>& runs) {
  return std::ranges::any_of(runs, [](const CalibrationRun& run) { return run.q_elements > 0; });
}

/// Whether an SM takes another lane in some run whose makespan tells.
bool takes_lanes(const std::vector<CalibrationRun>& runs) {
  const bool all_tell = std::ranges::none_of(runs, &CalibrationRun::tells);
  return std::ranges::any_of(runs, [&](const CalibrationRun& run) {
    return counts(run) && (all_tell || run.tells) && run.table.dispatch == Dispatch::in_order &&
           run.table.lanes() > run.table.problem.sms;
  });
}

/// Hand-overs, and what is a device's own of them and what the load's.
class HandOvers {
 public:
  explicit HandOvers(const gpu::PhaseSamples& samples) {
    for (std::size_t index = 0; index < samples.latency.size(); ++index)
      all_.emplace_back(samples.load[index], samples.latency[index]);
    std::ranges::sort(all_);
  }

  /// What a hand-over takes longer at a load of 1,000.
  [[nodiscard]] MeasuredNs congestion() const {
    const auto third = std::ssize(all_) / 3;
    const Mean idle = mean({all_.begin(), all_.begin() + third});
    const std::span<const HandOver> busy{all_.end() - third, all_.end()};
    constexpr std::int64_t kLeastApart = 100;
    if (third == 0 || mean(busy).load - idle.load < kLeastApart) return {};
    Samples longer;
    for (const auto& [load, ns] : busy) {
      if (load - idle.load < kLeastApart) continue;
      longer.push_back(kFullLoad * (ns - idle.ns) / (load - idle.load));
    }
    return value_of(std::move(longer));
  }

  /// What chance adds to a hand-over, once the load's part is taken off.
  [[nodiscard]] MeasuredNs spread(Ticks congestion) const {
    if (all_.size() < kThirds) return {};
    Samples apart;
    for (std::size_t third = 0; third < kThirds; ++third) {
      const MeasuredNs those = value_of(
          alone(congestion, all_.size() * third / kThirds, all_.size() * (third + 1) / kThirds));
      apart.push_back(those.high - those.low);
    }
    std::ranges::sort(apart);
    return {.value = apart[1], .low = apart[0], .high = apart[2], .samples = std::ssize(all_)};
  }

  /// The hand-overs without either. Of what chance adds the interquartile mean is 3/4 of the mean.
  [[nodiscard]] MeasuredNs latency(Ticks congestion, Ticks spread) const {
    return value_of(alone(congestion, 0, all_.size()), -(3 * spread / 4));
  }

 private:
  static constexpr std::size_t kThirds = 3;
  using HandOver = std::pair<std::int64_t, std::int64_t>;  ///< load, ns
  struct Mean {
    std::int64_t load = 0;
    std::int64_t ns = 0;
  };

  /// Hand-overs by the load, without what it adds.
  [[nodiscard]] Samples alone(Ticks congestion, std::size_t begin, std::size_t end) const {
    Samples samples;
    for (std::size_t index = begin; index < end; ++index)
      samples.push_back(all_[index].second - congestion * all_[index].first / kFullLoad);
    return samples;
  }

  static Mean mean(std::span<const HandOver> those) {
    Samples loads;
    Samples times;
    for (const auto& [load, ns] : those) {
      loads.push_back(load);
      times.push_back(ns);
    }
    return {.load = value_of(std::move(loads)).value, .ns = value_of(std::move(times)).value};
  }

  std::vector<HandOver> all_;
};

/// What the times of single tasks say.
class DirectFit {
 public:
  DirectFit(const std::vector<CalibrationRun>& runs, Model model, std::int32_t steps)
      : ordered_(gpu::phase_samples(timed_runs(runs, gpu::Mode::deterministic), model)),
        alone_(gpu::phase_samples(timed_runs(runs, gpu::Mode::no_reduce), model)),
        moves_(moves(runs)) {
    times_.model = model;
    times_.steps = steps;
    takes_lanes_ = model == Model::overlap && takes_lanes(runs);
    for (std::int64_t& last_step : ordered_.reduce)
      last_step *= steps;
  }

  /// With so many halves of the spread that the quartiles show.
  KernelTimes run(Ticks halves) {
    const Ticks between = value_of(ordered_.between).value;
    const Ticks taking = times_.model == Model::chain ? value_of(ordered_.taking).value : 0;
    times_.compute =
        compute(&gpu::PhaseSamples::compute, &gpu::PhaseSamples::first, between + taking);
    const MeasuredNs partial = compute(&gpu::PhaseSamples::compute_partial,
                                       &gpu::PhaseSamples::first_partial, between + taking);
    if (partial.samples > 0) times_.compute_partial = partial;
    times_.reduce = value_of(ordered_.reduce);
    add_hand_overs(halves);
    add_launch(between + taking);
    times_.epilogue = value_of(ordered_.chain_gap, -between);
    if (takes_lanes_) times_.next_lane = MeasuredNs{.value = times_.launch.value};
    return times_;
  }

 private:
  /// From the runs by the ranks or, if there none was seen alone, from those without reductions; of
  /// tasks that begin a chain only if all do.
  [[nodiscard]] MeasuredNs compute(Samples gpu::PhaseSamples::*behind,
                                   Samples gpu::PhaseSamples::*first, Ticks offset) const {
    for (const Samples* samples :
         {&(ordered_.*behind), &(alone_.*behind), &(ordered_.*first), &(alone_.*first)}) {
      if (!samples->empty()) return value_of(*samples, offset);
    }
    return {};
  }

  void add_hand_overs(Ticks halves) {
    const HandOvers hand_overs(ordered_);
    if (moves_) {
      times_.congestion = hand_overs.congestion();
      times_.spread = hand_overs.spread(times_.congestion->value);
      times_.spread->value = times_.spread->value * halves / 2;
    }
    times_.latency = hand_overs.latency(times_.congestion.value_or(MeasuredNs{}).value,
                                        times_.spread.value_or(MeasuredNs{}).value);
  }

  void add_launch(Ticks offset) {
    Samples longer;
    const auto add = [&](const Samples& firsts, Ticks usual) {
      for (const std::int64_t first : firsts)
        longer.push_back(first + offset - usual);
    };
    add(ordered_.first, times_.compute.value);
    add(ordered_.first_partial, times_.compute_partial.value_or(times_.compute).value);
    times_.launch = value_of(std::move(longer));
  }

  gpu::PhaseSamples ordered_;
  gpu::PhaseSamples alone_;
  bool moves_;
  bool takes_lanes_ = false;
  KernelTimes times_;
};

/// The kernel's timing model, with nothing of a memory but what it does to hand-overs.
Timing timing_of(const KernelTimes& times) {
  const Timing timing = times.timing({.l2 = 1, .rate = 1});
  const bool varies = timing.memory->congestion > 0 || timing.memory->spread > 0;
  return varies ? timing : times.timing();
}

/// A table in model time: what measured times show of it, and what comes after.
struct Simulated {
  Ticks span = {};  ///< to the last reduction's end
  Ticks tail = {};  ///< from there to the end of the last epilogue
};

Simulated simulated(const Table& table, const Timing& timing) {
  if (timing.memory) {
    const sim::MemoryPlay play = sim::play_memory(table, timing);
    return {.span = play.last_reduction, .tail = play.makespan - play.last_reduction};
  }
  const sim::Simulation simulation = sim::simulate(table, timing);
  STAGGER_EXPECTS(simulation.complete);
  return {.span = simulation.last_reduction,
          .tail = simulation.makespan - simulation.last_reduction};
}

/// What passes take that grows with the elements. What they take of any problem, such as their
/// launches, is in every run and so in no difference; it goes to `start`.
std::optional<MeasuredNs> passes_of(const std::vector<CalibrationRun>& runs) {
  constexpr std::int64_t kTimesLarger = 4;
  Samples rates;
  for (const CalibrationRun& small : runs) {
    if (!counts(small) || small.run.passes_ns == 0 || small.q_elements == 0) continue;
    for (const CalibrationRun& large : runs) {
      if (!counts(large) || large.q_elements / kTimesLarger < small.q_elements) continue;
      const auto longer = static_cast<double>(large.run.passes_ns - small.run.passes_ns);
      const auto more = static_cast<double>(large.q_elements - small.q_elements);
      rates.push_back(std::llround(0x1p20 * longer / more));
    }
  }
  if (rates.empty()) return std::nullopt;
  return value_of(std::move(rates));
}

/// What a chain's reduction into dK and dV takes, behind hand-overs as the other phases have them:
/// what those are, chance's mean among it, together with this is as long as was measured.
std::optional<MeasuredNs> reduce_kv_of(const std::vector<CalibrationRun>& runs,
                                       const KernelTimes& times) {
  std::vector<gpu::TimedRun> timed;
  for (const CalibrationRun& run : runs) {
    if (tells_parts(run)) timed.push_back({&run.table, &run.run});
  }
  const gpu::PhaseSamples samples = gpu::phase_samples(timed, times.model);
  if (samples.parts.empty()) return std::nullopt;
  const Ticks congestion = times.congestion.value_or(MeasuredNs{}).value;
  Samples behind;
  for (std::size_t part = 0; part < samples.parts.size(); ++part)
    behind.push_back(samples.parts[part] - congestion * samples.parts_load[part] / kFullLoad);
  return value_of(std::move(behind),
                  -(times.latency.value + times.spread.value_or(MeasuredNs{}).value));
}

/// What whole runs take beyond what is simulated and the passes.
MeasuredNs start_of(const std::vector<CalibrationRun>& runs, const KernelTimes& times) {
  const Timing timing = timing_of(times);
  Samples starts;
  for (const CalibrationRun& run : runs) {
    if (!counts(run)) continue;
    starts.push_back(run.run.elapsed_ns - end_of(run.run) - simulated(run.table, timing).tail -
                     times.passes_ns(run.q_elements));
  }
  return value_of(std::move(starts));
}

class Refinement {
 public:
  Refinement(const std::vector<CalibrationRun>& runs, KernelTimes& times) : times_(times) {
    for (const CalibrationRun& run : runs) {
      if (!counts(run)) continue;
      if (run.tells) telling_.push_back(tables_.size());
      tables_.push_back(&run.table);
      residuals_.push_back({.measured = span_of(run.run)});
    }
    // In the overlap model a reduction ends when its slot is free, in a kernel when its additions
    // are performed, which may be later: how the two divide a hand-over no sample shows.
    trades_ = times.model == Model::overlap && !telling_.empty();
    if (telling_.empty()) {
      telling_.resize(tables_.size());
      std::iota(telling_.begin(), telling_.end(), std::size_t{0});
    }
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

  /// Predicts every run.
  [[nodiscard]] std::vector<Residual> residuals() const {
    std::vector<Residual> residuals = residuals_;
    for (std::size_t run = 0; run < tables_.size(); ++run)
      residuals[run].predicted = simulated(*tables_[run], timing_of(times_)).span;
    return residuals;
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
    for (const std::size_t run : telling_) {
      const auto& [measured, predicted] = residuals_[run];
      const double error =
          static_cast<double>(predicted) / static_cast<double>(std::max<Ticks>(measured, 1)) - 1;
      errors += error * error;
    }
    double pull = 0;
    for (const Value& value : values_) {
      if (!value.is_pulled) continue;
      const double moved = static_cast<double>(value.phase->value - value.from) / value.width;
      pull += moved * moved;
    }
    return errors / static_cast<double>(telling_.size()) + kPull * pull;
  }

  /// Predicts the runs that count, on as many threads as there are if they are worth it.
  void simulate(const Timing& timing) {
    std::atomic<std::size_t> next = 0;
    std::int64_t tasks = 0;
    for (const std::size_t run : telling_)
      tasks += std::ssize(tables_[run]->slots);
    const auto work = [&] {
      for (std::size_t index = next++; index < telling_.size(); index = next++) {
        const std::size_t run = telling_[index];
        residuals_[run].predicted = simulated(*tables_[run], timing).span;
      }
    };
    std::vector<std::future<void>> threads;
    for (unsigned thread = 1; thread < std::thread::hardware_concurrency(); ++thread)
      threads.push_back(std::async(beside(tasks), work));
    work();
    for (std::future<void>& thread : threads)
      thread.get();
  }

  KernelTimes& times_;
  std::vector<const Table*> tables_;
  std::vector<Residual> residuals_;
  bool trades_ = false;               ///< whether reductions and hand-overs are told apart by runs
  std::vector<std::size_t> telling_;  ///< the runs that count, among the tables
  std::vector<Value> values_;
};

/// The phases by which makespans are predicted best, and these.
Calibration refined(const std::vector<CalibrationRun>& runs, Model model, std::int32_t steps) {
  constexpr Ticks kHalves = 2;
  DirectFit direct(runs, model, steps);
  Calibration best;
  double least = HUGE_VAL;
  for (Ticks halves = kHalves;; ++halves) {
    KernelTimes times = direct.run(halves);
    Refinement refinement(runs, times);
    const double found = refinement.run();
    if (halves > kHalves && !(found < least)) return best;
    least = found;
    best = {.times = times, .residuals = refinement.residuals()};
    if (times.spread.value_or(MeasuredNs{}).value == 0) return best;
  }
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

bool tells_parts(const CalibrationRun& run) {
  return run.table.problem.combine == Combine::ordered;
}

bool counts(const CalibrationRun& run) {
  return run.mode == gpu::Mode::deterministic && !run.table.slots.empty() && !tells_parts(run);
}

Ticks span_of(const gpu::Backward& run) {
  const Ticks cost = run.untimed_ns > 0 ? run.elapsed_ns - run.untimed_ns : 0;
  return std::max<Ticks>(end_of(run) - cost, 0);
}

Calibration calibrate(const std::vector<CalibrationRun>& runs, Model model, std::int32_t steps) {
  STAGGER_EXPECTS(std::ranges::any_of(runs, counts));
  Calibration calibration = refined(runs, model, steps);
  calibration.times.reduce_kv = reduce_kv_of(runs, calibration.times);
  calibration.times.passes_per_mi = passes_of(runs);
  calibration.times.start = start_of(runs, calibration.times);
  calibration.times.fit = errors_of(calibration.residuals);
  return calibration;
}

}  // namespace stagger::workbench
