// What the times of single tasks say of each phase:
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
//                    one. Not of a kernel that spins
//   dip, dip_loss    how long the clock dips, and what that costs SMs that all reduce as often as
//                    they can: of runs in which three quarters of that and more do, by how much
//                    more than half. Not of a kernel that spins
//   launch           what the first compute phase of a chain takes longer than others
//   epilogue         the gap between two chains of an SM beyond the gap between two tasks
//   passes_per_mi    what the passes before and after the kernel take longer in one run than in
//                    another of at most a quarter of the elements, per 2^20 elements
//   parts            from the end of a part of dK and dV to that of the next, if it was waited for
//
// The value of a sample is its interquartile mean: as robust as the median, and finer than the
// device's clocks.

#include "workbench/calibration/evidence.hpp"

#include "core/error.hpp"
#include "gpu/check/phase_samples.hpp"
#include "workbench/calibration/sample_value.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace stagger::workbench {
namespace {

/// When the last phase ends, by the times.
Ticks end_of(const gpu::Backward& run) {
  Ticks end = 0;
  for (const gpu::TaskTimes& times : run.times)
    end = std::max({end, times.compute_end, times.reduce_end});
  return end;
}

/// Whether a run is there for its parts of dK and dV alone, which it adds in order.
bool tells_parts(const CalibrationRun& run) {
  return run.table.problem.combine == Combine::ordered;
}

/// Whether a run's makespan is predicted: it is by the ranks, and not one of those.
bool counts(const CalibrationRun& run) {
  return run.mode == gpu::Mode::deterministic && !run.table.slots.empty() && !tells_parts(run);
}

template <class Wanted>
gpu::PhaseSamples samples_of(const std::vector<CalibrationRun>& runs, Model model, Wanted wanted) {
  std::vector<gpu::TimedRun> timed;
  for (const CalibrationRun& run : runs) {
    if (wanted(run)) timed.push_back({&run.table, &run.run});
  }
  return gpu::phase_samples(timed, model);
}

gpu::PhaseSamples samples_of(const std::vector<CalibrationRun>& runs, Model model, gpu::Mode mode) {
  return samples_of(runs, model, [mode](const CalibrationRun& run) {
    return run.mode == mode && !tells_parts(run);
  });
}

/// Whether a kernel moves anything through L2, so that its hand-overs are held up by the others.
bool moves(const std::vector<CalibrationRun>& runs) {
  return std::ranges::any_of(runs, [](const CalibrationRun& run) { return run.q_elements > 0; });
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
      longer.push_back(gpu::kFullLoad * (ns - idle.ns) / (load - idle.load));
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

  /// The hand-overs once the load's part is taken off, with what chance adds.
  [[nodiscard]] MeasuredNs latency(Ticks congestion) const {
    return value_of(alone(congestion, 0, all_.size()));
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
      samples.push_back(all_[index].second - congestion * all_[index].first / gpu::kFullLoad);
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
      : ordered_(samples_of(runs, model, gpu::Mode::deterministic)),
        alone_(samples_of(runs, model, gpu::Mode::no_reduce)) {
    times_.model = model;
    times_.steps = steps;
    for (std::int64_t& last_step : ordered_.reduce)
      last_step *= steps;
  }

  /// `moves`: hand-overs are held up by others, and by chance.
  KernelTimes run(bool moves) {
    const Ticks between = value_of(ordered_.between).value;
    const Ticks taking = times_.model == Model::chain ? value_of(ordered_.taking).value : 0;
    times_.compute =
        compute(&gpu::PhaseSamples::compute, &gpu::PhaseSamples::first, between + taking);
    const MeasuredNs partial = compute(&gpu::PhaseSamples::compute_partial,
                                       &gpu::PhaseSamples::first_partial, between + taking);
    if (partial.samples > 0) times_.compute_partial = partial;
    times_.reduce = value_of(ordered_.reduce);
    add_hand_overs(moves);
    add_launch(between + taking);
    times_.epilogue = shifted(value_of(ordered_.chain_gap), -between);
    return times_;
  }

 private:
  /// From the runs by the ranks or, if there none was seen alone, from those without reductions; of
  /// tasks that begin a chain only if all do.
  [[nodiscard]] MeasuredNs compute(Samples gpu::PhaseSamples::*behind,
                                   Samples gpu::PhaseSamples::*first, Ticks offset) const {
    for (const Samples* samples :
         {&(ordered_.*behind), &(alone_.*behind), &(ordered_.*first), &(alone_.*first)}) {
      if (!samples->empty()) return shifted(value_of(*samples), offset);
    }
    return {};
  }

  void add_hand_overs(bool moves) {
    const HandOvers hand_overs(ordered_);
    if (moves) {
      times_.congestion = hand_overs.congestion();
      times_.spread = hand_overs.spread(times_.congestion->value);
    }
    times_.latency = hand_overs.latency(times_.congestion.value_or(MeasuredNs{}).value);
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

/// How many thousandths of the most that its SMs can a run reduces at first, while a clock dips, in
/// cycles of the kernel's.
std::int64_t load_at_first(const CalibrationRun& run, Ticks cycle) {
  constexpr Ticks kUsualDip = 150'000;  ///< ns
  const Ticks at_first = run.run.dip.ns > 0 ? run.run.dip.ns : kUsualDip;
  const auto reduced = std::ranges::count_if(run.run.times, [&](const gpu::TaskTimes& times) {
    return times.reduce_end >= 0 && times.turn < at_first;
  });
  const double most = static_cast<double>(at_first) * run.table.problem.sms;
  return std::llround(std::min(1.0, static_cast<double>(reduced * cycle) / most) * gpu::kFullLoad);
}

/// How the clock dips under a kernel, if its runs tell. One that did not dip has no length.
void add_dip(const std::vector<CalibrationRun>& runs, KernelTimes& times) {
  constexpr std::int64_t kLeastLoad = 3 * gpu::kFullLoad / 4;
  const Ticks cycle = times.timing().cycle();
  std::int32_t all_sms = 0;
  for (const CalibrationRun& run : runs)
    all_sms = std::max(all_sms, run.table.problem.sms);
  Samples lengths;
  Samples losses;
  for (const CalibrationRun& run : runs) {
    if (!run.run.dip.known || run.mode != gpu::Mode::deterministic) continue;
    if (run.table.problem.sms < all_sms) continue;
    const std::int64_t load = load_at_first(run, cycle);
    if (load < kLeastLoad) continue;
    if (run.run.dip.ns > 0) lengths.push_back(run.run.dip.ns);
    losses.push_back(run.run.dip.lost_ns * gpu::kFullLoad / (2 * load - gpu::kFullLoad));
  }
  if (lengths.empty()) return;
  times.dip = value_of(std::move(lengths));
  times.dip_loss = value_of(std::move(losses));
  times.dip_loss->value = std::min(times.dip_loss->value, times.dip->value / 2);
}

/// What passes take that grows with the elements. What they take of any problem, such as their
/// launches, is in every run and so in no difference; it goes to `start`.
std::optional<MeasuredNs> passes_of(const std::vector<TimedTable>& tables) {
  constexpr std::int64_t kTimesLarger = 4;
  Samples rates;
  for (const TimedTable& small : tables) {
    if (small.passes == 0 || small.q_elements == 0) continue;
    for (const TimedTable& large : tables) {
      if (large.q_elements / kTimesLarger < small.q_elements) continue;
      const auto longer = static_cast<double>(large.passes - small.passes);
      const auto more = static_cast<double>(large.q_elements - small.q_elements);
      rates.push_back(std::llround(0x1p20 * longer / more));
    }
  }
  if (rates.empty()) return std::nullopt;
  return value_of(std::move(rates));
}

std::vector<TimedTable> timed_tables(const std::vector<CalibrationRun>& runs) {
  std::vector<TimedTable> tables;
  for (const CalibrationRun& run : runs) {
    if (!counts(run)) continue;
    tables.push_back({.table = run.table,
                      .span = span_of(run.run),
                      .whole = run.run.untimed_ns > 0 ? run.run.untimed_ns : run.run.elapsed_ns,
                      .passes = run.run.passes_ns,
                      .q_elements = run.q_elements,
                      .tells = run.tells});
  }
  return tables;
}

}  // namespace

Ticks span_of(const gpu::Backward& run) {
  const Ticks cost = run.untimed_ns > 0 ? run.elapsed_ns - run.untimed_ns : 0;
  return std::max<Ticks>(end_of(run) - cost, 0);
}

Evidence evidence_of(const std::vector<CalibrationRun>& runs, Model model, std::int32_t steps) {
  STAGGER_EXPECTS(std::ranges::any_of(runs, counts));
  Evidence evidence;
  evidence.shown = DirectFit(runs, model, steps).run(moves(runs));
  if (moves(runs)) add_dip(runs, evidence.shown);
  evidence.tables = timed_tables(runs);
  evidence.shown.passes_per_mi = passes_of(evidence.tables);
  const gpu::PhaseSamples parts = samples_of(runs, model, tells_parts);
  evidence.parts = value_of(parts.parts);
  evidence.parts_load = value_of(parts.parts_load).value;
  return evidence;
}

}  // namespace stagger::workbench
