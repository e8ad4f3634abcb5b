#include "core/error.hpp"
#include "core/huge_pages.hpp"
#include "core/nearest.hpp"
#include "schedules/lift.hpp"
#include "schedules/parameters.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace stagger::schedules {

namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

const Schedule& find(std::string_view name) {
  for (const Schedule* schedule : all()) {
    if (schedule->name == name) return *schedule;
  }
  reject(unknown_name("schedule", name, names_of(all())));
}

/// Absent: the best, which is the first word where it is one.
std::optional<HeadOrder> order_of(const Selection& selection) {
  const std::int64_t word = selection.parameters.at(kHeadOrder.name);
  const std::int64_t order = selection.schedule->searches_heads ? word - 1 : word;
  return order < 0 ? std::nullopt : std::optional(static_cast<HeadOrder>(order));
}

/// In an order, of a schedule that searches for the best.
Selection with_order(Selection selection, HeadOrder order) {
  selection.parameters[kHeadOrder.name] = static_cast<std::int64_t>(order) + 1;
  selection.text = words_of(*selection.schedule, selection.parameters);
  return selection;
}

/// Of a problem that the schedule applies to.
Table build_in_order(const Selection& selection, const Problem& problem, const Timing& timing,
                     HeadOrder order, const Stop& stop) {
  const Schedule& schedule = *selection.schedule;
  Table parts;
  parts.name = selection.text;
  parts.dispatch = schedule.dispatch;
  if (schedule.searches_heads && order == HeadOrder::head_major) {
    parts.problem = problem;
    schedule.search(problem, timing, selection.parameters, stop, parts);
    return parts;
  }
  parts.problem = problem_of_parts(problem);
  reserve_filled(parts.slots, at(parts.problem.tasks()));
  const bool lifts_other = problem.span > 1 && schedule.build_to_lift != nullptr;
  if (schedule.searches()) {
    schedule.search(parts.problem, timing_of_parts(timing, problem.span), selection.parameters,
                    stop, parts);
  } else {
    (lifts_other ? schedule.build_to_lift : schedule.build)(parts.problem, selection.parameters,
                                                            parts);
  }
  return lift(std::move(parts), problem, order, schedule.begins_run);
}

/// The table of the order that costs less in the model, q-major if both cost the same; its name has
/// the order.
Table build_in_best_order(const Selection& selection, const Problem& problem, const Timing& timing,
                          const Stop& stop) {
  constexpr Ticks kHangs = std::numeric_limits<Ticks>::max();
  const auto built = [&](HeadOrder order) {
    return build_in_order(with_order(selection, order), problem, timing, order, stop);
  };
  const auto cost_of = [&](const Table& table) {
    const std::optional<search::Rating> rating = search::rating_of(table, timing);
    return rating ? rating->cost : kHangs;
  };
  Table q_major = built(HeadOrder::q_major);
  if (stop && stop()) return q_major;
  Table head_major = built(HeadOrder::head_major);
  return cost_of(head_major) < cost_of(q_major) ? std::move(head_major) : std::move(q_major);
}

}  // namespace

Selection select(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const Schedule& schedule = find(text.substr(0, colon));
  Parameters parameters = read_parameters(text.substr(std::min(colon + 1, text.size())),
                                          schedule.name, parameters_of(schedule));
  return {&schedule, std::move(parameters), std::string(text)};
}

std::vector<Selection> variants(const Schedule& schedule, bool l2_counts) {
  std::vector<Selection> found = {select(schedule.name)};
  if (!l2_counts) return found;
  for (const Parameter& parameter : parameters_of(schedule)) {
    for (const std::int64_t value : parameter.tried) {
      found.push_back(select(std::string(schedule.name) + ":" + parameter.name + "=" +
                             parameter.spelled(value)));
    }
  }
  return found;
}

std::optional<std::string> why_unsupported(const Selection& selection, const Problem& problem) {
  if (order_of(selection) == HeadOrder::head_major && problem.span == 1) {
    return "order=head-major tells a chain's heads apart; here a chain has one";
  }
  const auto unsupported = selection.schedule->unsupported;
  if (unsupported == nullptr) return std::nullopt;
  return unsupported(problem_of_parts(problem), selection.parameters);
}

std::vector<Selection> unsearched(const Problem& problem, bool l2_counts) {
  std::vector<Selection> found;
  for (const Schedule* schedule : all()) {
    if (schedule->searches()) continue;
    for (Selection& selection : variants(*schedule, l2_counts)) {
      if (!why_unsupported(selection, problem)) found.push_back(std::move(selection));
    }
  }
  return found;
}

Table build(const Selection& selection, const Problem& problem, const Timing& timing,
            const Stop& stop) {
  if (const auto reason = why_unsupported(selection, problem)) {
    throw Error(ErrorKind::unsupported, std::string(selection.schedule->name) + ": " + *reason);
  }
  check_timing(timing, problem);
  const std::optional<HeadOrder> order = order_of(selection);
  if (!order && problem.span > 1) return build_in_best_order(selection, problem, timing, stop);
  return build_in_order(selection, problem, timing, order.value_or(HeadOrder::q_major), stop);
}

bool paper_setting(const Problem& problem, const Timing& timing) {
  if (problem.combine == Combine::ordered && timing.reduce_kv > 0) return false;
  return timing.model == Model::chain && timing.steps == 1 && timing.uniform() &&
         timing.latency == 0 && timing.launch == 0 && timing.epilogue == 0 &&
         timing.release == Release::immediate &&
         resident_lanes(problem, timing.residency) >= problem.kv_tiles();
}

const Formula* claim(const Selection& selection, const Problem& problem, const Timing& timing) {
  if (!paper_setting(problem, timing)) return nullptr;
  if (order_of(selection) != HeadOrder::q_major || !problem.grids.all_alike()) return nullptr;
  for (const Parameter& parameter : selection.schedule->parameters) {
    if (selection.parameters.at(parameter.name) != parameter.fallback) return nullptr;
  }
  for (const Formula& formula : selection.schedule->formulas) {
    if (formula.shape(problem.common_grid()) && in_domain(formula, problem, timing))
      return &formula;
  }
  return nullptr;
}

bool in_domain(const Formula& formula, const Problem& problem, const Timing& timing) {
  return formula.in_domain(problem_of_parts(problem), timing_of_parts(timing, problem.span));
}

Ticks twice_ticks(const Formula& formula, const Problem& problem, const Timing& timing) {
  return formula.twice_ticks(problem_of_parts(problem), timing_of_parts(timing, problem.span));
}

std::string text_of(const Formula& formula, const Problem& problem) {
  if (problem.span == 1) return formula.text;
  return std::string(formula.text) + " with m = " + std::to_string(problem.parts()) +
         " parts and c+r of " + std::to_string(problem.span) + " heads";
}

}  // namespace stagger::schedules
