#include "cli/config.hpp"

#include "cli/files.hpp"
#include "cli/options.hpp"
#include "core/json_value.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <set>

namespace stagger::cli {
namespace {

/// The long names that the command line has settled: given there, or excluded by what was given.
std::set<std::string> settled_options(const CLI::App& command) {
  std::set<std::string> settled;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 0) settled.insert(option->get_single_name());
  }
  for (const auto& group : exclusive_options()) {
    const bool given = std::any_of(group.begin(), group.end(),
                                   [&](const std::string& name) { return settled.contains(name); });
    if (given) settled.insert(group.begin(), group.end());
  }
  return settled;
}

std::string known_options(const CLI::App& command) {
  std::string known;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_lnames().empty()) {
      known += (known.empty() ? "" : ", ") + option->get_lnames().front();
    }
  }
  return known;
}

/// Whether another command has the option.
bool known_elsewhere(const CLI::App& command, const std::string& key) {
  const auto commands = command.get_parent()->get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(), [&](const CLI::App* other) {
    return other->get_option_no_throw("--" + key) != nullptr;
  });
}

std::string word_of(const JsonValue& value) {
  if (value.is_string()) return value.string();
  if (value.is_object()) return value.dump();  // a mask description
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  return std::to_string(value.integer(-kAny, kAny));
}

void append_option(const std::string& name, const JsonValue& value,
                   std::vector<std::string>& words) {
  if (value.is_boolean()) {
    if (value.boolean()) words.push_back("--" + name);
    return;
  }
  if (!value.is_array()) {
    words.push_back("--" + name + "=" + word_of(value));
    return;
  }
  for (std::size_t index = 0; index < value.size(); ++index) {
    words.push_back("--" + name + "=" + word_of(value.item(index)));
  }
}

}  // namespace

std::vector<std::string> config_words(const std::string& path, const CLI::App& command) {
  const JsonDocument document(read_file(path), path);
  const JsonValue& root = document.root();
  root.expect_schema("stagger.config/1");
  const std::set<std::string> settled = settled_options(command);
  std::vector<std::string> words;
  for (const std::string& key : root.keys()) {
    if (key == "schema") continue;
    const JsonValue value = root.at(key);
    if (key == "command") {
      if (value.string() != command.get_name()) {
        value.reject("this config is for `stagger " + value.string() + "`");
      }
      continue;
    }
    if (command.get_option_no_throw("--" + key) == nullptr && known_elsewhere(command, key)) {
      continue;  // one config serves several commands
    }
    if (key == "config" || command.get_option_no_throw("--" + key) == nullptr) {
      value.reject("unknown option; known to `" + command.get_name() +
                   "`: " + known_options(command));
    }
    if (!settled.contains(key)) append_option(key, value, words);
  }
  return words;
}

}  // namespace stagger::cli
