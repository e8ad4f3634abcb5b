#include "cli/optimization.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/report/duration.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/version.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/slot_path.hpp"
#include "dag/verify.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/sat.hpp"
#include "schedules/search/slot_files.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <thread>
#include <unistd.h>

namespace stagger::cli {
namespace {

using workbench::Clock;

using search::Incumbent;
using search::Optimum;
using search::ProofKind;

/// The phase, the best and the bound on standard error, if that is a terminal.
class SearchProgress {
 public:
  SearchProgress() : terminal_(::isatty(STDERR_FILENO) != 0) {}
  ~SearchProgress() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
  }
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

 private:
  bool terminal_;
  bool drawn_ = false;
};

Problem with_sms(Problem problem, std::int32_t sms) {
  problem.sms = sms;
  return problem;
}

/// The problem with the longest KV tile's chain in two halves: dK and dV are spilled once a head.
Problem with_split_tile(Problem problem) {
  const TileGrid& grid = problem.grid;
  KvTile longest{0};
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (grid.chain_length(kv) > grid.chain_length(longest)) longest = kv;
  }
  std::vector<TileKind> kinds;
  const auto add_row = [&](KvTile kv, std::int32_t from, std::int32_t to) {
    std::int32_t live = 0;
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const bool taken = grid.live(kv, q) && live >= from && live < to;
      live += grid.live(kv, q) ? 1 : 0;
      kinds.push_back(taken ? grid.kind(kv, q) : TileKind::empty);
    }
  };
  const std::int32_t half = (grid.chain_length(longest) + 1) / 2;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    add_row(kv, 0, kv == longest ? half : grid.q_tiles());
    if (kv == longest) add_row(kv, half, grid.q_tiles());
  }
  problem.grid = TileGrid(grid.kv_tiles() + 1, grid.q_tiles(), std::move(kinds));
  return problem;
}

}  // namespace

Optimization::Optimization(const Options& options)
    : options_(options), problem_(problem_of(options)), begin_(std::chrono::steady_clock::now()) {
  objective_.slots = options.slot_model;
  model_ = time_model_of(options, problem_);
  objective_.timing = model_.timing;
  check_timing(objective_.timing, problem_);
  // The slot model has no dispatch: its SMs are those that are there.
  if (objective_.slots) {
    problem_ = on_resident_sms(std::move(problem_), objective_.timing.residency);
  }
  bounds_ = bounds_of(problem_, objective_.timing);
}

void Optimization::run() {
  find_best_named();
  if (!options_.solution.empty()) import_solution();
  SearchProgress progress;
  const auto machine = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  const search::SearchOptions search{
      .seed = static_cast<std::uint64_t>(options_.seed),
      .threads = static_cast<int>(options_.threads > 0 ? options_.threads : machine),
      .effort = options_.effort,
      .stop = [this] { return interrupted() || seconds() >= options_.time_limit; },
      .progress = [&](const std::string& phase,
                      const Optimum& so_far) { progress.show(phase, so_far, seconds()); },
      .proof_file = options_.proof};
  // After a second interrupt nobody comes to an end of it.
  if (!options_.proof.empty()) mark_temporary(search::unfinished_proof(options_.proof));
  optimum_ =
      search::optimize(problem_, objective_, {bounds_.best.ticks, bounds_.best.by}, known_, search);
  if (optimum_.best) check(*optimum_.best);
}

/// The named schedule that is best in the model asked for is the table to beat.
void Optimization::find_best_named() {
  for (const schedules::Schedule* schedule : schedules::all()) {
    schedules::Selection selection = schedules::select(schedule->name);
    if (schedule->searches) continue;
    if (schedules::why_unsupported(selection, problem_)) continue;
    if (known_ && seconds() >= options_.time_limit) return;
    Table table = schedules::build(selection, problem_, objective_.timing);
    const std::optional<Ticks> makespan = makespan_of(table);
    if (!makespan || (best_named_ && best_named_->makespan <= *makespan)) continue;
    best_named_ = {table.name, *makespan};
    known_ = {std::move(table), *makespan};
  }
}

/// A solver's answer is a table to beat like any other.
void Optimization::import_solution() {
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

dag::Bounds Optimization::bounds_of(const Problem& problem, const Timing& timing) const {
  return objective_.slots ? dag::slot_bounds(problem)
                          : dag::lower_bounds(problem, timing, Dispatch::static_);
}

/// In the model asked for, nullopt if it does not run to the end in it.
std::optional<Ticks> Optimization::makespan_of(const Table& table) const {
  if (objective_.slots) {
    // Lanes in launch order are no schedule of the slot model, which has no dispatch.
    if (table.dispatch != Dispatch::static_) return std::nullopt;
    return search::slots_of(table, [this] { return known_ && seconds() >= options_.time_limit; });
  }
  const sim::Simulation simulation = sim::simulate(table, objective_.timing);
  if (!simulation.complete) return std::nullopt;
  if (!objective_.timing.memory) return simulation.makespan;
  return sim::play_memory(table, objective_.timing, simulation).makespan;
}

/// A table found takes the same road as any other: verified, and played by code that the search
/// does not share.
void Optimization::check(const Incumbent& found) const {
  const Timing timing = objective_.slots ? Timing{} : objective_.timing;
  STAGGER_EXPECTS(dag::verify(found.table, timing).verdict == dag::Verdict::ok);
  const std::optional<Ticks> played =
      objective_.slots ? dag::slot_path(found.table) : makespan_of(found.table);
  STAGGER_EXPECTS(played == found.makespan);
  STAGGER_EXPECTS(found.makespan >= optimum_.lower_bound.ticks);
}

/// What would lower the bound that binds: one more SM, a KV tile in two, smaller KV tiles.
std::vector<Advice> Optimization::advice() const {
  std::vector<Advice> all;
  const auto add = [&](std::string change, const Problem& problem, const Timing& timing) {
    const dag::Bounds bounds = bounds_of(problem, timing);
    all.push_back({std::move(change), bounds.best.ticks, bounds.best.by});
  };
  const Timing& timing = objective_.timing;
  if (problem_.tasks() == 0) return all;
  if (problem_.sms < kMaxSms) add("one more SM", with_sms(problem_, problem_.sms + 1), timing);
  add("the longest KV tile in two (dK, dV spilled once)", with_split_tile(problem_), timing);
  if (!objective_.slots && model_.clock == Clock::ticks && problem_.shape.kv % 2 == 0 &&
      timing.compute % 2 == 0 && timing.compute_of(TileKind::partial) % 2 == 0) {
    Timing halved = timing;
    halved.compute /= 2;
    if (halved.compute_partial) *halved.compute_partial /= 2;
    add("KV tiles half as large (half the compute each)",
        make_problem(problem_.mask, problem_.lengths, {problem_.shape.q, problem_.shape.kv / 2},
                     problem_.heads, problem_.sms),
        halved);
  }
  return all;
}

double Optimization::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

const char* Optimization::status() const {
  if (!optimum_.best) return "infeasible";
  return optimum_.proof == ProofKind::none ? "feasible" : "optimal";
}

const char* Optimization::proof() const {
  constexpr const char* kNames[] = {"none", "bound", "search"};
  return kNames[static_cast<int>(optimum_.proof)];
}

int Optimization::exit_code() const {
  if (interrupted() && optimum_.stopped) return kInterrupted;
  if (!optimum_.best) return kDeadlock;
  return optimum_.proof == ProofKind::none ? kLimit : kHolds;
}

std::string Optimization::json() const {
  using Json = nlohmann::ordered_json;
  Json json = {{"schema", "stagger.optimum/1"},
               {"version", version()},
               {"problem", Json::parse(cli::problem_json(problem_))},
               {"model", Json::parse(model_json(problem_, model_))}};
  if (objective_.slots) json["model"] = {{"kind", "slot"}};
  json["makespan"] = optimum_.best ? Json(optimum_.best->makespan) : Json(nullptr);
  json["unit"] = unit();
  json["lower_bound"] = {{"ticks", optimum_.lower_bound.ticks}, {"by", optimum_.lower_bound.by}};
  json["status"] = status();
  json["proof"] = {{"kind", proof()}, {"detail", optimum_.detail}};
  json["stopped"] = optimum_.stopped;
  json["schedule"] = optimum_.best ? Json(optimum_.best->table.name) : Json(nullptr);
  json["best_named"] = nullptr;
  if (best_named_) {
    json["best_named"] = {{"schedule", best_named_->schedule}, {"makespan", best_named_->makespan}};
  }
  json["imported"] = imported_ ? Json(*imported_) : Json(nullptr);
  json["advice"] = Json::array();
  for (const Advice& advice : advice()) {
    json["advice"].push_back({{"change", advice.change},
                              {"lower_bound", {{"ticks", advice.lower_bound}, {"by", advice.by}}}});
  }
  json["seconds"] = seconds();
  return json.dump(1) + "\n";
}

std::string Optimization::text() const {
  std::string text = problem_line(problem_) + "\n" +
                     (objective_.slots ? "slot model" : model_line(model_)) + "\n\n";
  if (!optimum_.best) return text + "no table was found\n";
  const Ticks makespan = optimum_.best->makespan;
  const Ticks bound = optimum_.lower_bound.ticks;
  text += fmt::format("makespan     {} {}\n", makespan, unit());
  text += fmt::format("lower bound  {} ({}{}{})\n", bound, optimum_.lower_bound.by,
                      bound == bounds_.best.ticks ? ": " : "",
                      bound == bounds_.best.ticks ? bounds_.best.why : "");
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
  const char* label = "would help  ";
  for (const Advice& advice : advice()) {
    if (advice.lower_bound >= bounds_.best.ticks) continue;
    text +=
        fmt::format("{} bound {} ({}): {}\n", label, advice.lower_bound, advice.by, advice.change);
    label = "            ";
  }
  return text;
}

}  // namespace stagger::cli
