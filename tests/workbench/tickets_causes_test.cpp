// Which rule a hang or a race is reported by: tickets written down step by step, and kernels that
// count one unit where another adds.

#include "tests/support/catch.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/tickets/notation.hpp"
#include "workbench/tickets/rules.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace stagger::tickets {
namespace {

/// What the rules find in tickets of all that is resident, or of some programs, a line each.
std::string found(Tickets tickets, std::int32_t residency = 0) {
  tickets.residency = residency;
  Findings findings(100);
  apply_rules(Facts(tickets, Origin::given, nullptr, 0), findings);
  std::string text;
  for (const Finding& finding : findings.take()) {
    text += std::string(finding.rule->id) + " " + level_name(finding.level) + " " +
            std::to_string(finding.step) + " " + std::to_string(finding.other) + ": " +
            finding.message + "\n";
  }
  return text;
}

std::string found(const char* notation, std::int32_t residency = 0) {
  return found(read_notation(notation), residency);
}

/// What STG004 says of two steps of (head 0, q 0) that wait for semaphores of their own.
std::string two_semaphores(int step, int kv, int semaphore, int other, int other_kv,
                           int other_semaphore) {
  return "STG004 error " + std::to_string(step) + " " + std::to_string(other) +
         ": head 0, q 0 (semaphore " + std::to_string(semaphore) + "): kv " + std::to_string(kv) +
         " waits for this semaphore, and kv " + std::to_string(other_kv) + " for semaphore " +
         std::to_string(other_semaphore) +
         ": no order between them is fixed. One dQ tile has one semaphore\n";
}

TEST_CASE("two semaphores of a dQ tile are said where both are waited for in no order") {
  CHECK(found("P0: q0@0 q1@0\nP1: q0[2]@0 q1@1") == two_semaphores(0, 0, 0, 2, 1, 2));
  CHECK(found("P0: q0@0\nP1: q0[1]@0\nP2: q0@1") ==
        two_semaphores(0, 0, 0, 1, 1, 1) + two_semaphores(2, 2, 0, 1, 1, 1));
  // One that does not wait, and two that wait for one semaphore, are STG013's.
  CHECK(found("P0: q0@0\nP1: q0[1]!") ==
        "STG013 error 0 1: head 0, q 0 (semaphore 0): kv 0 and kv 1 reduce in any order: the bits "
        "differ\n");
  CHECK(found("P0: q0@0\nP1: q0@0+0") ==
        "STG013 error 1 0: head 0, q 0 (semaphore 0): kv 1 waits for 0, and kv 0, which adds "
        "without being ordered behind it, may come first: it hangs then\n"
        "STG013 error 0 1: head 0, q 0 (semaphore 0): kv 0 and kv 1 reduce in any order: the bits "
        "differ\n");
  CHECK(found("P0: q0!\nP1: q0[1]@0").find("STG004") == std::string::npos);
  // In order by a third semaphore.
  CHECK(found("P0: q0@0 (q1@0)\nP1: (q1@1) q0[2]@0") == "");
}

TEST_CASE("two reductions in no order are one finding") {
  const auto pair = [](int step, int other) {
    return "STG013 error " + std::to_string(step) + " " + std::to_string(other) +
           ": head 0, q 0 (semaphore 0): kv " + std::to_string(step) + " and kv " +
           std::to_string(other) + " reduce in any order: the bits differ\n";
  };
  CHECK(found("P0: q0!\nP1: q0!") == pair(0, 1));
  CHECK(found("P0: q0!\nP1: q0!\nP2: q0!") == pair(0, 1) + pair(0, 2) + pair(1, 2));
}

TEST_CASE("no residency, and more than there are programs, are all of them at once") {
  const char* const shift = "P0: q0@0 q1@1\nP1: q1@0 q0@1";
  const std::string need = ": programs wait for each other: 2 must be resident at once, ";
  for (const std::int32_t residency : {0, 2, 3}) {
    CHECK(found(shift, residency) ==
          "STG009 warning 1 -1" + need +
              "as there are (2): launch it so that it is refused elsewhere (cooperatively, or as a "
              "persistent grid)\n");
    const LintRequest request{.residency = residency};
    const Linted linted = lint(write_tickets_json(read_notation(shift)), "x.json", request);
    CHECK(linted.residency == 2);
    CHECK(linted.residency_needed == 2);
  }
  CHECK(found(shift, 1) == "STG009 error 1 -1" + need + "and there are 1: it hangs\n");
}

TEST_CASE("a launch that is the lock order backwards is said once, whoever comes twice") {
  for (const char* notation : {"P0: q0@2 q1@2\nP1: q0@1 q1@1\nP2: q0@0 q1@0",
                               "P0: q0@3 (q0@4)\nP1: q0@1 (q0@2)\nP2: q0@0"}) {
    CAPTURE(notation);
    CHECK(found(notation, 2)
              .find("every semaphore's lock order is the launch order backwards; it "
                    "takes ") != std::string::npos);
  }
}

/// Programs that wait one after the other for these values of one semaphore, which starts at one.
Tickets waiting_for(const std::vector<std::int64_t>& values, std::int32_t add,
                    std::int32_t initial) {
  Tickets tickets;
  tickets.initial = {initial};
  for (const std::int64_t value : values) {
    Step step{.wait = static_cast<std::int32_t>(value),
              .add = add,
              .reduces = true,
              .task = {Head{0}, KvTile{100 + 7 * tickets.programs() % 5}, QTile{0}}};
    step.chain = chain_of(step.task);
    tickets.steps.push_back(step);
    tickets.end_program();
  }
  return tickets;
}

/// Whether the values and what is added count two units, by what a kernel of clusters does wrong.
bool counts_two_units(const std::vector<std::int64_t>& values, std::int32_t add,
                      std::int32_t initial) {
  const auto count = static_cast<std::int64_t>(values.size());
  const auto are = [&](std::int64_t first, std::int64_t stride) {
    for (std::int64_t place = 0; place < count; ++place) {
      if (values[static_cast<std::size_t>(place)] != first + place * stride) return false;
    }
    return true;
  };
  if (count < 2) return false;
  if (add > 1) return are(initial, 1);  // clusters are counted, CTAs add
  for (std::int64_t ctas = 2; ctas < 50; ++ctas) {
    if (count > 2 && are(initial, ctas)) return true;       // the first of each cluster
    if (are(initial + (ctas - 1) * count, 1)) return true;  // the highest of all
  }
  return false;
}

TEST_CASE("ranks that are whole are no wrong ranks where additions are too large") {
  const std::string unit = found("P0: q0@0+2\nP1: q0@1+2\nP2: q0@2+2");
  CHECK(
      unit.starts_with("STG005 error 1 -1: head 0, q 0 (semaphore 0): lock values {0, 1, 2}; "
                       "kv 1 waits for 1, which is past: the semaphore shows 2, as kv 0 adds 2."));
  CHECK(std::count(unit.begin(), unit.end(), '\n') == 1);
  CHECK(found("P0: q0@0+2\nP1: q0@1\nP2: q0@2").starts_with("STG007 error 1 -1: "));
  // A wrong rank beside them is one.
  CHECK(found("P0: q0@0\nP1: q0@0\nP2: q0@2").starts_with("STG001 error "));
}

TEST_CASE("values of one unit and additions of another are told from other gaps") {
  int units = 0;
  int others = 0;
  for (const std::int64_t count : {1, 2, 3, 4}) {
    for (std::int64_t first = 0; first <= 9; ++first) {
      for (const std::int64_t stride : {1, 2, 3}) {
        for (const std::int32_t add : {1, 2, 3}) {
          for (const std::int32_t initial : {0, 1, 3}) {
            std::vector<std::int64_t> values;
            for (std::int64_t place = 0; place < count; ++place)
              values.push_back(first + place * stride);
            const bool sound = first == initial && (stride == add || count == 1);
            const std::string said = found(waiting_for(values, add, initial));
            CAPTURE(count, first, stride, add, initial, said);
            if (sound) {
              CHECK(said.find("error") == std::string::npos);
              continue;
            }
            const bool unit = counts_two_units(values, add, initial);
            const bool elsewhere = initial != 0 && first == 0 && (stride == add || count == 1);
            CHECK((said.find("STG005") != std::string::npos) == (unit && !elsewhere));
            ++(unit ? units : others);
          }
        }
      }
    }
  }
  CHECK(units > 10);
  CHECK(others > 100);
}

}  // namespace
}  // namespace stagger::tickets
