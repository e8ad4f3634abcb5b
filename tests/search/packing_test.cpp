#include "schedules/search/packing.hpp"

#include "dag/packing.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
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
    const Problem problem = test::any_problem(random, 9);
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
  // Longest first: 10 7 5 and 10 7 1; the 7 for the 5 makes 20 and 20 after the 1 has moved.
  const std::vector<Chain> moved = chains_of_lengths({10, 10, 7, 7, 5, 1});
  CHECK(longest_lane(pack_chains(moved, 2, 20, {.nodes = 0})) == 20);
  // Longest first: 7 2, 5 2 and 4 3. No move or exchange gets below 9; 7, 5 3 and 4 2 2 do.
  const std::vector<Chain> three = chains_of_lengths({7, 5, 4, 3, 2, 2});
  CHECK(longest_lane(pack_chains(three, 3, 8, {.nodes = 0})) == 9);
  CHECK(longest_lane(pack_chains(three, 3, 8)) == 8);
  // What no lane can be is not promised.
  CHECK(longest_lane(pack_chains(three, 3, 7)) == 9);
}

/// The shortest longest lane, by trying each chain on every lane that differs.
Ticks fewest(const std::vector<std::int32_t>& lengths, std::size_t next,
             std::vector<Ticks>& loads) {
  if (next == lengths.size()) return *std::max_element(loads.begin(), loads.end());
  Ticks best = std::numeric_limits<Ticks>::max();
  for (std::size_t lane = 0; lane < loads.size(); ++lane) {
    if (std::find(loads.begin(), loads.begin() + static_cast<std::ptrdiff_t>(lane), loads[lane]) !=
        loads.begin() + static_cast<std::ptrdiff_t>(lane)) {
      continue;
    }
    loads[lane] += lengths[next];
    best = std::min(best, fewest(lengths, next + 1, loads));
    loads[lane] -= lengths[next];
  }
  return best;
}

TEST_CASE("a search reaches every target that can be reached, and none that cannot") {
  test::Random random(test::seed(85));
  std::int64_t searched = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::vector<std::int32_t> lengths;
    for (std::int64_t count = random.between(7, 10); count > 0; --count)
      lengths.push_back(static_cast<std::int32_t>(random.between(2, 40)));
    const auto sms = static_cast<std::int32_t>(random.between(2, 3));
    std::vector<Ticks> loads(static_cast<std::size_t>(sms), 0);
    const Ticks optimum = fewest(lengths, 0, loads);
    const std::vector<Chain> chains = chains_of_lengths(lengths);
    const ChainLanes best = pack_chains(chains, sms, optimum);
    check_whole(chains, sms, best);
    REQUIRE(longest_lane(best) == optimum);
    const ChainLanes exchanged = pack_chains(chains, sms, optimum, {.nodes = 0});
    searched += longest_lane(exchanged) > optimum ? 1 : 0;
    const ChainLanes beyond = pack_chains(chains, sms, optimum - 1);
    check_whole(chains, sms, beyond);
    REQUIRE(longest_lane(beyond) >= optimum);
    REQUIRE(longest_lane(beyond) <= graham(lengths, sms));
  }
  CHECK(searched > 10);
}

TEST_CASE("after the exchanges no move and no exchange makes the longest lane shorter") {
  test::Random random(test::seed(86));
  std::int64_t uneven = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::int32_t> lengths;
    for (std::int64_t count = random.between(2, 20); count > 0; --count)
      lengths.push_back(static_cast<std::int32_t>(random.between(1, 30)));
    const auto sms = static_cast<std::int32_t>(random.between(2, 5));
    const ChainLanes lanes = pack_chains(chains_of_lengths(lengths), sms, 0, {.nodes = 0});
    const auto load_of = [](const std::vector<Chain>& lane) { return longest_lane({lane}); };
    const auto longest = std::max_element(
        lanes.begin(), lanes.end(),
        [&](const auto& left, const auto& right) { return load_of(left) < load_of(right); });
    const Ticks high = load_of(*longest);
    for (auto other = lanes.begin(); other != lanes.end(); ++other) {
      if (other == longest || load_of(*other) == high) continue;
      ++uneven;
      for (const Chain& given : *longest) {
        CAPTURE(round, given.length, high, load_of(*other));
        REQUIRE(load_of(*other) + given.length >= high);  // a move
        for (const Chain& taken : *other)
          REQUIRE((taken.length >= given.length ||
                   load_of(*other) + given.length - taken.length >= high));
      }
    }
  }
  CHECK(uneven > 300);
}

TEST_CASE("a search ends after its nodes, and when it is stopped, with lanes that are whole") {
  // 7; 5 3; 4 2 2: a node for the room behind each of the six chains, and one more is never begun.
  const std::vector<Chain> three = chains_of_lengths({7, 5, 4, 3, 2, 2});
  CHECK(longest_lane(pack_chains(three, 3, 8, {.nodes = 7})) == 8);
  CHECK(longest_lane(pack_chains(three, 3, 8, {.nodes = 6})) == 9);
  std::int64_t asked = 0;
  std::int64_t most = 0;
  const PackingLimits limits{.stop = [&] { return ++asked > most; }};
  std::vector<Ticks> found;
  for (; most < 12; ++most) {
    asked = 0;
    const ChainLanes lanes = pack_chains(three, 3, 8, limits);
    check_whole(three, 3, lanes);
    found.push_back(longest_lane(lanes));
  }
  CHECK(found.front() == 9);
  CHECK(found.back() == 8);
  CHECK(std::is_sorted(found.rbegin(), found.rend()));
  // Before the exchange, after it found none, and at each of the six nodes.
  CHECK(std::count(found.begin(), found.end(), 9) == 8);
  const std::vector<Chain> two = chains_of_lengths({3, 3, 2, 2, 2});
  CHECK(longest_lane(pack_chains(two, 2, 6, {.stop = [] { return true; }})) == 7);
}

TEST_CASE("up to 4,000 chains are searched") {
  for (const std::int32_t more : {0, 1}) {
    std::vector<std::int32_t> lengths = {7, 5, 4, 3, 2, 2};  // an exchange does not do, as above
    lengths.resize(static_cast<std::size_t>(4'000 + more), 8);
    const auto sms = static_cast<std::int32_t>(lengths.size()) - 3;
    CHECK(longest_lane(pack_chains(chains_of_lengths(lengths), sms, 8)) == 8 + more);
  }
}

}  // namespace
}  // namespace stagger::search
