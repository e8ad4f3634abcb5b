#include "dag/slot_bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/sat.hpp"
#include "schedules/search/slot_cnf.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drat.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace stagger::search {
namespace {

const SatLimits kNoLimits = {-1, [] { return false; }};

/// The fewest slots by SAT, from one slot up.
std::int32_t fewest_slots(const Problem& problem) {
  for (std::int32_t slots = 1;; ++slots) {
    if (slots < problem.grid.q_tiles() && slots < dag::slot_bounds(problem).degree_slots) continue;
    const SlotCnf cnf(problem, slots);
    const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
    if (answer.verdict != Satisfiable::yes) continue;
    const Table table = cnf.decode(
        [&](int variable) { return bool{answer.model[static_cast<std::size_t>(variable)]}; });
    REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
    REQUIRE(slots_of(table).value_or(slots + 1) <= slots);
    return slots;
  }
}

TEST_CASE("the solver finds the fewest slots that trying everything finds, and no bound is above") {
  if (!has_sat_solver()) return;
  test::Random random(66);
  std::int64_t searched = 0;
  while (searched < 300) {
    const Problem problem = test::random_problem(random, 4);
    if (problem.tasks() == 0 || problem.tasks() > 9) continue;
    ++searched;
    CAPTURE(searched, problem.heads, problem.sms, problem.grid.kv_tiles(), problem.grid.q_tiles());
    const std::int64_t fewest = test::naive_slot_optimum(problem);
    REQUIRE(fewest_slots(problem) == fewest);
    for (const dag::Bound& bound : dag::slot_bounds(problem).all) {
      CAPTURE(bound.by);
      REQUIRE(bound.ticks <= fewest);
    }
  }
}

TEST_CASE("known optima of the slot model") {
  if (!has_sat_solver()) return;
  const auto full = [](std::int64_t kv, std::int64_t q) {
    return make_problem(make_mask("full"), {q, kv}, {}, 1, kv);
  };
  CHECK(fewest_slots(full(3, 2)) == 4);
  CHECK(fewest_slots(full(4, 3)) == 6);
  CHECK(dag::slot_bounds(full(3, 2)).best.ticks == 4);
  CHECK(std::string(dag::slot_bounds(full(3, 2)).best.by) == "matching");
  // The smallest mask whose optimum is above every bound.
  const Problem gap = test::tiles_problem({"fff.", "fff.", "fff.", "ff.f"}, 1, 4);
  CHECK(dag::slot_bounds(gap).best.ticks == 4);
  CHECK(fewest_slots(gap) == 5);
}

TEST_CASE("a refutation's proof convinces a checker, and half of it does not") {
  if (!has_sat_solver()) return;
  const std::string path = (std::filesystem::temp_directory_path() / "stagger_proof_test.drat");
  const Problem gap = test::tiles_problem({"fff.", "fff.", "fff.", "ff.f"}, 1, 4);
  const SlotCnf cnf(gap, 4);
  REQUIRE(solve(cnf.cnf(), kNoLimits, path).verdict == Satisfiable::no);
  std::ifstream file(path);
  std::stringstream proof;
  proof << file.rdbuf();
  std::filesystem::remove(path);
  CHECK(test::refutes(cnf.cnf().literals, proof.str()));
  CHECK_FALSE(test::refutes(cnf.cnf().literals, ""));
  const SlotCnf enough(gap, 5);
  CHECK_FALSE(test::refutes(enough.cnf().literals, proof.str()));
}

}  // namespace
}  // namespace stagger::search
