#include "schedules/search/packing.hpp"

#include "dag/packing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace stagger::search {
namespace {

std::vector<Chain> chains_of_lengths(const std::vector<std::int32_t>& lengths) {
  std::vector<Chain> chains;
  for (const std::int32_t length : lengths)
    chains.push_back({Head{0}, KvTile{static_cast<std::int32_t>(chains.size())}, length});
  return chains;
}

/// Graham's rule: longest first, each to the machine with the least load.
Ticks graham(std::vector<std::int32_t> lengths, std::int32_t machines) {
  std::sort(lengths.rbegin(), lengths.rend());
  std::vector<Ticks> loads(static_cast<std::size_t>(machines), 0);
  for (const std::int32_t length : lengths)
    *std::min_element(loads.begin(), loads.end()) += length;
  return *std::max_element(loads.begin(), loads.end());
}

void check_whole(const std::vector<Chain>& chains, std::int32_t sms, const ChainLanes& lanes) {
  REQUIRE(std::ssize(lanes) == sms);
  std::int64_t packed = 0;
  for (const std::vector<Chain>& lane : lanes) {
    packed += std::ssize(lane);
    for (const Chain& chain : lane)
      REQUIRE(std::count(chains.begin(), chains.end(), chain) == 1);
    REQUIRE(std::is_sorted(lane.begin(), lane.end(),
                           [](const Chain& a, const Chain& b) { return a.length > b.length; }));
  }
  REQUIRE(packed == std::ssize(chains));
}

TEST_CASE("every chain is packed once, and as evenly as the packing bound allows") {
  test::Random random(test::seed(63));
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
    check_whole(chains, problem.sms, lanes);
    REQUIRE(longest_lane(lanes) >= bound.lower);
    reached += longest_lane(lanes) == bound.lower ? 1 : 0;
  }
  CHECK(reached > 490);
}

TEST_CASE("lanes are never longer than Graham's rule makes them, and what is even stays") {
  test::Random random(test::seed(84));
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    std::vector<std::int32_t> lengths;
    for (std::int64_t count = random.between(0, 14); count > 0; --count)
      lengths.push_back(static_cast<std::int32_t>(random.between(1, 12)));
    const auto sms = static_cast<std::int32_t>(random.between(1, 5));
    const std::vector<Chain> chains = chains_of_lengths(lengths);
    const Ticks far = std::accumulate(lengths.begin(), lengths.end(), Ticks{0});
    const ChainLanes dealt = pack_chains(chains, sms, far, {.nodes = 0});
    check_whole(chains, sms, dealt);
    REQUIRE(longest_lane(dealt) == graham(lengths, sms));  // the target is met: nothing to do
    const ChainLanes exchanged = pack_chains(chains, sms, 0, {.nodes = 0});
    check_whole(chains, sms, exchanged);
    REQUIRE(longest_lane(exchanged) <= longest_lane(dealt));
  }
}

TEST_CASE("exchanges even out what longest first leaves uneven, and a search the rest") {
  // Longest first: 3 2 2 and 3 2; a 3 for a 2 makes 6 and 6.
  const std::vector<Chain> two = chains_of_lengths({3, 3, 2, 2, 2});
  CHECK(longest_lane(pack_chains(two, 2, 12, {.nodes = 0})) == 7);
  CHECK(longest_lane(pack_chains(two, 2, 6, {.nodes = 0})) == 6);
  // Longest first: 7 2, 5 2 and 4 3. No move or exchange gets below 9; 7, 5 3 and 4 2 2 do.
  const std::vector<Chain> three = chains_of_lengths({7, 5, 4, 3, 2, 2});
  CHECK(longest_lane(pack_chains(three, 3, 8, {.nodes = 0})) == 9);
  CHECK(longest_lane(pack_chains(three, 3, 8)) == 8);
  // What no lane can be is not promised.
  CHECK(longest_lane(pack_chains(three, 3, 7)) == 9);
}

}  // namespace
}  // namespace stagger::search
