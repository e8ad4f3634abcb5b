// Every size of the L2 cache and every rate takes a play of all runs to try. A coarse grid of both
// comes first. The error is rough, by what chance throws out, and has a valley along which a
// smaller cache is made up for by a higher rate; so from the three best sizes on the best neighbour
// is gone to, by smaller and smaller steps.

#include "workbench/calibration/memory_fit.hpp"

#include "core/beside.hpp"
#include "core/error.hpp"
#include "core/median.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::int64_t kLeastL2 = std::int64_t{8} << 20;
constexpr std::int64_t kMostL2 = std::int64_t{256} << 20;
constexpr std::int64_t kLittle = 2;         ///< times the least traffic of a group
constexpr std::int64_t kLeastRate = 500;    ///< bytes a ns
constexpr std::int64_t kMostRate = 20'000;  ///< beyond any device of today

struct Fit {
  double error = std::numeric_limits<double>::max();  ///< mean square
  std::int64_t l2 = 0;
  std::int64_t rate = 0;
  std::vector<double> errors;     ///< by run
  std::vector<double> predicted;  ///< by run, ns, before they are scaled
};

class MemoryFit {
 public:
  explicit MemoryFit(const std::vector<MemoryRun>& runs) : runs_(runs) {}

  [[nodiscard]] Fit run(const FitProgress& progress) const {
    std::vector<Fit> fits;
    for (std::int64_t l2 = kLeastL2; l2 <= kMostL2; l2 += l2 / 4) {
      fits.push_back(best_rate(l2));
      if (progress) progress(std::log2(static_cast<double>(l2) / kLeastL2) / 8);
    }
    std::ranges::sort(fits, {}, &Fit::error);
    fits.resize(3);
    for (Fit& fit : fits) {
      fit = descended(std::move(fit));
      if (progress) progress(0.7 + 0.1 * static_cast<double>(&fit - fits.data()));
    }
    return *std::ranges::min_element(fits, {}, &Fit::error);
  }

 private:
  [[nodiscard]] Fit best_rate(std::int64_t l2) const {
    Fit best;
    for (std::int64_t rate = kMostRate; rate >= kLeastRate; rate -= rate / 5)
      keep_better(best, attempt(l2, rate));
    return best;
  }

  /// The best neighbour of the best neighbour, and so on.
  [[nodiscard]] Fit descended(Fit best) const {
    for (const std::int64_t parts : {8, 16, 32, 64}) {
      for (double error = 0; error != best.error;) {
        error = best.error;
        const std::int64_t l2 = best.l2;
        const std::int64_t rate = best.rate;
        for (const std::int64_t up : {-1, 0, 1}) {
          for (const std::int64_t right : {-1, 0, 1})
            keep_better(best, attempt(l2 + up * (l2 / parts), rate + right * (rate / parts)));
        }
      }
    }
    return best;
  }

  static void keep_better(Fit& best, Fit other) {
    if (other.error < best.error) best = std::move(other);
  }

  [[nodiscard]] Fit attempt(std::int64_t l2, std::int64_t rate) const {
    Fit fit = judged(plays_on(l2, rate));
    fit.l2 = l2;
    fit.rate = rate;
    return fit;
  }

  /// The runs' plays, on as many threads as there are.
  [[nodiscard]] std::vector<sim::MemoryPlay> plays_on(std::int64_t l2, std::int64_t rate) const {
    std::vector<sim::MemoryPlay> plays(runs_.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t run = next++; run < runs_.size(); run = next++) {
        Timing timing = runs_[run].timing;
        timing.memory->l2 = l2;
        timing.memory->rate = rate;
        plays[run] = sim::play_memory(runs_[run].table, timing);
      }
    };
    std::vector<std::future<void>> threads;
    for (unsigned thread = 1; thread < std::thread::hardware_concurrency(); ++thread)
      threads.push_back(std::async(kBesideIfPossible, work));
    work();
    for (std::future<void>& thread : threads)
      thread.get();
    return plays;
  }

  [[nodiscard]] Fit judged(const std::vector<sim::MemoryPlay>& plays) const {
    Fit fit;
    for (const sim::MemoryPlay& play : plays)
      fit.predicted.push_back(static_cast<double>(play.last_reduction));
    const std::map<int, double> scales = scales_of(plays, fit.predicted);
    fit.error = 0;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      const double scale = scales.at(runs_[run].group);
      fit.errors.push_back(scale * fit.predicted[run] / static_cast<double>(runs_[run].measured) -
                           1);
      fit.error += fit.errors.back() * fit.errors.back();
    }
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

  const std::vector<MemoryRun>& runs_;
};

}  // namespace

MemoryCalibration fit_memory(const std::vector<MemoryRun>& runs, const FitProgress& progress) {
  STAGGER_EXPECTS(runs.size() >= 2);
  const Fit fit = MemoryFit(runs).run(progress);
  std::vector<std::int64_t> ppm;
  for (const double error : fit.errors)
    ppm.push_back(std::llround(1e6 * std::abs(error)));
  const std::int64_t worst = *std::ranges::max_element(ppm);
  MemoryCalibration calibration;
  calibration.memory = {
      .l2_bytes = fit.l2,
      .bytes_per_ns = fit.rate,
      .stream_bytes_per_ns = runs.front().timing.memory->stream_rate,
      .add_permille = runs.front().timing.memory->add_permille,
      .latency_ns = runs.front().timing.memory->latency,
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
