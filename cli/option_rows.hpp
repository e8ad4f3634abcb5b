#pragma once

#include "cli/options.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stagger::cli {

/// A word that an option takes or that completion proposes, and what it means.
struct Word {
  std::string name;
  std::string meaning = {};
};
using Words = std::vector<Word> (*)();

/// One of several words; `put` stores the one at an index.
struct Choice {
  Words words = nullptr;
  void (*put)(Options&, std::size_t index) = nullptr;
  const char* noun = nullptr;  ///< what a word is; nullptr: as the option is called
};

/// Where a value goes, which says how it is written.
using Target =
    std::variant<bool Options::*, std::int64_t Options::*, std::optional<std::int64_t> Options::*,
                 double Options::*, std::optional<double> Options::*, std::string Options::*,
                 std::vector<std::string> Options::*, Choice>;

/// Under which headline help shows an option, in the order in which it does.
enum class Group { arguments, problem, schedule, run, timing, machine, search, report, output };
[[nodiscard]] const char* title(Group group);

struct Range {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// An option or an argument of one or several commands, once and for all: the parser, `--config`,
/// help, completion, the man page and the messages are made from these. Two rows may have one name
/// if no command takes both. Lists of names and commands are words joined by spaces.
struct OptionRow {
  const char* name;          ///< without dashes
  char letter = '\0';        ///< the short name, if there is one
  const char* metavar = "";  ///< what stands for the value; empty: a flag
  const char* meaning;
  Target target;
  const char* commands;  ///< that take it
  Group group;
  const char* fallback = "";  ///< the default as help states it
  Range range = {};           ///< of integers
  Words proposed = nullptr;   ///< words that completion proposes, where others are right too
  const char* list = "";      ///< headline under which help lists those that are proposed
  const char* excludes = "";  ///< options that contradict it
  const char* replaces = "";  ///< on the command line, a config's options that it is instead of
  const char* needs = "";     ///< options without one of which it would mean nothing
  bool required = false;
  bool argument = false;  ///< without dashes, by its place

  [[nodiscard]] bool flag() const { return std::holds_alternative<bool Options::*>(target); }
  [[nodiscard]] bool repeats() const {
    return std::holds_alternative<std::vector<std::string> Options::*>(target);
  }
  [[nodiscard]] bool file() const { return std::string_view(metavar) == "FILE"; }
  /// `--mask`; of an argument its metavar.
  [[nodiscard]] std::string spelled() const;
  /// What it takes or what is proposed; empty if that is anything.
  [[nodiscard]] std::vector<Word> words() const;
};

[[nodiscard]] std::span<const OptionRow> option_rows();

/// Whether a list of words joined by spaces has this one.
[[nodiscard]] bool has_word(std::string_view list, std::string_view word);

/// All of them, by group.
[[nodiscard]] std::vector<const OptionRow*> all_rows();

/// Those that a command takes, by group.
[[nodiscard]] std::vector<const OptionRow*> rows_of(std::string_view command);

/// The row of that name, nullptr if the command has none.
[[nodiscard]] const OptionRow* find_row(std::string_view command, std::string_view name);

/// Stores a value. What is returned says why the word is none, nullopt if it is; a flag takes an
/// empty word.
[[nodiscard]] std::optional<std::string> assign(const OptionRow& row, const std::string& word,
                                                Options& options);

}  // namespace stagger::cli
