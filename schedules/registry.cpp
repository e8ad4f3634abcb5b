#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "schedules/lift.hpp"
#include "schedules/schedule.hpp"

#include <algorithm>
#include <charconv>

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

const Parameter& find_parameter(const Schedule& schedule, std::string_view name) {
  for (const Parameter& parameter : schedule.parameters) {
    if (parameter.name == name) return parameter;
  }
  if (kHeadOrder.name == name) return kHeadOrder;
  std::vector<std::string> known = names_of(schedule.parameters);
  known.emplace_back(kHeadOrder.name);
  reject(std::string(schedule.name) + ": " + unknown_name("parameter", name, known));
}

/// The value that a text gives; nullopt if it is none.
std::optional<std::int64_t> value_of(const Parameter& parameter, std::string_view text) {
  const auto word = std::find(parameter.words.begin(), parameter.words.end(), text);
  if (word != parameter.words.end()) return word - parameter.words.begin();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!parameter.words.empty() || error != std::errc{} || end != text.data() + text.size() ||
      value < parameter.least || value > parameter.most) {
    return std::nullopt;
  }
  return value;
}

/// What a parameter takes, in words.
std::string range_of(const Parameter& parameter) {
  if (parameter.words.empty()) {
    return "an integer from " + std::to_string(parameter.least) + " to " +
           std::to_string(parameter.most);
  }
  std::string text;
  for (const char* word : parameter.words)
    text += (text.empty() ? "" : " or ") + std::string(word);
  return text;
}

void read_parameter(const Schedule& schedule, std::string_view item, Parameters& parameters) {
  const std::size_t equals = std::min(item.find('='), item.size());
  const Parameter& parameter = find_parameter(schedule, item.substr(0, equals));
  const std::string_view text = item.substr(std::min(equals + 1, item.size()));
  const std::optional<std::int64_t> value = value_of(parameter, text);
  if (!value) {
    reject(std::string(schedule.name) + ": " + parameter.name + " = '" + std::string(text) +
           "' is not " + range_of(parameter));
  }
  if (!parameters.emplace(parameter.name, *value).second) {
    reject(std::string(schedule.name) + ": " + parameter.name + " is given twice");
  }
}

HeadOrder order_of(const Selection& selection) {
  return static_cast<HeadOrder>(selection.parameters.at(kHeadOrder.name));
}

}  // namespace

std::string Parameter::spelled(std::int64_t value) const {
  return words.empty() ? std::to_string(value) : words[at(value)];
}

Selection select(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const Schedule& schedule = find(text.substr(0, colon));
  Parameters parameters;
  std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    read_parameter(schedule, rest.substr(0, end), parameters);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (const Parameter& parameter : schedule.parameters) {
    parameters.emplace(parameter.name, parameter.fallback);
  }
  parameters.emplace(kHeadOrder.name, kHeadOrder.fallback);
  return {&schedule, std::move(parameters), std::string(text)};
}

std::optional<std::string> why_unsupported(const Selection& selection, const Problem& problem) {
  if (order_of(selection) != HeadOrder::q_major && problem.span == 1) {
    return "order=head-major tells a chain's heads apart; here a chain has one";
  }
  const auto unsupported = selection.schedule->unsupported;
  if (unsupported == nullptr) return std::nullopt;
  return unsupported(problem_of_parts(problem), selection.parameters);
}

Table build(const Selection& selection, const Problem& problem, const Timing& timing) {
  const Schedule& schedule = *selection.schedule;
  if (const auto reason = why_unsupported(selection, problem)) {
    throw Error(ErrorKind::unsupported, std::string(schedule.name) + ": " + *reason);
  }
  check_timing(timing, problem);
  Table parts;
  parts.name = selection.text;
  parts.problem = problem_of_parts(problem);
  parts.dispatch = schedule.dispatch;
  parts.slots.reserve(parts.problem.tasks());
  const bool lifts_other = problem.span > 1 && schedule.build_to_lift != nullptr;
  const auto build = lifts_other ? schedule.build_to_lift : schedule.build;
  build(parts.problem, timing_of_parts(timing, problem.span), selection.parameters, parts);
  return lift(std::move(parts), problem, order_of(selection), schedule.begins_run);
}

bool paper_setting(const Problem& problem, const Timing& timing) {
  return timing.model == Model::chain && timing.uniform() && timing.latency == 0 &&
         timing.launch == 0 && timing.epilogue == 0 && timing.release == Release::immediate &&
         resident_lanes(problem, timing.residency) >= problem.grid.kv_tiles();
}

const Formula* claim(const Selection& selection, const Problem& problem, const Timing& timing) {
  if (!paper_setting(problem, timing)) return nullptr;
  if (order_of(selection) != HeadOrder::q_major) return nullptr;
  for (const Parameter& parameter : selection.schedule->parameters) {
    if (selection.parameters.at(parameter.name) != parameter.fallback) return nullptr;
  }
  for (const Formula& formula : selection.schedule->formulas) {
    if (formula.shape(problem.grid) && in_domain(formula, problem, timing)) return &formula;
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
