#include "cli/archive.hpp"
#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/optimization.hpp"
#include "cli/terminal.hpp"
#include "core/files.hpp"

namespace stagger::cli {
namespace {

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
    .run = run,
};

}  // namespace stagger::cli
