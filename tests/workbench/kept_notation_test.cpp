// Tickets as people write them down, and what two of them do not have in common, kept in
// tests/golden/tickets-notation.txt and tickets-apart.txt, word by word.

#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/tickets.hpp"
#include "workbench/tickets/difference.hpp"
#include "workbench/tickets/notation.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::tickets {
namespace {

TEST_CASE("the notation of a step, and what is none of it, are as kept") {
  std::ostringstream text;
  for (const char* word : {"q0",         "q0@1",
                           "q0@",        "q0@1+",
                           "q0@1+2",     "q0@1+-1",
                           "q0+",        "q0+0",
                           "q0+3",       "q0!",
                           "q0+2!",      "(q0@1)",
                           "(q0@1",      "q0@1)",
                           "(q0@1+0)",   "h1.q0@0",
                           "h.q0@0",     "h1q0@0",
                           "k5.q0@0",    "h2.k3.q1@4",
                           "k3.h2.q1@4", "q0[5]@1",
                           "q0[-1]@1",   "q0[5@1",
                           "q0[]@1",     "q0[0]@1",
                           "q-1@0",      "q@1",
                           "x",          "q0@1x",
                           "q0@-1",      "q0@99999999999",
                           "q2@0 q0@1",  "q0@0 q0+ (q1@0)"}) {
    text << word << ": " << test::said([&] {
      const Tickets tickets = read_notation("P3: " + std::string(word) + "\nP1: q1@0\n");
      std::string read = notation(tickets) + std::to_string(tickets.semaphores());
      for (const Step& step : tickets.steps)
        read += " " + std::to_string(step.chain) + (step.reduces ? "r" : "");
      return read;
    }) << "\n";
  }
  for (const char* rows : {"", "\n", "P0:\n", "P0: \n\nP1: q0@0", "0: q0@0", "P: q0@0", "P0 q0@0",
                           "P0x: q0@0", "p0: q0@0"}) {
    text << rows << ": " << test::said([&] {
      const Tickets tickets = read_notation(rows);
      return std::to_string(tickets.programs()) + " " + notation(tickets);
    }) << "\n";
  }
  const Tickets many = read_notation("P0: q0@0 q1@0 q2@0\nP1: q0@1\nP2: q0@2 q1@1\n");
  for (const std::int32_t programs : {0, 1, 2, 3, 4}) {
    for (const std::int64_t steps : {0, 1, 2, 3})
      text << programs << "/" << steps << ": " << notation(many, programs, steps) << "\n";
  }
  CHECK(test::golden_difference("tickets-notation.txt", text.str()) == "");
}

std::string changes_text(const char* what, const std::vector<StepChange>& changes) {
  std::string text = std::string(" ") + what;
  for (const StepChange& change : changes) {
    const Task& task = (change.before ? change.before : change.after)->task;
    text += " " + std::to_string(task.head.value) + "." + std::to_string(task.kv.value) + "." +
            std::to_string(task.q.value) + "@" + std::to_string(change.from.program.value) + ":" +
            std::to_string(change.from.place) + ">" + std::to_string(change.to.program.value) +
            ":" + std::to_string(change.to.place);
  }
  return text + "\n";
}

TEST_CASE("what two tickets do not have in common is as kept, step by step") {
  test::Random random(156);
  std::ostringstream text;
  for (int round = 0; round < 150; ++round) {
    const Tickets before = test::nearly_right_tickets(random);
    Tickets after = before;
    for (std::int64_t change = random.between(0, 4); change > 0 && !after.steps.empty(); --change) {
      const std::int64_t place = random.between(0, std::ssize(after.steps) - 1);
      Step& step = after.steps[place];
      switch (random.between(0, 4)) {
        case 0:
          std::swap(step, after.steps[random.between(0, std::ssize(after.steps) - 1)]);
          break;
        case 1:
          step.wait = static_cast<std::int32_t>(random.between(0, 5));
          break;
        case 2:
          step.add = static_cast<std::int32_t>(random.between(0, 2));
          break;
        case 3:
          step.task.q.value = static_cast<std::int32_t>(random.between(0, 5));
          break;
        default:
          step.semaphore.value =
              static_cast<std::int32_t>(random.between(0, std::int64_t{after.semaphores()} - 1));
      }
    }
    if (random.chance(4)) after = test::nearly_right_tickets(random);
    const Difference apart = difference(before, after);
    text << round << ": " << (apart.none() ? "none" : "some") << " dq " << apart.dq_orders
         << " dkv " << apart.dkv_orders << "\n";
    if (apart.first) text << changes_text("first", {*apart.first});
    text << changes_text("removed", apart.removed) << changes_text("added", apart.added)
         << changes_text("moved", apart.moved) << changes_text("retimed", apart.retimed);
  }
  CHECK(test::golden_difference("tickets-apart.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::tickets
