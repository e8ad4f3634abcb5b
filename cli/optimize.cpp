#include "schedules/search/optimize.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/report.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/version.hpp"
#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/slot_files.hpp"
#include "sim/simulate.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace stagger::cli {
namespace {

using Clock = std::chrono::steady_clock;
using search::Incumbent;
using search::Optimum;
using search::ProofKind;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The phase, the best and the bound on standard error, if that is a terminal.
class SearchProgress {
 public:
  explicit SearchProgress(Clock::time_point begin)
      : begin_(begin), terminal_(::isatty(STDERR_FILENO) != 0) {}
  ~SearchProgress() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
  }
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  void show(const std::string& phase, const Optimum& so_far) {
    if (!terminal_ || seconds_since(begin_) < 0.5) return;
    drawn_ = true;
    const Ticks bound = so_far.lower_bound.ticks;
    if (!so_far.best) {
      fmt::print(stderr, "\r{}: bound {}\033[K", phase, bound);
    } else {
      const Ticks best = so_far.best->makespan;
      fmt::print(stderr, "\r{}: bound {}, best {}, gap {}, {:.0f} s\033[K", phase, bound, best,
                 percent(best - bound, std::max<Ticks>(bound, 1)), seconds_since(begin_));
    }
    std::fflush(stderr);
  }

 private:
  Clock::time_point begin_;
  bool terminal_;
  bool drawn_ = false;
};

class Optimization {
 public:
  explicit Optimization(const Options& options)
      : options_(options), problem_(problem_of(options)), begin_(Clock::now()) {
    objective_.slots = options.model == "slot";
    objective_.timing = timing_of(options);
    check_timing(objective_.timing, problem_.tasks(),
                 std::int64_t{problem_.heads} * problem_.grid.kv_tiles());
    bounds_ = objective_.slots ? dag::slot_bounds(problem_)
                               : dag::lower_bounds(problem_, objective_.timing, Dispatch::static_);
  }

  void run() {
    find_best_named();
    if (!options_.solution.empty()) import_solution();
    SearchProgress progress(begin_);
    const search::SearchOptions search{
        .seed = static_cast<std::uint64_t>(options_.seed),
        .threads = static_cast<int>(options_.threads > 0 ? options_.threads
                                                         : std::thread::hardware_concurrency()),
        .effort = options_.effort,
        .stop = [this] { return interrupted() || seconds_since(begin_) >= options_.time_limit; },
        .progress = [&](const std::string& phase,
                        const Optimum& so_far) { progress.show(phase, so_far); },
        .proof_file = options_.proof};
    optimum_ = search::optimize(problem_, objective_, {bounds_.best.ticks, bounds_.best.by}, known_,
                                search);
    if (optimum_.best) check(*optimum_.best);
  }

  [[nodiscard]] const std::optional<Incumbent>& best() const { return optimum_.best; }

  [[nodiscard]] int exit_code() const {
    if (interrupted() && optimum_.stopped) return kInterrupted;
    if (!optimum_.best) return kDeadlock;
    return optimum_.proof == ProofKind::none ? kLimit : kHolds;
  }

  [[nodiscard]] std::string json() const {
    nlohmann::ordered_json json = {
        {"schema", "stagger.optimum/1"},
        {"version", version()},
        {"problem", nlohmann::ordered_json::parse(problem_json(problem_))},
        {"model", nlohmann::ordered_json::parse(timing_json(problem_, objective_.timing))}};
    if (objective_.slots) json["model"] = {{"kind", "slot"}};
    json["makespan"] = nullptr;
    if (optimum_.best) json["makespan"] = optimum_.best->makespan;
    json["unit"] = unit();
    json["lower_bound"] = {{"ticks", optimum_.lower_bound.ticks}, {"by", optimum_.lower_bound.by}};
    json["status"] = status();
    json["proof"] = {{"kind", proof_name()}, {"detail", optimum_.detail}};
    json["stopped"] = optimum_.stopped;
    json["schedule"] = nullptr;
    if (optimum_.best) json["schedule"] = optimum_.best->table.name;
    json["best_named"] = nullptr;
    if (best_named_) {
      json["best_named"] = {{"schedule", best_named_->schedule},
                            {"makespan", best_named_->makespan}};
    }
    json["imported"] = nullptr;
    if (imported_) json["imported"] = *imported_;
    json["seconds"] = seconds_since(begin_);
    return json.dump(1) + "\n";
  }

  [[nodiscard]] std::string text() const {
    std::string text = problem_line(problem_) + "\n" +
                       (objective_.slots ? "slot model" : timing_line(objective_.timing)) + "\n\n";
    if (!optimum_.best) return text + "no table was found\n";
    const Ticks makespan = optimum_.best->makespan;
    const Ticks bound = optimum_.lower_bound.ticks;
    text += fmt::format("makespan     {} {}\n", makespan, unit());
    text += fmt::format("lower bound  {} ({})\n", bound, optimum_.lower_bound.by);
    text += optimum_.proof == ProofKind::none
                ? fmt::format("status       feasible, gap {}{}\n",
                              percent(makespan - bound, std::max<Ticks>(bound, 1)),
                              optimum_.stopped ? ": stopped before a proof" : "")
                : fmt::format("status       optimal: {}\n", optimum_.detail);
    if (best_named_) {
      text += fmt::format("best named   {} ({}{})\n", best_named_->makespan, best_named_->schedule,
                          best_named_->makespan > makespan
                              ? ", " + percent(best_named_->makespan - makespan, makespan) + " more"
                              : "");
    }
    if (imported_) text += fmt::format("imported     {}\n", *imported_);
    return text;
  }

 private:
  /// The named schedule that is best in the model asked for: the table to beat.
  void find_best_named() {
    for (const schedules::Schedule* schedule : schedules::all()) {
      schedules::Selection selection = schedules::select(schedule->name);
      if (schedule->searches) continue;
      if (schedule->unsupported(problem_, selection.parameters)) continue;
      Table table = schedules::build(selection, problem_, objective_.timing);
      const std::optional<Ticks> makespan = makespan_of(table);
      if (!makespan || (best_named_ && best_named_->makespan <= *makespan)) continue;
      best_named_ = {table.name, *makespan};
      known_ = {std::move(table), *makespan};
    }
  }

  /// A solver's answer is a table to beat like any other.
  void import_solution() {
    const std::int64_t slots =
        options_.slots > 0 ? options_.slots : dag::slot_bounds(problem_).best.ticks;
    if (slots > kMaxTasks) throw Error(ErrorKind::limit, "--slots is too large");
    Table table = search::read_slot_solution(read_file(options_.solution), options_.solution,
                                             problem_, static_cast<std::int32_t>(slots));
    table.name = "imported";
    STAGGER_EXPECTS(dag::verify(table, {}).verdict == dag::Verdict::ok);
    const std::optional<Ticks> makespan = makespan_of(table);
    if (!makespan) return;
    imported_ = *makespan;
    if (!known_ || *makespan < known_->makespan) known_ = {std::move(table), *makespan};
  }

  /// In the model asked for, nullopt if it does not run to the end in it.
  [[nodiscard]] std::optional<Ticks> makespan_of(const Table& table) const {
    if (objective_.slots) {
      // Lanes in launch order are no schedule of the slot model, which has no dispatch.
      return table.dispatch == Dispatch::static_ ? search::slots_of(table) : std::nullopt;
    }
    const sim::Simulation simulation = sim::simulate(table, objective_.timing);
    return simulation.complete ? std::optional(simulation.makespan) : std::nullopt;
  }

  /// A table found takes the same road as any other.
  void check(const Incumbent& found) const {
    const Timing timing = objective_.slots ? Timing{} : objective_.timing;
    STAGGER_EXPECTS(dag::verify(found.table, timing).verdict == dag::Verdict::ok);
    STAGGER_EXPECTS(makespan_of(found.table) == found.makespan);
    STAGGER_EXPECTS(found.makespan >= optimum_.lower_bound.ticks);
  }

  [[nodiscard]] const char* unit() const { return objective_.slots ? "slots" : "ticks"; }
  [[nodiscard]] const char* status() const {
    if (!optimum_.best) return "infeasible";
    return optimum_.proof == ProofKind::none ? "feasible" : "optimal";
  }
  [[nodiscard]] const char* proof_name() const {
    constexpr const char* kNames[] = {"none", "bound", "search"};
    return kNames[static_cast<int>(optimum_.proof)];
  }

  const Options& options_;
  Problem problem_;
  Clock::time_point begin_;
  search::Objective objective_;
  dag::Bounds bounds_;
  struct Named {
    std::string schedule;
    Ticks makespan = 0;
  };
  std::optional<Named> best_named_;
  std::optional<Ticks> imported_;   ///< makespan of the imported answer
  std::optional<Incumbent> known_;  ///< the better of the two
  Optimum optimum_;
};

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
  app.add_option("-o,--output", options.output, "the table; .json or .csv, - for stdout")
      ->type_name("FILE")
      ->group("Output");
  add_output_options(app, options);
}

void write_table(const Table& table, const std::string& path) {
  write_file(path, path.ends_with(".csv") ? write_table_csv(table) : write_table_json(table));
}

int run(const Options& options) {
  finish_on_interrupt();
  Optimization optimization(options);
  optimization.run();
  if (!options.output.empty() && optimization.best()) {
    write_table(optimization.best()->table, options.output);
  }
  if (options.json) {
    write_stdout(optimization.json());
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(optimization.text(), terminal);
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
        "  stagger optimize --mask sliding:left=7,right=0 --n 16 --sms 8 -o best.table.json\n"
        "  stagger optimize --mask full --n 5 --sms 3 --model slot --json\n",
    .add_options = add_options,
    .run = run,
};

}  // namespace stagger::cli
