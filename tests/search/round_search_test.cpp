#include "core/error.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/round_cnf.hpp"
#include "schedules/search/round_files.hpp"
#include "schedules/search/sat.hpp"
#include "tests/support/binaries.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/drat.hpp"
#include "tests/support/minizinc.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/skip.hpp"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/resource.h>

namespace stagger::search {
namespace {

const SatLimits kNoLimits = {-1, [] { return false; }};

/// A small problem, one time in two with heads that share K and V and half as many tiles a side.
Problem drawn_problem(test::Random& random, std::int64_t most) {
  if (random.chance(2)) return test::any_problem(random, most);
  return test::with_random_groups(random, test::any_problem(random, (most + 1) / 2), 4);
}

/// The fewest rounds by SAT, from one round up.
std::int32_t fewest_rounds(const Problem& problem) {
  for (std::int32_t rounds = 1;; ++rounds) {
    if (rounds < problem.q_tiles() && rounds < dag::slot_bounds(problem).degree_rounds) continue;
    const RoundCnf cnf(problem, rounds);
    const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
    if (answer.verdict != Satisfiable::yes) continue;
    const Table table = table_of(problem, cnf.times([&](int variable) {
      return bool{answer.model[static_cast<std::size_t>(variable)]};
    }),
                                 "test");
    REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
    REQUIRE(rounds_of(table).value_or(rounds + 1) <= rounds);
    return rounds;
  }
}

TEST_CASE("a formula is left incomplete once it is to stop") {
  const Problem problem = make_problem(make_mask("causal"), {16, 16}, {}, 8, 16);
  std::int64_t asked = 0;
  const auto formula = [&](std::int64_t stops_at) {
    asked = 0;
    return RoundCnf(problem, 70, Symmetry::broken, [&] { return ++asked == stops_at; });
  };
  const RoundCnf whole = formula(-1);
  CHECK(whole.complete());
  REQUIRE(asked > 2);
  const RoundCnf stopped = formula(2);
  CHECK_FALSE(stopped.complete());
  CHECK(asked == 2);
  CHECK(stopped.cnf().clauses < whole.cnf().clauses);
}

TEST_CASE(
    "the solver finds the fewest rounds that trying everything finds, and no bound is above") {
  if (test::skipped_without_sat_solver()) return;
  test::Random random(test::seed(66));
  std::int64_t searched = 0;
  std::int64_t in_turn = 0;
  std::int64_t shared = 0;
  while (searched < 300) {
    const Problem problem = drawn_problem(random, 4);
    if (problem.tasks() == 0 || problem.tasks() > 9) continue;
    ++searched;
    in_turn += problem.combine == Combine::ordered ? 1 : 0;
    shared += problem.span > 1 ? 1 : 0;
    CAPTURE(searched, problem.heads, problem.sms, problem.kv_tiles(), problem.q_tiles());
    const std::int64_t fewest = test::naive_round_optimum(problem);
    REQUIRE(fewest_rounds(problem) == fewest);
    for (const dag::Bound& bound : dag::slot_bounds(problem).all) {
      CAPTURE(bound.by);
      REQUIRE(bound.ticks <= fewest);
    }
  }
  CHECK(in_turn > 8);
  CHECK(shared > 20);
}

TEST_CASE("known optima of the slot model") {
  if (test::skipped_without_sat_solver()) return;
  const auto full = [](std::int64_t kv, std::int64_t q) {
    return make_problem(make_mask("full"), {q, kv}, {}, 1, kv);
  };
  CHECK(fewest_rounds(full(3, 2)) == 4);
  CHECK(fewest_rounds(full(4, 3)) == 6);
  CHECK(dag::slot_bounds(full(3, 2)).best.ticks == 4);
  CHECK(std::string(dag::slot_bounds(full(3, 2)).best.by) == "matching");
  // The smallest mask whose optimum is above every bound.
  const Problem gap = test::tiles_problem({"fff.", "fff.", "fff.", "ff.f"}, 1, 4);
  CHECK(dag::slot_bounds(gap).best.ticks == 4);
  CHECK(fewest_rounds(gap) == 5);
}

/// Whether a table fits into that many rounds, as far as a few conflicts tell.
Satisfiable fits(const Problem& problem, std::int32_t rounds, Symmetry symmetry) {
  return solve(RoundCnf(problem, rounds, symmetry).cnf(), {3'000, [] { return false; }}).verdict;
}

TEST_CASE("breaking symmetry loses no table: heads alike, rows alike, up to 24 tasks") {
  if (test::skipped_without_sat_solver()) return;
  test::Random random(test::seed(90));
  std::int64_t searched = 0;
  std::int64_t refuted = 0;
  while (searched < 120) {
    // Few distinct rows, so that a head has equal ones.
    const std::int64_t q_tiles = random.between(1, 4);
    std::vector<std::string> kinds;
    for (int kind = 0; kind < 2; ++kind) {
      kinds.emplace_back();
      for (std::int64_t q = 0; q < q_tiles; ++q)
        kinds.back() += random.chance(4) ? '.' : 'f';
    }
    std::vector<std::string> rows;
    for (std::int64_t row = random.between(2, 4); row > 0; --row)
      rows.push_back(kinds[static_cast<std::size_t>(random.between(0, 1))]);
    Problem problem = test::tiles_problem(rows, static_cast<std::int32_t>(random.between(1, 3)),
                                          static_cast<std::int32_t>(random.between(1, 5)));
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 3);
    if (problem.tasks() == 0 || problem.tasks() > 24) continue;
    ++searched;
    CAPTURE(searched, problem.heads, problem.sms, rows);
    const auto bound = static_cast<std::int32_t>(dag::slot_bounds(problem).best.ticks);
    for (std::int32_t rounds = std::max(bound - 1, 1);; ++rounds) {
      const Satisfiable fit = fits(problem, rounds, Symmetry::broken);
      const Satisfiable all = fits(problem, rounds, Symmetry::left);
      if (all == Satisfiable::unknown) break;
      REQUIRE(fit == all);
      if (fit == Satisfiable::yes) break;
      ++refuted;
    }
  }
  CHECK(refuted > 40);
}

/// The `rounds` question in a solver's words and back: whether there is an answer, which is
/// checked.
bool answered(const Problem& problem, std::int32_t rounds, const test::BinaryModel& model,
              const std::function<std::string(std::size_t, bool)>& word) {
  const auto values = test::solve_binaries(model);
  if (!values) return false;
  std::string text;
  for (std::size_t variable = 0; variable < values->size(); ++variable)
    text += word(variable, (*values)[variable]);
  const Table table = read_round_solution(text, "solver", problem, rounds);
  REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
  REQUIRE(rounds_of(table).value_or(rounds + 1) <= rounds);
  return true;
}

TEST_CASE("every exported question has an answer exactly where a table fits") {
  test::Random random(test::seed(91));
  std::int64_t asked = 0;
  std::int64_t enumerated = 0;
  std::int64_t in_turn = 0;
  std::int64_t shared = 0;
  while (asked < 150) {
    const Problem problem = drawn_problem(random, 3);
    if (problem.tasks() == 0 || problem.tasks() > 6) continue;
    ++asked;
    in_turn += problem.combine == Combine::ordered ? 1 : 0;
    shared += problem.span > 1 ? 1 : 0;
    const auto fewest = static_cast<std::int32_t>(test::naive_round_optimum(problem));
    for (std::int32_t rounds = std::max(fewest - 1, 1); rounds <= fewest + 1; ++rounds) {
      CAPTURE(asked, rounds, fewest, problem.heads, problem.sms);
      const bool fits = rounds >= fewest;
      const test::BinaryModel program = test::read_lp(write_linear_program(problem, rounds));
      REQUIRE(answered(problem, rounds, program, [&](std::size_t variable, bool value) {
                return program.names[variable] + (value ? " 1\n" : " 0\n");
              }) == fits);
      const test::BinaryModel formula = test::read_dimacs(RoundCnf(problem, rounds).dimacs());
      REQUIRE(answered(problem, rounds, formula, [](std::size_t variable, bool value) {
                return "v " + std::string(value ? "" : "-") + std::to_string(variable + 1) + "\n";
              }) == fits);
      // MiniZinc's variables take every value there is.
      const std::int64_t variables = problem.tasks() + std::ssize(chains_of(problem));
      if (std::pow(rounds, variables) > 20'000) continue;
      ++enumerated;
      test::MiniZinc model(write_minizinc_model(), write_minizinc_data(problem, rounds));
      REQUIRE(model.satisfiable() == fits);
    }
  }
  CHECK(enumerated > 100);
  CHECK(in_turn > 0);
  CHECK(shared > 2);
}

TEST_CASE("the literals of a formula are counted without it") {
  test::Random random(test::seed(92));
  for (int round = 0; round < 500; ++round) {
    const Problem problem = drawn_problem(random, 9);
    if (problem.tasks() == 0) continue;
    const auto rounds = static_cast<std::int32_t>(random.between(1, 20));
    for (const Symmetry symmetry : {Symmetry::broken, Symmetry::left}) {
      CAPTURE(round, rounds, problem.heads, problem.sms);
      REQUIRE(std::ssize(RoundCnf(problem, rounds, symmetry).cnf().literals) ==
              RoundCnf::literals(problem, rounds, symmetry));
    }
  }
}

TEST_CASE("a question too large for memory is refused at once, in every form") {
  const Problem problem = make_problem(make_mask("full"), {5, 4}, {}, 1, 4);
  for (const std::int32_t rounds : {65'536, 1'000'000, 60'000'000, 2'000'000'000}) {
    CAPTURE(rounds);
    CHECK_THROWS_AS(RoundCnf(problem, rounds), Error);
    CHECK_THROWS_AS(read_round_solution("v 1 0\n", "solver", problem, rounds), Error);
    if (rounds > 1'000'000) CHECK_THROWS_AS(write_linear_program(problem, rounds), Error);
  }
  const Problem large = make_problem(make_mask("full"), {4'096, 4'096}, {}, 2, 4);
  CHECK_THROWS_AS(RoundCnf(large, 1), Error);
  CHECK_THROWS_AS(write_linear_program(large, 1), Error);
  CHECK_THROWS_AS(write_minizinc_data(large, 1), Error);
}

TEST_CASE("an answer gives every variable its value, the first one too") {
  if (test::skipped_without_sat_solver()) return;
  Cnf cnf;
  cnf.variables = 3;
  cnf.literals = {1, 0, -2, 0, 2, 3, 0};
  const SatAnswer answer = solve(cnf, kNoLimits);
  REQUIRE(answer.verdict == Satisfiable::yes);
  REQUIRE(answer.model.size() == 4);
  CHECK(answer.model[1]);
  CHECK_FALSE(answer.model[2]);
  CHECK(answer.model[3]);
}

TEST_CASE("a refutation's proof convinces a checker, and half of it does not") {
  if (test::skipped_without_sat_solver()) return;
  const std::string path = (std::filesystem::temp_directory_path() / "stagger_proof_test.drat");
  CHECK(unfinished_proof(path) != path + ".part");  // which may be somebody's
  const Problem gap = test::tiles_problem({"fff.", "fff.", "fff.", "ff.f"}, 1, 4);
  const RoundCnf cnf(gap, 4);
  REQUIRE(solve(cnf.cnf(), kNoLimits, path).verdict == Satisfiable::no);
  // A Yes afterwards leaves the proof alone.
  REQUIRE(solve(RoundCnf(gap, 5).cnf(), kNoLimits, path).verdict == Satisfiable::yes);
  CHECK_FALSE(std::filesystem::exists(unfinished_proof(path)));
  CHECK_THROWS_AS(solve(cnf.cnf(), kNoLimits, "/dev/null/proof"), Error);
  std::ifstream file(path);
  std::stringstream proof;
  proof << file.rdbuf();
  std::filesystem::remove(path);
  CHECK(test::refutes(cnf.cnf().literals, proof.str()));
  CHECK_FALSE(test::refutes(cnf.cnf().literals, ""));
  const RoundCnf enough(gap, 5);
  CHECK_FALSE(test::refutes(enough.cnf().literals, proof.str()));
}

/// Files of this process are as long as that at most, until the end of a scope.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_ = {};
};

TEST_CASE("a proof for which there is no room is an error, and the one before stays") {
  if (test::skipped_without_sat_solver()) return;
  const std::string path = (std::filesystem::temp_directory_path() / "stagger_room_test.drat");
  std::ofstream(path) << "before\n";
  const Problem gap = test::tiles_problem({"fff.", "fff.", "fff.", "ff.f"}, 1, 4);
  const RoundCnf cnf(gap, 4);
  std::string said;
  {
    const FileLimit limit(16);
    said = test::message_of([&] { static_cast<void>(solve(cnf.cnf(), kNoLimits, path)); },
                            ErrorKind::io);
  }
  CHECK(said == path + ": cannot be written");
  CHECK_FALSE(std::filesystem::exists(unfinished_proof(path)));
  std::string kept;
  std::ifstream file(path);
  std::getline(file, kept);
  std::filesystem::remove(path);
  CHECK(kept == "before");
}

/// What a solver would print for an answer.
RoundTimes times_of(const Problem& problem, std::int32_t rounds) {
  const RoundCnf cnf(problem, rounds);
  const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
  REQUIRE(answer.verdict == Satisfiable::yes);
  return cnf.times(
      [&](int variable) { return bool{answer.model[static_cast<std::size_t>(variable)]}; });
}

std::string message_of(const std::string& text, const Problem& problem, std::int32_t rounds) {
  try {
    (void)read_round_solution(text, "answer", problem, rounds);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("answers in every format come back as the same table") {
  if (test::skipped_without_sat_solver()) return;
  const Problem problem = make_problem(make_mask("causal"), {4, 4}, {}, 2, 3);
  const auto rounds = static_cast<std::int32_t>(dag::slot_bounds(problem).best.ticks);
  std::string task_lines;
  std::string variables;
  std::string zeros;
  for (const auto& [task, round] : times_of(problem, rounds)) {
    const auto place = [&, of = task, at_round = round](char separator) {
      return std::to_string(of.head.value) + separator + std::to_string(of.kv.value) + separator +
             std::to_string(of.q.value) + separator + std::to_string(at_round);
    };
    task_lines += "task " + place(' ') + "\n";
    variables += "   12 task_" + place('_') + "  *  1  0  1\n";
    zeros += "task_" + place('_') + " 0\n";
  }
  const Table table = read_round_solution(task_lines, "answer", problem, rounds);
  CHECK(rounds_of(table) == rounds);
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
  CHECK(read_round_solution(variables, "answer", problem, rounds).slots == table.slots);
  // What says no value, or none that is a number, says nothing; of marks and bounds the first
  // number is the value.
  const std::int64_t taken = times_of(problem, rounds).front().round;
  const std::string later = "task_0_0_0_" + std::to_string(taken + 1);
  REQUIRE(times_of(problem, rounds).front().task == Task{});
  for (const char* const value : {"", " *", " yes", " 0 1 1", " 0.5", " 1x"}) {
    CAPTURE(value);
    const std::string more = later + value + "\n";
    CHECK(read_round_solution(variables + more, "answer", problem, rounds).slots == table.slots);
    CHECK(read_round_solution(more + variables, "answer", problem, rounds).slots == table.slots);
  }
  CHECK_FALSE(message_of(variables + later + " * 0.51\n", problem, rounds).empty());
  CHECK(message_of(zeros, problem, rounds).find("has no `v`") != std::string::npos);

  const RoundCnf cnf(problem, rounds);
  const SatAnswer answer = solve(cnf.cnf(), kNoLimits);
  std::string values = "s SATISFIABLE\nv";
  for (int variable = 1; variable <= cnf.cnf().variables; ++variable) {
    const bool is_true = answer.model[static_cast<std::size_t>(variable)];
    values += is_true ? " " : " -";
    values += std::to_string(variable);
  }
  CHECK(read_round_solution(values + " 0\n", "answer", problem, rounds).slots == table.slots);
}

TEST_CASE("chains that share one round share no SM") {
  const Problem problem = test::tiles_problem({"ff"}, 2, 1);
  const auto table_from = [&](int second) {
    std::string text = "task 0 0 0 0\ntask 0 0 1 1\n";
    for (int q = 0; q < 2; ++q)
      text += "task 1 0 " + std::to_string(q) + " " + std::to_string(second + q) + "\n";
    return read_round_solution(text, "solver", problem, 9);
  };
  CHECK(rounds_of(table_from(2)) == 4);
  CHECK_THROWS_AS(table_from(1), Error);
}

TEST_CASE("parts that are added in turn end in rounds of their own, in which their ranks are") {
  Problem problem = test::tiles_problem({"f"}, 2, 2);
  problem.heads_kv = 1;
  problem.combine = Combine::ordered;
  const Table table = read_round_solution("task 0 0 0 1\ntask 1 0 0 0\n", "answer", problem, 2);
  CHECK(table.dkv_ranks == std::vector<std::int32_t>{1, 0});
  CHECK(dag::slot_bounds(problem).best.ticks == 2);
  CHECK(message_of("task 0 0 0 0\ntask 1 0 0 0\n", problem, 2) ==
        "answer: task (head 1, kv 0, q 0) ends its chain with another one of its KV tile");
  problem.combine = Combine::partials;
  CHECK(message_of("task 0 0 0 0\ntask 1 0 0 0\n", problem, 2).empty());
}

TEST_CASE("wrong answers are refused with their place") {
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  const auto message = [&](const std::string& text) { return message_of(text, problem, 2); };
  const std::string right = "task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\n";
  CHECK(message(right + "task 0 1 0 1\n").empty());
  CHECK(message(right).find("(head 0, kv 1, q 0) has no round") != std::string::npos);
  CHECK(message("task 0 1 0 0\ntask 0 1 1 1\ntask 0 0 0 1\n")
            .find("(head 0, kv 0, q 1) has no round") != std::string::npos);
  const Problem holed = test::tiles_problem({"f.", "ff"}, 1, 2);
  CHECK(message_of(right + "task 0 1 0 1\n", holed, 2).find("(head 0, kv 0, q 1) is not live") !=
        std::string::npos);
  CHECK(message(right + "task 0 1 0 0\n").find("round by round") != std::string::npos);
  CHECK(message(right + "task 0 1 0 1\ntask 0 1 0 2\n").find("two rounds") != std::string::npos);
  CHECK(message(right + "task 0 5 0 1\n").find("not in the problem") != std::string::npos);
  CHECK(message("task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 0 0\ntask 0 1 1 1\n").find("shares") !=
        std::string::npos);
  CHECK(message("task 0 0 0 -1\ntask 0 0 1 0\n").find("has a round below 0") != std::string::npos);
  CHECK(message("s UNSATISFIABLE\n").find("no table fits") != std::string::npos);
  CHECK(message("v 99999 0\n").find("beyond the formula") != std::string::npos);
  const Problem narrow = make_problem(make_mask("full"), {2, 2}, {}, 1, 1);
  CHECK(message_of(right + "task 0 1 0 1\n", narrow, 2).find("no free SM") != std::string::npos);
}

TEST_CASE("every literal of a solver's lines counts, up to the zero that ends them") {
  const Problem problem = test::tiles_problem({"f"}, 1, 1);
  const RoundCnf cnf(problem, 1);
  REQUIRE(cnf.cnf().variables > 1);
  std::string line = "v";
  for (int variable = 1; variable <= cnf.cnf().variables; ++variable)
    line += " " + std::to_string(variable);
  const auto slots = [&](const std::string& text) {
    return read_round_solution("s SATISFIABLE\n" + text, "solver", problem, 1).slots.size();
  };
  CHECK(slots(line + " 0\n") == 1);
  CHECK(slots(line + "\nv 0\n") == 1);
  CHECK(slots(line + " 0 -1 -2 99\n") == 1);
}

}  // namespace
}  // namespace stagger::search
