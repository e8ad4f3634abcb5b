#include "schedules/search/packing.hpp"

#include "dag/packing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>

namespace stagger::search {
namespace {

TEST_CASE("every chain is packed once, and as evenly as the packing bound allows") {
  test::Random random(63);
  std::int64_t reached = 0;
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, 9);
    const std::vector<Chain> chains = chains_of(problem);
    std::vector<Ticks> lengths;
    for (const Chain& chain : chains)
      lengths.push_back(chain.length);
    const dag::Packing bound = dag::pack(lengths, problem.sms);
    const ChainLanes lanes = pack_chains(chains, problem.sms, bound.lower);
    REQUIRE(std::ssize(lanes) == problem.sms);
    std::int64_t packed = 0;
    for (const std::vector<Chain>& lane : lanes) {
      packed += std::ssize(lane);
      for (const Chain& chain : lane)
        REQUIRE(std::count(chains.begin(), chains.end(), chain) == 1);
    }
    REQUIRE(packed == std::ssize(chains));
    REQUIRE(longest_lane(lanes) >= bound.lower);
    reached += longest_lane(lanes) == bound.lower ? 1 : 0;
  }
  CHECK(reached == 500);
}

}  // namespace
}  // namespace stagger::search
