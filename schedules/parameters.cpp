#include "schedules/parameters.hpp"

#include "core/error.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace stagger::schedules {
namespace {

[[noreturn]] void reject(const std::string& owner, const std::string& what) {
  throw Error(ErrorKind::usage, owner + ": " + what);
}

const Parameter& find(std::span<const Parameter> known, std::string_view name,
                      const std::string& owner) {
  for (const Parameter& parameter : known) {
    if (parameter.name == name) return parameter;
  }
  reject(owner, unknown_name("parameter", name, names_of(known)));
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

void read_parameter(std::string_view item, const std::string& owner,
                    std::span<const Parameter> known, Parameters& parameters) {
  const std::size_t equals = std::min(item.find('='), item.size());
  const Parameter& parameter = find(known, item.substr(0, equals), owner);
  const std::string_view text = item.substr(std::min(equals + 1, item.size()));
  const std::optional<std::int64_t> value = value_of(parameter, text);
  if (!value) {
    reject(owner, std::string(parameter.name) + " = '" + std::string(text) + "' is not " +
                      range_of(parameter));
  }
  if (!parameters.emplace(parameter.name, *value).second) {
    reject(owner, std::string(parameter.name) + " is given twice");
  }
}

}  // namespace

std::string Parameter::spelled(std::int64_t value) const {
  return words.empty() ? std::to_string(value) : words[at(value)];
}

std::vector<Parameter> parameters_of(const Schedule& schedule) {
  std::vector<Parameter> known(schedule.parameters.begin(), schedule.parameters.end());
  known.push_back(schedule.searches_heads ? kSearchedHeadOrder : kHeadOrder);
  return known;
}

Parameters read_parameters(std::string_view text, const std::string& owner,
                           std::span<const Parameter> known) {
  Parameters parameters;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    read_parameter(text.substr(0, end), owner, known, parameters);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  for (const Parameter& parameter : known)
    parameters.emplace(parameter.name, parameter.fallback);
  return parameters;
}

std::string words_of(const Schedule& schedule, const Parameters& parameters) {
  std::string text = schedule.name;
  char separator = ':';
  for (const Parameter& parameter : parameters_of(schedule)) {
    const std::int64_t value = parameters.at(parameter.name);
    if (value == parameter.fallback) continue;
    text += separator + std::string(parameter.name) + '=' + parameter.spelled(value);
    separator = ',';
  }
  return text;
}

}  // namespace stagger::schedules
