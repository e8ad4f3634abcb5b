// Everything that is said of broken tables, kept in tests/golden/findings.txt: which finding,
// where, in which words, and what hangs. Each table has one thing wrong, at a middle slot or its
// last.

#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::dag {
namespace {

std::string words_of(const Verification& verification, Dispatch dispatch) {
  std::ostringstream text;
  text << "  " << verdict_name(verification.verdict) << ", " << verification.total << " in all\n";
  for (const Finding& finding : verification.findings) {
    text << "  " << finding_name(finding.kind) << " lane " << finding.lane << " place "
         << finding.place << " task " << describe(finding.task) << " rank " << finding.rank << ": "
         << finding.message << "\n";
  }
  const Liveness& liveness = verification.liveness;
  text << "  needs " << liveness.residency_needed << " of " << liveness.residency_available << ", "
       << liveness.stuck_tasks << " stuck; hang:";
  for (const auto& [head, q] : liveness.hanging)
    text << " " << head.value << "/" << q.value;
  for (const auto& [kv_head, kv] : liveness.hanging_dkv)
    text << " dkv " << kv_head.value << "/" << kv.value;
  text << "\n";
  for (const std::string& line : describe(liveness.cycle, dispatch))
    text << "  cycle: " << line << "\n";
  for (const std::string& line : describe(liveness.starved, dispatch))
    text << "  never: " << line << "\n";
  return text.str();
}

struct Break {
  const char* name;
  void (*apply)(Table& table, std::int64_t slot);
};

constexpr Break kBreaks[] = {
    {"rank up", [](Table& table, std::int64_t slot) { ++table.slots[slot].rank; }},
    {"rank -1", [](Table& table, std::int64_t slot) { table.slots[slot].rank = -1; }},
    {"rank far off", [](Table& table, std::int64_t slot) { table.slots[slot].rank = 1'000; }},
    {"no such head",
     [](Table& table, std::int64_t slot) {
       table.slots[slot].task.head = Head{table.problem.heads};
     }},
    {"no such KV tile",
     [](Table& table, std::int64_t slot) {
       table.slots[slot].task.kv = KvTile{table.problem.kv_tiles()};
     }},
    {"no such Q tile",
     [](Table& table, std::int64_t slot) { table.slots[slot].task.q = QTile{-1}; }},
    {"the task before, twice",
     [](Table& table, std::int64_t slot) {
       const std::int64_t size = std::ssize(table.slots);
       table.slots[slot] = table.slots[(slot + size - 1) % size];
     }},
    {"exchanged with the next",
     [](Table& table, std::int64_t slot) {
       std::swap(table.slots[slot], table.slots[(slot + 1) % std::ssize(table.slots)]);
     }},
    {"exchanged ranks with the next",
     [](Table& table, std::int64_t slot) {
       std::swap(table.slots[slot].rank, table.slots[(slot + 1) % std::ssize(table.slots)].rank);
     }},
    {"an empty tile", [](Table& table, std::int64_t slot) { table.slots[slot].task.q = QTile{0}; }},
    {"the part's rank up",
     [](Table& table, std::int64_t slot) {
       if (!table.dkv_ranks.empty())
         ++table.dkv_ranks[table.problem.chain_place(table.slots[slot].task)];
     }},
    {"the part's rank -1",
     [](Table& table, std::int64_t slot) {
       if (!table.dkv_ranks.empty())
         table.dkv_ranks[table.problem.chain_place(table.slots[slot].task)] = -1;
     }},
};

std::vector<Table> sound_tables() {
  const Problem causal = make_problem(make_mask("causal"), {4, 4}, {}, 2, 3);
  const Problem grouped = make_problem(make_mask("full"), {2, 2}, {}, 4, 4,
                                       {.heads_kv = 1, .span = 2, .combine = Combine::ordered});
  std::vector<Table> tables;
  for (const char* schedule : {"spt", "symmetric-shift"})
    tables.push_back(schedules::build(schedules::select(schedule), causal));
  tables.push_back(schedules::build(schedules::select("ascending"), grouped));
  Table& ranked = tables.back();
  ranked.dkv_ranks.assign(grouped.chains(), 0);
  for (Part part{0}; part.value < grouped.parts(); ++part) {
    for (KvTile kv{0}; kv.value < grouped.kv_tiles(); ++kv)
      ranked.dkv_ranks[grouped.chain_place(part, kv)] = part.value % grouped.group_parts();
  }
  return tables;
}

TEST_CASE("what is said of broken tables is as kept") {
  std::ostringstream text;
  std::int64_t broken = 0;
  for (const Table& sound : sound_tables()) {
    const std::int64_t size = std::ssize(sound.slots);
    text << sound.name << "\n" << words_of(verify(sound, {}), sound.dispatch);
    for (const Break& each : kBreaks) {
      for (const std::int64_t slot : {size / 2, size - 1}) {
        Table table = sound;
        each.apply(table, slot);
        const Timing delayed{.release = Release::delayed, .residency = 2};
        const Timing timing = slot == size - 1 ? delayed : Timing{};
        const Verification found = verify(table, timing);
        text << sound.name << ": " << each.name << " at " << slot << ", "
             << release_name(timing.release) << "\n"
             << words_of(found, table.dispatch);
        broken += found.verdict == Verdict::ok ? 0 : 1;
      }
    }
  }
  CHECK(broken > 40);
  CHECK(test::golden_difference("findings.txt", text.str()) == "");
}

TEST_CASE("missing tasks, and lanes beyond the SMs, are said to be") {
  std::ostringstream text;
  for (Table table : sound_tables()) {
    const auto add = [&](const Table& broken, const char* what, LockValues values,
                         std::int64_t limit) {
      text << table.name << ": " << what << "\n"
           << words_of(verify(broken, {}, values, limit), table.dispatch);
    };
    Table shorter = table;
    shorter.slots.pop_back();
    for (std::int64_t& begin : shorter.lane_begin)
      begin = std::min<std::int64_t>(begin, std::ssize(shorter.slots));
    add(shorter, "the last task is missing", LockValues::ranks, 100);
    add(shorter, "lock values are absolute", LockValues::absolute, 100);
    add(shorter, "one finding of a kind", LockValues::ranks, 1);
    table.problem.sms = 2;
    add(table, "fewer SMs", LockValues::ranks, 100);
    Table none = table;
    none.slots.clear();
    none.lane_begin = {0};
    add(none, "nothing in it", LockValues::ranks, 100);
  }
  CHECK(test::golden_difference("findings-missing.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::dag
