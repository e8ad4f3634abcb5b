#include "cli/man.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/help.hpp"
#include "cli/option_rows.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <optional>

namespace stagger::cli {
namespace {

std::string roff(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\') {
      escaped += "\\e";
    } else if (letter == '-') {
      escaped += "\\-";
    } else if ((letter == '.' || letter == '\'') && (escaped.empty() || escaped.back() == '\n')) {
      escaped += std::string("\\&") + letter;
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

bool shared(const OptionRow& row) {
  return std::string_view(row.commands).find(' ') != std::string_view::npos;
}

/// `-o, --output FILE`, names in bold and what stands for a value in italics.
std::string tag(const OptionRow& row) {
  std::string text;
  if (!row.argument) {
    if (row.letter != '\0') text += fmt::format("\\fB\\-{}\\fR, ", row.letter);
    text += "\\fB" + roff(row.spelled()) + "\\fR";
  }
  if (row.flag()) return text;
  return text + (text.empty() ? "" : " ") + "\\fI" + row.metavar + "\\fR" +
         (row.argument && row.repeats() ? "..." : "");
}

std::string entry(const OptionRow& row) {
  return ".TP\n" + tag(row) + "\n" + roff(description_of(row)) + ".\n";
}

std::string section_of(const Command& command) {
  std::string text = fmt::format(".SS stagger {}\n.B {}\n.PP\n{}.\n", roff(command.name),
                                 roff(usage_of(command)), roff(command.summary));
  std::string others;
  for (const OptionRow* row : rows_of(command.name)) {
    if (shared(*row)) {
      others += (others.empty() ? "" : ", ") + roff(row->spelled());
    } else {
      text += entry(*row);
    }
  }
  if (!others.empty()) text += ".PP\nDescribed below: " + others + ".\n";
  for (const OptionRow* row : rows_of(command.name)) {
    if (*row->list == '\0') continue;
    text += fmt::format(".PP\n{}:\n", roff(row->list));
    for (const Word& word : row->words())
      text += fmt::format(".TP\n.B {}\n{}.\n", roff(word.name), roff(word.meaning));
  }
  if (command.names != nullptr) {
    text += ".PP\nNames in \\-\\-expect:\n";
    for (const ExpectName& name : command.names())
      text += fmt::format(".TP\n.B {}\n{}\n", name.name, roff(name.meaning));
  }
  return text + fmt::format(".PP\nExamples:\n.PP\n.nf\n{}.fi\n", roff(command.examples));
}

std::string shared_options() {
  std::string text = ".SH OPTIONS OF SEVERAL COMMANDS\n";
  std::optional<Group> group;
  for (const OptionRow* row : all_rows()) {
    if (!shared(*row)) continue;
    if (group != row->group) text += fmt::format(".SS {}\n", title(row->group));
    group = row->group;
    text += entry(*row);
    text += "Taken by: " + roff(row->commands) + ".\n";
  }
  return text;
}

int man_command(const Options&) {
  write_stdout(man_page());
  return kHolds;
}

}  // namespace

std::string man_page() {
  std::string text = fmt::format(
      ".TH STAGGER 1 \"\" \"stagger {}\"\n.SH NAME\nstagger \\- {}\n.SH SYNOPSIS\n.B stagger\n"
      "COMMAND [OPTION]...\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      version(), roff("schedules for a deterministic attention backward pass"), roff(kDescription));
  for (const Command* command : commands())
    text += section_of(*command);
  text += shared_options() + ".SH EXIT STATUS\n";
  for (const ExitMeaning& exit : exit_meanings())
    text += fmt::format(".TP\n.B {}\n{}.\n", exit.status, roff(exit.meaning));
  return text +
         ".SH ENVIRONMENT\n"
         ".TP\n.B NO_COLOR\nNo colours, unless \\-\\-color always asks for them.\n"
         ".TP\n.B COLUMNS\nThe width of what is no terminal, where \\-\\-width does not say it.\n"
         ".TP\n.BR LC_ALL ,\\  LC_CTYPE ,\\  LANG\nUnicode is printed where they name UTF\\-8.\n";
}

extern const Command kMan;
const Command kMan{
    .name = "man",
    .summary = "The man page, in roff",
    .examples = "  stagger man | man -l -\n",
    .run = man_command,
};

}  // namespace stagger::cli
