#include "cli/config.hpp"

#include "cli/files.hpp"
#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

namespace stagger::cli {
namespace {

/// What a config cannot give: it names no other config, asks for no help, and arguments have no
/// name on the command line either.
bool is_for_configs(const OptionRow& row) {
  return !row.argument && !has_word("config help", row.name);
}

std::vector<std::string> known_keys(const Command& command) {
  std::vector<std::string> known;
  for (const OptionRow* row : rows_of(command.name)) {
    if (is_for_configs(*row)) known.emplace_back(row->name);
  }
  return known;
}

bool known_elsewhere(const std::string& key) {
  const auto rows = option_rows();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const OptionRow& row) { return key == row.name && is_for_configs(row); });
}

std::string word_of(const OptionRow& row, const JsonValue& value) {
  if (value.is_string()) return value.string();
  if (value.is_object() && std::string_view(row.metavar) == "MASK") {
    return mask_words(read_mask_json(value));
  }
  const bool has_words = std::holds_alternative<Choice>(row.target);
  if (has_words && value.is_boolean()) return value.boolean() ? "true" : "false";
  if (std::holds_alternative<double Options::*>(row.target) ||
      std::holds_alternative<std::optional<double> Options::*>(row.target)) {
    static_cast<void>(value.number(0, std::numeric_limits<double>::max()));
    return value.dump();
  }
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return std::to_string(value.integer(-kMost - 1, kMost));
}

void append(const OptionRow& row, const JsonValue& value, Given& given) {
  std::string word = word_of(row, value);
  Options scratch;
  if (const auto refusal = assign(row, word, scratch)) value.reject(*refusal);
  given.words.push_back(std::move(word));
}

}  // namespace

Given given_by(const OptionRow& row, const JsonValue& value) {
  Given given{&row, {}};
  if (row.flag()) {
    if (value.boolean()) given.words.emplace_back();
  } else if (row.repeats() && value.is_array()) {
    for (std::size_t index = 0; index < value.size(); ++index)
      append(row, value.item(index), given);
  } else {
    append(row, value, given);
  }
  return given;
}

std::vector<Given> config_values(const std::string& path, const Command& command) {
  return config_values(read_file(path), path, command);
}

std::vector<Given> config_values(std::string_view text, const std::string& source,
                                 const Command& command) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.config/1");
  std::vector<Given> all;
  for (const std::string& key : root.keys()) {
    if (key == "schema") continue;
    const JsonValue value = root.at(key);
    if (key == "command") {
      if (value.string() != command.name) {
        value.reject("this config is for `stagger " + value.string() + "`");
      }
      continue;
    }
    const OptionRow* row = find_row(command.name, key);
    if (row != nullptr && is_for_configs(*row)) {
      Given given = given_by(*row, value);
      if (!given.words.empty()) all.push_back(std::move(given));
    } else if (!known_elsewhere(key)) {  // one config serves several commands
      value.reject(unknown_name("option of `stagger " + std::string(command.name) + "`", key,
                                known_keys(command)));
    }
  }
  return all;
}

}  // namespace stagger::cli
