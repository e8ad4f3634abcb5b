// Whole searches of problems drawn by dice, kept in tests/golden/search-optima.txt: what was found
// by which phase, what is proved and how, and which phases were told of.

#include "core/table_digest.hpp"
#include "dag/bounds.hpp"
#include "dag/slot_bounds.hpp"
#include "schedules/search/dice.hpp"
#include "schedules/search/optimize.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"

#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace stagger::search {
namespace {

constexpr const char* kProofs[] = {"unproved", "by bound", "by search"};

Problem drawn_problem(Dice& dice) {
  const std::size_t q_tiles = 1 + dice.roll(6);
  std::vector<std::string> rows(1 + dice.roll(6));
  for (std::string& row : rows) {
    for (std::size_t q = 0; q < q_tiles; ++q)
      row += "ffp."[dice.roll(4)];
  }
  const auto sms = static_cast<std::int32_t>(1 + dice.roll(5));
  const auto heads = static_cast<std::int32_t>(1 + dice.roll(3));
  Problem problem = test::tiles_problem(rows, heads, sms);
  if (dice.roll(5) > 0) return problem;
  problem.heads_kv = problem.heads;
  problem.heads *= 2;
  return with_span(std::move(problem), 1, dice.roll(2) == 0 ? Combine::partials : Combine::ordered);
}

Timing timing_by(Dice& dice) {
  const auto upto = [&](std::size_t most) { return static_cast<Ticks>(dice.roll(most + 1)); };
  Timing timing{.model = dice.roll(2) == 0 ? Model::chain : Model::overlap,
                .compute = 1 + upto(5),
                .reduce = upto(4),
                .latency = upto(2),
                .launch = upto(2),
                .epilogue = upto(2),
                .reduce_kv = upto(4)};
  if (dice.roll(3) == 0) timing.compute_partial = upto(7) + 1;
  if (dice.roll(4) == 0) timing.release = Release::delayed;
  timing.residency = static_cast<std::int32_t>(upto(3));
  if (dice.roll(6) == 0) {
    timing.memory =
        Memory{.l2 = 1 + upto(40), .rate = 1 + upto(5), .tile = {.q = 3, .dq = 5, .kv = 4}};
    timing.memory->spread = timing.memory->l2 % 4 * 5;
  }
  return timing;
}

/// Which phases were told of, and what the best was then.
std::string searched(const Problem& problem, const Objective& objective, std::int64_t effort) {
  const dag::Bound bound =
      objective.slot_model
          ? dag::slot_bounds(on_resident_sms(problem, objective.timing.residency)).best
          : dag::lower_bounds(problem, objective.timing, Dispatch::static_).best;
  std::ostringstream text;
  SearchOptions options;
  options.seed = 3;
  options.effort = effort;
  options.stop = [] { return false; };
  options.progress = [&](const std::string& phase, const Optimum& so_far) {
    text << "  " << phase << ": ";
    if (so_far.best) text << so_far.best->makespan;
    text << " above " << so_far.lower_bound.ticks << "\n";
  };
  const Optimum found =
      optimize(problem, objective, {bound.ticks, bound.by}, std::nullopt, options);
  text << "  " << found.best->makespan;
  if (found.best->cost != found.best->makespan) text << " for " << found.best->cost;
  text << " by " << found.found_by << ", " << kProofs[static_cast<int>(found.proof)] << " "
       << found.lower_bound.ticks << " (" << found.lower_bound.by << ") " << found.detail;
  // A solver's own tables are its version's.
  if (found.found_by != "rounds by SAT") {
    text << " " << std::hex << std::setw(16) << std::setfill('0')
         << table_digest(found.best->table);
  }
  REQUIRE(found.best->table.lanes() == problem.sms);
  REQUIRE(found.best->table.problem.sms == problem.sms);
  REQUIRE(found.best->table.name == "optimized");
  return text.str() + "\n";
}

TEST_CASE("whole searches, phase by phase, are as kept") {
  if (test::skipped_without_sat_solver()) return;
  Dice dice(106);
  std::ostringstream text;
  for (int round = 0; round < 45; ++round) {
    const Problem problem = drawn_problem(dice);
    const Objective objective{.timing = timing_by(dice)};
    for (const std::int64_t effort : {0, 1})
      text << round << " effort " << effort << "\n" << searched(problem, objective, effort);
  }
  CHECK(test::golden_difference("search-optima.txt", text.str()) == "");
}

TEST_CASE("whole searches that local search ends are as kept") {
  if (test::skipped_without_sat_solver()) return;
  Dice dice(108);
  std::ostringstream text;
  for (int round = 0; round < 14; ++round) {
    const auto tiles = static_cast<std::int64_t>(5 + dice.roll(4));
    const auto sms = static_cast<std::int64_t>(3 + dice.roll(3));
    const auto heads = static_cast<std::int64_t>(1 + dice.roll(3));
    const auto more = static_cast<std::int64_t>(dice.roll(3));
    const Problem problem =
        make_problem(make_mask("causal"), {tiles, tiles + more}, {}, heads, sms);
    Objective objective{.timing = timing_by(dice)};
    objective.timing.model = Model::overlap;
    objective.timing.reduce += 3;
    text << round << "\n" << searched(problem, objective, 1);
  }
  // With chance: tables are tried by one draw of it, and compared by others.
  for (std::int64_t tiles = 5; tiles < 10; ++tiles) {
    const Problem problem = make_problem(make_mask("causal"), {tiles, tiles}, {}, 3, tiles - 1);
    Objective objective{.timing = {.model = Model::overlap, .compute = 20, .reduce = 9}};
    objective.timing.memory = Memory{
        .l2 = 30 * tiles, .rate = 9, .tile = {.q = 3, .dq = 5, .kv = 4}, .spread = 2 * tiles};
    text << tiles << " tiles\n" << searched(problem, objective, 2);
  }
  CHECK(test::golden_difference("search-optima-local.txt", text.str()) == "");
}

TEST_CASE("a search that is stopped where nothing is left to prove was not cut short") {
  const Problem problem = test::tiles_problem({"ff", "ff"}, 1, 2);
  SearchOptions options;
  options.stop = [] { return true; };
  Incumbent incumbent{.table = {.name = "mine", .problem = problem}, .makespan = 12};
  const Optimum proved = optimize(problem, {.timing = {}}, {12, "work"}, incumbent, options);
  CHECK(proved.proof == ProofKind::bound);
  CHECK_FALSE(proved.stopped);
  CHECK(proved.detail == "the makespan is the work bound");
  const Optimum open = optimize(problem, {.timing = {}}, {11, "work"}, incumbent, options);
  CHECK(open.proof == ProofKind::none);
  CHECK(open.stopped);
  CHECK(open.detail.empty());
}

TEST_CASE("whole searches in the slot model are as kept") {
  if (test::skipped_without_sat_solver()) return;
  Dice dice(107);
  std::ostringstream text;
  for (int round = 0; round < 30; ++round) {
    const Problem problem = drawn_problem(dice);
    Objective objective{.timing = {}, .slot_model = true};
    objective.timing.residency = static_cast<std::int32_t>(dice.roll(4));
    if (problem.combine != Combine::none || problem.tasks() == 0) continue;
    text << round << "\n" << searched(problem, objective, 1);
  }
  CHECK(test::golden_difference("search-optima-slots.txt", text.str()) == "");
}

TEST_CASE("a table that is known is kept unless a shorter one is found") {
  const Problem problem = test::tiles_problem({"ff", "ff"}, 1, 2);
  const Timing timing{};
  SearchOptions options;
  options.effort = 1;
  options.stop = [] { return false; };
  const auto best_after = [&](Ticks known) {
    Incumbent incumbent{.table = {.name = "mine", .problem = problem}, .makespan = known};
    return optimize(problem, {.timing = timing}, {0, "none"}, std::move(incumbent), options);
  };
  // Twelve ticks is the optimum: two tasks of six on each SM, out of step by a reduction.
  const Optimum alone = optimize(problem, {.timing = timing}, {0, "none"}, std::nullopt, options);
  REQUIRE(alone.best.has_value());
  const Ticks optimum = alone.best->makespan;
  CHECK(best_after(optimum).best->table.name == "mine");
  CHECK(best_after(optimum).found_by.empty());
  CHECK(best_after(optimum + 1).best->table.name == "optimized");
  CHECK_FALSE(best_after(optimum + 1).found_by.empty());
}

}  // namespace
}  // namespace stagger::search
