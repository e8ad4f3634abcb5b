#include "dag/liveness.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tickets.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/tickets/notation.hpp"
#include "workbench/tickets/rules.hpp"

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {
namespace {

std::vector<Finding> findings_of(const Tickets& tickets, Origin origin = Origin::given) {
  Findings findings(100);
  apply_rules(Facts(tickets, origin, nullptr, 0), findings);
  return findings.take();
}

std::vector<Finding> findings_of(const Table& table) {
  const Tickets tickets = from_table(existing_tasks(table));
  Findings findings(100);
  apply_rules(Facts(tickets, Origin::given, &table.problem.grids, table.problem.heads), findings);
  return findings.take();
}

std::set<std::string> errors_of(const std::vector<Finding>& findings) {
  std::set<std::string> rules;
  for (const Finding& finding : findings) {
    if (finding.level == Level::error) rules.insert(finding.rule->id);
  }
  return rules;
}

std::string shown(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += std::string(finding.rule->id) + " " + level_name(finding.level) + ": " +
            finding.message + "\n";
  return text;
}

TEST_CASE("rules are STG001 to STG017, each with a page") {
  REQUIRE(rules().size() == 17);
  for (std::size_t index = 0; index < rules().size(); ++index) {
    const Rule& rule = *rules()[index];
    const std::string number = std::to_string(index + 1);
    CHECK(rule.id == "STG" + std::string(3 - number.size(), '0') + number);
    CHECK(find_rule(rule.id) == &rule);
    CHECK(std::string_view(rule.what).size() > 80);
    CHECK_FALSE(std::string_view(rule.seen).empty());
    CHECK(rule.examples.size() >= 2);
  }
  CHECK(find_rule("STG018") == nullptr);
}

// The first example breaks its rule and no other; what the page says of each is what happens.
TEST_CASE("the examples on the rules' pages do what the pages say") {
  for (const Rule* rule : rules()) {
    bool ends_well = false;
    for (const Example& example : rule->examples) {
      const Tickets tickets = tickets_of(example);
      const test::EveryEnd end = test::every_end(tickets);
      const std::vector<Finding> findings = findings_of(tickets, example.origin);
      CAPTURE(rule->id, example.notation, shown(findings));
      CHECK(end.can_hang == std::string_view(example.outcome).starts_with("hangs"));
      const bool breaks = &example == &rule->examples.front();
      if (breaks) CHECK(errors_of(findings) == std::set<std::string>{rule->id});
      ends_well = ends_well || (!end.can_hang && findings.empty());
    }
    CAPTURE(rule->id);
    CHECK(ends_well);
  }
}

/// Whether a task comes twice.
bool comes_twice(const Tickets& tickets) {
  std::set<Task> tasks;
  bool twice = false;
  for (const Step& step : tickets.steps)
    twice = twice || !tasks.insert(step.task).second;
  return twice;
}

/// What is said of tickets against all that can happen.
class Agreement {
 public:
  void check_one(const Tickets& tickets) {
    ++cases;
    const test::EveryEnd end = test::every_end(tickets);
    const Facts facts(tickets, Origin::given, nullptr, 0);
    Findings collected(100);
    apply_rules(facts, collected);
    const std::vector<Finding> findings = collected.take();
    const std::set<std::string> errors = errors_of(findings);
    CAPTURE(notation(tickets), tickets.residency, dispatch_name(tickets.dispatch),
            release_name(tickets.release), shown(findings));
    bool said = facts.outcome.hangs;
    for (const Race& race : facts.races.races)
      said = said || race.hangs;
    REQUIRE(said == end.can_hang);
    if (end.can_hang || !end.one_order) REQUIRE_FALSE(errors.empty());
    const bool fixed = sum_order(tickets, facts.chains, facts.races) == SumOrder::fixed;
    if (fixed && !end.can_hang) REQUIRE(end.one_order);
    if (end.one_order && !end.can_hang && facts.chains.broken().empty()) REQUIRE(fixed);
    for (const Finding& finding : findings)
      check_finding(tickets, finding, end);
    hanging += end.can_hang ? 1 : 0;
    clean += findings.empty() ? 1 : 0;
  }

  std::int64_t cases = 0;
  std::int64_t hanging = 0;
  std::int64_t clean = 0;

 private:
  /// No finding without what it warns of.
  static void check_finding(Tickets tickets, const Finding& finding, const test::EveryEnd& end) {
    const std::string id = finding.rule->id;
    if (id == "STG016") return;  // tests of its own
    if (id == "STG008" || (id == "STG009" && finding.level == Level::warning)) {
      tickets.residency = 1;
      REQUIRE(test::every_end(tickets).can_hang);
    } else if (id == "STG010") {
      tickets.residency = 0;
      REQUIRE(test::every_end(tickets).can_hang);
    } else if (id == "STG013" || id == "STG004") {
      REQUIRE((end.can_hang || !end.one_order));
    } else if (tickets.release == Release::delayed) {
      // Within a chain that comes to one tile twice, a late addition can let both see a value.
      REQUIRE((end.can_hang || !end.one_order || comes_twice(tickets)));
    } else {
      REQUIRE(end.can_hang);
    }
  }
};

/// Calls `visit` with every way to cut `steps` steps into programs.
template <class Visit>
void each_cut(const std::vector<Step>& steps, Visit visit) {
  for (std::uint32_t cuts = 0; cuts < 1U << (steps.size() - 1); ++cuts) {
    Tickets tickets;
    for (std::size_t index = 0; index < steps.size(); ++index) {
      Step step = steps[index];
      step.task.kv = KvTile{tickets.programs()};
      step.chain = chain_of(step.task);
      tickets.steps.push_back(step);
      if ((cuts >> index & 1U) != 0) tickets.end_program();
    }
    tickets.end_program();
    visit(tickets);
  }
}

/// All machines of interest.
template <class Visit>
void each_machine(Tickets tickets, Visit visit) {
  for (tickets.residency = 1; tickets.residency <= tickets.programs(); ++tickets.residency) {
    for (const Dispatch dispatch : {Dispatch::static_, Dispatch::in_order}) {
      for (const Release release : {Release::immediate, Release::delayed}) {
        tickets.dispatch = dispatch;
        tickets.release = release;
        visit(tickets);
      }
    }
  }
}

TEST_CASE("rules and simulation agree on all small tickets of one semaphore") {
  std::vector<Step> kinds;
  for (const std::int32_t wait : {kNoWait, 0, 1, 2}) {
    for (const std::int32_t add : {0, 1, 2})
      kinds.push_back({.wait = wait, .add = add, .reduces = wait != kNoWait});
  }
  Agreement agreement;
  for (std::size_t size = 1; size <= 3; ++size) {
    std::vector<std::size_t> picked(size, 0);
    for (bool more = true; more;) {
      std::vector<Step> steps;
      for (const std::size_t kind : picked)
        steps.push_back(kinds[kind]);
      each_cut(steps, [&](Tickets tickets) {
        tickets.initial = {0};
        each_machine(tickets, [&](const Tickets& one) { agreement.check_one(one); });
      });
      std::size_t place = 0;
      while (place < size && ++picked[place] == kinds.size())
        picked[place++] = 0;
      more = place < size;
    }
  }
  CHECK(agreement.cases > 50'000);
  CHECK(agreement.hanging > 10'000);
  CHECK(agreement.clean > 100);
}

TEST_CASE("rules and simulation agree on all small tickets of two semaphores") {
  std::vector<Step> kinds;
  for (const std::int32_t q : {0, 1}) {
    for (const std::int32_t wait : {0, 1})
      kinds.push_back(
          {.semaphore = Semaphore{q}, .wait = wait, .task = {Head{0}, KvTile{0}, QTile{q}}});
  }
  Agreement agreement;
  for (std::uint32_t number = 0; number < 1U << 10; ++number) {
    // What begins with the other semaphore is the same by other names: one in eight of those.
    if ((number & 2U) != 0 && (number >> 2U) % 8 != 0) continue;
    std::vector<Step> steps;
    for (std::uint32_t place = 0; place < 5; ++place)
      steps.push_back(kinds[number >> (2 * place) & 3U]);
    each_cut(steps, [&](Tickets tickets) {
      tickets.initial = {0, 0};
      each_machine(tickets, [&](const Tickets& one) { agreement.check_one(one); });
    });
  }
  CHECK(agreement.cases > 60'000);
  CHECK(agreement.hanging > 30'000);
}

TEST_CASE("rules and simulation agree on random tickets") {
  test::Random random(test::seed(16));
  Agreement agreement;
  for (int round = 0; round < 4'000; ++round) {
    Tickets tickets;
    const std::int64_t semaphores = random.between(1, 3);
    tickets.initial.assign(semaphores, 0);
    if (random.chance(8)) tickets.initial.front() = 1;
    const std::int64_t programs = random.between(1, 4);
    for (std::int64_t program = 0; program < programs; ++program) {
      const std::int64_t steps = random.between(0, 3);
      for (std::int64_t step = 0; step < steps; ++step) {
        const auto q = static_cast<std::int32_t>(random.between(0, semaphores - 1));
        const bool waits = !random.chance(6);
        Step next{.semaphore = Semaphore{q},
                  .wait = waits ? static_cast<std::int32_t>(random.between(0, 3)) : kNoWait,
                  .add = random.chance(8) ? static_cast<std::int32_t>(random.between(0, 2)) : 1,
                  .reduces = waits ? !random.chance(6) : random.chance(3),
                  .task = {Head{0}, KvTile{static_cast<std::int32_t>(program)}, QTile{q}}};
        next.chain = chain_of(next.task);
        tickets.steps.push_back(next);
      }
      tickets.end_program();
    }
    each_machine(tickets, [&](const Tickets& one) { agreement.check_one(one); });
  }
  CHECK(agreement.cases > 10'000);
}

TEST_CASE("a table hangs as tickets where it hangs as a table, and needs as many SMs") {
  test::Random random(test::seed(17));
  std::int64_t hanging = 0;
  for (int round = 0; round < 3'000; ++round) {
    Problem problem = test::any_problem(random, 4);
    if (random.chance(3)) problem = test::with_random_groups(random, std::move(problem), 3);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = random.chance(3) ? test::random_table(random, problem, dispatch)
                                   : test::random_live_table(random, problem, dispatch);
    if (random.chance(3)) test::shuffle_dkv_ranks(random, table);
    table.problem.sms = std::max(table.problem.sms, table.lanes());
    Timing timing;
    timing.residency = static_cast<std::int32_t>(random.between(1, table.problem.sms));
    timing.release = random.chance(2) ? Release::delayed : Release::immediate;
    const dag::Liveness liveness = dag::check_liveness(table, timing);
    Tickets tickets = from_table(table);
    tickets.residency = timing.residency;
    tickets.release = timing.release;
    const Outcome outcome = play(tickets);
    CAPTURE(round, notation(tickets));
    REQUIRE(outcome.hangs == !liveness.live);
    REQUIRE(outcome.residency_needed == liveness.residency_needed);
    REQUIRE(outcome.cycle.empty() == liveness.cycle.empty());
    REQUIRE(outcome.cycle.size() <= liveness.cycle.size());
    for (std::size_t link = 0; link < outcome.cycle.size(); ++link) {
      const Stuck& wait = outcome.cycle[link];
      if (wait.step >= 0) REQUIRE(tickets.program_of(wait.step) == wait.program);
      REQUIRE(wait.for_program == outcome.cycle[(link + 1) % outcome.cycle.size()].program);
    }
    hanging += outcome.hangs ? 1 : 0;
  }
  CHECK(hanging > 300);
}

TEST_CASE("what verify calls sound has no finding, and what it calls wrong has an error") {
  test::Random random(test::seed(18));
  std::int64_t sound = 0;
  std::int64_t wrong = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Problem problem = test::any_problem(random, 4);
    Table table = test::random_live_table(random, problem, Dispatch::static_);
    table.problem.sms = std::max(table.problem.sms, table.lanes());
    if (random.chance(2) && !table.slots.empty()) {
      Slot& slot = table.slots[random.between(0, std::ssize(table.slots) - 1)];
      switch (random.between(0, 2)) {
        case 0:
          slot.rank += random.chance(2) ? 1 : -1;
          break;
        case 1:
          slot.task.q.value = static_cast<std::int32_t>(random.between(0, problem.q_tiles() - 1));
          break;
        default:
          slot.task.kv.value = static_cast<std::int32_t>(random.between(0, problem.kv_tiles() - 1));
      }
    }
    const dag::Verification verification = dag::verify(table, {});
    const std::vector<Finding> findings = findings_of(table);
    CAPTURE(round, notation(from_table(table)), shown(findings));
    REQUIRE(findings.empty() == (verification.verdict == dag::Verdict::ok));
    (findings.empty() ? sound : wrong) += 1;
  }
  CHECK(sound > 500);
  CHECK(wrong > 300);
}

TEST_CASE("residency, release and dispatch that are asked for are taken for those of the file") {
  // It ends at once if releases come at once, and with both programs resident.
  Tickets tickets = read_notation("P0: q0@0 q1@1\nP1: q1@0 q0@1");
  for (const Release in_file : {Release::immediate, Release::delayed}) {
    for (const Release asked : {Release::immediate, Release::delayed}) {
      for (const std::int32_t residency : {1, 2}) {
        tickets.release = in_file;
        tickets.residency = 3 - residency;
        tickets.dispatch = Dispatch::static_;
        const std::string text = write_tickets_json(tickets);
        const auto verdict = [&](const LintRequest& request) {
          return lint(text, "x", request).verdict_name();
        };
        const auto expected = [](Release release, std::int32_t resident) {
          return std::string(release == Release::immediate && resident == 2 ? "ok" : "deadlock");
        };
        CAPTURE(static_cast<int>(in_file), static_cast<int>(asked), residency);
        CHECK(verdict({}) == expected(in_file, 3 - residency));
        CHECK(verdict({.residency = residency}) == expected(in_file, residency));
        CHECK(verdict({.release = asked}) == expected(asked, 3 - residency));
        CHECK(verdict({.residency = residency, .release = asked}) == expected(asked, residency));
      }
    }
  }
}

// Counting from one value to the next would take a day.
TEST_CASE("lock values that are far apart are judged by the chains that there are") {
  constexpr std::int32_t kFar = 2'147'483'647;
  constexpr std::int32_t kSemaphores = 20'000;
  Tickets tickets;
  tickets.initial.resize(kSemaphores);
  for (std::int32_t q = 0; q < kSemaphores; ++q)
    tickets.steps.push_back(
        {.semaphore = Semaphore{q}, .wait = kFar, .task = {Head{0}, KvTile{0}, QTile{q}}});
  tickets.end_program();
  CHECK(errors_of(findings_of(tickets)).contains("STG001"));
  CHECK(lint("2147483647,\n,2147483647\n", "x.csv", {}).verdict == LintVerdict::deadlock);
}

}  // namespace
}  // namespace stagger::tickets
