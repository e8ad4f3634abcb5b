#include "core/error.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/sat.hpp"
#include "schedules/search/slot_cnf.hpp"
#include "schedules/search/slot_files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drat.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace stagger::search {
namespace {

const SatLimits kNoLimits = {-1, [] { return false; }};

/// The fewest slots by SAT, from one slot up.
std::int32_t fewest_slots(const Problem& problem) {
  for (std::int32_t slots = 1;; ++slots) {
    if (slots < problem.grid.q_tiles() && slots < dag::slot_bounds(problem).degree_rounds) continue;
    const SlotCnf cnf(problem, slots);
    const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
    if (answer.verdict != Satisfiable::yes) continue;
    const Table table = table_of(problem, cnf.times([&](int variable) {
      return bool{answer.model[static_cast<std::size_t>(variable)]};
    }),
                                 "test");
    REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
    REQUIRE(slots_of(table).value_or(slots + 1) <= slots);
    return slots;
  }
}

TEST_CASE("the solver finds the fewest slots that trying everything finds, and no bound is above") {
  if (test::skipped_without_sat_solver()) return;
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
  if (test::skipped_without_sat_solver()) return;
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
  if (test::skipped_without_sat_solver()) return;
  const std::string path = (std::filesystem::temp_directory_path() / "stagger_proof_test.drat");
  const Problem gap = test::tiles_problem({"fff.", "fff.", "fff.", "ff.f"}, 1, 4);
  const SlotCnf cnf(gap, 4);
  REQUIRE(solve(cnf.cnf(), kNoLimits, path).verdict == Satisfiable::no);
  // A Yes afterwards leaves the proof alone.
  REQUIRE(solve(SlotCnf(gap, 5).cnf(), kNoLimits, path).verdict == Satisfiable::yes);
  CHECK_FALSE(std::filesystem::exists(path + ".part"));
  CHECK_THROWS_AS(solve(cnf.cnf(), kNoLimits, "/dev/null/proof"), Error);
  std::ifstream file(path);
  std::stringstream proof;
  proof << file.rdbuf();
  std::filesystem::remove(path);
  CHECK(test::refutes(cnf.cnf().literals, proof.str()));
  CHECK_FALSE(test::refutes(cnf.cnf().literals, ""));
  const SlotCnf enough(gap, 5);
  CHECK_FALSE(test::refutes(enough.cnf().literals, proof.str()));
}

/// What a solver would print for an answer.
SlotTimes times_of(const Problem& problem, std::int32_t slots) {
  const SlotCnf cnf(problem, slots);
  const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
  REQUIRE(answer.verdict == Satisfiable::yes);
  return cnf.times(
      [&](int variable) { return bool{answer.model[static_cast<std::size_t>(variable)]}; });
}

std::string message_of(const std::string& text, const Problem& problem, std::int32_t slots) {
  try {
    (void)read_slot_solution(text, "answer", problem, slots);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("answers in every format come back as the same table") {
  if (test::skipped_without_sat_solver()) return;
  const Problem problem = make_problem(make_mask("causal"), {4, 4}, {}, 2, 3);
  const auto slots = static_cast<std::int32_t>(dag::slot_bounds(problem).best.ticks);
  std::string task_lines;
  std::string variables;
  std::string zeros;
  for (const auto& [task, slot] : times_of(problem, slots)) {
    const auto place = [&, of = task, at_slot = slot](char separator) {
      return std::to_string(of.head.value) + separator + std::to_string(of.kv.value) + separator +
             std::to_string(of.q.value) + separator + std::to_string(at_slot);
    };
    task_lines += "task " + place(' ') + "\n";
    variables += "   12 task_" + place('_') + "  *  1  0  1\n";
    zeros += "task_" + place('_') + " 0\n";
  }
  const Table table = read_slot_solution(task_lines, "answer", problem, slots);
  CHECK(slots_of(table) == slots);
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
  CHECK(read_slot_solution(variables, "answer", problem, slots).slots == table.slots);
  CHECK(message_of(zeros, problem, slots).find("has no `v`") != std::string::npos);

  const SlotCnf cnf(problem, slots);
  const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
  std::string values = "s SATISFIABLE\nv";
  for (int variable = 1; variable <= cnf.cnf().variables; ++variable) {
    const bool is_true = answer.model[static_cast<std::size_t>(variable)];
    values += " " + std::to_string(is_true ? variable : -variable);
  }
  CHECK(read_slot_solution(values + " 0\n", "answer", problem, slots).slots == table.slots);
}

TEST_CASE("wrong answers are refused with their place") {
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  const auto message = [&](const std::string& text) { return message_of(text, problem, 2); };
  const std::string right = "task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\n";
  CHECK(message(right + "task 0 1 0 1\n").empty());
  CHECK(message(right).find("(head 0, kv 1, q 0) has no slot") != std::string::npos);
  CHECK(message(right + "task 0 1 0 0\n").find("slot by slot") != std::string::npos);
  CHECK(message(right + "task 0 1 0 1\ntask 0 1 0 2\n").find("two slots") != std::string::npos);
  CHECK(message(right + "task 0 5 0 1\n").find("not in the problem") != std::string::npos);
  CHECK(message("task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 0 0\ntask 0 1 1 1\n").find("shares") !=
        std::string::npos);
  CHECK(message("s UNSATISFIABLE\n").find("no table fits") != std::string::npos);
  CHECK(message("v 99999 0\n").find("beyond the formula") != std::string::npos);
  const Problem narrow = make_problem(make_mask("full"), {2, 2}, {}, 1, 1);
  CHECK(message_of(right + "task 0 1 0 1\n", narrow, 2).find("no free SM") != std::string::npos);
}

}  // namespace
}  // namespace stagger::search
