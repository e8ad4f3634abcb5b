// What stands on the command line without a name.

#include "cli/commands.hpp"
#include "cli/rows.hpp"

#include <array>

namespace stagger::cli {
namespace {

constexpr std::array kTopics = {
    Named<Topic>{"masks", Topic::masks, "and their keys"},
    Named<Topic>{"schedules", Topic::schedules, "and their preconditions"},
    Named<Topic>{"designs", Topic::designs, "and whose they are"}};
constexpr std::array kShells = {Named<Shell>{"bash", Shell::bash}, Named<Shell>{"zsh", Shell::zsh},
                                Named<Shell>{"fish", Shell::fish}};

std::vector<Word> command_words() {
  std::vector<Word> words;
  for (const Command* command : commands())
    words.push_back({command->name, command->summary});
  return words;
}

}  // namespace

std::vector<OptionRow> argument_rows() {
  return {
      {.name = "command",
       .metavar = "COMMAND",
       .meaning = "which to explain",
       .target = &Options::topic,
       .commands = "help",
       .group = Group::arguments,
       .fallback = "all, a line each",
       .proposed = command_words,
       .argument = true},
      {.name = "topic",
       .metavar = "TOPIC",
       .meaning = "what to list",
       .target = one_of<kTopics, &Options::listed>(),
       .commands = "list",
       .group = Group::arguments,
       .required = true,
       .argument = true},
      {.name = "file",
       .metavar = "FILE",
       .meaning = "the table: .json, .csv, or - for standard input",
       .target = &Options::table,
       .commands = "verify",
       .group = Group::arguments,
       .required = true,
       .argument = true},
      {.name = "runs",
       .metavar = "RUNS",
       .meaning = "runs as `stagger run --json` writes them: files, or folders of *.json",
       .target = &Options::measured,
       .commands = "predict",
       .group = Group::arguments,
       .required = true,
       .argument = true},
      {.name = "shell",
       .metavar = "SHELL",
       .meaning = "whose script to print",
       .target = one_of<kShells, &Options::shell>(),
       .commands = "completion",
       .group = Group::arguments,
       .required = true,
       .argument = true},
  };
}

}  // namespace stagger::cli
