#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/report/duration.hpp"
#include "cli/report/optimum.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/files.hpp"
#include "schedules/search/sat.hpp"
#include "workbench/archive.hpp"
#include "workbench/optimization.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace stagger::cli {
namespace {

using search::Optimum;
using workbench::ArchiveCheck;
using workbench::ArchiveOutcome;
using workbench::Optimization;
using workbench::OptimizationRequest;

/// The phase, the best and the bound on standard error, if that is a terminal.
class SearchProgress {
 public:
  SearchProgress() : terminal_(::isatty(STDERR_FILENO) != 0) {}
  ~SearchProgress() { end(); }
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  void show(const std::string& phase, const Optimum& so_far, double seconds) {
    if (!terminal_ || seconds < 0.5) return;
    drawn_ = true;
    const Ticks bound = so_far.lower_bound.ticks;
    if (!so_far.best) {
      fmt::print(stderr, "\r{}: bound {}\033[K", phase, bound);
    } else {
      const Ticks best = so_far.best->makespan;
      fmt::print(stderr, "\r{}: bound {}, best {}, gap {}, {:.0f} s\033[K", phase, bound, best,
                 percent(best - bound, std::max<Ticks>(bound, 1)), seconds);
    }
    std::fflush(stderr);
  }

  void end() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
    drawn_ = false;
  }

 private:
  bool terminal_;
  bool drawn_ = false;
};

void write_table(const Table& table, const std::string& path) {
  write_file(path, path.ends_with(".csv") ? write_table_csv(table) : write_table_json(table));
}

int exit_code(const Optimization& optimization) {
  const Optimum& optimum = optimization.optimum;
  if (interrupted() && optimum.stopped) return kInterrupted;
  if (!optimum.best) return kDeadlock;
  return optimum.proof == search::ProofKind::none ? kLimit : kHolds;
}

int exit_code(const ArchiveCheck& check) {
  if (interrupted()) return kInterrupted;
  if (check.count(ArchiveOutcome::contradicted) > 0) return kViolated;
  return check.count(ArchiveOutcome::not_reached) > 0 ? kLimit : kHolds;
}

/// The problem, searched within `--time-limit`.
int search_table(const Options& options, OptimizationRequest request) {
  request.problem = problem_of(options);
  request.model = time_model_of(options, request.problem);
  SearchProgress progress;
  request.progress = [&](const std::string& phase, const Optimum& so_far, double seconds) {
    progress.show(phase, so_far, seconds);
  };
  const Optimization optimization = workbench::optimize(request);
  progress.end();
  const auto& best = optimization.optimum.best;
  if (!options.output.empty() && best) write_table(best->table, options.output);
  if (options.json) {
    write_stdout(optimum_json(optimization).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(wrapped(optimum_text(optimization), terminal.width, 13), terminal);
  }
  return exit_code(optimization);
}

/// Every entry, each within `--time-limit`.
int search_archive(const Options& options, OptimizationRequest search) {
  Progress progress("searching the archive");
  const ArchiveCheck check =
      workbench::check_archive(workbench::read_archive(read_file(options.archive), options.archive),
                               {.every = options.every,
                                .time = time_request(options),
                                .search = std::move(search),
                                .progress = [&](double fraction) { progress.show(fraction); }});
  progress.end();
  if (!options.output.empty()) {
    write_file(options.output, workbench::write_archive(check.archive));
  }
  if (options.json) {
    write_stdout(archive_json(check).text() + "\n");
  } else {
    write_text(archive_text(check), terminal_of(options));
  }
  return exit_code(check);
}

int run(const Options& options) {
  finish_on_interrupt();
  OptimizationRequest request = search_request(options);
  request.stop = interrupted;
  // After a second interrupt nobody comes to an end of it.
  if (!options.proof.empty()) mark_temporary(search::unfinished_proof(options.proof));
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
    .run = run,
};

}  // namespace stagger::cli
