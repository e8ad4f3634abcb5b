#include "cli/archive.hpp"
#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/optimization.hpp"
#include "cli/terminal.hpp"
#include "core/files.hpp"

#include <CLI/CLI.hpp>

namespace stagger::cli {
namespace {

void add_options(CLI::App& app, Options& options) {
  constexpr const char* kGroup = "Search";
  add_problem_options(app, options);
  add_timing_options(app, options, {"chain", "overlap", "slot"});
  app.add_option("--time-limit", options.time_limit, "stop with the best so far")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--threads", options.threads, "of the local search; default: all")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->group(kGroup);
  app.add_option("--seed", options.seed, "of the local search")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--effort", options.effort, "of the heuristics: twice as much works twice as long")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("--proof", options.proof,
                 "slot model: a DRAT proof that one slot fewer does not suffice")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--import-solution", options.solution,
                 "a solver's answer to an exported .cnf, .dzn or .lp, - for stdin")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--slots", options.slots, "slots that answer was asked for; default: the bound")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->group(kGroup);
  app.add_option("--check-archive", options.archive,
                 "search every problem of an archive of best-known makespans instead")
      ->type_name("FILE")
      ->group(kGroup);
  app.add_option("--every", options.every, "check only each N-th entry of the archive")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(kGroup);
  app.add_option("-o,--output", options.output,
                 "the table (.json or .csv), or the archive made better; - for stdout")
      ->type_name("FILE")
      ->group("Output");
  add_output_options(app, options);
}

void write_table(const Table& table, const std::string& path) {
  write_file(path, path.ends_with(".csv") ? write_table_csv(table) : write_table_json(table));
}

int run(const Options& options) {
  finish_on_interrupt();
  if (!options.archive.empty()) return check_archive(options);
  Optimization optimization(options);
  optimization.run();
  const auto& best = optimization.optimum().best;
  if (!options.output.empty() && best) write_table(best->table, options.output);
  if (options.json) {
    write_stdout(optimization.json());
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(wrapped(optimization.text(), terminal.width, 13), terminal);
  }
  return optimization.exit_code();
}

}  // namespace

extern const Command kOptimize;
const Command kOptimize{
    .name = "optimize",
    .summary = "The best table for a problem, and how good it is at most",
    .examples =
        "  stagger optimize --mask causal --n 9 --heads 3\n"
        "  stagger optimize --mask sliding:left=7,right=0 --n 16 --sms 8 \\\n"
        "      -o best.table.json\n"
        "  stagger optimize --mask full --n 5 --sms 3 --model slot --json\n"
        "  stagger optimize --check-archive configs/best-known.json --every 10\n",
    .add_options = add_options,
    .run = run,
};

}  // namespace stagger::cli
