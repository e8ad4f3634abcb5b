#include "cli/commands.hpp"
#include "cli/device.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/report/optimum.hpp"
#include "cli/report/words.hpp"
#include "cli/requests.hpp"
#include "cli/rows.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "gpu/cuda/executor.hpp"
#include "schedules/search/sat.hpp"
#include "workbench/archive.hpp"
#include "workbench/execution.hpp"
#include "workbench/finalists.hpp"
#include "workbench/optimization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
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

int optimization_code(const Optimization& optimization, bool measured) {
  const Optimum& optimum = optimization.optimum;
  if (interrupted() && (optimum.stopped || measured)) return kInterrupted;
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

constexpr int kMeasuredRounds = 3;

/// What a whole run of a table takes on the GPU, after a pause. Throws Error{device} if the run was
/// no good.
std::int64_t timed_run(const Options& options, const workbench::Finalist& finalist) {
  workbench::ExecutionRequest request = execution_request(
      options, {.table = finalist.table, .model = finalist.model, .selection = std::nullopt});
  request.cuda = gpu::cuda_device();
  request.repeats = 1;
  request.reference = workbench::Reference::none;
  request.adds_partials = false;
  request.stop = interruption();
  const workbench::Execution execution = workbench::execute(std::move(request));
  const bool ran = execution.runs && execution.runs->verdict == gpu::RunVerdict::ok;
  if (!ran) {
    throw Error(ErrorKind::device, execution.refused.empty()
                                       ? fmt::format("run: {}", execution.verdict())
                                       : execution.refused);
  }
  const gpu::CheckedRuns& runs = *execution.runs;
  return runs.rested_median_ns.value_or(runs.untimed_median_ns.value_or(runs.median_ns));
}

/// The best tables, run on the GPU.
MeasuredFinalists measured_of(const Options& options, const Optimization& optimization,
                              Progress& progress) {
  if (options.finalists == 0 || !optimization.optimum.best) return {};
  progress.show("making the tables to be run");
  MeasuredFinalists measured{
      .device = gpu::cuda_device()->name,
      .finalists = finalists_of(optimization, static_cast<std::size_t>(options.finalists),
                                options.threads, interrupted)};
  workbench::measure(
      measured.finalists, kMeasuredRounds,
      [&](const workbench::Finalist& finalist) { return timed_run(options, finalist); },
      [&](std::size_t done, std::size_t all) {
        progress.show("running the best tables", double(done) / double(all));
        return !interrupted();
      });
  return measured;
}

/// The problem, searched within `--time-limit`. What is reported took all of the time from here to
/// the table's file.
int search_table(const Options& options, OptimizationRequest request) {
  const auto begin = std::chrono::steady_clock::now();
  request.problem = problem_of(options);
  request.advises = true;
  request.any_span = options.span == kAutoSpan;
  request.model = time_model_of(options, request.problem);
  request.model_of = [&](const Problem& problem) { return time_model_of(options, problem); };
  Progress progress;
  request.progress = [&](const SearchState& state) { progress.show(progress_of(state)); };
  progress.show("bounding the makespan");
  Optimization optimization = workbench::optimize(request);
  const MeasuredFinalists measured = measured_of(options, optimization, progress);
  progress.show("writing what was found");
  const auto& best = optimization.optimum.best;
  OptimumFiles files{.table = {}, .proof = options.proof};
  if (!options.output.empty() && best) {
    write_table(measured.fastest() ? measured.fastest()->table : best->table, options.output);
    files.table = options.output;
  }
  optimization.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const Json json = options.json ? optimum_json(optimization, measured, files) : Json();
  const std::string text = options.json ? "" : optimum_text(optimization, measured, files);
  progress.end();
  print(options, json, text);
  return optimization_code(optimization, measured.asked());
}

/// Every entry, each within `--time-limit`.
int search_archive(const Options& options, OptimizationRequest search) {
  Progress progress;
  const auto tell = [&, limit = search.time_limit](std::size_t entry, std::size_t entries) {
    progress.show(fmt::format("entry {} of {}, {:g} s each at most", entry + 1, entries, limit),
                  static_cast<double>(entry) / static_cast<double>(entries));
  };
  const ArchiveCheck check =
      workbench::check_archive(workbench::read_archive(read_file(options.archive), options.archive),
                               {.every = options.every,
                                .time = time_request(options),
                                .search = std::move(search),
                                .progress = tell});
  progress.end();
  if (!options.output.empty()) {
    write_file(options.output, workbench::write_archive(check.archive));
  }
  print(options, archive_json(check), archive_text(check));
  return archive_code(check);
}

void check_optimize(const Options& options) {
  check_standard_output(options);
  const std::string& output = options.output;
  const bool is_csv = output.ends_with(".csv") && options.archive.empty();
  if (!output.empty() && output != "-" && !is_csv && !output.ends_with(".json")) {
    throw Error(ErrorKind::usage,
                "-o " + output + ": tables and archives are .json, tables .csv too");
  }
  if (!options.slot_model) return;
  reject(given_of(options, "measure"), "runs tables by a profile's model, not the slot model's");
  const std::string why = "means nothing in the slot model";
  reject(given_of(options,
                  "compute compute-partial reduce latency launch epilogue next-lane "
                  "release l2"),
         why);
  reject(given_of(options,
                  "bandwidth add-permille memory-latency congestion spread dip dip-loss draw "
                  "kernel dtype head-dim tick-ns"),
         why);
}

int optimize_command(const Options& options) {
  check_optimize(options);
  if (options.finalists > 0 && !has_device("--measure runs tables on a GPU")) return kSkipped;
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
        "  stagger optimize --mask causal --seq 8192 --tile-q 64 --tile-kv 128 --heads 32 \\\n"
        "      --machine h100 --kernel hopper --dtype bf16 --head-dim 128 --measure 8 \\\n"
        "      -o fastest.table.json\n"
        "  stagger optimize --check-archive configs/best-known.json --every 10\n",
    .run = optimize_command,
};

}  // namespace stagger::cli
