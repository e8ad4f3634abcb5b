// Graphs, critical paths and packings of random tables, kept in tests/golden/dag-*.txt: that they
// are right is tested beside this, which of several right ones is chosen is here.

#include "dag/bounds.hpp"
#include "dag/graph_files.hpp"
#include "dag/lemma1.hpp"
#include "dag/longest_path.hpp"
#include "dag/packing.hpp"
#include "dag/verify.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::dag {
namespace {

struct Drawn {
  Table table;
  Timing timing;
};

Drawn drawn(test::Random& random, std::int64_t most, int hangs_one_in) {
  Drawn drawn;
  drawn.table = test::drawn_table(random, most, [&] { return !random.chance(hangs_one_in); });
  test::perhaps_shuffle_dkv_ranks(random, drawn.table);
  drawn.timing =
      test::with_random_combination(random, test::random_timing(random, drawn.table.problem));
  return drawn;
}

TEST_CASE("graphs and their critical paths are as kept, step by step") {
  test::Random random(141);
  std::ostringstream text;
  std::int64_t graphs = 0;
  for (int round = 0; round < 150; ++round) {
    const auto [table, timing] = drawn(random, 4, 8);
    const auto graph = build(table, timing);
    text << round << ": ";
    if (!graph) {
      text << "none\n";
      continue;
    }
    ++graphs;
    text << graph->nodes.size() << " nodes, " << graph->edges.size() << " edges, from "
         << graph->first_dependency << " " << test::text_digest(write_dot(table, *graph)) << " "
         << test::text_digest(write_graphml(table, *graph));
    if (const auto times = path_times(*graph)) {
      text << " " << times->length;
      for (const CriticalStep& step : critical_path(table, *graph, *times).steps) {
        text << " " << step.sm.value << "/" << step.task.head.value << "." << step.task.kv.value
             << "." << step.task.q.value << phase_name(step.phase) << step.start << "-" << step.end;
      }
    }
    text << "\n";
  }
  CHECK(graphs > 100);
  CHECK(test::golden_difference("dag-graphs.txt", text.str()) == "");
}

TEST_CASE("what is said of random tables, whole or not, is as kept") {
  test::Random random(142);
  std::ostringstream text;
  for (int round = 0; round < 150; ++round) {
    const auto [table, timing] = drawn(random, 4, 2);
    const std::int64_t limit = random.between(1, 5);
    const Verification found = verify(table, timing, LockValues::ranks, limit);
    text << round << ": " << verdict_name(found.verdict) << " " << found.total << "\n";
    for (const Finding& finding : found.findings)
      text << "  " << finding_name(finding.kind) << " " << finding.message << "\n";
    for (const std::string& line : describe(found.liveness.cycle, table.dispatch))
      text << "  " << line << "\n";
    if (found.verdict != Verdict::ok) continue;
    const bool judges = !random.chance(4);
    const Lemma1 lemma = check_lemma1(table, timing, limit, judges);
    CHECK((judges || !lemma.harmful));
    text << "  " << lemma.premise << " " << lemma.premise_fails << " " << lemma.monotone << " "
         << lemma.dependency_edges << " " << lemma.violation_count << " " << lemma.harmful_count
         << "\n";
    if (!lemma.harmful) continue;
    for (const DependencyEdge& edge : *lemma.harmful) {
      text << "  " << describe(edge.from) << " to " << describe(edge.to) << (edge.dkv ? " dkv" : "")
           << " " << edge.depth_from << " " << edge.depth_to << " " << edge.earliest_from << " "
           << edge.latest_to << "\n";
    }
  }
  CHECK(test::golden_difference("dag-findings.txt", text.str()) == "");
}

/// One rank of a part one off, or any other.
void break_part(test::Random& random, Table& table) {
  const std::int64_t chains = table.problem.chains();
  if (table.problem.combine != Combine::ordered || chains == 0) return;
  if (table.dkv_ranks.empty()) table.dkv_ranks.assign(chains, 0);
  std::int32_t& rank = table.dkv_ranks[random.between(0, chains - 1)];
  rank = static_cast<std::int32_t>(random.chance(2) ? random.between(-1, 3) : rank + 1);
}

TEST_CASE("what is said of random tables with something wrong is as kept") {
  test::Random random(144);
  std::ostringstream text;
  for (int round = 0; round < 300; ++round) {
    Table table = test::drawn_table(random, 4, [&] { return random.chance(2); });
    if (random.chance(2)) break_part(random, table);
    for (std::int64_t wrong = random.between(0, 2); wrong > 0 && !table.slots.empty(); --wrong)
      (random.chance(3) ? test::break_lane : test::break_slot)(random, table);
    const Timing timing =
        test::with_random_combination(random, test::random_timing(random, table.problem));
    const LockValues values = random.chance(4) ? LockValues::absolute : LockValues::ranks;
    const Verification found = verify(table, timing, values, random.between(1, 9));
    std::ostringstream words;
    words << verdict_name(found.verdict) << " " << found.total << ", needs "
          << found.liveness.residency_needed << " of " << found.liveness.residency_available << ", "
          << found.liveness.stuck_tasks << " stuck\n";
    for (const Finding& finding : found.findings) {
      words << "  " << finding_name(finding.kind) << " " << finding.lane << "/" << finding.place
            << " " << finding.message << "\n";
    }
    for (const std::string& line : describe(found.liveness.cycle, table.dispatch))
      words << "  " << line << "\n";
    for (const auto& [head, q] : found.liveness.hanging)
      words << " " << head.value << "/" << q.value;
    for (const auto& [kv_head, kv] : found.liveness.hanging_dkv)
      words << " dkv " << kv_head.value << "/" << kv.value;
    // The first in full: the others say the same of other places.
    text << round << ": " << (round < 40 ? words.str() : test::text_digest(words.str())) << "\n";
  }
  CHECK(test::golden_difference("dag-broken.txt", text.str()) == "");
}

TEST_CASE("packings go as far as kept with every number of steps") {
  test::Random random(143);
  std::ostringstream text;
  for (int round = 0; round < 60; ++round) {
    std::vector<Ticks> jobs(static_cast<std::size_t>(random.between(1, 16)));
    for (Ticks& job : jobs)
      job = random.between(0, 30) * 2;
    const auto machines = static_cast<std::int32_t>(random.between(1, 5));
    text << round << ": " << machines;
    for (const std::int64_t nodes : {0, 1, 2, 5, 20, 100, 2'000'000}) {
      const Packing packing = pack(jobs, machines, nodes);
      text << " " << packing.lower << (packing.exact() ? "=" : "<") << packing.upper;
    }
    text << "\n";
  }
  for (int round = 0; round < 12; ++round) {  // hard ones: few machines, long jobs, no equals
    std::vector<Ticks> jobs(static_cast<std::size_t>(random.between(14, 24)));
    for (Ticks& job : jobs)
      job = random.between(1'000, 9'999);
    const auto machines = static_cast<std::int32_t>(random.between(3, 6));
    text << round << ": " << machines;
    for (const std::int64_t nodes : {50, 500, 5'000, 50'000}) {
      const Packing packing = pack(jobs, machines, nodes);
      text << " " << packing.lower << (packing.exact() ? "=" : "<") << packing.upper;
    }
    text << "\n";
  }
  text << pack({1, 2}, 2).upper << " " << pack({}, 3).upper << " "
       << pack(std::vector<Ticks>(4'097, 3), 2).lower << "\n";
  CHECK(test::golden_difference("dag-packings.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::dag
