#include "workbench/designs/advice.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace stagger::designs {
namespace {

constexpr std::int64_t kMostTasks = std::int64_t{1} << 17;  ///< of a problem that is asked again

std::vector<schedules::Selection> quick_schedules() {
  std::vector<schedules::Selection> quick;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (!schedule->searches) quick.push_back(schedules::select(schedule->name));
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
  if (stage.timing.model == Model::overlap || analysis.plan.stages.size() > 1) return 0;
  // Free lanes with fewer than all GEMMs reduce nothing; theirs are single GEMMs.
  if (!analysis.table && analysis.plan.dq_targets == 0) return 0;
  const Ticks compute = stage.timing.compute * (analysis.table ? 1 : kGemms);
  return static_cast<double>(stage.timing.reduce) /
         static_cast<double>(std::max<Ticks>(compute + stage.timing.reduce, 1));
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
                static_cast<double>(std::max<Ticks>(comparison.without_order, 1))) +
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
    const bool moves =
        row.ok() && std::ranges::any_of(row.analysis->plan.bits_depend_on, [&](const char* word) {
          return std::ranges::count(steady, word) > 0;
        });
    if (!comparison.knows_time(row) || moves || !seen.insert(row.design).second) continue;
    const Ticks takes = row.analysis->takes();
    reasons.push_back({.name = row.design->needs_schedule ? "ordered " + row.name : row.name,
                       .takes = takes,
                       .ratio = static_cast<double>(takes) / fastest,
                       .why = why_of(*row.analysis, comparison)});
  }
  return reasons;
}

/// Something of a problem that can be another value.
struct Knob {
  const char* what;
  std::vector<std::int64_t> values;  ///< that are looked at, upwards
  std::optional<Request> (*with)(const Request&, std::int64_t value);
};

std::optional<Request> with_heads(const Request& request, std::int64_t value) {
  const std::int64_t group = request.problem.group();
  Request other = request;
  other.problem.heads = static_cast<std::int32_t>(value * group);
  other.problem.heads_kv = static_cast<std::int32_t>(value);
  return other;
}

std::optional<Request> with_heads_kv(const Request& request, std::int64_t value) {
  if (request.problem.heads % value != 0) return std::nullopt;
  Request other = request;
  other.problem.heads_kv = static_cast<std::int32_t>(value);
  other.problem = with_span(other.problem, other.problem.group(), Combine::partials);
  return other;
}

std::optional<Request> with_reduce(const Request& request, std::int64_t value) {
  Request other = request;
  other.model.timing.reduce = value;
  if (other.model.timing.shortest_compute() + value < 1) return std::nullopt;
  return other;
}

std::optional<Request> with_head_dim(const Request& request, std::int64_t value) {
  Request other = request;
  other.head_dim = value;
  Timing& timing = other.model.timing;
  for (Ticks* duration : {&timing.compute, &timing.reduce})
    *duration = *duration * value / request.head_dim;
  if (timing.compute_partial) {
    timing.compute_partial = *timing.compute_partial * value / request.head_dim;
  }
  if (timing.shortest_compute() + timing.reduce < 1) return std::nullopt;
  return other;
}

/// The mask with so many keys at the beginning that every query sees, in the place of those that it
/// has beside others.
Mask with_sinks(const Mask& mask, std::int64_t keys) {
  const auto is_sink = [](const Mask& part) {
    return part.family->name == std::string_view("global") && part.integers("tokens").empty() &&
           !part.boolean("symmetric");
  };
  std::vector<Mask> parts = {mask};
  if (mask.family->name == std::string_view("or")) {
    parts = mask.masks("of");
    std::erase_if(parts, is_sink);
  }
  if (keys > 0) parts.push_back(make_mask("global", {{"first", keys}}));
  return parts.size() == 1 ? parts.front() : make_mask("or", {{"of", std::move(parts)}});
}

std::optional<Request> with_sinks(const Request& request, std::int64_t value) {
  const Problem& problem = request.problem;
  const Combine combine = problem.combine == Combine::none ? Combine::partials : problem.combine;
  Request other = request;
  other.problem = make_problem(
      with_sinks(problem.mask, value), problem.lengths, problem.shape, problem.heads, problem.sms,
      {.heads_kv = problem.heads_kv, .span = problem.span, .combine = combine});
  return other;
}

/// Whether sinks are more than what every query sees anyway.
bool can_have_sinks(const Request& request) {
  const Problem& problem = request.problem;
  if (is_of_tiles(problem.mask) || problem.kv_tiles() == 1) return false;
  return with_sinks(request, problem.shape.kv)->problem.tasks() >
         with_sinks(request, 0)->problem.tasks();
}

std::vector<std::int64_t> doubling(std::int64_t most, std::int64_t least = 1) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = least; value <= most; value *= 2)
    values.push_back(value);
  return values;
}

std::vector<Knob> knobs_of(const Request& request) {
  const Timing& timing = request.model.timing;
  const std::int64_t most_heads =
      std::min<std::int64_t>(4 * std::int64_t{request.problem.heads_kv}, kMaxHeads / 64);
  std::vector<Knob> knobs = {{"heads_kv", doubling(most_heads), with_heads}};
  if (request.problem.group() == 1) knobs.front().what = "heads";
  std::vector<std::int64_t> reductions = {0};
  if (timing.compute < (Ticks{1} << 40)) {
    for (const std::int64_t part : {8, 4, 2, 1})
      reductions.push_back(std::max<Ticks>(timing.compute / part, reductions.back() + 1));
    reductions.push_back(2 * reductions.back());
    knobs.push_back({"reduce", reductions, with_reduce});
  }
  if (request.problem.group() == 1 && request.problem.heads > 1) {
    knobs.push_back({"heads_kv", {}, with_heads_kv});
    for (std::int64_t group = 1; group <= request.problem.heads; group *= 2)
      knobs.back().values.push_back(request.problem.heads / group);
    auto& values = knobs.back().values;
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
  if (can_have_sinks(request)) {
    const Problem& problem = request.problem;
    knobs.push_back({"sinks", doubling(problem.lengths.kv / 8, problem.shape.kv), with_sinks});
    knobs.back().values.insert(knobs.back().values.begin(), 0);
  }
  if (timing.memory && timing.compute < (Ticks{1} << 40)) {
    knobs.push_back({"head_dim", {32, 64, 96, 128, 192, 256, 512}, with_head_dim});
  }
  return knobs;
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
