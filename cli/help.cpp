#include "cli/help.hpp"

#include "cli/files.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/nearest.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace stagger::cli {
namespace {

/// Columns of an option in a list.
int name_columns(int width) {
  return std::min(26, width / 3);
}

constexpr int kCommandColumns = 13;  ///< of a command in a list

constexpr std::array<ExitMeaning, 9> kExits = {{
    {kHolds, "it holds"},
    {kViolated, "a property is violated: a formula, the validity of a table, an --expect"},
    {kUsage, "the command line makes no sense, or asks for too much"},
    {kBadFile, "a file is malformed, or cannot be read or written"},
    {kDeadlock, "it hangs, or nothing is feasible"},
    {kLimit, "a limit was reached without proof"},
    {kInternal, "internal error"},
    {kSkipped, "skipped: there is no GPU"},
    {kInterrupted, "interrupted"},
}};

std::string listed_at(const std::string& name, const std::string& text, int columns, int width) {
  const std::string line = fmt::format("  {:<{}}", name, columns - 2);
  // A name that leaves no space behind it has a line of its own.
  const bool long_name = static_cast<int>(name.size()) + 2 >= columns;
  const std::string gap =
      long_name ? "\n" + std::string(static_cast<std::size_t>(columns), ' ') : "";
  return wrapped(line + gap + text, width, columns) + "\n";
}

std::string name_of(const OptionRow& row) {
  if (row.argument) return row.metavar;
  std::string name = row.letter == '\0' ? "" : std::string{'-', row.letter, ',', ' '};
  name += row.spelled();
  return row.flag() ? name : name + " " + row.metavar;
}

/// Each with the lines that it goes on in.
std::vector<std::string_view> command_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    while (end > 0 && end != std::string_view::npos && text[end - 1] == '\\')
      end = text.find('\n', end + 1);
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size() - 1) + 1);
  }
  return lines;
}

std::string exit_text(int width) {
  std::string text = "Exit status:\n";
  for (const ExitMeaning& exit : kExits)
    text += listed_at(std::to_string(exit.status), exit.meaning, 7, width);
  return text;
}

/// The words of a command line, quoted ones whole; the ends of lines that it goes on after are
/// spaces.
std::vector<std::string> words_on(std::string_view line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char letter : line) {
    quoted = quoted != (letter == '\'');
    if (!quoted && (letter == ' ' || letter == '\n' || letter == '\\')) {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += letter;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// Columns from `index` on of a word and, if it is an option, its value; with the sign that the
/// line goes on, if it does.
std::size_t columns_at(std::span<const std::string> words, std::size_t index, bool with_value) {
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  std::size_t columns = 1 + words[index].size();
  std::size_t next = index + 1;
  if (with_value && is_option(words[index]) && next < words.size() && !is_option(words[next])) {
    columns += 1 + words[next++].size();
  }
  return next < words.size() ? columns + 2 : columns;
}

/// A command line as a shell reads it, broken where it would be wider than the terminal: behind an
/// option only where no line has room for its value too.
std::string example(std::string_view line, int width) {
  constexpr std::size_t kIndent = 5;
  const auto most = static_cast<std::size_t>(width);
  const std::vector<std::string> words = words_on(line);
  std::string text = "  " + words.front();
  std::size_t column = text.size();
  for (std::size_t index = 1; index < words.size(); ++index) {
    const bool fits = kIndent + columns_at(words, index, true) <= most;
    if (column + columns_at(words, index, fits) > most) {
      text += " \\\n" + std::string(kIndent, ' ');
      column = kIndent;
    }
    text += " " + words[index];
    column += 1 + words[index].size();
  }
  return text + "\n";
}

std::string examples_of(const Command& command, int width) {
  std::string text = "Examples:\n";
  for (const std::string_view line : command_lines(command.examples))
    text += example(line, width);
  return text;
}

}  // namespace

std::span<const ExitMeaning> exit_meanings() {
  return kExits;
}

std::string description_of(const OptionRow& row) {
  std::string text = row.meaning;
  const bool closed = std::holds_alternative<Choice>(row.target);
  if (closed) {
    std::string words;
    for (const Word& word : row.words()) {
      words += (words.empty() ? "" : ", ") + word.name +
               (word.meaning.empty() ? "" : " (" + word.meaning + ")");
    }
    text += ": " + words;
  }
  const bool ranged = std::holds_alternative<std::int64_t Options::*>(row.target) ||
                      std::holds_alternative<std::optional<std::int64_t> Options::*>(row.target);
  constexpr std::int64_t kTelling = 10'000;  // A limit on memory alone tells a reader nothing.
  if (ranged && row.range.most <= kTelling) {
    text += fmt::format("; {} to {}", row.range.least, row.range.most);
  }
  if (row.required && !row.argument) text += "; required";
  if (*row.fallback != '\0') text += fmt::format("; default: {}", row.fallback);
  return text;
}

std::string usage_of(const Command& command) {
  std::string usage = fmt::format("stagger {} [OPTION]...", command.name);
  for (const OptionRow* row : rows_of(command.name)) {
    if (!row->argument && !row->required) continue;
    const std::string name = row->argument ? row->metavar : row->spelled() + " " + row->metavar;
    usage += " " + (row->required ? name : "[" + name + "]") +
             (row->argument && row->repeats() ? "..." : "");
  }
  return usage;
}

std::string help_text(const Command& command, int width) {
  std::string text =
      wrapped(fmt::format("{}.\n\nUsage: {}\n", command.summary, usage_of(command)), width, 4);
  std::optional<Group> group;
  for (const OptionRow* row : rows_of(command.name)) {
    if (group != row->group) text += fmt::format("\n{}:\n", title(row->group));
    group = row->group;
    text += listed_at(name_of(*row), description_of(*row), name_columns(width), width);
  }
  for (const OptionRow* row : rows_of(command.name)) {
    if (*row->list == '\0') continue;
    text += fmt::format("\n{}:\n", row->list);
    for (const Word& word : row->words())
      text += listed_at(word.name, word.meaning, name_columns(width), width);
  }
  if (command.names != nullptr) {
    text += "\nNames in --expect:\n";
    for (const ExpectName& name : command.names())
      text += listed_at(name.name, name.meaning, name_columns(width), width);
  }
  return text + "\n" + examples_of(command, width);
}

std::string help_text(int width) {
  std::string text =
      wrapped(std::string(kDescription) + "\n\nUsage: stagger COMMAND [OPTION]...\n", width, 0);
  text += "\nCommands:\n";
  for (const Command* command : commands())
    text += listed_at(command->name, command->summary, kCommandColumns, width);
  text += wrapped(
      "\n`stagger help COMMAND` or `stagger COMMAND --help` says what a command takes; "
      "`stagger --version` says what this is.\n\n",
      width, 0);
  return text + exit_text(width);
}

std::string overview_text(int width) {
  const auto told = [width](const char* line, const char* what) {
    return example(line, width) + wrapped(std::string("      ") + what + "\n", width, 6);
  };
  return wrapped("stagger: schedules for a deterministic attention backward pass.\n\n", width, 0) +
         told("stagger compare --mask causal --n 8 --heads 4",
              "every schedule on one problem: which is best, and how far from the bound") +
         told("stagger show --mask causal --n 8 --schedule symmetric-shift",
              "one schedule as a table and a chart") +
         told("stagger verify mine.table.json",
              "whether a table of yours is complete, deterministic and free of deadlock") +
         wrapped("\n`stagger --help` lists the commands, `stagger help COMMAND` explains one.\n",
                 width, 0);
}

namespace {

int help_command(const Options& options) {
  const Terminal terminal = terminal_of(options);
  if (options.topic.empty()) {
    write_text(help_text(terminal.width), terminal);
    return kHolds;
  }
  for (const Command* command : commands()) {
    if (options.topic != command->name) continue;
    write_text(help_text(*command, terminal.width), terminal);
    return kHolds;
  }
  throw Error(ErrorKind::usage, unknown_name("command", options.topic, names_of(commands())));
}

}  // namespace

extern const Command kHelp;
const Command kHelp{
    .name = "help",
    .summary = "What a command takes, or which there are",
    .examples = "  stagger help compare\n",
    .run = help_command,
};

}  // namespace stagger::cli
