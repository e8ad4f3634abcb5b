// Completion scripts and the man page, both from the parser itself, so that they cannot lag behind
// the options.

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "core/version.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace stagger::cli {
namespace {

struct OptionWords {
  std::string name;  ///< `--mask`
  std::string meaning;
  bool flag = false;
  bool file = false;
};

std::vector<OptionWords> options_of(const CLI::App& command) {
  std::vector<OptionWords> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    words.push_back({.name = "--" + option->get_lnames().front(),
                     .meaning = option->get_description(),
                     .flag = option->get_expected_max() == 0,
                     .file = option->get_type_name() == "FILE"});
  }
  return words;
}

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string schedule_names() {
  std::string names;
  for (const schedules::Schedule* schedule : schedules::all()) {
    names += (names.empty() ? "" : " ") + std::string(schedule->name);
  }
  return names;
}

std::string mask_names() {
  std::string names;
  for (const MaskFamily& family : mask_families()) {
    names += (names.empty() ? "" : " ") + std::string(family.name);
  }
  return names;
}

std::string bash_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : subcommands(app)) {
    names += (names.empty() ? "" : " ") + command->get_name();
    std::string words;
    for (const OptionWords& option : options_of(*command))
      words += option.name + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), words);
  }
  return fmt::format(R"(# bash completion for stagger: source <(stagger completion bash)
_stagger() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} --help --version" -- "$current"))
    return
  fi
  case "$previous" in
    --schedule) COMPREPLY=($(compgen -W "{}" -- "$current")); return ;;
    --mask) COMPREPLY=($(compgen -W "{}" -- "$current")); return ;;
    --model) COMPREPLY=($(compgen -W "chain overlap" -- "$current")); return ;;
    --release) COMPREPLY=($(compgen -W "immediate delayed" -- "$current")); return ;;
    --ranks) COMPREPLY=($(compgen -W "position kv-index" -- "$current")); return ;;
    --device) COMPREPLY=($(compgen -W "cpu cuda" -- "$current")); return ;;
    --kernel) COMPREPLY=($(compgen -W "portable replay" -- "$current")); return ;;
    --dtype) COMPREPLY=($(compgen -W "fp32 bf16 fp16" -- "$current")); return ;;
    --reference) COMPREPLY=($(compgen -W "host device" -- "$current")); return ;;
    --mode) COMPREPLY=($(compgen -W "deterministic atomic no-reduce" -- "$current")); return ;;
    --color) COMPREPLY=($(compgen -W "auto always never" -- "$current")); return ;;
    list) COMPREPLY=($(compgen -W "masks schedules" -- "$current")); return ;;
    completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")); return ;;
  esac
  case "${{COMP_WORDS[1]}}" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -F _stagger stagger
)",
                     names, schedule_names(), mask_names(), cases);
}

/// Within zsh's '…[…]…' specifications.
std::string zsh_quote(const std::string& text) {
  std::string quoted;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') quoted += '\\';
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return quoted;
}

std::string zsh_script(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : subcommands(app)) {
    names +=
        fmt::format("    '{}:{}'\n", command->get_name(), zsh_quote(command->get_description()));
    std::string specifications;
    for (const OptionWords& option : options_of(*command)) {
      const std::string values = option.flag                   ? ""
                                 : option.name == "--schedule" ? ":name:(" + schedule_names() + ")"
                                 : option.name == "--mask"     ? ":mask:(" + mask_names() + ")"
                                 : option.file                 ? ":file:_files"
                                                               : ":value:";
      specifications +=
          fmt::format(" \\\n      '{}[{}]{}'", option.name, zsh_quote(option.meaning), values);
    }
    cases += fmt::format("    {}) _arguments{} '*:file:_files' ;;\n", command->get_name(),
                         specifications);
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
  case "$words[2]" in
{}  esac
}}
_stagger "$@"
)",
                     names, cases);
}

std::string fish_quote(const std::string& text) {
  std::string quoted;
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted;
}

std::string fish_script(const CLI::App& app) {
  std::string text = "# fish completion for stagger: stagger completion fish | source\n";
  for (const CLI::App* command : subcommands(app)) {
    text += fmt::format("complete -c stagger -n __fish_use_subcommand -f -a {} -d '{}'\n",
                        command->get_name(), fish_quote(command->get_description()));
    for (const OptionWords& option : options_of(*command)) {
      const std::string values = option.flag                   ? ""
                                 : option.name == "--schedule" ? " -x -a '" + schedule_names() + "'"
                                 : option.name == "--mask"     ? " -x -a '" + mask_names() + "'"
                                 : option.file                 ? " -r"
                                                               : " -x";
      text += fmt::format(
          "complete -c stagger -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n",
          command->get_name(), option.name.substr(2), values, fish_quote(option.meaning));
    }
  }
  return text;
}

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

std::string man_page(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH STAGGER 1 \"\" \"stagger {}\"\n.SH NAME\nstagger \\- {}\n.SH SYNOPSIS\n.B stagger\n"
      "COMMAND [OPTION]...\n.SH DESCRIPTION\n{}\n.SH COMMANDS\n",
      version(), roff("schedules for a deterministic attention backward pass"),
      roff(app.get_description()));
  for (const Command* command : commands()) {
    text += fmt::format(".SS stagger {}\n{}.\n", roff(command->name), roff(command->summary));
    for (const OptionWords& option : options_of(*app.get_subcommand(command->name))) {
      text += fmt::format(".TP\n.B {}\n{}\n", roff(option.name), roff(option.meaning));
    }
    text += fmt::format(".PP\nExamples:\n.PP\n.nf\n{}.fi\n", roff(command->examples));
  }
  return text + ".SH EXIT STATUS\n" + roff(exit_code_help());
}

void add_completion_options(CLI::App& app, Options& options) {
  app.add_option("shell", options.topic, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("");
}

int run_completion(const Options& options) {
  CLI::App app;
  Options unused;
  build_parser(app, unused);
  write_stdout(options.topic == "bash"  ? bash_script(app)
               : options.topic == "zsh" ? zsh_script(app)
                                        : fish_script(app));
  return kHolds;
}

int run_man(const Options&) {
  CLI::App app;
  Options unused;
  build_parser(app, unused);
  write_stdout(man_page(app));
  return kHolds;
}

}  // namespace

extern const Command kCompletion;
const Command kCompletion{
    .name = "completion",
    .summary = "A completion script for bash, zsh or fish",
    .examples =
        "  source <(stagger completion bash)\n"
        "  stagger completion fish | source\n",
    .add_options = add_completion_options,
    .run = run_completion,
};

extern const Command kMan;
const Command kMan{
    .name = "man",
    .summary = "The man page, in roff",
    .examples = "  stagger man | man -l -\n",
    .add_options = [](CLI::App&, Options&) {},
    .run = run_man,
};

}  // namespace stagger::cli
