#include "core/json_value.hpp"

#include "core/error.hpp"
#include "core/json_error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "core/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace stagger {
namespace {

using nlohmann::json;

const json& parsed(const void* value) {
  return *static_cast<const json*>(value);
}

/// Refuses what nlohmann would accept: deep nesting and repeated keys.
class StrictParser {
 public:
  explicit StrictParser(const std::string& source) : source_(source) {}

  json parse(std::string_view text) {
    try {
      return json::parse(text, [this](int depth, json::parse_event_t event, json& parsed) {
        check(depth, event, parsed);
        return true;
      });
    } catch (const json::exception& error) {
      throw Error(ErrorKind::invalid_input, source_ + ": " + without_id(error.what()));
    }
  }

 private:
  void check(int depth, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= kMaxJsonDepth) {
        throw Error(ErrorKind::invalid_input,
                    source_ + ": nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
      }
      if (event == json::parse_event_t::object_start) keys_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw Error(ErrorKind::invalid_input, source_ + ": key '" + key + "' is given twice");
      }
    }
  }

  /// Drops nlohmann's "[json.exception.parse_error.101] ".
  static std::string without_id(const std::string& what) {
    const std::size_t end = what.find("] ");
    return end == std::string::npos ? what : what.substr(end + 2);
  }

  const std::string& source_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

struct JsonDocument::Parsed {
  std::string source;
  json value;
};

JsonDocument::JsonDocument(std::string_view text, std::string source)
    : parsed_(std::make_unique<Parsed>()) {
  parsed_->source = std::move(source);
  parsed_->value = StrictParser(parsed_->source).parse(without_bom(text));
  root_.reset(new JsonValue(&parsed_->value, nullptr, parsed_->source, 0));
}

JsonDocument::~JsonDocument() = default;

std::string JsonValue::path() const {
  if (parent_ == nullptr) return key_ + ": /";
  const std::string above = parent_->path();
  const std::string name = key_.empty() ? std::to_string(index_) : key_;
  return above + (above.back() == '/' ? "" : "/") + name;
}

void JsonValue::reject(const std::string& what) const {
  const std::string where = path();
  const std::string pointer = where.substr(where.rfind(": ") + 2);
  throw JsonError(where + ": " + what, pointer == "/" ? "" : pointer);
}

std::string JsonValue::dump() const {
  return parsed(value_).dump(-1, ' ', false, json::error_handler_t::replace);
}

bool JsonValue::is_object() const {
  return parsed(value_).is_object();
}
bool JsonValue::is_array() const {
  return parsed(value_).is_array();
}
bool JsonValue::is_string() const {
  return parsed(value_).is_string();
}
bool JsonValue::is_integer() const {
  return parsed(value_).is_number_integer();
}
bool JsonValue::is_boolean() const {
  return parsed(value_).is_boolean();
}

bool JsonValue::is_null() const {
  return parsed(value_).is_null();
}

std::int64_t JsonValue::integer(std::int64_t least, std::int64_t most) const {
  const json& value = parsed(value_);
  const std::string expected =
      "must be an integer from " + std::to_string(least) + " to " + std::to_string(most);
  if (!value.is_number_integer()) reject(expected + ", not " + value.type_name());
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() >> 63 != 0;
  if (huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    reject(expected + ", not " + value.dump());
  }
  return value.get<std::int64_t>();
}

double JsonValue::number(double least, double most) const {
  const json& value = parsed(value_);
  const std::string expected =
      "must be a number from " + json(least).dump() + " to " + json(most).dump();
  if (!value.is_number()) reject(expected + ", not " + value.type_name());
  const auto number = value.get<double>();
  if (!(number >= least && number <= most)) reject(expected + ", not " + value.dump());
  return number;
}

bool JsonValue::boolean() const {
  if (!is_boolean())
    reject(std::string("must be true or false, not ") + parsed(value_).type_name());
  return parsed(value_).get<bool>();
}

std::string JsonValue::string() const {
  if (!is_string()) reject(std::string("must be a string, not ") + parsed(value_).type_name());
  return parsed(value_).get<std::string>();
}

std::size_t JsonValue::size() const {
  if (!is_array()) reject(std::string("must be an array, not ") + parsed(value_).type_name());
  return parsed(value_).size();
}

JsonValue JsonValue::item(std::size_t index) const {
  STAGGER_EXPECTS(index < size());
  return {&parsed(value_)[index], this, {}, index};
}

std::vector<std::string> JsonValue::keys() const {
  if (!is_object()) reject(std::string("must be an object, not ") + parsed(value_).type_name());
  std::vector<std::string> names;
  for (const auto& item : parsed(value_).items())
    names.push_back(item.key());
  return names;
}

bool JsonValue::has(const std::string& key) const {
  if (!is_object()) reject(std::string("must be an object, not ") + parsed(value_).type_name());
  return parsed(value_).contains(key);
}

JsonValue JsonValue::at(const std::string& key) const {
  if (!has(key)) reject("key '" + key + "' is missing");
  return {&parsed(value_)[key], this, key, 0};
}

std::size_t JsonValue::word(const char* what, std::span<const char* const> known) const {
  const std::string word = string();
  const auto found = std::find(known.begin(), known.end(), word);
  if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
  reject(unknown_name(what, word, std::vector<std::string>(known.begin(), known.end())));
}

void JsonValue::expect_keys(std::initializer_list<const char*> known) const {
  for (const std::string& key : keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const char* name : known)
      names += (names.empty() ? "" : ", ") + std::string(name);
    reject("unknown key '" + key + "'; known: " + names);
  }
}

void JsonValue::expect_schema(const char* schema) const {
  const JsonValue value = at("schema");
  if (value.string() != schema) {
    value.reject("unknown schema '" + value.string() + "'; known here: " + schema);
  }
}

std::string json_quote(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<JsonText> json_texts(std::string_view text, const std::string& source) {
  std::vector<JsonText> documents;
  std::size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (quoted) {
      if (letter == '\\') ++at;
      quoted = letter != '"';
    } else if (letter == '"') {
      quoted = true;
    } else if (letter == '{') {
      ++depth;
    } else if (letter == '}' && --depth <= 0) {
      documents.push_back({text.substr(begin, at + 1 - begin), source});
      begin = at + 1;
      depth = 0;
    }
  }
  const std::string_view rest = text.substr(begin);
  if (documents.empty() || rest.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    documents.push_back({rest, source});
  }
  if (documents.size() == 1) return documents;
  for (std::size_t index = 0; index < documents.size(); ++index)
    documents[index].source += " (" + std::to_string(index + 1) + ")";
  return documents;
}

}  // namespace stagger
