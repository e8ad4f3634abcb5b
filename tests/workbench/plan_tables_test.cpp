// Tables that are given to a plan: those of the tensors are taken, and no other.

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/backward_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

namespace stagger::workbench {
namespace {

PlanRequest request_of() {
  PlanRequest request{.mask = parse_mask("causal"), .lengths = {512, 512}};
  request.batch = 2;
  request.heads_q = 4;
  request.heads_kv = 2;
  request.head_dim = 64;
  request.sms = 6;
  return request;
}

/// The table of the tensors that are asked for, but for what is changed of its problem.
template <class Change>
std::string planned(const Change& change) {
  Lengths lengths{512, 512};
  TileShape shape{64, 128};
  std::int64_t heads = 8;
  Grouping grouping{.heads_kv = 4, .span = 1};
  std::string mask = "causal";
  change(mask, lengths, shape, heads, grouping);
  PlanRequest request = request_of();
  request.table = schedules::build(
      schedules::select("spt"), make_problem(parse_mask(mask), lengths, shape, heads, 6, grouping));
  return test::said([&] {
    const auto made = plan_backward(request);
    return std::string(std::holds_alternative<BackwardPlan>(made) ? "planned" : "broken");
  });
}

TEST_CASE("a table of other tensors is refused, whatever is other") {
  CHECK(planned([](auto&...) {}) == "planned");
  // Its tiles and its chains are its own.
  CHECK(planned([](auto&, auto&, TileShape& shape, auto&...) { shape.q = 128; }) == "planned");
  CHECK(planned([](auto&, auto&, auto&, auto&, Grouping& grouping) { grouping.span = 2; }) ==
        "planned");
  for (const std::string& said :
       {planned([](std::string&mask, auto&...) { mask = "full"; }),
        planned([](std::string&mask, auto&...) { mask = "sliding:left=200,right=0"; }),
        planned([](auto&, Lengths&lengths, auto&...) { lengths.q = 448; }),
        planned([](auto&, Lengths&lengths, auto&...) {
          lengths = {511, 511};
        }),
        planned([](auto&, auto&, auto&, std::int64_t&heads, Grouping&) { heads = 4; }),
        planned([](auto&, auto&, auto&, std::int64_t&heads, Grouping&) { heads = 16; }),
        planned([](auto&, auto&, auto&, auto&, Grouping&grouping) { grouping.heads_kv = 2; }),
        planned([](auto&, auto&, auto&, auto&, Grouping&grouping) { grouping.heads_kv = 8; })}) {
    CHECK(said.find("refused 0: the table is for ") == 0);
    CHECK(said.find("; the tensors are ") != std::string::npos);
  }
}

TEST_CASE("a plan has at most 512 MiB of slots, of 24 bytes each") {
  PlanRequest request = request_of();
  request.machine = Machine{.name = "bare", .device = "none", .driver = "1", .sms = 6};
  request.table = schedules::build(
      schedules::select("spt"),
      make_problem(parse_mask("causal"), {512, 512}, {64, 128}, 8, 6, {.heads_kv = 4}));
  request.table->slots.resize((512 << 20) / 24 + 1);
  CHECK(test::message_of([&] { static_cast<void>(plan_backward(request)); }, ErrorKind::limit) ==
        "the plan would have more than 512 MiB of slots");
}

TEST_CASE("of a table with many faults the first are said, and no more than a screen of them") {
  PlanRequest request = request_of();
  request.table = schedules::build(
      schedules::select("spt"),
      make_problem(parse_mask("causal"), {512, 512}, {64, 128}, 8, 6, {.heads_kv = 4}));
  for (Slot& slot : request.table->slots)
    slot.rank += 50;
  const auto made = plan_backward(request);
  REQUIRE(std::holds_alternative<BrokenTable>(made));
  const std::string& message = std::get<BrokenTable>(made).message;
  CHECK(std::ranges::count(message, ';') > 0);
  CHECK(message.size() > 300);
  CHECK(message.size() < 600);
}

TEST_CASE("a span that is asked for is the given table's") {
  PlanRequest request = request_of();
  request.span = 2;
  const auto said = [&](std::int64_t span) {
    request.table = schedules::build(schedules::select("spt"),
                                     make_problem(parse_mask("causal"), {512, 512}, {64, 128}, 8, 6,
                                                  {.heads_kv = 4, .span = span}));
    return test::said([&] {
      static_cast<void>(plan_backward(request));
      return std::string("planned");
    });
  };
  CHECK(said(2) == "planned");
  CHECK(said(1).find("span is 2") != std::string::npos);
}

TEST_CASE("a plan needs a batch, heads and a span that divides them, from one up") {
  const auto said = [](auto change) {
    PlanRequest request = request_of();
    change(request);
    return test::said([&] {
      static_cast<void>(plan_backward(request));
      return std::string("planned");
    });
  };
  CHECK(said([](PlanRequest& request) { request.batch = 1; }) == "planned");
  CHECK(said([](PlanRequest& request) { request.heads_q = request.heads_kv = 1; }) == "planned");
  CHECK(said([](PlanRequest& request) { request.span = 1; }) == "planned");
  CHECK(said([](PlanRequest& request) { request.span = 2; }) == "planned");
  const std::string least = "refused 0: batch, heads_q and heads_kv must be at least 1";
  CHECK(said([](PlanRequest& request) { request.batch = 0; }) == least);
  CHECK(said([](PlanRequest& request) { request.heads_q = 0; }) == least);
  CHECK(said([](PlanRequest& request) { request.heads_kv = 0; }) == least);
  CHECK(said([](PlanRequest& request) { request.head_dim = 0; }) ==
        "refused 0: head_dim must be 1 to 512");
  CHECK(said([](PlanRequest& request) { request.tile_q = -1; }) ==
        "refused 0: tile_q and tile_kv must not be negative");
  CHECK(said([](PlanRequest& request) { request.tile_kv = -1; }) ==
        "refused 0: tile_q and tile_kv must not be negative");
  CHECK(said([](PlanRequest& request) { request.heads_kv = 3; }) ==
        "refused 0: heads_kv must divide heads_q; 3 does not divide 4");
  CHECK(said([](PlanRequest& request) { request.span = -1; }).find("span must divide") !=
        std::string::npos);
  CHECK(said([](PlanRequest& request) { request.span = 3; }).find("span must divide") !=
        std::string::npos);
  CHECK(said([](PlanRequest& request) { request.verify = false; }) == "planned");
  CHECK(said([](PlanRequest& request) {
          request.verify = false;
          request.launch = PlanLaunch::elastic;
        }) == "refused 0: an elastic launch is for tables that are verified");
}

}  // namespace
}  // namespace stagger::workbench
