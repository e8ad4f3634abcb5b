#include "cli/option_rows.hpp"

#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/config.hpp"
#include "cli/help.hpp"
#include "cli/man.hpp"
#include "cli/parser.hpp"
#include "core/error.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::cli {
namespace {

std::vector<std::string> words_in(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  return words;
}

/// The part of a text from a line on to the next that begins like it.
std::string section(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  return text.substr(from, text.find(end, from + begin.size()) - from);
}

std::string without(std::string text, const std::string& what) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what))
    text.erase(at, what.size());
  return text;
}

bool says(const std::string& text, const std::string& word) {
  CAPTURE(word);
  return text.find(word) != std::string::npos;
}

TEST_CASE("beside an archive nothing says a problem, a model or a machine") {
  std::vector<std::string> excluded;
  for (const OptionRow* row : rows_of("optimize")) {
    if (row->name == std::string("check-archive")) excluded = words_in(row->excludes);
  }
  for (const OptionRow* row : rows_of("optimize")) {
    const bool describes =
        row->group == Group::problem || row->group == Group::timing || row->group == Group::machine;
    if (!describes) continue;
    CAPTURE(row->name);
    CHECK(std::ranges::count(excluded, row->name) == 1);
  }
}

TEST_CASE("no command has two options of one name") {
  for (const Command* command : commands()) {
    std::set<std::string> names;
    std::set<char> letters;
    for (const OptionRow* row : rows_of(command->name)) {
      CAPTURE(command->name, row->name);
      CHECK(names.insert(row->name).second);
      if (row->letter != '\0') CHECK(letters.insert(row->letter).second);
      CHECK(row->flag() == (*row->metavar == '\0'));
    }
    CHECK(names.count("help") == 1);
  }
}

TEST_CASE("what a row names is there") {
  for (const OptionRow& row : option_rows()) {
    const std::vector<std::string> takers = words_in(row.commands);
    CHECK_FALSE(takers.empty());
    for (const std::string& command : takers) {
      CAPTURE(row.name, command);
      CHECK(std::any_of(commands().begin(), commands().end(),
                        [&](const Command* known) { return command == known->name; }));
      for (const char* list : {row.excludes, row.replaces, row.needs}) {
        for (const std::string& other : words_in(list)) {
          // What only some of the commands take may be named where another takes it too.
          const bool known = std::any_of(takers.begin(), takers.end(), [&](const auto& taker) {
            return find_row(taker, other) != nullptr;
          });
          CAPTURE(other);
          CHECK(known);
        }
      }
    }
  }
}

TEST_CASE("what is said of a command's option names no option that the command does not take") {
  int named = 0;
  for (const Command* command : commands()) {
    for (const OptionRow* row : rows_of(command->name)) {
      const std::string text = std::string(row->meaning) + " " + row->fallback;
      for (std::size_t at = text.find("--"); at != std::string::npos;
           at = text.find("--", at + 2)) {
        const std::size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", at);
        const std::string other = text.substr(at + 2, end - at - 2);
        if (text.substr(0, at).ends_with("`stagger run ")) continue;  // another command's
        CAPTURE(command->name, row->name, other);
        CHECK(find_row(command->name, other) != nullptr);
        ++named;
      }
    }
  }
  CHECK(named > 50);
}

TEST_CASE("a stated default is the default") {
  int seen = 0;
  for (const OptionRow& row : option_rows()) {
    const std::string stated = row.fallback;
    CAPTURE(row.name, row.commands, stated);
    // Of what is absent unless given, the default is said where it is taken.
    const bool optional =
        std::holds_alternative<std::optional<std::int64_t> Options::*>(row.target);
    const auto* text = std::get_if<std::string Options::*>(&row.target);
    const bool absent = text != nullptr && (Options{}.**text).empty();
    if (stated.empty() || optional || absent) continue;
    Options options;
    if (assign(row, stated, options)) {
      CHECK(stated.find(' ') != std::string::npos);  // it is said in words
      continue;
    }
    CHECK(options == Options{});
    ++seen;
  }
  CHECK(seen > 20);
}

TEST_CASE("values out of range, and words that are none, are refused for every option") {
  for (const OptionRow& row : option_rows()) {
    CAPTURE(row.name, row.commands);
    Options options;
    const bool number = std::holds_alternative<std::int64_t Options::*>(row.target) ||
                        std::holds_alternative<std::optional<std::int64_t> Options::*>(row.target);
    if (number) {
      CHECK_FALSE(assign(row, std::to_string(std::max<std::int64_t>(row.range.least, 1)), options));
      if (row.range.least > Range{}.least) {
        CHECK(assign(row, std::to_string(row.range.least - 1), options));
      }
      for (const char* word :
           {"", "x", "1x", "0x1", " 1", "+1", "1e3", "1.0", "--", "99999999999999999999"}) {
        CAPTURE(word);
        CHECK(assign(row, word, options));
      }
      CHECK(assign(row, "99999999999999999999", options)->find("99999999999999999999") == 1);
    }
    if (std::holds_alternative<Choice>(row.target)) {
      for (const Word& word : row.words())
        CHECK_FALSE(assign(row, word.name, options));
      CHECK(assign(row, "", options));
      CHECK(assign(row, row.words().front().name + "x", options));
    }
  }
}

TEST_CASE("completion and the man page have every option, value and argument of every command") {
  const std::string man = without(man_page(), "\\");
  const std::string shared = section(man, ".SH OPTIONS OF SEVERAL COMMANDS", ".SH EXIT STATUS");
  const std::string bash = completion_script(Shell::bash);
  const std::string zsh = completion_script(Shell::zsh);
  const std::string fish = completion_script(Shell::fish);
  int seen = 0;
  for (const Command* command : commands()) {
    const std::string name = command->name;
    const std::string in_man = section(man, ".SS stagger " + name + "\n", "\n.S");
    const std::string in_bash = section(bash, "\n    " + name + ")\n", "\n      esac ;;");
    const std::string in_zsh = section(zsh, "\n    " + name + ") ", " ;;\n");
    std::string in_fish;
    std::istringstream lines(fish);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("from " + name + "'") != std::string::npos) in_fish += line + "\n";
    }
    for (const OptionRow* row : rows_of(name)) {
      CAPTURE(name, row->name);
      ++seen;
      CHECK(says(help_text(*command, 80), row->spelled()));
      CHECK(says(in_man, row->spelled()));
      if (!row->argument) {
        CHECK(says(in_bash, row->spelled()));
        CHECK(says(in_zsh, row->spelled() + (row->letter == '\0' ? "[" : "}")));
        CHECK(says(in_fish, std::string("-l ") + row->name + " "));
      }
      if (!row->flag()) {
        CHECK(says(in_zsh, std::string(":") + row->metavar + ":"));
        CHECK(says(in_man + shared, std::string("fI") + row->metavar + "fR"));
      }
      const bool several = words_in(row->commands).size() > 1;
      if (*row->fallback != '\0') {
        CHECK(says(several ? shared : in_man, std::string("default: ") + row->fallback));
      }
      for (const Word& word : row->words()) {
        CAPTURE(word.name);
        CHECK(says(in_bash, word.name));
        CHECK(says(in_zsh, word.name));
        CHECK(says(in_fish, word.name));
      }
    }
  }
  CHECK(seen > 250);
}

TEST_CASE("help and the man page list every format and layout that export writes") {
  const auto kExport = std::ranges::find(commands(), std::string_view("export"), &Command::name);
  REQUIRE(kExport != commands().end());
  const std::string help = help_text(**kExport, 200);
  const std::string in_man = section(without(man_page(), "\\"), ".SS stagger export\n", "\n.S");
  std::size_t listed = 0;
  for (const char* name : {"format", "as"}) {
    const OptionRow* row = find_row("export", name);
    REQUIRE(row != nullptr);
    const std::string list = section(help, std::string("\n") + row->list + ":\n", "\n\n");
    for (const Word& word : row->words()) {
      std::string line = "\n  " + word.name;
      line.resize(27, ' ');
      CHECK(says(list, line + word.meaning));
      CHECK(says(in_man, ".B " + word.name + "\n" + word.meaning + ".\n"));
      ++listed;
    }
  }
  CHECK(listed >= 20);
}

TEST_CASE("the man page describes a shared option once") {
  const std::string man = without(man_page(), "\\");
  for (const OptionRow& row : option_rows()) {
    if (words_in(row.commands).size() == 1) continue;
    const std::string description =
        without(description_of(row), "\\") + ".\nTaken by: " + row.commands;
    CAPTURE(row.name, row.commands);
    const std::size_t first = man.find(description);
    CHECK(first != std::string::npos);
    CHECK(man.find(description, first + 1) == std::string::npos);
  }
}

TEST_CASE("a command line is read into options, or refused") {
  const CommandLine line = parse(
      {"analyze", "--n", "8", "--expect", "n == 8", "--expect=m == 1", "--schedule=spt", "--json"});
  CHECK(line.command->name == std::string("analyze"));
  CHECK(line.options.n == 8);
  CHECK(line.options.expect == std::vector<std::string>{"n == 8", "m == 1"});
  CHECK(line.options.json);
  CHECK(line.options.problem_given);
  CHECK(line.options.given == std::vector<std::string>{"n", "schedule", "expect", "json"});
  CHECK(parse({"export", "-ox.svg", "--n=4"}).options.output == "x.svg");
  CHECK(parse({"predict", "a", "b", "c"}).options.measured.size() == 3);
  CHECK(parse({"analyze", "--frob", "--help"}).options.help);
  CHECK(parse({"verify", "-"}).options.table == "-");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"frob"},
                                                {"-x"},
                                                {"analyze", "--frob"},
                                                {"analyze", "--n"},
                                                {"analyze", "--n", "--json"},
                                                {"verify", "a", "b"},
                                                {"verify"},
                                                {"analyze", "--json=1"},
                                                {"analyze", "--n=4", "--seq=4"},
                                                {"analyze", "--n=4", "--n=4"},
                                                {"export", "--n=4"},
                                                {"analyze", "--model="},
                                                {"analyze", "-5"},
                                                {"list", "masks", "schedules"},
                                                {""}}) {
    CAPTURE(words);
    CHECK_THROWS_AS(parse(words), Error);
  }
}

}  // namespace
}  // namespace stagger::cli
