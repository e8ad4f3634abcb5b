// The L2 cache's size decides which bytes move, and takes a play of every run to try; the rate
// decides how long they take, which the windows of a play tell by themselves. So sizes are tried
// one by one, each with its best rate: in steps of a quarter first, then of a 16th and a 64th
// around the best.

#include "workbench/memory_fit.hpp"

#include "core/error.hpp"
#include "core/median.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::int64_t kLeastL2 = std::int64_t{4} << 20;
constexpr std::int64_t kMostL2 = std::int64_t{256} << 20;
constexpr std::int64_t kLittle = 2;         ///< times the least traffic of a group
constexpr std::int64_t kMostRate = 20'000;  ///< bytes a ns, beyond any device of today

struct Fit {
  double error = std::numeric_limits<double>::max();  ///< mean square
  std::int64_t l2 = 0;
  std::int64_t rate = 0;
  std::vector<double> errors;     ///< by run
  std::vector<double> predicted;  ///< by run, ns, before they are scaled
};

class MemoryFit {
 public:
  explicit MemoryFit(const std::vector<MemoryRun>& runs) : runs_(runs) {
    for (const MemoryRun& run : runs) {
      simulations_.push_back(sim::simulate(run.table, run.timing));
      STAGGER_EXPECTS(simulations_.back().complete && run.measured > 0);
    }
  }

  Fit run() {
    for (std::int64_t l2 = kLeastL2; l2 <= kMostL2; l2 += l2 / 4)
      attempt(l2);
    for (const std::int64_t parts : {16, 64}) {
      const std::int64_t around = best_.l2;
      for (std::int64_t part = -3; part <= 3; ++part)
        attempt(around + part * (around / parts));
    }
    return best_;
  }

 private:
  void attempt(std::int64_t l2) {
    std::vector<sim::MemoryPlay> plays;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      Timing timing = runs_[run].timing;
      timing.memory = Memory{.l2 = l2, .rate = kMostRate, .tile = runs_[run].tile};
      plays.push_back(sim::play_memory(runs_[run].table, timing, simulations_[run]));
    }
    // The error has one valley in the rate, or is flat where nothing is bound by it.
    for (std::int64_t rate = kMostRate; rate > 50; rate -= std::max<std::int64_t>(rate / 50, 1)) {
      Fit fit = judged(plays, rate);
      if (fit.error >= best_.error) continue;
      best_ = std::move(fit);
      best_.l2 = l2;
    }
  }

  [[nodiscard]] Fit judged(const std::vector<sim::MemoryPlay>& plays, std::int64_t rate) const {
    std::vector<double> predicted;
    for (std::size_t run = 0; run < runs_.size(); ++run)
      predicted.push_back(makespan(plays[run], simulations_[run].last_reduction, rate));
    const std::map<int, double> scales = scales_of(plays, predicted);
    Fit fit;
    fit.error = 0;
    fit.rate = rate;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const double scale = scales.at(runs_[run].group);
      fit.errors.push_back(scale * predicted[run] / static_cast<double>(runs_[run].measured) - 1);
      fit.error += fit.errors.back() * fit.errors.back();
    }
    fit.predicted = std::move(predicted);
    return fit;
  }

  /// What makes the predictions of a group right, by group: the median over its runs with little
  /// traffic.
  [[nodiscard]] std::map<int, double> scales_of(const std::vector<sim::MemoryPlay>& plays,
                                                const std::vector<double>& predicted) const {
    std::map<int, std::int64_t> least;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      std::int64_t& bytes = least.emplace(runs_[run].group, traffic(plays[run])).first->second;
      bytes = std::min(bytes, traffic(plays[run]));
    }
    std::map<int, std::vector<std::int64_t>> ratios;  // 10^-9
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const int group = runs_[run].group;
      if (traffic(plays[run]) > kLittle * least.at(group)) continue;
      ratios[group].push_back(
          std::llround(1e9 * static_cast<double>(runs_[run].measured) / predicted[run]));
    }
    std::map<int, double> scales;
    for (auto& [group, all] : ratios)
      scales[group] = 1e-9 * static_cast<double>(median(std::move(all)));
    return scales;
  }

  static std::int64_t traffic(const sim::MemoryPlay& play) { return play.read + play.written; }

  /// With another rate than it was played with.
  static double makespan(const sim::MemoryPlay& play, Ticks phases, std::int64_t rate) {
    Ticks makespan = phases;
    for (const sim::MemoryWindow& window : play.windows) {
      makespan +=
          sim::with_traffic(window.length, (window.bytes + rate - 1) / rate) - window.length;
    }
    return static_cast<double>(makespan);
  }

  const std::vector<MemoryRun>& runs_;
  std::vector<sim::Simulation> simulations_;
  Fit best_;
};

}  // namespace

MemoryCalibration fit_memory(const std::vector<MemoryRun>& runs) {
  STAGGER_EXPECTS(runs.size() >= 2);
  const Fit fit = MemoryFit(runs).run();
  std::vector<std::int64_t> ppm;
  for (const double error : fit.errors)
    ppm.push_back(std::llround(1e6 * std::abs(error)));
  const std::int64_t worst = *std::ranges::max_element(ppm);
  MemoryCalibration calibration;
  calibration.memory = {
      .l2_bytes = fit.l2,
      .bytes_per_ns = fit.rate,
      .fit = {.median_ppm = median(std::move(ppm)), .worst_ppm = worst, .runs = std::ssize(runs)}};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    calibration.residuals.push_back(
        {.measured = runs[run].measured, .predicted = std::llround(fit.predicted[run])});
  }
  return calibration;
}

std::vector<Table> memory_calibration_set(const TileShape& tile, std::int32_t sms,
                                          std::int64_t head_dim, const Timing& timing) {
  constexpr std::int64_t kDqBytes = std::int64_t{160} << 20;
  std::vector<Table> tables;
  for (const std::int64_t kv_tiles : {24, 72}) {
    const std::int64_t tokens = kv_tiles * tile.kv;
    const std::int64_t heads = std::max<std::int64_t>(kDqBytes / (tokens * head_dim * 4), 8);
    const Problem problem = make_problem(make_mask("causal"), {tokens, tokens}, tile, heads, sms);
    for (std::int64_t window = 2; window < 2 * heads; window *= 2) {
      const std::string name = "windowed:heads=" + std::to_string(std::min(window, heads));
      tables.push_back(schedules::build(schedules::select(name), problem, timing));
    }
  }
  return tables;
}

}  // namespace stagger::workbench
