// Kernels as people write them, each sound, and each with one mistake of those that they make: what
// lint says of both, against runs of their locks that share no code with it. (STG015, orders of
// other block lists: tickets_fa4_test.cpp.)

#include "tests/support/catch.hpp"
#include "tests/support/drawn_kernels.hpp"
#include "tests/support/lock_kernels.hpp"
#include "workbench/tickets/lint.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stagger::tickets {
namespace {

using test::Dead;
using test::draw;
using test::Live;
using test::LockKernel;
using test::LockStep;
using test::Random;

int q_tiles_of(const Live& live) {
  return static_cast<int>(live[0][0].size());
}

/// Steps at a semaphore, by what they wait for.
std::vector<LockStep*> at_semaphore(LockKernel& kernel, int semaphore) {
  std::vector<LockStep*> steps;
  for (auto& program : kernel.programs) {
    for (LockStep& step : program) {
      if (step.semaphore == semaphore) steps.push_back(&step);
    }
  }
  std::ranges::stable_sort(steps, {}, &LockStep::wait);
  return steps;
}

/// Those of a semaphore that has so many at least, drawn; empty if there is none.
std::vector<LockStep*> drawn_semaphore(Random& random, LockKernel& kernel, std::size_t least) {
  std::vector<std::vector<LockStep*>> found;
  for (int semaphore = 0; semaphore < static_cast<int>(kernel.initial.size()); ++semaphore) {
    std::vector<LockStep*> steps = at_semaphore(kernel, semaphore);
    if (steps.size() >= least) found.push_back(std::move(steps));
  }
  if (found.empty()) return {};
  return found[at(random.between(0, std::ssize(found) - 1))];
}

/// Whether the values are KV tiles' numbers from one end or the other, whatever else they were
/// meant for.
bool look_numbered(const std::vector<LockStep*>& steps) {
  const auto all = [&](auto value) {
    return std::ranges::all_of(
        steps, [&](const LockStep* step) { return value(*step) == value(*steps.front()); });
  };
  return all([](const LockStep& step) { return step.wait - step.kv; }) ||
         all([](const LockStep& step) { return step.wait + step.kv; });
}

/// A mistake, and the rule that it breaks. `plant` makes a kernel that has it; false: this draw
/// cannot have it.
struct Mistake {
  const char* name;
  std::set<std::string> rules;
  bool (*plant)(Random& random, LockKernel& kernel);
};

// ---- of numbers ------------------------------------------------------------------------------

/// The first KV tiles are absent, and the others wait for their numbers.
bool first_absent(Random& random, LockKernel& kernel) {
  Live live = test::drawn_live(random, 1, draw(random, 2, 6), draw(random, 1, 4), true);
  live[0][0].assign(live[0][0].size(), false);
  kernel = test::numbered(random, live, Dead::nothing);
  return true;
}

bool window_not_passed(Random& random, LockKernel& kernel) {
  const int kv_tiles = draw(random, 3, 7);
  kernel = test::numbered(random, test::window_live(kv_tiles, draw(random, 1, kv_tiles - 2)),
                          Dead::nothing);
  return true;
}

bool dead_tile_skipped(Random& random, LockKernel& kernel) {
  Live live = test::drawn_live(random, 1, draw(random, 3, 6), draw(random, 2, 4), true);
  const auto kv = at(random.between(1, std::ssize(live[0]) - 2));
  live[0][kv][at(random.between(0, q_tiles_of(live) - 1))] = false;
  kernel = test::numbered(random, live, Dead::nothing);
  return true;
}

/// A dead tile advances the semaphore without its turn.
bool dead_tile_early(Random& random, LockKernel& kernel) {
  kernel = test::numbered(
      random, test::drawn_live(random, 1, draw(random, 2, 5), draw(random, 1, 4), false),
      Dead::turns);
  std::vector<LockStep*> dead;
  for (auto& program : kernel.programs) {
    for (LockStep& step : program) {
      if (!step.reduces && step.kv > 0) dead.push_back(&step);
    }
  }
  if (dead.empty()) return false;
  dead[at(random.between(0, std::ssize(dead) - 1))]->wait = -1;
  return true;
}

// ---- of values and additions -----------------------------------------------------------------

bool one_value_too_high(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  if (steps.empty()) return false;
  const auto from = at(random.between(1, std::ssize(steps) - 1));
  for (std::size_t index = from; index < steps.size(); ++index)
    ++steps[index]->wait;
  return !look_numbered(steps);
}

bool counted_from_one(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  for (LockStep* step : steps)
    ++step->wait;
  return !steps.empty() && !look_numbered(steps);
}

bool rank_given_twice(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  if (steps.empty()) return false;
  const auto which = at(random.between(1, std::ssize(steps) - 1));
  --steps[which]->wait;
  return true;
}

bool addition_too_large(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  if (steps.empty()) return false;
  steps[at(random.between(0, std::ssize(steps) - 2))]->add = 2;
  return true;
}

bool addition_forgotten(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  if (steps.empty()) return false;
  steps[at(random.between(0, std::ssize(steps) - 2))]->add = 0;
  return true;
}

bool not_reset(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  for (int semaphore = 0; semaphore < static_cast<int>(kernel.initial.size()); ++semaphore) {
    kernel.initial[at(semaphore)] = static_cast<int>(at_semaphore(kernel, semaphore).size());
  }
  return std::ranges::any_of(kernel.initial, [](int value) { return value > 0; });
}

bool heads_share(Random& random, LockKernel& kernel) {
  const Live live =
      test::drawn_live(random, 2, draw(random, 2, 4), draw(random, 1, 4), random.chance(2));
  kernel = test::ranked(random, live);
  const int q_tiles = q_tiles_of(live);
  bool shared = false;
  for (int q = 0; q < q_tiles; ++q) {
    const bool first = !at_semaphore(kernel, q).empty();
    const std::vector<LockStep*> second = at_semaphore(kernel, q_tiles + q);
    shared = shared || (first && !second.empty());
    for (LockStep* step : second)
      step->semaphore = q;
  }
  return shared;
}

/// Two CTAs of a cluster add where one is counted, or one where two are.
bool clusters_confused(Random& random, LockKernel& kernel) {
  kernel = test::ranked(random, test::drawn_live(random, draw(random, 1, 2), draw(random, 3, 6),
                                                 draw(random, 1, 4), true));
  const bool values = random.chance(2);
  for (auto& program : kernel.programs) {
    for (LockStep& step : program) {
      if (values) step.wait *= 2;
      if (!values) step.add = 2;
    }
  }
  return true;
}

bool bridge_forgotten(Random& random, LockKernel& kernel) {
  kernel = test::in_blocks(random, test::drawn_blocks(random), false, false);
  return true;
}

bool tail_rounded_up(Random& random, LockKernel& kernel) {
  kernel = test::in_blocks(random, test::drawn_blocks(random), false, true);
  return true;
}

bool turn_not_passed_on(Random& random, LockKernel& kernel) {
  const int heads = draw(random, 2, 4);
  kernel = test::grouped(random, heads, draw(random, 2, 4));
  std::vector<std::vector<LockStep>*> idle;
  for (auto& program : kernel.programs) {
    if (program.size() == 1 && program.front().head < heads - 1) idle.push_back(&program);
  }
  if (idle.empty()) return false;
  idle[at(random.between(0, std::ssize(idle) - 1))]->clear();
  return true;
}

bool empty_sequence_awaited(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const int semaphore = static_cast<int>(kernel.initial.size());
  kernel.initial.push_back(0);
  kernel.programs.back().push_back(
      {.semaphore = semaphore, .wait = 1, .add = 0, .reduces = false, .head = 9, .kv = 0, .q = 0});
  return true;
}

// ---- of tiles --------------------------------------------------------------------------------

bool in_both_lists(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  auto& program = kernel.programs[at(random.between(0, std::ssize(kernel.programs) - 1))];
  if (program.empty()) return false;
  program.push_back(program[at(random.between(0, std::ssize(program) - 1))]);
  return true;
}

bool chain_torn(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::int64_t which = random.between(0, std::ssize(kernel.programs) - 1);
  auto& program = kernel.programs[at(which)];
  if (program.size() < 2) return false;
  const auto middle = program.begin() + 1;
  const std::vector<LockStep> rest(middle, program.end());
  program.erase(middle, program.end());
  kernel.programs.insert(kernel.programs.begin() + which + 1, rest);
  return true;
}

bool added_twice(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 1);
  if (steps.empty()) return false;
  const LockStep last = *steps.back();
  for (auto& program : kernel.programs) {
    const auto found = std::ranges::find_if(program, [&](const LockStep& step) {
      return step.semaphore == last.semaphore && step.wait == last.wait;
    });
    if (found == program.end()) continue;
    kernel.delayed = false;
    program.insert(found + 1, last)->wait = last.wait + 1;
    break;
  }
  return true;
}

// ---- of order --------------------------------------------------------------------------------

bool launched_backwards(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const bool shares = !drawn_semaphore(random, kernel, 2).empty();
  std::ranges::reverse(kernel.programs);
  return shares;
}

bool ranks_exchanged(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random);
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  if (steps.empty()) return false;
  const auto which = at(random.between(1, std::ssize(steps) - 1));
  std::swap(steps[which]->wait, steps[which - 1]->wait);
  return true;
}

bool too_few_resident(Random& random, LockKernel& kernel) {
  kernel = test::shift(random, draw(random, 2, 6));
  kernel.residency = draw(random, 1, kernel.residency - 1);
  return true;
}

bool shift_delayed(Random& random, LockKernel& kernel) {
  kernel = test::shift(random, draw(random, 2, 6));
  kernel.delayed = true;
  return true;
}

bool reduced_without_turn(Random& random, LockKernel& kernel) {
  kernel = test::ranked_any(random, 3);
  test::draw_machine(random, kernel, 2);
  kernel.delayed = false;
  const std::vector<LockStep*> steps = drawn_semaphore(random, kernel, 2);
  if (steps.empty()) return false;
  steps.back()->wait = -1;
  return true;
}

const std::vector<Mistake> kMistakes = {
    {"the first KV tile is absent", {"STG001"}, first_absent},
    {"ranks count from 1", {"STG001"}, counted_from_one},
    {"a rank is given twice", {"STG001"}, rank_given_twice},
    {"a window's passed tiles are waited for", {"STG002"}, window_not_passed},
    {"semaphores are not reset", {"STG003"}, not_reset},
    {"heads share semaphores", {"STG004"}, heads_share},
    {"CTAs and clusters are confused", {"STG005"}, clusters_confused},
    {"a tile is in both lists", {"STG006"}, in_both_lists},
    {"a value is left out", {"STG007"}, one_value_too_high},
    {"an addition is too large", {"STG007"}, addition_too_large},
    {"an addition is forgotten", {"STG007"}, addition_forgotten},
    {"the bridge is forgotten", {"STG007"}, bridge_forgotten},
    {"the launch is backwards", {"STG008"}, launched_backwards},
    {"two ranks are exchanged", {"STG008", "STG009", "STG010"}, ranks_exchanged},
    {"too few programs are resident", {"STG009"}, too_few_resident},
    {"a shift releases late", {"STG010"}, shift_delayed},
    {"the tail is rounded up", {"STG011"}, tail_rounded_up},
    {"an empty head keeps its turn", {"STG012"}, turn_not_passed_on},
    {"a dead tile does not await its turn", {"STG013"}, dead_tile_early},
    {"a reduction does not await its turn", {"STG013"}, reduced_without_turn},
    {"a dead tile is skipped", {"STG014"}, dead_tile_skipped},
    {"a chain is torn", {"STG016"}, chain_torn},
    {"a tile is added twice", {"STG016"}, added_twice},
    {"an empty sequence is awaited", {"STG017"}, empty_sequence_awaited},
};

/// One of the kernels that are right, of every kind above.
LockKernel drawn_sound(Random& random) {
  switch (random.between(0, 5)) {
    case 0: {
      const int kv_tiles = draw(random, 2, 7);
      return test::numbered(random, test::window_live(kv_tiles, draw(random, 0, kv_tiles - 1)),
                            Dead::passed);
    }
    case 1:
      return test::numbered(
          random, test::drawn_live(random, 1, draw(random, 1, 6), draw(random, 1, 5), false),
          Dead::turns);
    case 2:
      return test::shift(random, draw(random, 1, 6));
    case 3:
      return test::in_blocks(random, test::drawn_blocks(random), true, false);
    case 4:
      return test::grouped(random, draw(random, 1, 4), draw(random, 1, 4));
    default:
      return test::ranked_any(random);
  }
}

std::string said(const Linted& linted) {
  std::string text;
  for (const Finding& finding : linted.findings)
    text += std::string(finding.rule->id) + " " + finding.message + "\n";
  return text;
}

TEST_CASE("of hundreds of sound kernels not one has a finding") {
  Random random(test::seed(61));
  for (int round = 0; round < 600; ++round) {
    const LockKernel kernel = drawn_sound(random);
    const std::string file = test::tickets_json(kernel);
    CAPTURE(round, file);
    const test::LockRuns runs = test::run_often(kernel, random);
    REQUIRE_FALSE(runs.hangs);
    REQUIRE_FALSE(runs.bits_differ);
    REQUIRE_FALSE(runs.adds_twice);
    if (!kernel.cooperative) REQUIRE_FALSE(runs.hangs_smaller);
    const Linted linted = lint(file, "x.json", {});
    CHECK(said(linted) == "");
    CHECK(linted.verdict == LintVerdict::ok);
  }
}

TEST_CASE("of hundreds of kernels with one mistake each is found, by its rule") {
  Random random(test::seed(62));
  for (const Mistake& mistake : kMistakes) {
    int planted = 0;
    for (int round = 0; round < 400 && planted < 40; ++round) {
      LockKernel kernel;
      if (!mistake.plant(random, kernel)) continue;
      const std::string file = test::tickets_json(kernel);
      CAPTURE(mistake.name, round, file);
      const test::LockRuns runs = test::run_often(kernel, random);
      const bool elsewhere = !kernel.cooperative && runs.hangs_smaller;
      const bool here =
          runs.hangs || runs.bits_differ || runs.adds_twice || mistake.rules.contains("STG016");
      const Linted linted = lint(file, "x.json", {});
      const std::string findings = said(linted);
      CAPTURE(findings);
      REQUIRE(findings.empty() != (here || elsewhere));
      REQUIRE((linted.verdict == LintVerdict::deadlock) == runs.hangs);
      if (here) REQUIRE(linted.verdict != LintVerdict::ok);
      for (const Finding& finding : linted.findings)
        REQUIRE(mistake.rules.contains(finding.rule->id));
      planted += findings.empty() ? 0 : 1;
    }
    CAPTURE(mistake.name);
    CHECK(planted == 40);
  }
}

}  // namespace
}  // namespace stagger::tickets
