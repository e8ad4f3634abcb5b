// CLI11 takes the words apart; what they mean is said by the rows of options. It is included here
// alone, since it takes seconds to compile.

#include "cli/parser.hpp"

#include "cli/config.hpp"
#include "cli/option_rows.hpp"
#include "core/error.hpp"
#include "core/nearest.hpp"
#include "core/text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <span>
#include <utility>

namespace stagger::cli {
namespace {

[[noreturn]] void reject(const Command* command, const std::string& what) {
  const std::string help = command == nullptr ? "--help" : std::string(command->name) + " --help";
  throw Error(ErrorKind::usage, what + "\nSee `stagger " + help + "`.");
}

/// The command that a first word means.
std::string_view meant_by(std::string_view word) {
  if (word == "-h" || word == "--help") return "help";
  return word == "-V" || word == "--version" ? "version" : word;
}

const Command& command_of(const std::string& word) {
  for (const Command* command : commands()) {
    if (meant_by(word) == command->name) return *command;
  }
  if (word.starts_with('-')) {
    reject(nullptr, in_quotes(word) +
                        " comes before a command; options follow it: stagger COMMAND [OPTION]...");
  }
  reject(nullptr, unknown_name("command", word, names_of(commands())));
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const OptionRow* row : rows_of(command.name)) {
    if (!row->argument) names.push_back(row->spelled());
  }
  return names;
}

// ---- taking the words apart -------------------------------------------------------------------

CLI::Option* add(CLI::App& app, const OptionRow& row) {
  const std::string name = row.argument ? row.name : row.spelled();
  const std::string all = row.letter == '\0' ? name : std::string{'-', row.letter, ','} + name;
  if (row.flag()) return app.add_flag(all)->disable_flag_override();
  // However often it comes, each time with one value; what that means is judged later.
  CLI::Option* option = app.add_option(all)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  if (row.argument && row.repeats()) return option->expected(-1);
  return option->expected(1)->allow_extra_args(row.argument);
}

/// What CLI11 can object to: an option without its value, a flag with one.
[[noreturn]] void reject_shape(const Command& command, const std::string& complaint) {
  const std::string name = complaint.substr(0, complaint.find_first_of(": "));
  for (const OptionRow* row : rows_of(command.name)) {
    if (row->spelled() != name && row->name != name) continue;
    if (row->flag()) reject(&command, row->spelled() + " takes no value");
    reject(&command, row->spelled() + " needs a value: " + row->metavar + ", " + row->meaning);
  }
  reject(&command, complaint);
}

/// The option that a word without one may have been meant for: one of whose words it is, or the
/// table if it looks like a file. nullptr if there is none.
const OptionRow* row_meant(const Command& command, const std::string& word) {
  const std::string name = word.substr(0, word.find(':'));
  for (const OptionRow* row : rows_of(command.name)) {
    const std::vector<Word> words = row->words();
    if (std::ranges::find(words, name, &Word::name) != words.end()) return row;
  }
  const bool file = word == "-" || word.find('.') != std::string::npos;
  return file ? find_row(command.name, "table") : nullptr;
}

/// `; export and run have it`: the commands that have an option of this name, if there are any.
std::string others_with(const std::string& name) {
  std::vector<std::string> others;
  for (const Command* command : commands()) {
    const bool has = std::ranges::any_of(rows_of(command->name), [&](const OptionRow* row) {
      const bool is_letter = row->letter != '\0' && name == std::string{'-', row->letter};
      return !row->argument && (row->spelled() == name || is_letter);
    });
    if (has) others.emplace_back(command->name);
  }
  if (others.empty()) return "";
  std::string words = others.front();
  for (std::size_t index = 1; index < others.size(); ++index)
    words += (index + 1 == others.size() ? " and " : ", ") + others[index];
  return "; " + words + does(std::ssize(others), " has it", " have it");
}

[[noreturn]] void reject_extra(const Command& command, const std::vector<std::string>& extra) {
  for (const std::string& word : extra) {
    if (!word.starts_with('-') || word == "-") continue;
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> known = option_names(command);
    std::string likely;
    for (const std::string& near : nearest(name, known))
      likely += (likely.empty() ? "; did you mean " : " or ") + near;
    reject(&command, "unknown option " + in_quotes(name) +
                         (likely.empty() ? others_with(name) : likely + "?"));
  }
  const std::string& word = extra.front();
  const OptionRow* row = row_meant(command, word);
  const std::string meant =
      row == nullptr ? "" : "; did you mean " + row->spelled() + " " + word + "?";
  reject(&command, "unexpected word " + in_quotes(word) + meant);
}

std::vector<Given> given_in(const Command& command, std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::pair<const OptionRow*, const CLI::Option*>> options;
  for (const OptionRow* row : rows_of(command.name))
    options.emplace_back(row, add(app, *row));
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    // CLI11 would take the next word.
    if (word.starts_with("--") && equals + 1 == word.size()) {
      reject_shape(command, word.substr(0, equals));
    }
  }
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    reject_shape(command, error.what());
  }
  std::vector<Given> given;
  for (const auto& [row, option] : options) {
    if (option->count() > 0) given.push_back({row, option->results()});
  }
  const auto help = std::find_if(given.begin(), given.end(), [](const Given& one) {
    return one.row->name == std::string_view("help");
  });
  if (help == given.end() && app.remaining_size() > 0) reject_extra(command, app.remaining());
  return given;
}

// ---- judging what was given -------------------------------------------------------------------

const Given* find(std::span<const Given> given, std::string_view name) {
  for (const Given& one : given) {
    if (name == one.row->name) return &one;
  }
  return nullptr;
}

/// The first of `given` that a list names.
const Given* find_any(std::span<const Given> given, std::string_view list) {
  for (const Given& one : given) {
    if (has_word(list, one.row->name)) return &one;
  }
  return nullptr;
}

void assign_all(const Command& command, std::span<const Given> given, Options& options) {
  for (const Given& one : given) {
    if (one.words.size() > 1 && !one.row->repeats()) {
      reject(&command, one.row->spelled() + " is given " + std::to_string(one.words.size()) +
                           " times; it takes one value");
    }
    for (const std::string& word : one.words) {
      const auto refusal = assign(*one.row, word, options);
      if (refusal) reject(&command, one.row->spelled() + ": " + *refusal);
    }
  }
}

/// Those of a list that the command has.
std::string options_of(const Command& command, std::string_view list) {
  std::string text;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(' ', begin), list.size());
    const std::string name(list.substr(begin, end - begin));
    if (find_row(command.name, name) != nullptr) text += (text.empty() ? "--" : " or --") + name;
    begin = end + 1;
  }
  return text;
}

/// `given` on the command line, `all` with a config's.
void check_together(const Command& command, std::span<const Given> given,
                    std::span<const Given> all) {
  for (const Given& one : all) {
    if (const Given* other = find_any(all, one.row->excludes)) {
      reject(&command, one.row->spelled() + " excludes " + other->row->spelled());
    }
  }
  for (const Given& one : given) {
    const std::string_view needed = one.row->needs;
    if (!needed.empty() && find_any(all, needed) == nullptr) {
      reject(&command,
             one.row->spelled() + " means nothing without " + options_of(command, one.row->needs));
    }
  }
  for (const OptionRow* row : rows_of(command.name)) {
    if (row->required && find(all, row->name) == nullptr) {
      reject(&command, row->spelled() + " is required: " + row->meaning);
    }
  }
}

/// A config's options but those that the command line gives or is instead of.
std::vector<Given> remaining_of(std::vector<Given> config, std::span<const Given> given) {
  std::erase_if(config, [&](const Given& one) {
    return std::any_of(given.begin(), given.end(), [&](const Given& ours) {
      return ours.row == one.row || has_word(ours.row->replaces, one.row->name);
    });
  });
  return config;
}

void note(std::span<const Given> given, std::span<const Given> all, Options& options) {
  options.problem_given = find_any(all, "mask mask-file n seq seq-q seq-kv") != nullptr;
  for (const Given& one : given)
    options.given.emplace_back(one.row->name);
}

}  // namespace

CommandLine parse(const std::vector<std::string>& words) {
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  CommandLine line;
  line.command = &command_of(words.front());
  const Command& command = *line.command;
  const std::vector<Given> given = given_in(command, rest);
  if (find(given, "help") != nullptr) {
    line.options.help = true;
    return line;
  }
  std::vector<Given> all;
  if (const Given* config = find(given, "config")) {
    if (config->words.front().empty()) reject(&command, "--config: its value is empty");
    all = remaining_of(config_values(config->words.front(), command), given);
    assign_all(command, all, line.options);
  }
  assign_all(command, given, line.options);
  all.insert(all.end(), given.begin(), given.end());
  check_together(command, given, all);
  note(given, all, line.options);
  return line;
}

}  // namespace stagger::cli
