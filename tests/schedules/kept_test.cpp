// The tables of every schedule that does not search, with every value of its parameters, and what
// formulas say of them, kept in tests/golden/schedules-*.txt. The worked tables beside this are
// small enough to be read; these are not, and a line that changes was changed on purpose.

#include "tests/support/kept.hpp"

#include "core/table_digest.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace stagger::schedules {
namespace {

struct Case {
  std::string mask;
  Lengths lengths;
  TileShape shape = {};
  std::int64_t heads = 1;
  std::int64_t sms = 0;
  Grouping grouping = {};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"full", {1, 1}},
      {"full", {4, 4}, {}, 3},
      {"full", {5, 5}, {}, 2, 3},
      {"full", {6, 4}, {}, 5, 4},
      {"full", {3, 7}, {}, 2, 9},
      {"causal", {1, 1}, {}, 3, 2},
      {"causal", {4, 4}, {}, 2},
      {"causal", {5, 5}, {}, 3},
      {"causal", {8, 8}, {}, 4, 4},
      {"causal", {8, 8}, {}, 3, 3},
      {"causal", {8, 8}, {.q = 1, .kv = 2}, 2, 2},
      {"causal", {16, 16}, {.q = 1, .kv = 2}, 4, 0},
      {"causal", {7, 9}, {.q = 2, .kv = 3}, 2, 2},
      {"causal", {9, 5}, {}, 1, 3},
      {"sliding:left=2,right=1", {9, 9}, {.q = 2, .kv = 1}, 2, 4},
      {"prefix:length=3", {7, 7}, {}, 2, 3},
      {"document:lengths=3+4+2,causal=true", {9, 9}, {.q = 2, .kv = 2}, 3, 2},
      {"tiles:rows=fpp.+.fp.+...f+p..f+....", {4, 5}, {}, 2, 3},
      {"causal", {6, 6}, {}, 4, 3, {.heads_kv = 2, .span = 2}},
      {"causal", {6, 6}, {}, 4, 0, {.heads_kv = 1, .span = 2, .combine = Combine::ordered}},
      {"full", {4, 4}, {}, 6, 4, {.heads_kv = 2, .span = 3}},
      {"full", {4, 4}, {}, 6, 4, {.heads_kv = 2, .span = 1, .combine = Combine::partials}},
      {"full", {3, 3}, {}, 4, 6, {.heads_kv = 1, .span = 4}}};
  return all;
}

/// The schedule with each parameter at each of a few values, the others at their defaults.
std::vector<std::string> spellings(const Schedule& schedule) {
  const std::string name = schedule.name;
  std::vector<std::string> texts = {name, name + ":order=head-major"};
  for (const Parameter& parameter : schedule.parameters) {
    for (const std::int64_t value :
         {parameter.least, parameter.least + 1, parameter.fallback + 1, std::int64_t{3}}) {
      if (value < parameter.least || value > parameter.most) continue;
      texts.push_back(name + ":" + parameter.name + "=" + parameter.spelled(value));
    }
  }
  return texts;
}

TEST_CASE("the table of every schedule, problem and parameter is as kept") {
  std::ostringstream text;
  std::int64_t tables = 0;
  for (const Case& each : cases()) {
    const Problem problem = make_problem(parse_mask(each.mask), each.lengths, each.shape,
                                         each.heads, each.sms, each.grouping);
    text << describe(problem) << "\n";
    for (const Schedule* schedule : test::kept_schedules()) {
      if (schedule->searches()) continue;
      for (const std::string& spelling : spellings(*schedule)) {
        const Selection selection = select(spelling);
        if (const auto why = why_unsupported(selection, problem)) {
          text << "  " << spelling << ": " << *why << "\n";
          continue;
        }
        const Table table = build(selection, problem);
        // The digest is blind to the names of heads and tiles: a sum tells those apart.
        std::int64_t names = 0;
        for (std::int64_t slot = 0; slot < std::ssize(table.slots); ++slot) {
          const Task& task = table.slots[slot].task;
          names += (slot + 1) * (1'000 * task.head.value + 30 * task.kv.value + task.q.value);
        }
        text << "  " << table.name << ": " << dispatch_name(table.dispatch) << " " << table.lanes()
             << " lanes " << std::hex << std::setw(16) << std::setfill('0') << table_digest(table)
             << std::dec << " " << names << "\n";
        ++tables;
      }
    }
  }
  CHECK(tables > 400);
  CHECK(test::golden_difference("schedules-tables.txt", text.str()) == "");
}

TEST_CASE("what formulas claim, and where, is as kept") {
  std::ostringstream text;
  const Timing timings[] = {{},
                            {.compute = 7, .reduce = 3},
                            {.compute = 1, .reduce = 4},
                            {.compute = 4, .reduce = 0},
                            {.latency = 1},
                            {.launch = 1},
                            {.epilogue = 1},
                            {.model = Model::overlap},
                            {.release = Release::delayed},
                            {.residency = 1},
                            {.compute_partial = 6},
                            {.compute_partial = 5}};
  for (const Case& each : cases()) {
    const Problem problem = make_problem(parse_mask(each.mask), each.lengths, each.shape,
                                         each.heads, each.sms, each.grouping);
    for (const Schedule* schedule : test::kept_schedules()) {
      if (schedule->formulas.empty()) continue;
      const Selection selection = select(schedule->name);
      if (why_unsupported(selection, problem)) continue;
      for (std::size_t index = 0; index < std::size(timings); ++index) {
        const Formula* formula = claim(selection, problem, timings[index]);
        if (formula == nullptr) continue;
        text << describe(problem) << "; " << schedule->name << " " << index << ": " << formula->name
             << " " << text_of(*formula, problem) << " = "
             << twice_ticks(*formula, problem, timings[index]) << "/2\n";
      }
      for (const Formula& formula : schedule->formulas) {
        text << describe(problem) << "; " << schedule->name << ", " << formula.name << ": "
             << formula.shape(problem.common_grid());
        if (!formula.shape(problem.common_grid())) {
          text << "\n";
          continue;
        }
        for (const Timing& timing : timings)
          text << " " << in_domain(formula, problem, timing);
        text << "\n";
      }
    }
  }
  CHECK(test::golden_difference("schedules-formulas.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::schedules
