#include "workbench/invariance.hpp"

#include "core/order_digest.hpp"
#include "tests/support/catch.hpp"
#include "workbench/stagger.h"

#include <numeric>
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

TEST_CASE(
    "orders by launch are one on any SMs, of shifts on multiples and divisors of a head's units") {
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
  CHECK(steady("shift")->invariant == std::vector<std::int64_t>{1, 2, 4, 8, 16});
  CHECK(steady("symmetric-shift")->invariant == std::vector<std::int64_t>{1, 2, 4, 8, 12, 16});
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

TEST_CASE("a schedule is batch invariant where any number of heads has one head's order") {
  int invariant = 0;
  int cut = 0;
  for (const char* name : {"shift", "symmetric-shift", "spt", "descending", "head-blocks"}) {
    const schedules::Selection selection = schedules::select(name);
    for (std::int64_t sms = 1; sms <= 9; ++sms) {
      for (const std::int64_t heads : {1, 2, 5}) {
        const auto problem = [&](std::int64_t count) {
          return make_problem(make_mask(name == std::string("shift") ? "full" : "causal"), {4, 4},
                              {}, count, sms);
        };
        if (schedules::why_unsupported(selection, problem(heads))) continue;
        const Table table = schedules::build(selection, problem(heads));
        // A head's order is the ranks of its tasks, by tile.
        const auto order_of = [](const Table& any, Head head) {
          std::vector<std::int32_t> ranks(16, -1);
          for (const Slot& slot : any.slots) {
            if (slot.task.head == head) {
              ranks[static_cast<std::size_t>(4 * slot.task.kv.value + slot.task.q.value)] =
                  slot.rank;
            }
          }
          return ranks;
        };
        bool alike = !schedules::why_unsupported(selection, problem(1));
        const Table one = alike ? schedules::build(selection, problem(1)) : Table{};
        for (Head head{0}; alike && head.value < heads; ++head)
          alike = order_of(table, head) == order_of(one, Head{0});
        CAPTURE(name, sms, heads);
        REQUIRE(workbench::is_batch_invariant(selection, table) == alike);
        (alike ? invariant : cut) += 1;
      }
    }
  }
  CHECK(invariant > 50);
  CHECK(cut > 10);
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
  CHECK(orders_of("shift", "full", 16, 12, 15).sms == 8);
  CHECK(orders_of("shift", "full", 14, 12, 11).sms == 7);
  CHECK(orders_of("head-blocks", "causal", 8, 3, 8).sms == std::nullopt);
  const OrderReport grouped = orders_of("spt", "causal", 8, 8, 5, {.heads_kv = 2, .span = 2});
  CHECK(grouped.distinct == 1);
  CHECK(grouped.invariant == true);
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

}  // namespace
}  // namespace stagger
