// The fit. First what the times of single tasks say:
//
//   compute          of a full tile that follows another of its chain, plus the gap before it
//   (chain
//                    model: and what taking a turn takes that nobody has to wait for)
//   compute_partial  the same of a partial tile
//   reduce, latency  turn to end; end of the rank before to the turn, if it was waited for
//   launch           what the first compute phase of a chain takes longer than others
//   epilogue         the gap between two chains of an SM beyond the gap between two tasks
//   passes_per_mi    what the passes before and after the kernel take longer in one run than in
//                    another of at most a quarter of the elements, per 2^20 elements
//   start            of the whole run beyond these, first task to last and the last epilogue
//
// The value of a sample is its interquartile mean: as robust as the median, and finer than the
// device's clocks.
//
// These miss what no single task shows: phases slow each other down when many reduce at once, and
// times are stamped a little late, which costs time itself. So the values are moved, one at a time
// and in ever smaller steps, as long as that lowers
//
//   mean over the runs of (predicted / measured - 1)^2  +  kPull * sum of (moved / width)^2
//
// where what is measured is without what the stamps cost, if that is known, and a value's width is
// its interquartile range, but at least a twentieth of it and 32 ns: to move a value by its width
// must lower the error of every run, which is 1 % say, to nothing. A value of which there are no
// samples is as wide as a compute phase: runs alone say what it is.

#include "workbench/calibration/calibration.hpp"

#include "core/error.hpp"
#include "gpu/check/phase_samples.hpp"
#include "sim/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr double kPull = 1e-4;
constexpr Ticks kTimerNs = 32;  ///< a step of the global timer

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

/// Whether a run's makespan is predicted.
bool counts(const CalibrationRun& run) {
  return run.mode == gpu::Mode::deterministic && !run.table.slots.empty();
}

std::vector<gpu::TimedRun> timed_runs(const std::vector<CalibrationRun>& runs, gpu::Mode mode) {
  std::vector<gpu::TimedRun> timed;
  for (const CalibrationRun& run : runs) {
    if (run.mode == mode) timed.push_back({&run.table, &run.run});
  }
  return timed;
}

/// What the times of single tasks say.
class DirectFit {
 public:
  DirectFit(const std::vector<CalibrationRun>& runs, Model model)
      : ordered_(gpu::phase_samples(timed_runs(runs, gpu::Mode::deterministic), model)),
        alone_(gpu::phase_samples(timed_runs(runs, gpu::Mode::no_reduce), model)) {
    times_.model = model;
  }

  KernelTimes run() {
    const Ticks between = value_of(ordered_.between).value;
    const Ticks taking = times_.model == Model::chain ? value_of(ordered_.taking).value : 0;
    times_.compute =
        compute(&gpu::PhaseSamples::compute, &gpu::PhaseSamples::first, between + taking);
    const MeasuredNs partial = compute(&gpu::PhaseSamples::compute_partial,
                                       &gpu::PhaseSamples::first_partial, between + taking);
    if (partial.samples > 0) times_.compute_partial = partial;
    times_.reduce = value_of(ordered_.reduce);
    times_.latency = value_of(ordered_.latency);
    add_launch(between + taking);
    times_.epilogue = value_of(ordered_.chain_gap, -between);
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
  KernelTimes times_;
};

/// A table in model time: what measured times show of it, and what comes after.
struct Simulated {
  Ticks span = {};  ///< to the last reduction's end
  Ticks tail = {};  ///< from there to the end of the last epilogue
};

Simulated simulated(const Table& table, const Timing& timing) {
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

/// What whole runs take beyond what is simulated and the passes.
MeasuredNs start_of(const std::vector<CalibrationRun>& runs, const KernelTimes& times) {
  const Timing timing = times.timing();
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
      tables_.push_back(&run.table);
      residuals_.push_back({.measured = span_of(run.run)});
    }
    for (MeasuredNs* value :
         {&times.compute, &times.reduce, &times.latency, &times.launch, &times.epilogue})
      add(*value);
    if (times.compute_partial) add(*times.compute_partial);
  }

  std::vector<Residual> run() {
    Ticks step = 1;
    for (const Value& value : values_)
      step = std::max(step, value.phase->value / 8);
    double best = objective();
    for (; step > 0; step /= 2) {
      while (improve(step, best)) {
      }
    }
    static_cast<void>(objective());  // leaves the residuals of the best
    return residuals_;
  }

 private:
  struct Value {
    MeasuredNs* phase;
    Ticks from = {};
    double width = {};
  };

  void add(MeasuredNs& phase) {
    const Ticks width = phase.samples == 0
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
        const Ticks room = std::max<Ticks>(100 * kTimerNs, std::llround(value.width));
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
    return any;
  }

  double objective() {
    Timing timing = times_.timing();
    if (timing.shortest_compute() + timing.reduce == 0) return HUGE_VAL;
    double errors = 0;
    for (std::size_t run = 0; run < tables_.size(); ++run) {
      Residual& residual = residuals_[run];
      residual.predicted = simulated(*tables_[run], timing).span;
      const double error = static_cast<double>(residual.predicted) /
                               static_cast<double>(std::max<Ticks>(residual.measured, 1)) -
                           1;
      errors += error * error;
    }
    double pull = 0;
    for (const Value& value : values_) {
      const double moved = static_cast<double>(value.phase->value - value.from) / value.width;
      pull += moved * moved;
    }
    return errors / static_cast<double>(tables_.size()) + kPull * pull;
  }

  KernelTimes& times_;
  std::vector<const Table*> tables_;
  std::vector<Residual> residuals_;
  std::vector<Value> values_;
};

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

Ticks span_of(const gpu::Backward& run) {
  const Ticks cost = run.untimed_ns > 0 ? run.elapsed_ns - run.untimed_ns : 0;
  return std::max<Ticks>(end_of(run) - cost, 0);
}

Calibration calibrate(const std::vector<CalibrationRun>& runs, Model model) {
  STAGGER_EXPECTS(std::ranges::any_of(runs, counts));
  Calibration calibration;
  calibration.times = DirectFit(runs, model).run();
  calibration.residuals = Refinement(runs, calibration.times).run();
  calibration.times.passes_per_mi = passes_of(runs);
  calibration.times.start = start_of(runs, calibration.times);
  calibration.times.fit = errors_of(calibration.residuals);
  return calibration;
}

}  // namespace stagger::workbench
