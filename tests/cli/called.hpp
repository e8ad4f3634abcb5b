#pragma once

// A call of the command, made in the test as a program makes it.

#include "cli/captured_output.hpp"
#include "cli/commands.hpp"
#include "cli/error_code.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/help.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/version.hpp"

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace stagger::cli {

/// A folder of its own that files are written to, and the environment of a plain terminal.
class Desk {
 public:
  Desk() : before_(std::filesystem::current_path()) {
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::setenv("COLUMNS", "80", 1);
    for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE"})
      ::unsetenv(name);
  }
  ~Desk() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

 private:
  std::filesystem::path before_;
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("stagger-kept-" + std::to_string(::getpid()));
};

/// Words apart by spaces; those within single quotes are one.
inline std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool quoted = false;
  bool in_word = false;
  for (const char letter : line) {
    if (letter == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (letter == '\'') {
      quoted = !quoted;
    } else {
      words.back() += letter;
    }
  }
  return words;
}

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), by), at += by.size();
  return text;
}

inline const std::string kSource = STAGGER_SOURCE_DIR;
inline const std::string kProfile = kSource + "/configs/machines/h200.json";

/// The text without what is another one's on another day or device: the version, the folder, how
/// long a run or a search took and what ran it, whose name may need a second line.
inline std::string lasting(const std::string& text) {
  std::string kept;
  bool of_device = false;
  bool wraps_device = false;
  bool in_measured = false;
  std::istringstream lines(replaced(replaced(text, version(), "VERSION"), kSource, "SOURCE"));
  for (std::string line; std::getline(lines, line);) {
    const std::string word = line.substr(0, line.find(' '));
    wraps_device = word == "device" || (wraps_device && word.empty());
    if (wraps_device && word.empty()) continue;
    if (line.find("\"measured\": {") != std::string::npos) in_measured = true;
    const bool passes = word == "measured" || word == "device" || word == "commit" || of_device ||
                        in_measured || line.find("\"seconds\":") != std::string::npos ||
                        line.find("\"commit\":") != std::string::npos ||
                        line.find("e-0") != std::string::npos;  // an error, in all its digits
    kept += (passes ? word : line) + "\n";
    of_device = line.find("\"kind\": \"cpu\"") != std::string::npos;  // its name is next
    if (line.find('}') != std::string::npos) in_measured = false;
  }
  return kept;
}

/// What a call prints and complains of, and its exit status.
inline std::string said(const std::string& line) {
  std::string text = "$ stagger " + line + "\n";
  int code = 0;
  const CapturedOutput output;
  try {
    const CommandLine command = parse(words_of(replaced(line, "$h200", kProfile)));
    if (command.options.help) {
      write_text(help_text(*command.command, 80), terminal_of({}));
    } else {
      check_display(command.options);
      code = command.command->run(command.options);
    }
  } catch (const Error& error) {
    code = exit_code(error.kind());
    complain(error.what());
  }
  text += output.text();
  for (const std::string& complaint : output.complaints())
    text += "! " + complaint + "\n";
  if (code != 0) text += "= " + std::to_string(code) + "\n";
  return lasting(text);
}

inline std::string all_said(std::initializer_list<const char*> lines) {
  std::string text;
  for (const char* line : lines)
    text += said(line) + "\n";
  return text;
}

}  // namespace stagger::cli
