#include "workbench/designs/advice.hpp"

#include "workbench/designs/knobs.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>

namespace stagger::designs {
namespace {

constexpr std::int64_t kMostTasks = std::int64_t{1} << 17;  ///< of a problem that is asked again

std::vector<schedules::Selection> quick_schedules() {
  std::vector<schedules::Selection> quick;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (!schedule->searches()) quick.push_back(schedules::select(schedule->name));
  }
  return quick;
}

Comparison compared_by(const Request& request) {
  return compare({.request = request, .schedules = quick_schedules()});
}

/// `1.40`; `94.4`.
std::string decimal(double value, int digits = 2) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// The part of a task that is its reduction, in the model in which an SM computes or reduces.
double reducing(const Analysis& analysis) {
  const Stage& stage = analysis.plan.stages.front();
  if (stage.timing.model == Model::overlap) return 0;
  // Free lanes with fewer than all GEMMs reduce nothing; theirs are single GEMMs.
  if (!analysis.table && analysis.plan.dq_targets == 0) return 0;
  const Ticks compute = stage.timing.compute * (analysis.table ? 1 : kGemms);
  return static_cast<double>(stage.timing.reduce) /
         static_cast<double>(compute + stage.timing.reduce);
}

/// What a design pays for, the largest part first in words.
std::string why_of(const Analysis& analysis, const Comparison& comparison) {
  std::string why;
  const auto add = [&](const std::string& words) { why += (why.empty() ? "" : ", ") + words; };
  if (const double part = reducing(analysis); part > 0.005) {
    add("reduces " + decimal(100 * part, 1) + " % of the time");
  }
  const double factor = 1e-3 * static_cast<double>(analysis.plan.compute_permille);
  if (factor > 1) add(decimal(factor) + " times the arithmetic");
  if (analysis.busy < 0.995) add("SMs busy " + decimal(100 * analysis.busy, 1) + " % of the time");
  if (analysis.table && analysis.makespan > comparison.without_order) {
    add(decimal(static_cast<double>(analysis.makespan) /
                static_cast<double>(comparison.without_order)) +
        " times the kernel without an order");
  }
  return why.empty() ? "nothing is lost" : why;
}

std::vector<Reason> reasons_of(const Comparison& comparison,
                               const std::vector<std::string>& steady) {
  std::vector<Reason> reasons;
  std::set<const Design*> seen;
  const ComparisonRow* const best = comparison.best_without(steady);
  if (best == nullptr) return reasons;
  const auto fastest = static_cast<double>(std::max<Ticks>(best->analysis->takes(), 1));
  for (const ComparisonRow& row : comparison.rows) {
    if (!comparison.knows_time(row) || row.moves_with(steady)) continue;
    if (!seen.insert(row.design).second) continue;
    const Ticks takes = row.analysis->takes();
    reasons.push_back({.name = row.design->needs_schedule ? "ordered " + row.name : row.name,
                       .takes = takes,
                       .ratio = static_cast<double>(std::max<Ticks>(takes, 1)) / fastest,
                       .why = why_of(*row.analysis, comparison)});
  }
  return reasons;
}

/// The best design of a problem as it would be with another value; empty: not asked, or none.
class Asked {
 public:
  Asked(const AdviceRequest& request, const Knob& knob) : request_(request), knob_(knob) {}

  [[nodiscard]] std::string best_at(std::int64_t value) const {
    const auto other = knob_.with(request_.request, value);
    if (!other || other->problem.tasks() > kMostTasks) return "";
    const Comparison comparison = compared_by(*other);
    const ComparisonRow* const best = comparison.best_without(request_.steady);
    return best == nullptr ? "" : best->design->name;
  }

  /// The values between two at which the best changes, to a 32nd; both ends are known to differ.
  [[nodiscard]] Turn turn(std::int64_t below, std::int64_t from, std::string before,
                          std::string after) const {
    while (from - below > std::max<std::int64_t>(from / 32, 1)) {
      const std::int64_t middle = below + (from - below) / 2;
      const std::string best = best_at(middle);
      if (best.empty()) break;
      if (best == before) {
        below = middle;
      } else {
        from = middle;
        after = best;
      }
    }
    return {knob_.what, below, from, std::move(before), std::move(after)};
  }

 private:
  const AdviceRequest& request_;
  const Knob& knob_;
};

void add_turns(const AdviceRequest& request, const Knob& knob, std::vector<Turn>& turns) {
  const Asked asked(request, knob);
  std::optional<std::pair<std::int64_t, std::string>> last;
  for (const std::int64_t value : knob.values) {
    if (request.stop && request.stop()) return;
    std::string best = asked.best_at(value);
    if (best.empty()) continue;
    if (last && last->second != best) {
      turns.push_back(asked.turn(last->first, value, last->second, best));
    }
    last = {value, std::move(best)};
  }
}

}  // namespace

Advice advise(const AdviceRequest& request) {
  Advice advice{.comparison = compared_by(request.request), .steady = request.steady};
  advice.reasons = reasons_of(advice.comparison, request.steady);
  if (advice.reasons.empty()) return advice;
  const std::vector<Knob> knobs = knobs_of(request.request);
  for (std::size_t index = 0; index < knobs.size(); ++index) {
    if (request.progress) {
      request.progress(static_cast<double>(index + 1) / static_cast<double>(knobs.size() + 1));
    }
    add_turns(request, knobs[index], advice.turns);
  }
  return advice;
}

}  // namespace stagger::designs
