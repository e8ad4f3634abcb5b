#include "workbench/invariance.hpp"

#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/comparison.hpp"
#include "workbench/stagger.h"

#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace stagger {
namespace {

using workbench::OrderReport;

OrderReport orders_of(const char* schedule, const char* mask, std::int64_t tiles,
                      std::int64_t heads, std::int64_t sms, const Grouping& grouping = {}) {
  const Problem problem = make_problem(make_mask(mask), {tiles, tiles}, {}, heads, sms, grouping);
  return workbench::orders_of(
      workbench::analyze(workbench::source_of(schedules::select(schedule), problem)));
}

TEST_CASE("orders by launch are one on any SMs, of shifts on multiples of a head's units") {
  std::vector<std::int64_t> all(16);
  std::iota(all.begin(), all.end(), 1);
  const auto steady = [](const char* name) {
    return workbench::steady_sms_of(*schedules::select(name).schedule);
  };
  for (const char* name : {"ascending", "descending", "grid-ascending", "lpt-ascending",
                           "lpt-descending", "spt", "fa4-sparse"}) {
    CAPTURE(name);
    CHECK(steady(name)->applies == all);
    CHECK(steady(name)->invariant == all);
  }
  CHECK(steady("shift")->applies == all);
  CHECK(steady("shift")->invariant == std::vector<std::int64_t>{8, 16});
  CHECK(steady("symmetric-shift")->invariant == std::vector<std::int64_t>{4, 8, 12, 16});
  CHECK(steady("head-blocks")->applies == std::vector<std::int64_t>{8});
  CHECK(!steady("balanced"));
}

TEST_CASE("an invariant table is on the most SMs that are whole heads' units, or on all of them") {
  int fewer = 0;
  int none = 0;
  for (const char* name : {"shift", "symmetric-shift", "spt", "head-blocks"}) {
    const schedules::Selection selection = schedules::select(name);
    for (const std::int64_t tiles : {3, 4, 7}) {
      for (std::int64_t sms = 1; sms <= 15; ++sms) {
        Problem problem = make_problem(make_mask(name == std::string("shift") ? "full" : "causal"),
                                       {tiles, tiles}, {}, 5, sms);
        std::int32_t most = 0;
        for (const std::int64_t units : {std::int64_t{1}, (tiles + 1) / 2, tiles}) {
          problem.sms = static_cast<std::int32_t>(sms / units * units);
          if (problem.sms <= most || schedules::why_unsupported(selection, problem)) continue;
          const Table table = schedules::build(selection, problem);
          if (workbench::is_batch_invariant(selection, table)) most = problem.sms;
        }
        problem.sms = static_cast<std::int32_t>(sms);
        const std::optional<Table> found = workbench::invariant_table(selection, problem);
        CAPTURE(name, tiles, sms, most);
        REQUIRE(found.has_value() == (most > 0));
        if (found) REQUIRE(found->problem.sms == most);
        fewer += found && most < sms ? 1 : 0;
        none += found ? 0 : 1;
      }
    }
  }
  CHECK(fewer > 10);
  CHECK(none > 10);
}

TEST_CASE("why a schedule has no invariant table is said in words") {
  const auto why = [](const char* schedule, const char* mask, std::int64_t heads,
                      std::int64_t sms) {
    return workbench::why_not_invariant(schedules::select(schedule),
                                        make_problem(parse_mask(mask), {4, 4}, {}, heads, sms));
  };
  CHECK(why("shift", "causal", 2, 4) ==
        *schedules::why_unsupported(schedules::select("shift"),
                                    make_problem(parse_mask("causal"), {4, 4}, {}, 2, 4)));
  CHECK(why("balanced", "causal", 2, 4) ==
        "what a search finds moves with heads, SMs and durations");
  CHECK(why("descending", "heads; causal; full", 2, 4) ==
        "heads have masks of their own, so no head's order is every head's");
  CHECK(why("shift", "full", 2, 3)
            .starts_with(
                "the order of heads moves with their number or the SMs on 3, and on fewer; "));
  CHECK(why("shift", "full", 2, 1)
            .starts_with("the order of heads moves with their number or the SMs on 1; "));
}

/// The ranks of every head's tasks, by tile, of a problem of 4 x 4 tiles.
std::vector<std::vector<std::int32_t>> ranks_of_heads(const Table& table) {
  std::vector<std::vector<std::int32_t>> ranks(static_cast<std::size_t>(table.problem.heads),
                                               std::vector<std::int32_t>(16, -1));
  for (const Slot& slot : table.slots) {
    ranks[static_cast<std::size_t>(slot.task.head.value)]
         [static_cast<std::size_t>(4 * slot.task.kv.value + slot.task.q.value)] = slot.rank;
  }
  return ranks;
}

TEST_CASE("a schedule's invariant tables have one order, whatever heads and SMs, others another") {
  int invariant = 0;
  int cut = 0;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (schedule->searches()) continue;
    const std::string name = schedule->name;
    const schedules::Selection selection = schedules::select(name);
    std::set<std::vector<std::int32_t>> one;
    std::vector<std::set<std::vector<std::int32_t>>> others;
    for (std::int64_t sms = 1; sms <= 13; ++sms) {
      for (const std::int64_t heads : {1, 2, 3, 5}) {
        const Problem problem =
            make_problem(make_mask(name == "shift" ? "full" : "causal"), {4, 4}, {}, heads, sms);
        if (schedules::why_unsupported(selection, problem)) continue;
        const Table table = schedules::build(selection, problem);
        const auto ranks = ranks_of_heads(table);
        const std::set<std::vector<std::int32_t>> orders(ranks.begin(), ranks.end());
        const bool holds = workbench::is_batch_invariant(selection, table);
        (holds ? invariant : cut) += 1;
        if (holds) one.insert(orders.begin(), orders.end());
        if (!holds) others.push_back(orders);
      }
    }
    CAPTURE(name);
    REQUIRE(one.size() <= 1);
    // Ranks are the order's half: those of a shift may agree where chains do not.
    if (name != "shift" && name != "symmetric-shift") {
      for (const auto& orders : others)
        REQUIRE((orders.size() > 1 || one.empty() || !one.contains(*orders.begin())));
    }
  }
  CHECK(invariant > 50);
  CHECK(cut > 10);
}

TEST_CASE("a row of a batch is in the order that it has alone, by whatever table it is given") {
  int plans = 0;
  for (const char* name : {"shift", "symmetric-shift", "spt"}) {
    const schedules::Selection selection = schedules::select(name);
    const char* const mask = name == std::string("shift") ? "full" : "causal";
    for (const std::int64_t tiles : {3, 4, 6, 9}) {
      std::optional<HeadOrders> first;
      for (std::int64_t sms = 1; sms <= 14; ++sms) {
        for (const std::int64_t heads : {1, 2, 5}) {
          const Problem problem = make_problem(make_mask(mask), {tiles, tiles}, {}, heads, sms);
          const std::optional<Table> table = workbench::invariant_table(selection, problem);
          if (!table) continue;
          const HeadOrders orders = head_orders(*table);
          CAPTURE(name, tiles, sms, heads);
          REQUIRE(orders.distinct == 1);
          if (!first) first = orders;
          REQUIRE(orders.first == first->first);
          ++plans;
        }
      }
    }
  }
  CHECK(plans > 200);
}

TEST_CASE("a report has the orders, and SMs on which they would be one") {
  const OrderReport cut = orders_of("symmetric-shift", "causal", 16, 12, 44);
  CHECK(cut.distinct > 1);
  CHECK(cut.invariant == false);
  CHECK(cut.sms == 40);
  const OrderReport whole = orders_of("symmetric-shift", "causal", 16, 12, 40);
  CHECK(whole.distinct == 1);
  CHECK(whole.invariant == true);
  CHECK(!whole.sms);
  CHECK(orders_of("shift", "full", 16, 12, 37).sms == 32);
  // On fewer SMs than it has KV tiles a head has another order on each number of them.
  CHECK(orders_of("shift", "full", 16, 12, 15).sms == std::nullopt);
  CHECK(orders_of("shift", "full", 16, 12, 8).invariant == false);
  CHECK(orders_of("shift", "full", 16, 1, 8).invariant == false);
  CHECK(orders_of("head-blocks", "causal", 8, 3, 8).sms == std::nullopt);
  // What a search finds on fewer SMs is nobody's promise.
  for (std::int64_t sms = 2; sms <= 9; ++sms)
    CHECK(orders_of("balanced", "full", 4, 3, sms).sms == std::nullopt);
  const OrderReport grouped = orders_of("spt", "causal", 8, 8, 5, {.heads_kv = 2, .span = 2});
  CHECK(grouped.distinct == 1);
  CHECK(grouped.invariant == true);
}

TEST_CASE("a table for one order leaves SMs idle if need be, and is that of a batch of one") {
  const Problem problem = make_problem(make_mask("causal"), {16, 16}, {}, 12, 44);
  for (const char* const name : {"spt", "symmetric-shift", "lpt-ascending"}) {
    CAPTURE(name);
    const schedules::Selection selection = schedules::select(name);
    const std::optional<Table> table = workbench::invariant_table(selection, problem);
    REQUIRE(table);
    CHECK(table->problem.sms == (name == std::string("symmetric-shift") ? 40 : 44));
    for (const std::int64_t heads : {1, 5, 30}) {
      Problem other = problem;
      other.heads = other.heads_kv = static_cast<std::int32_t>(heads);
      const HeadOrders orders = head_orders(*workbench::invariant_table(selection, other));
      CHECK(orders.distinct == 1);
      CHECK(orders.first == head_orders(*table).first);
    }
    const workbench::Source source = workbench::invariant_source_of(selection, problem);
    CHECK(write_table_json(source.table) == write_table_json(*table));
    CHECK(workbench::orders_of(workbench::analyze(source)).invariant == true);
  }
}

TEST_CASE("a schedule that has no such table says why") {
  const auto why = [](const char* name, const char* mask, std::int64_t heads, std::int64_t sms,
                      std::int64_t tiles = 8) {
    const Problem problem = make_problem(parse_mask(mask), {tiles, tiles}, {}, heads, sms);
    const schedules::Selection selection = schedules::select(name);
    CHECK(!workbench::invariant_table(selection, problem));
    const std::string reason = workbench::why_not_invariant(selection, problem);
    CHECK(test::message_of(
              [&] { static_cast<void>(workbench::invariant_source_of(selection, problem)); },
              ErrorKind::unsupported) == std::string(name) + ": " + reason);
    return reason;
  };
  CHECK_THAT(why("head-blocks", "causal", 3, 8),
             Catch::Contains("moves with their number or the SMs on 8"));
  CHECK_THAT(why("shift", "causal", 3, 8), Catch::Contains("full mask"));
  CHECK_THAT(why("balanced", "causal", 12, 44, 16),
             Catch::Contains("what a search finds moves with"));
  CHECK_THAT(why("spt", "heads:heads=0+1; causal; full", 2, 8),
             Catch::Contains("masks of their own"));
}

TEST_CASE("a comparison of one order bounds every row by all SMs") {
  const Problem problem = make_problem(make_mask("full"), {6, 6}, {}, 6, 9);
  const workbench::Comparison free = workbench::compare({.problem = problem});
  const workbench::Comparison one = workbench::compare({.problem = problem, .invariant = true});
  REQUIRE(one.rows.size() == free.rows.size());
  const workbench::ComparisonRow* const shift = one.find("shift");
  REQUIRE(shift != nullptr);
  REQUIRE(shift->ok());
  CHECK(shift->summary->sms == 6);
  CHECK(shift->summary->bounds.best.ticks == free.find("shift")->summary->bounds.best.ticks);
  CHECK(shift->summary->bounds.best.ticks == 144);
  CHECK(shift->summary->optimal == false);
  CHECK(shift->summary->makespan == 216);
  CHECK(one.find("spt")->summary->sms == 9);
  CHECK(one.find("spt")->summary->makespan == free.find("spt")->summary->makespan);
}

TEST_CASE("a report's digest is a plan's, and a table from elsewhere has orders alone") {
  const Problem problem = make_problem(make_mask("causal"), {8, 8}, {}, 3, 5);
  workbench::Source source = workbench::source_of(schedules::select("spt"), problem);
  const std::uint64_t digest = order_digest(source.table, STAGGER_NUMERICS, 64);
  source.selection.reset();
  const OrderReport orders = workbench::orders_of(workbench::analyze(std::move(source)));
  CHECK(orders.digest == digest);
  CHECK(orders.head_dim == 64);
  CHECK(orders.distinct == 1);
  CHECK(!orders.invariant);
}

TEST_CASE("heads with masks of their own are not invariant, whatever their orders") {
  const auto invariant = [](const char* mask) {
    const Problem problem = make_problem(parse_mask(mask), {2, 2}, {}, 2, 2);
    const schedules::Selection spt = schedules::select("spt");
    return workbench::is_batch_invariant(spt, schedules::build(spt, problem));
  };
  CHECK(invariant("tiles:rows=ff+ff"));
  // The same tiles in the same order, of which one is partial.
  CHECK_FALSE(invariant("heads; tiles:rows=ff+ff; tiles:rows=fp+ff"));
}

}  // namespace
}  // namespace stagger
