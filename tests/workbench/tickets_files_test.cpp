#include "core/error.hpp"
#include "core/files.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/tickets/document.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/tickets/minimize.hpp"
#include "workbench/tickets/notation.hpp"
#include "workbench/tickets/play.hpp"

#include <string>
#include <string_view>

namespace stagger::tickets {
namespace {

/// FA3 under a window, as formats.md has it: the first program passes q 1 on without reducing.
constexpr std::string_view kLocal =
    "{\"schema\": \"stagger.tickets/1\", \"name\": \"fa3-local\", \"dispatch\": \"in-order\",\n"
    " \"residency\": 132, \"release\": \"immediate\", \"initial\": 0,\n"
    " \"semaphores\": 2, \"programs\": [[[0,0,1,1,0,0,0],[1,null,1,0,0,0,1]],\n"
    "  [[0,1,1,1,0,1,0],[1,1,1,1,0,1,1]]]}";

std::string refusal(const std::string& text, const std::string& file = "x.json") {
  return test::message_of([&] { static_cast<void>(read_document(text, file)); },
                          ErrorKind::invalid_input);
}

TEST_CASE("tickets are read from JSON and CSV and written back the same") {
  const Document document = read_document(kLocal, "x.json");
  const Tickets& tickets = document.tickets;
  CHECK(document.kind == Kind::tickets);
  CHECK(tickets.residency == 132);
  CHECK(tickets.programs() == 2);
  CHECK(notation(tickets) == "P0: q0@0 q1+\nP1: q0@1 q1@1\n");
  CHECK_FALSE(play(tickets).hangs);
  CHECK(read_document(write_tickets_json(tickets), "x.json").tickets == tickets);
  CHECK(read_document(write_tickets_csv(tickets), "x.csv").tickets == tickets);
}

TEST_CASE("a file is what its schema says, whatever its name is") {
  const std::string named = test::replaced(std::string(kLocal), "fa3-local", "stagger.table/1");
  CHECK(read_document(named, "x.json").kind == Kind::tickets);
  Table table = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {2, 2}, {}, 1, 2));
  table.name = "stagger.tickets/1";
  CHECK(read_document(write_table_json(table), "x.json").kind == Kind::table);
}

TEST_CASE("random tickets survive both formats and the notation") {
  test::Random random(test::seed(3));
  for (int round = 0; round < 500; ++round) {
    Tickets tickets;
    tickets.initial.assign(4, random.between(0, 2));
    tickets.release = random.chance(2) ? Release::delayed : Release::immediate;
    tickets.residency = static_cast<std::int32_t>(random.between(0, 3));
    for (std::int64_t program = random.between(1, 4); program > 0; --program) {
      for (std::int64_t step = random.between(1, 3); step > 0; --step) {
        Step next{
            .semaphore = Semaphore{static_cast<std::int32_t>(random.between(0, 3))},
            .wait = random.chance(3) ? kNoWait : static_cast<std::int32_t>(random.between(0, 4)),
            .add = static_cast<std::int32_t>(random.between(0, 3)),
            .reduces = random.chance(2),
            .task = {Head{static_cast<std::int32_t>(random.between(0, 1))},
                     KvTile{static_cast<std::int32_t>(random.between(0, 3))},
                     QTile{static_cast<std::int32_t>(random.between(0, 3))}}};
        next.chain = chain_of(next.task);
        tickets.steps.push_back(next);
      }
      tickets.end_program();
    }
    CHECK(read_document(write_tickets_json(tickets), "x.json").tickets == tickets);
    CHECK(read_document(write_tickets_csv(tickets), "x.csv").tickets == tickets);
    const Tickets noted = read_notation(notation(tickets));
    CHECK(noted.steps == tickets.steps);
    CHECK(noted.program_begin == tickets.program_begin);
  }
}

TEST_CASE("a CSV keeps of a name what a cell can hold") {
  Tickets tickets = read_document(kLocal, "x.json").tickets;
  tickets.name = "f\u00FCr n\u2192\u221E,\x01 \"a=b\"\n\x1F!";
  CHECK(read_document(write_tickets_csv(tickets), "x.csv").tickets.name ==
        "f\u00FCr n\u2192\u221E ab!");
}

TEST_CASE("what is no tickets is refused with its line and column") {
  CHECK(refusal(test::replaced(std::string(kLocal), "[0,1,1,1,0,1,0]", "[0,1,1,1,0,1]")) ==
        "x.json:4:4: /programs/1/0: a step is [sem, wait, add, reduce, head, kv, q]: 7 numbers, "
        "not 6");
  CHECK(refusal(test::replaced(std::string(kLocal), "[1,null,1", "[2,null,1")) ==
        "x.json:3:50: /programs/0/1/0: must be an integer from 0 to 1, not 2");
  CHECK(refusal(test::replaced(std::string(kLocal), "\"initial\": 0", "\"initial\": [0]")) ==
        "x.json:2:55: /initial: must be one number, or one for each of the 2 semaphores, not 1");
  CHECK(refusal(test::replaced(std::string(kLocal), "in-order", "inorder"))
            .find("/dispatch: unknown dispatch 'inorder'") != std::string::npos);
  CHECK(refusal(
            test::replaced(std::string(kLocal), "\"semaphores\": 2", "\"semaphores\": 99999999999"))
            .find("/semaphores: must be an integer from 0 to 16777216") != std::string::npos);
  CHECK(refusal(test::replaced(std::string(kLocal), "\"name\"", "\"nam\""))
            .find("unknown key 'nam'") != std::string::npos);
  CHECK(refusal("{\"schema\": \"stagger.tickets/2\"}").find("unknown schema") != std::string::npos);
  CHECK(refusal("{\"schema\": [").find("x.json: ") == 0);
}

TEST_CASE("where a key is written in escapes what is wrong within has a path and no line") {
  const std::string broken = test::replaced(std::string(kLocal), "[1,null,1", "[2,null,1");
  CHECK(refusal(test::replaced(broken, "\"programs\"", "\"progr\\u0061ms\"")) ==
        "x.json: /programs/0/1/0: must be an integer from 0 to 1, not 2");
}

TEST_CASE("CSV tickets are refused with their line and column") {
  const std::string head = "program,step,sem,wait,add,reduce,head,kv,q\n";
  CHECK(refusal(head + "0,0,0,0,1,1,0,0\n", "x.csv").find("x.csv:2:1: a step has 9 cells") == 0);
  CHECK(refusal(head + "0,0,0,0,x,1,0,0,0\n", "x.csv") ==
        "x.csv:2:9: add 'x' is no integer from 0 to 2147483647");
  CHECK(refusal(head + "0,1,0,0,1,1,0,0,0\n", "x.csv") ==
        "x.csv:2:3: step 1 of program 0: step 0 is next");
  CHECK(refusal(head + "1,0,0,0,1,1,0,0,0\n0,0,0,1,1,1,0,0,0\n", "x.csv")
            .find("x.csv:3:1: program 0 comes behind program 1") == 0);
  CHECK(refusal("stagger.tickets/1,despatch=static\n" + head, "x.csv")
            .find("x.csv:1:19: unknown key 'despatch'; did you mean dispatch?") == 0);
  CHECK(refusal("program,step\n0,0\n", "x.csv").find("x.csv:1:1: expected the row program,") == 0);
}

TEST_CASE("a CSV without a header has the semaphores that its steps name, and may have no steps") {
  const std::string head = "program,step,sem,wait,add,reduce,head,kv,q\n";
  const Document document = read_document(head + "0,0,3,0,1,1,0,0,3\n0,1,1,0,1,1,0,0,1\n", "x.csv");
  CHECK(document.tickets.semaphores() == 4);
  CHECK(document.tickets.programs() == 1);
  CHECK(notation(document.tickets) == "P0: q3@0 q1@0\n");
  const Document empty = read_document(head, "x.csv");
  CHECK(empty.tickets.semaphores() == 0);
  CHECK(empty.tickets.programs() == 0);
}

TEST_CASE("lock values are an array, a row for each KV tile") {
  const Document document = read_document("0,,\n1,0,\n2,1,0\n", "x.csv");
  CHECK(document.kind == Kind::lock_values);
  CHECK(notation(document.tickets) == "P0: q0@0\nP1: q0@1 q1@0\nP2: q0@2 q1@1 q2@0\n");
  CHECK(read_document("q 0,q 1,q 2\n0,.,-1\n1,0,.\n2,1,0\n", "x.csv").tickets == document.tickets);
  CHECK(refusal("0,1\n0\n", "x.csv") == "x.csv:2:1: a row of 1 cells; the first has 2");
  CHECK(refusal("0,a\n", "x.csv") ==
        "x.csv:1:3: the lock value 'a' is no integer from -2147483647 to 2147483647");
  CHECK(refusal("", "x.csv") == "x.csv: there are no lock values in it");
}

TEST_CASE("a finding says where it is, in every format") {
  const Linted json =
      lint(test::replaced(std::string(kLocal), "[1,null,1,0,0,0,1]", "[1,null,0,0,0,0,1]"),
           "x.json", {});
  CHECK(json.verdict == LintVerdict::deadlock);
  REQUIRE(json.findings.size() == 1);
  CHECK(json.places[0].pointer == "/programs/1/1");
  CHECK(json.places[0].place == TextPlace{4, 20});

  const Linted csv = lint("0,\n1,1\n", "x.csv", {});
  REQUIRE(csv.findings.size() == 1);
  CHECK(csv.findings[0].rule->id == std::string("STG002"));
  CHECK(csv.places[0].pointer == "/programs/1/1");
  CHECK(csv.places[0].place == TextPlace{2, 3});

  const std::string table =
      "{\"schema\": \"stagger.table/1\", \"problem\": {\"heads\": 1, \"kv_tiles\": 2, \"q_tiles\": "
      "2, \"sms\": 2,\n \"mask\": {\"kind\": \"full\"}}, \"dispatch\": \"static\", \"lanes\": [\n"
      "  [[0,0,0,0],[0,0,1,2]],\n  [[0,1,1,0],[0,1,0,1]]]}";
  const Linted read = lint(table, "x.json", {});
  REQUIRE(read.findings.size() == 1);
  CHECK(read.places[0].pointer == "/lanes/0/1");
  CHECK(read.places[0].place == TextPlace{3, 14});
  const Linted rows = lint(write_table_csv(read_table_json(table, "x.json")), "x.csv", {});
  REQUIRE(rows.findings.size() == 1);
  CHECK(rows.places[0].place == TextPlace{2, 9});
}

TEST_CASE("the smallest part of what hangs hangs, and nothing less does") {
  Tickets shift = read_notation(
      "P0: q0@0 q1@1 q2@2\nP1: q1@0 q2@1 q0@2\nP2: q2@0 q0@1 q1@2\nP3: q3@0\nP4: q3@1\n");
  shift.dispatch = Dispatch::static_;
  shift.residency = 2;
  REQUIRE(play(shift).hangs);
  const Tickets smallest = minimize(shift);
  CHECK(play(smallest).hangs);
  CHECK(smallest.programs() == 2);
  CHECK(std::ssize(smallest.steps) == 2);
  CHECK(smallest.residency == 1);

  const Tickets crossed =
      read_notation("P0: q0@0 q1@1 q2@0\nP1: q0@1 q1@0 q2@1\nP2: q3@1 q4@0\nP3: q4@1 q3@0\n");
  CHECK(notation(minimize(crossed)) == "P2: q3@1 q4@0\nP3: q4@1 q3@0\n");
  const Tickets gap = read_notation("P0: q0@0 q1@0\nP1: q0@2 q1@1\n");
  CHECK(std::ssize(minimize(gap).steps) == 1);
}

}  // namespace
}  // namespace stagger::tickets
