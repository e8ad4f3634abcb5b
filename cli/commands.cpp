#include "cli/commands.hpp"

#include "cli/terminal.hpp"
#include "core/version.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <array>
#include <memory>

namespace stagger::cli {

extern const Command kList;
extern const Command kShow;
extern const Command kAnalyze;
extern const Command kCompare;
extern const Command kVerify;
extern const Command kExport;
extern const Command kRun;
extern const Command kCalibrate;
extern const Command kPredict;
extern const Command kFormulas;
extern const Command kOptimize;
extern const Command kBench;
extern const Command kCompletion;
extern const Command kMan;

namespace {

constexpr std::array<const Command*, 14> kCommands = {
    &kList,      &kShow,    &kAnalyze,  &kCompare,  &kVerify, &kExport,     &kRun,
    &kCalibrate, &kPredict, &kFormulas, &kOptimize, &kBench,  &kCompletion, &kMan};

/// CLI11's help without lines of more than 80 columns.
class Help : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return in_column(CLI::Formatter::make_option(option, is_positional));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return in_column(CLI::Formatter::make_subcommand(command));
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(CLI::Formatter::make_description(app), kColumns, 0);
  }

 private:
  static constexpr int kColumns = 80;

  [[nodiscard]] std::string in_column(const std::string& text) const {
    return wrapped(text, kColumns, static_cast<int>(get_column_width()));
  }
};

}  // namespace

std::span<const Command* const> commands() {
  return kCommands;
}

std::string exit_code_help() {
  return "0 it holds; 1 a property is violated (formula, validity, --expect); 2 usage;\n"
         "3 a file is malformed or cannot be read or written; 4 deadlock or infeasible;\n"
         "5 limit reached without proof; 70 internal error; 77 skipped; 130 interrupted\n";
}

void build_parser(CLI::App& app, Options& options) {
  app.formatter(std::make_shared<Help>());  // the commands inherit it
  app.name("stagger");
  app.description(
      "Schedules for a deterministic attention backward pass: build the compute/reduce graph of a "
      "mask and a schedule, prove or refute its properties, simulate it and draw it.");
  app.set_version_flag("--version", fmt::format("stagger {}", version()));
  app.require_subcommand(1);
  app.footer("Exit codes:\n" + exit_code_help() +
             "\nStart with: stagger compare --mask causal --n 8 --heads 4");
  for (const Command* command : commands()) {
    CLI::App* sub = app.add_subcommand(command->name, command->summary);
    command->add_options(*sub, options);
    sub->footer("Examples:\n" + std::string(command->examples));
    // With a config file an option may come twice; the later one is the command line's.
    for (CLI::Option* option : sub->get_options()) {
      const std::string name = option->get_single_name();
      if (name != "expect" && name != "measured" && name != "timeline") {
        option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
    }
  }
}

}  // namespace stagger::cli
