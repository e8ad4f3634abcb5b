// Exported questions asked of other people's solvers, where those are installed: glpsol (GLPK) and
// MiniZinc. Everywhere else enumerators of the texts answer them (round_search_test.cpp).

#include "core/error.hpp"
#include "dag/verify.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/round_files.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <unistd.h>

namespace stagger::search {
namespace {

/// A folder of this process, gone at the end.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("stagger_solvers_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string file(const char* name) const { return path_ / name; }
  [[nodiscard]] std::string write(const char* name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  [[nodiscard]] std::string read(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(file(name)).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

bool runs(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Whether a solver's text is an answer, which must then be a table of so many rounds.
bool is_answer(const std::string& text, const Problem& problem, std::int32_t rounds) {
  try {
    const Table table = read_round_solution(text, "solver", problem, rounds);
    REQUIRE(dag::verify(table, {}).verdict == dag::Verdict::ok);
    REQUIRE(rounds_of(table).value_or(rounds + 1) <= rounds);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Asks for one round too few, just enough and one more, of small problems.
void ask(std::uint32_t seed,
         const std::function<std::string(const Problem&, std::int32_t)>& solved) {
  test::Random random(test::seed(seed));
  for (std::int64_t asked = 0; asked < 12;) {
    Problem problem = test::any_problem(random, 3);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 4);
    if (problem.tasks() < 2 || problem.tasks() > 7) continue;
    ++asked;
    const auto fewest = static_cast<std::int32_t>(test::naive_round_optimum(problem));
    for (std::int32_t rounds = std::max(fewest - 1, 1); rounds <= fewest + 1; ++rounds) {
      CAPTURE(asked, rounds, fewest, problem.heads, problem.sms);
      REQUIRE(is_answer(solved(problem, rounds), problem, rounds) == (rounds >= fewest));
    }
  }
}

TEST_CASE("glpsol has an answer exactly where a table fits") {
  if (!runs("glpsol --version") && test::skipped("glpsol is not installed")) return;
  const Folder folder;
  ask(93, [&](const Problem& problem, std::int32_t rounds) {
    const std::string question = folder.write("q.lp", write_linear_program(problem, rounds));
    static_cast<void>(runs("glpsol --lp " + question + " -o " + folder.file("answer")));
    return folder.read("answer");
  });
}

TEST_CASE("MiniZinc has an answer exactly where a table fits") {
  if (!runs("minizinc --version") && test::skipped("minizinc is not installed")) return;
  const Folder folder;
  const std::string model = folder.write("q.mzn", write_minizinc_model());
  ask(94, [&](const Problem& problem, std::int32_t rounds) {
    const std::string data = folder.write("q.dzn", write_minizinc_data(problem, rounds));
    static_cast<void>(
        runs("minizinc --output-to-file " + folder.file("answer") + " " + model + " " + data));
    return folder.read("answer");
  });
}

}  // namespace
}  // namespace stagger::search
