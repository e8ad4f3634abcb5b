#include "cli/commands.hpp"
#include "cli/config.hpp"
#include "cli/interrupt.hpp"
#include "core/error.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <malloc.h>
#include <new>

namespace stagger::cli {
namespace {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::unsupported:
    case ErrorKind::limit:
      return kUsage;
    case ErrorKind::device:
      return kInternal;
    case ErrorKind::invalid_input:
    case ErrorKind::io:
      break;
  }
  return kBadFile;
}

bool gives_problem(const CLI::App& command) {
  for (const char* name : {"--mask", "--mask-file", "--n", "--seq", "--seq-q", "--seq-kv"}) {
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) return true;
  }
  return false;
}

/// Parses the words; with --config once more, with the file's words before them.
void parse(CLI::App& app, std::vector<std::string> words, Options& options) {
  const auto parse_words = [&](std::vector<std::string> all) {
    std::reverse(all.begin(), all.end());  // CLI11 takes them from the back
    app.parse(all);
  };
  parse_words(words);
  CLI::App* command = app.get_subcommands().front();
  if (!options.config.empty()) {
    const std::vector<std::string> more = config_words(options.config, *command);
    const auto at = std::find(words.begin(), words.end(), command->get_name()) + 1;
    words.insert(at, more.begin(), more.end());
    options = Options{};
    app.clear();
    parse_words(words);
    command = app.get_subcommands().front();
  }
  options.problem_given = gives_problem(*command);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app;
  build_parser(app, options);
  try {
    parse(app, std::vector<std::string>(argv + 1, argv + argc), options);
  } catch (const CLI::Success& request) {
    return app.exit(request);  // --help, --version
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    fmt::print(stderr, "stagger: {}\nSee `stagger {}--help`.\n", error.what(),
               chosen.empty() ? "" : chosen.front()->get_name() + " ");
    return kUsage;
  }
  const std::string name = app.get_subcommands().front()->get_name();
  for (const Command* command : commands()) {
    if (name == command->name) return command->run(options);
  }
  return kInternal;
}

}  // namespace
}  // namespace stagger::cli

int main(int argc, char** argv) {
  using namespace stagger::cli;
  // Large arrays come and go in every step: keep their pages instead of faulting them in again.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  handle_interrupts();
  try {
    return run(argc, argv);
  } catch (const stagger::Error& error) {
    fmt::print(stderr, "stagger: {}\n", error.what());
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "stagger: out of memory\n");
    return kInternal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "stagger: internal error: {}\n", error.what());
    return kInternal;
  }
}
