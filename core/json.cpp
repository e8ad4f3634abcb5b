#include "core/json.hpp"

#include "core/error.hpp"
#include "core/json_value.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace stagger {
namespace {

void begin_line(std::string& text, int indent) {
  if (indent < 0) return;
  text += '\n';
  text.append(static_cast<std::size_t>(indent), ' ');
}

}  // namespace

Json::Json(std::initializer_list<Member> members) : value_(Members(members)) {}

Json Json::array() {
  Json json;
  json.value_ = Items{};
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = Members{};
  return json;
}

Json& Json::operator[](const std::string& key) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Members{};
  STAGGER_EXPECTS(std::holds_alternative<Members>(value_));
  Members& members = std::get<Members>(value_);
  const auto found = std::ranges::find(members, key, &Member::key);
  if (found != members.end()) return found->value;
  members.push_back({key, {}});
  return members.back().value;
}

void Json::push_back(Json item) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Items{};
  STAGGER_EXPECTS(std::holds_alternative<Items>(value_));
  std::get<Items>(value_).push_back(std::move(item));
}

void Json::append(const Json& object) {
  STAGGER_EXPECTS(std::holds_alternative<Members>(object.value_));
  for (const auto& [key, value] : std::get<Members>(object.value_))
    (*this)[key] = value;
}

bool Json::empty() const {
  if (const auto* items = std::get_if<Items>(&value_)) return items->empty();
  if (const auto* members = std::get_if<Members>(&value_)) return members->empty();
  return std::holds_alternative<std::nullptr_t>(value_);
}

Json& Json::back() {
  STAGGER_EXPECTS(std::holds_alternative<Items>(value_) && !empty());
  return std::get<Items>(value_).back();
}

std::string Json::text() const {
  std::string text;
  write(text, 0);
  return text;
}

std::string Json::line() const {
  std::string text;
  write(text, -1);
  return text;
}

void Json::write(std::string& text, int indent) const {
  const int inner = indent < 0 ? indent : indent + 1;
  if (const auto* items = std::get_if<Items>(&value_)) {
    text += '[';
    const char* separator = "";
    for (const Json& item : *items) {
      text += std::exchange(separator, ",");
      begin_line(text, inner);
      item.write(text, inner);
    }
    if (!items->empty()) begin_line(text, indent);
    text += ']';
  } else if (const auto* members = std::get_if<Members>(&value_)) {
    text += '{';
    const char* separator = "";
    for (const auto& [key, value] : *members) {
      text += std::exchange(separator, indent < 0 ? ", " : ",");
      begin_line(text, inner);
      text += json_quote(key) + ": ";
      value.write(text, inner);
    }
    if (!members->empty()) begin_line(text, indent);
    text += '}';
  } else if (const auto* string = std::get_if<std::string>(&value_)) {
    text += json_quote(*string);
  } else if (const auto* integer = std::get_if<std::int64_t>(&value_)) {
    text += std::to_string(*integer);
  } else if (const auto* natural = std::get_if<std::uint64_t>(&value_)) {
    text += std::to_string(*natural);
  } else if (const auto* number = std::get_if<double>(&value_)) {
    text += nlohmann::json(*number).dump();  // the shortest that reads back the same
  } else if (const auto* boolean = std::get_if<bool>(&value_)) {
    text += *boolean ? "true" : "false";
  } else {
    text += "null";
  }
}

}  // namespace stagger
