#include "schedules/search/list_scheduling.hpp"

#include "dag/bounds.hpp"
#include "dag/verify.hpp"
#include "schedules/search/packing.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::search {
namespace {

constexpr ChainOrder kChainOrders[] = {ChainOrder::longest_by_head, ChainOrder::longest_by_kv,
                                       ChainOrder::launch_order, ChainOrder::reverse_order};

TEST_CASE("list scheduling makes tables that are whole and run to their end") {
  test::Random random(64);
  for (int round = 0; round < 1'000; ++round) {
    const Problem problem = test::random_problem(random, 8);
    Timing timing = test::random_timing(random, problem);
    timing.release = Release::immediate;
    const auto q = static_cast<QOrder>(random.between(0, kQOrders - 1));
    CAPTURE(round, static_cast<int>(q));
    for (const ChainOrder chains : kChainOrders) {
      const Table table = list_schedule(problem, timing, {chains, q});
      REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    }
    timing.residency = 0;
    const ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
    const Table table = list_schedule(problem, timing, lanes, q);
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
  }
}

TEST_CASE("on a full mask with an SM per KV tile list scheduling finds the cyclic shift") {
  for (const std::int64_t n : {2, 5, 8, 17}) {
    const Problem problem = make_problem(make_mask("full"), {n, n}, {}, 2, n);
    const Table table = list_schedule(problem, {}, {});
    CHECK(sim::simulate(table, {}).makespan == 2 * n * 6);
  }
}

}  // namespace
}  // namespace stagger::search
