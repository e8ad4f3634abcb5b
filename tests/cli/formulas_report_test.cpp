// What is said of formulas of which not every case was checked.

#include "cli/report/formulas.hpp"
#include "tests/support/catch.hpp"

#include <cctype>
#include <cstddef>
#include <string>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::SweptFormula;

/// Four formulas: exact, checked outside its domain alone, wrong once, and not checked.
std::vector<SweptFormula> swept() {
  workbench::SweepRequest request;
  request.n = {2, 3};
  request.heads = {1, 2};
  std::vector<SweptFormula> results = workbench::sweep_formulas(request);
  REQUIRE(results.size() >= 4);
  results.resize(4);
  for (SweptFormula& result : results)
    result.inside = result.outside = {};
  results[0].inside.checked = results[0].inside.holds = 3;
  results[1].outside.checked = 2;
  results[2].inside.checked = 2;
  results[2].inside.holds = 1;
  workbench::Tally::Failure failure;
  failure.twice_formula = 9;
  results[2].inside.first_failure = failure;
  return results;
}

std::vector<std::string> verdicts(bool complete) {
  std::vector<std::string> found;
  std::string text = formulas_text(swept(), complete);
  for (std::size_t at = text.find("  inside: "); at != std::string::npos;
       at = text.find("  inside: ", at + 1)) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    found.push_back(line.substr(line.rfind(": ") + 2));
  }
  return found;
}

TEST_CASE("a formula has a verdict as far as it was checked, and none if that is nowhere") {
  CHECK(verdicts(false) == std::vector<std::string>{"ok", "ok", "FAILS", "not checked"});
  CHECK(verdicts(true) == std::vector<std::string>{"ok", "ok", "FAILS", "ok"});
  const auto holds = [](bool complete) {
    const std::string json = formulas_json(swept(), complete).line();
    const std::string key = "\"holds\": ";  // of a formula, and the number of cases that hold
    std::string said;
    for (std::size_t at = json.find(key); at != std::string::npos; at = json.find(key, at + 1)) {
      const std::size_t value = at + key.size();
      if (std::isalpha(static_cast<unsigned char>(json[value])) != 0)
        said += json.substr(value, json.find(',', value) - value) + " ";
    }
    return said;
  };
  CHECK(holds(false) == "true true false null ");
  CHECK(holds(true) == "true true false true ");
  CHECK(formulas_text(swept(), true).find("formula 4.5, makespan 0") != std::string::npos);
  CHECK(formulas_text(swept(), false).find("\nNot every case was checked.\n") != std::string::npos);
  CHECK(formulas_text(swept(), true).find("Not every") == std::string::npos);
}

}  // namespace
}  // namespace stagger::cli
