#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
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
  reject(std::string(schedule.name) + ": " +
         unknown_name("parameter", name, names_of(schedule.parameters)));
}

void read_parameter(const Schedule& schedule, std::string_view item, Parameters& parameters) {
  const std::size_t equals = std::min(item.find('='), item.size());
  const Parameter& parameter = find_parameter(schedule, item.substr(0, equals));
  const std::string_view text = item.substr(std::min(equals + 1, item.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < parameter.least ||
      value > parameter.most) {
    reject(std::string(schedule.name) + ": " + parameter.name + " = '" + std::string(text) +
           "' is not an integer from " + std::to_string(parameter.least) + " to " +
           std::to_string(parameter.most));
  }
  if (!parameters.emplace(parameter.name, value).second) {
    reject(std::string(schedule.name) + ": " + parameter.name + " is given twice");
  }
}

}  // namespace

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
  return {&schedule, std::move(parameters), std::string(text)};
}

std::optional<std::string> why_unsupported(const Selection& selection, const Problem& problem) {
  const auto unsupported = selection.schedule->unsupported;
  return unsupported == nullptr ? std::nullopt : unsupported(problem, selection.parameters);
}

Table build(const Selection& selection, const Problem& problem, const Timing& timing) {
  const Schedule& schedule = *selection.schedule;
  if (const auto reason = why_unsupported(selection, problem)) {
    throw Error(ErrorKind::unsupported, std::string(schedule.name) + ": " + *reason);
  }
  check_timing(timing, problem);
  Table table;
  table.name = selection.text;
  table.problem = problem;
  table.dispatch = schedule.dispatch;
  table.slots.reserve(problem.tasks());
  schedule.build(problem, timing, selection.parameters, table);
  return table;
}

bool paper_setting(const Problem& problem, const Timing& timing) {
  return timing.model == Model::chain && timing.uniform() && timing.latency == 0 &&
         timing.launch == 0 && timing.epilogue == 0 && timing.release == Release::immediate &&
         resident_lanes(problem, timing.residency) >= problem.grid.kv_tiles();
}

const Formula* claim(const Selection& selection, const Problem& problem, const Timing& timing) {
  if (!paper_setting(problem, timing)) return nullptr;
  for (const Parameter& parameter : selection.schedule->parameters) {
    if (selection.parameters.at(parameter.name) != parameter.fallback) return nullptr;
  }
  for (const Formula& formula : selection.schedule->formulas) {
    if (formula.shape(problem.grid) && formula.in_domain(problem, timing)) return &formula;
  }
  return nullptr;
}

}  // namespace stagger::schedules
