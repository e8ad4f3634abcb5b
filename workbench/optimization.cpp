#include "workbench/optimization.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/slot_path.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/round_files.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"

#include <chrono>
#include <thread>
#include <utility>

namespace stagger::workbench {
namespace {

using search::Incumbent;
using search::Optimum;

dag::Bounds bounds_of(const Problem& problem, const Timing& timing, bool slot_model) {
  return slot_model ? dag::slot_bounds(problem)
                    : dag::lower_bounds(problem, timing, Dispatch::static_);
}

class Search {
 public:
  explicit Search(const OptimizationRequest& request)
      : request_(request), begin_(std::chrono::steady_clock::now()) {
    result_.problem = request.problem;
    result_.model = request.model;
    result_.slot_model = request.slot_model;
    check_timing(timing(), result_.problem);
    expect_no_groups(result_.problem, "the search for the best table");
    // The slot model has no dispatch: its SMs are those that are there.
    if (request.slot_model) {
      result_.problem = on_resident_sms(std::move(result_.problem), timing().residency);
    }
    result_.bounds = bounds_of(result_.problem, timing(), request.slot_model);
  }

  Optimization run() {
    find_best_named();
    if (request_.answer) import_answer(*request_.answer);
    const auto machine = static_cast<std::int64_t>(std::thread::hardware_concurrency());
    const search::SearchOptions options{
        .seed = request_.seed,
        .threads = static_cast<int>(request_.threads > 0 ? request_.threads : machine),
        .effort = request_.effort,
        .stop = [this] { return stopped(); },
        .progress =
            [this](const std::string& phase, const Optimum& so_far) {
              tell(phase, so_far.lower_bound.ticks, so_far.best ? &*so_far.best : nullptr);
            },
        .proof_file = request_.slot_model ? request_.proof_file : std::string()};
    const dag::Bound& bound = result_.bounds.best;
    result_.optimum =
        search::optimize(result_.problem, {.timing = timing(), .slot_model = request_.slot_model},
                         {bound.ticks, bound.by}, std::move(known_), options);
    const auto& best = result_.optimum.best;
    if (best) {
      tell("verifying what was found", result_.optimum.lower_bound.ticks, &*best);
      check(*best);
      result_.found_by = result_.optimum.found_by.empty() ? known_by_ : result_.optimum.found_by;
    }
    result_.seconds = seconds();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Timing& timing() const { return result_.model.timing; }

  [[nodiscard]] bool stopped() const {
    return (request_.stop && request_.stop()) || seconds() >= request_.time_limit;
  }

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  void tell(std::string phase, Ticks lower_bound, const Incumbent* best) const {
    if (!request_.progress) return;
    request_.progress({.phase = std::move(phase),
                       .lower_bound = lower_bound,
                       .best = best == nullptr ? std::nullopt : std::optional(best->makespan)});
  }

  /// The named schedule that is best in the model asked for is the table to beat.
  void find_best_named() {
    auto& best = result_.best_named;
    for (const schedules::Schedule* schedule : schedules::all()) {
      const schedules::Selection selection = schedules::select(schedule->name);
      if (schedule->searches) continue;
      if (schedules::why_unsupported(selection, result_.problem)) continue;
      if (known_ && stopped()) return;
      tell(std::string("schedule ") + schedule->name, result_.bounds.best.ticks,
           known_ ? &*known_ : nullptr);
      Table table = schedules::build(selection, result_.problem, timing());
      const std::optional<Ticks> makespan = makespan_of(table);
      if (!makespan || (best && best->makespan <= *makespan)) continue;
      best = {table.name, *makespan};
      known_ = {std::move(table), *makespan};
      known_by_ = "schedule " + best->schedule;
    }
  }

  /// A solver's answer is a table to beat like any other.
  void import_answer(const SolverAnswer& answer) {
    const std::int64_t rounds =
        answer.rounds > 0 ? answer.rounds : dag::slot_bounds(result_.problem).best.ticks;
    if (rounds > kMaxTasks) throw Error(ErrorKind::limit, "--rounds is too large");
    Table table = search::read_round_solution(answer.text, answer.source, result_.problem,
                                              static_cast<std::int32_t>(rounds));
    table.name = "imported";
    STAGGER_EXPECTS(dag::verify(table, {}).verdict == dag::Verdict::ok);
    const std::optional<Ticks> makespan = makespan_of(table);
    if (!makespan) return;
    result_.imported = *makespan;
    if (known_ && *makespan >= known_->makespan) return;
    known_ = {std::move(table), *makespan};
    known_by_ = "the imported solution";
  }

  /// In the model asked for, nullopt if it does not run to the end in it.
  [[nodiscard]] std::optional<Ticks> makespan_of(const Table& table) const {
    if (request_.slot_model) {
      // Lanes in launch order are no schedule of the slot model, which has no dispatch.
      if (table.dispatch != Dispatch::static_) return std::nullopt;
      return search::rounds_of(table, [this] { return known_ && stopped(); });
    }
    const sim::Simulation simulation = sim::simulate(table, timing());
    if (!simulation.complete) return std::nullopt;
    if (!timing().memory) return simulation.makespan;
    return sim::play_memory(table, timing(), simulation).makespan;
  }

  /// A table found takes the same road as any other: verified, and played by code that the search
  /// does not share.
  void check(const Incumbent& found) const {
    STAGGER_EXPECTS(dag::verify(found.table, request_.slot_model ? Timing{} : timing()).verdict ==
                    dag::Verdict::ok);
    const std::optional<Ticks> played =
        request_.slot_model ? dag::slot_path(found.table) : makespan_of(found.table);
    STAGGER_EXPECTS(played == found.makespan);
    STAGGER_EXPECTS(found.makespan >= result_.optimum.lower_bound.ticks);
  }

  const OptimizationRequest& request_;
  std::chrono::steady_clock::time_point begin_;
  Optimization result_;
  std::optional<Incumbent> known_;  ///< the better of the best named and the imported
  std::string known_by_;            ///< which of them it is
};

Problem with_sms(Problem problem, std::int32_t sms) {
  problem.sms = sms;
  return problem;
}

KvTile longest_chain(const TileGrid& grid) {
  KvTile longest{0};
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (grid.chain_length(kv) > grid.chain_length(longest)) longest = kv;
  }
  return longest;
}

/// The problem with the longest KV tile's chain in two halves: dK and dV are spilled once a head.
Problem with_split_tile(Problem problem) {
  const TileGrid& grid = problem.grid;
  const KvTile longest = longest_chain(grid);
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

/// Whether KV tiles of half the tokens take half the ticks.
bool has_halves(const Problem& problem, const Timing& timing) {
  return problem.shape.kv % 2 == 0 && timing.compute % 2 == 0 &&
         timing.compute_of(TileKind::partial) % 2 == 0;
}

Timing with_half_compute(Timing timing) {
  timing.compute /= 2;
  if (timing.compute_partial) *timing.compute_partial /= 2;
  return timing;
}

}  // namespace

const char* Optimization::status() const {
  if (!optimum.best) return "infeasible";
  return optimum.proof == search::ProofKind::none ? "feasible" : "optimal";
}

const char* Optimization::proof() const {
  constexpr const char* kNames[] = {"none", "bound", "search"};
  return kNames[static_cast<int>(optimum.proof)];
}

Optimization optimize(const OptimizationRequest& request) {
  return Search(request).run();
}

std::vector<Advice> advise(const Optimization& optimization) {
  const Problem& problem = optimization.problem;
  const Timing& timing = optimization.model.timing;
  std::vector<Advice> all;
  const auto add = [&](std::string change, const Problem& changed, const Timing& changed_timing) {
    const dag::Bounds bounds = bounds_of(changed, changed_timing, optimization.slot_model);
    all.push_back({std::move(change), bounds.best.ticks, bounds.best.by});
  };
  if (problem.tasks() == 0) return all;
  if (problem.sms < kMaxSms) add("one more SM", with_sms(problem, problem.sms + 1), timing);
  add("the longest KV tile in two (dK, dV spilled once)", with_split_tile(problem), timing);
  const bool in_ticks = !optimization.slot_model && optimization.model.clock == Clock::ticks;
  if (in_ticks && has_halves(problem, timing)) {
    add("KV tiles half as large (half the compute each)",
        make_problem(problem.mask, problem.lengths, {problem.shape.q, problem.shape.kv / 2},
                     problem.heads, problem.sms),
        with_half_compute(timing));
  }
  return all;
}

}  // namespace stagger::workbench
