// Completion scripts, from the rows of options.

#include "cli/completion.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/option_rows.hpp"

#include <fmt/format.h>

#include <map>

namespace stagger::cli {
namespace {

std::string names_in(const std::vector<Word>& words) {
  std::string names;
  for (const Word& word : words)
    names += (names.empty() ? "" : " ") + word.name;
  return names;
}

std::string command_names() {
  std::string names;
  for (const Command* command : commands())
    names += (names.empty() ? "" : " ") + std::string(command->name);
  return names;
}

// ---- bash -------------------------------------------------------------------------------------

/// `--output|-o`
std::string bash_pattern(const OptionRow& row) {
  return row.spelled() + (row.letter == '\0' ? "" : std::string{'|', '-', row.letter});
}

/// What may follow each option of a command, and what its arguments may be.
std::string bash_case(const Command& command) {
  std::string options;
  std::string arguments = "files=no";
  std::map<std::string, std::string> patterns;  ///< by what is done
  for (const OptionRow* row : rows_of(command.name)) {
    const std::string names = names_in(row->words());
    const std::string values = row->file() || (names.empty() && row->argument)
                                   ? "files=yes"
                                   : fmt::format("values=\"{}\"", names);
    if (row->argument) {
      arguments = values;
      continue;
    }
    options += (options.empty() ? "" : " ") + row->spelled();
    if (row->flag()) continue;
    std::string& pattern = patterns[values];
    pattern += (pattern.empty() ? "" : "|") + bash_pattern(*row);
  }
  std::string text = fmt::format("    {})\n      options=\"{}\"\n      case \"$previous\" in\n",
                                 command.name, options);
  for (const auto& [values, pattern] : patterns)
    text += fmt::format("        {}) {} ;;\n", pattern, values);
  return text + fmt::format("        *) free=yes; {} ;;\n      esac ;;\n", arguments);
}

std::string bash_script() {
  std::string cases;
  for (const Command* command : commands())
    cases += bash_case(*command);
  return fmt::format(R"(# bash completion for stagger: source <(stagger completion bash)
_stagger() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  local options="" values="" files=no free=no
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$current"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$free$current" in
    yes-*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;
    *)
      if [ "$files" = yes ]; then
        COMPREPLY=($(compgen -f -- "$current"))
      else
        COMPREPLY=($(compgen -W "$values" -- "$current"))
      fi ;;
  esac
}}
complete -F _stagger stagger
)",
                     command_names(), cases);
}

// ---- zsh --------------------------------------------------------------------------------------

/// Within zsh's '…[…]…' specifications.
std::string zsh_quote(const std::string& text) {
  std::string quoted;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') quoted += '\\';
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return quoted;
}

std::string zsh_values(const OptionRow& row) {
  const std::string names = names_in(row.words());
  const bool files = row.file() || (row.argument && names.empty());
  return fmt::format(":{}:{}", row.metavar,
                     files           ? "_files"
                     : names.empty() ? ""
                                     : "(" + names + ")");
}

std::string zsh_specification(const OptionRow& row) {
  if (row.argument) return fmt::format("'{}{}'", row.repeats() ? "*" : "", zsh_values(row));
  const std::string rest =
      fmt::format("[{}]{}'", zsh_quote(row.meaning), row.flag() ? "" : zsh_values(row));
  const std::string repeats = row.repeats() ? "*" : "";
  if (row.letter == '\0') return "'" + repeats + row.spelled() + rest;
  return fmt::format("'{}'{{-{},{}}}'{}", repeats, row.letter, row.spelled(), rest);
}

std::string zsh_script() {
  std::string names;
  std::string cases;
  for (const Command* command : commands()) {
    names += fmt::format("    '{}:{}'\n", command->name, zsh_quote(command->summary));
    cases += fmt::format("    {}) _arguments", command->name);
    for (const OptionRow* row : rows_of(command->name))
      cases += " \\\n      " + zsh_specification(*row);
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef stagger
# zsh completion for stagger: stagger completion zsh > "${{fpath[1]}}/_stagger"
_stagger() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local command="$words[2]"
  shift words
  (( CURRENT-- ))
  case "$command" in
{}  esac
}}
compdef _stagger stagger
)",
                     names, cases);
}

// ---- fish -------------------------------------------------------------------------------------

std::string fish_quote(const std::string& text) {
  std::string quoted;
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted;
}

std::string fish_line(const Command& command, const OptionRow& row) {
  const std::string names = names_in(row.words());
  const std::string words = names.empty() ? "" : fmt::format(" -a '{}'", names);
  std::string line =
      fmt::format("complete -c stagger -n '__fish_seen_subcommand_from {}'", command.name);
  if (row.argument) return line + (names.empty() ? " -F\n" : " -f" + words + "\n");
  if (row.letter != '\0') line += fmt::format(" -s {}", row.letter);
  const char* takes = row.flag() ? "" : row.file() ? " -r -F" : " -x";
  return line +
         fmt::format(" -l {}{}{} -d '{}'\n", row.name, takes, words, fish_quote(row.meaning));
}

std::string fish_script() {
  std::string text = "# fish completion for stagger: stagger completion fish | source\n";
  for (const Command* command : commands()) {
    text += fmt::format("complete -c stagger -n __fish_use_subcommand -f -a {} -d '{}'\n",
                        command->name, fish_quote(command->summary));
    for (const OptionRow* row : rows_of(command->name))
      text += fish_line(*command, *row);
  }
  return text;
}

int completion_command(const Options& options) {
  write_stdout(completion_script(options.shell));
  return kHolds;
}

}  // namespace

std::string completion_script(Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_script();
    case Shell::zsh:
      return zsh_script();
    case Shell::fish:
      break;
  }
  return fish_script();
}

extern const Command kCompletion;
const Command kCompletion{
    .name = "completion",
    .summary = "A completion script for bash, zsh or fish",
    .examples =
        "  source <(stagger completion bash)\n"
        "  stagger completion fish | source\n",
    .run = completion_command,
};

}  // namespace stagger::cli
