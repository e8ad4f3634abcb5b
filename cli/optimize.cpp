#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/report/optimum.hpp"
#include "cli/report/words.hpp"
#include "cli/requests.hpp"
#include "cli/rows.hpp"
#include "cli/terminal.hpp"
#include "core/files.hpp"
#include "schedules/search/sat.hpp"
#include "workbench/archive.hpp"
#include "workbench/optimization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace stagger::cli {
namespace {

using search::Optimum;
using workbench::ArchiveCheck;
using workbench::ArchiveOutcome;
using workbench::Optimization;
using workbench::OptimizationRequest;
using workbench::SearchState;

/// `local search: bound 90, best 95 (5.6 % above)`.
std::string progress_of(const SearchState& state) {
  std::string text = fmt::format("{}: bound {}", state.phase, state.lower_bound);
  if (!state.best) return text;
  const Ticks above = *state.best - state.lower_bound;
  return text + fmt::format(", best {} ({} above)", *state.best,
                            percent(above, std::max<Ticks>(state.lower_bound, 1)));
}

void write_table(const Table& table, const std::string& path) {
  write_file(path, path.ends_with(".csv") ? write_table_csv(table) : write_table_json(table));
}

int optimization_code(const Optimization& optimization) {
  const Optimum& optimum = optimization.optimum;
  if (interrupted() && optimum.stopped) return kInterrupted;
  if (!optimum.best) return kDeadlock;
  return optimum.proof == search::ProofKind::none ? kLimit : kHolds;
}

int archive_code(const ArchiveCheck& check) {
  if (interrupted()) return kInterrupted;
  if (check.count(ArchiveOutcome::contradicted) > 0) return kViolated;
  const bool open =
      check.count(ArchiveOutcome::not_reached) + check.count(ArchiveOutcome::refused) > 0;
  return open ? kLimit : kHolds;
}

/// Prints JSON or text, unless what was written went to standard output.
void print(const Options& options, const Json& json, const std::string& text) {
  if (options.output == "-") return;
  if (options.json) return write_stdout(json.text() + "\n");
  const Terminal terminal = terminal_of(options);
  write_text(wrapped(text, terminal.width, 13), terminal);
}

/// The problem, searched within `--time-limit`.
int search_table(const Options& options, OptimizationRequest request) {
  request.problem = problem_of(options);
  request.any_span = options.span == kAutoSpan;
  request.model = time_model_of(options, request.problem);
  Progress progress;
  request.progress = [&](const SearchState& state) { progress.show(progress_of(state)); };
  progress.show("bounding the makespan");
  const Optimization optimization = workbench::optimize(request);
  progress.show("writing what was found");
  const auto& best = optimization.optimum.best;
  OptimumFiles files{.table = {}, .proof = options.proof};
  if (!options.output.empty() && best) {
    write_table(best->table, options.output);
    files.table = options.output;
  }
  const Json json = options.json ? optimum_json(optimization, files) : Json();
  const std::string text = options.json ? "" : optimum_text(optimization, files);
  progress.end();
  print(options, json, text);
  return optimization_code(optimization);
}

/// Every entry, each within `--time-limit`.
int search_archive(const Options& options, OptimizationRequest search) {
  Progress progress;
  const ArchiveCheck check = workbench::check_archive(
      workbench::read_archive(read_file(options.archive), options.archive),
      {.every = options.every,
       .time = time_request(options),
       .search = std::move(search),
       .progress = [&](double fraction) { progress.show("searching the archive", fraction); }});
  progress.end();
  if (!options.output.empty()) {
    write_file(options.output, workbench::write_archive(check.archive));
  }
  print(options, archive_json(check), archive_text(check));
  return archive_code(check);
}

void check_optimize(const Options& options) {
  check_standard_output(options);
  if (!options.slot_model) return;
  const std::string why = "means nothing in the slot model";
  reject(given_of(options, "compute compute-partial reduce latency launch epilogue release l2"),
         why);
  reject(given_of(options, "bandwidth congestion kernel dtype head-dim tick-ns"), why);
}

int optimize_command(const Options& options) {
  check_optimize(options);
  finish_on_interrupt();
  OptimizationRequest request = search_request(options);
  request.stop = interruption();
  // After a second interrupt nobody comes to an end of it.
  if (!options.proof.empty()) mark_temporary(search::unfinished_proof(request.proof_file));
  return options.archive.empty() ? search_table(options, std::move(request))
                                 : search_archive(options, std::move(request));
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
    .run = optimize_command,
};

}  // namespace stagger::cli
