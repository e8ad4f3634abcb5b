#include "dag/traffic.hpp"

#include "core/timing.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace stagger::dag {
namespace {

/// What is read or written once at least: what a cache that nobody passes over twice leaves.
std::int64_t once(const Problem& problem, const Memory& memory) {
  Memory all = memory;
  all.l2 = std::numeric_limits<std::int64_t>::max() / 4;  // no pass moves anything again
  all.tile.gradient = 0;
  const std::int64_t read = least_traffic(problem, all, problem.sms);
  all = memory;
  all.tile.q = 0;
  all.tile.kv = 0;
  return read + least_traffic(problem, all, std::numeric_limits<std::int32_t>::max());
}

TEST_CASE("the least traffic is worked by hand") {
  const Memory memory{.l2 = 10, .rate = 1, .tile = {.q = 7, .dq = 5, .kv = 11, .gradient = 13}};
  const auto least = [&](std::int64_t kv_tiles, std::int64_t q_tiles, std::int32_t heads,
                         std::int64_t sms) {
    const std::vector<std::string> rows(at(kv_tiles), std::string(at(q_tiles), 'f'));
    return least_traffic(test::tiles_problem(rows, heads, 1), memory, sms);
  };
  // Six chains of four tasks. A pass moves 4 x 10 + 2 x 7 - 10 - 10 = 34 bytes, of Q and dQ, at
  // least; on two SMs one has three: 102, less 4 x 10 for first additions, is more than 4 x 7 once.
  CHECK(least(6, 4, 1, 2) == 6 * 11 + (102 - 40) + 6 * 13 + (4 * 5 - 10));
  // On six SMs none has more than one, and Q is read once.
  CHECK(least(6, 4, 1, 6) == 6 * 11 + 4 * 7 + 6 * 13 + (4 * 5 - 10));
  // On four some SM has the average, rounded up: 204 / 4 - 40 is less than 28 again.
  CHECK(least(6, 4, 1, 4) == 6 * 11 + 4 * 7 + 6 * 13 + (4 * 5 - 10));
  // Two heads: twice the passes, and twice the first additions.
  CHECK(least(6, 4, 2, 2) == 12 * 11 + (204 - 80) + 12 * 13 + (8 * 5 - 10));
  // Of two heads' six chains of four tasks one a Q tile stores, each of the others takes 5 x 1.5,
  // rounded down. Of two heads' parts that share K and V in order one adds, 13 x 1.5.
  Memory adding = memory;
  adding.add_permille = 1'500;
  const std::vector<std::string> rows(6, "ffff");
  Problem ordered = test::tiles_problem(rows, 2, 1);
  ordered.heads_kv = 1;
  CHECK(additions(ordered, adding) == 2 * 20 * 7);
  CHECK(additions(ordered, memory) == 0);
  Memory large = adding;
  large.tile.dq = 998'500;
  large.add_permille = 1'501;
  CHECK(additions(ordered, large) == 2 * 20 * 1'498'748LL);
  ordered.combine = Combine::ordered;
  CHECK(additions(ordered, adding) == 2 * 20 * 7 + 6 * 19);
  // A pass over one tile fits: 10 - 10 - 5 is nothing; and so does its dQ.
  CHECK(least(9, 1, 1, 1) == 9 * 11 + 7 + 9 * 13);
}

/// The chains of one SM, one after the other, on a cache that keeps what is best: every choice of
/// what to keep is tried.
class BestCache {
 public:
  BestCache(std::int64_t q_tiles, const Memory& memory) : q_tiles_(q_tiles), memory_(memory) {
    best_[{}] = 0;
  }

  void load_q(std::int64_t q) { touch(q, memory_.tile.q); }
  void add_dq(std::int64_t q, bool first) { touch(q_tiles_ + q, first ? 0 : memory_.tile.dq); }
  [[nodiscard]] std::int64_t least() const {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [held, cost] : best_)
      least = std::min(least, cost);
    return least;
  }

 private:
  using Held = std::uint32_t;  ///< a bit for each Q tile, then for each dQ tile

  /// What is not held is read; a dQ tile that is not kept, or leaves, is written.
  void touch(std::int64_t tile, std::int64_t read) {
    std::map<Held, std::int64_t> next;
    const Held bit = Held{1} << tile;
    for (const auto& [held, cost] : best_) {
      const Held there = held | bit;
      for (Held kept = there;; kept = (kept - 1) & there) {
        const std::int64_t written = std::popcount((there & ~kept) >> q_tiles_) * memory_.tile.dq;
        const std::int64_t moved = cost + (held == there ? 0 : read) + written;
        if (fits(kept)) {
          const auto [entry, is_new] = next.try_emplace(kept, moved);
          if (!is_new) entry->second = std::min(entry->second, moved);
        }
        if (kept == 0) break;
      }
    }
    best_ = std::move(next);
  }

  [[nodiscard]] bool fits(Held kept) const {
    const Held q = kept & ((Held{1} << q_tiles_) - 1);
    return std::popcount(q) * memory_.tile.q + std::popcount(kept >> q_tiles_) * memory_.tile.dq <=
           memory_.l2;
  }

  std::int64_t q_tiles_;
  const Memory& memory_;
  std::map<Held, std::int64_t> best_;  ///< least bytes moved so far, by what is held
};

TEST_CASE("one SM moves no less on the best cache there is, and passes are seen") {
  test::Random random(test::seed(81));
  std::int64_t beyond_once = 0;
  std::int64_t tight = 0;
  for (int round = 0; round < 150; ++round) {
    const std::int64_t q_tiles = random.between(2, 4);
    const std::int64_t kv_tiles = random.between(2, 6);
    const Memory memory{.l2 = random.between(1, 24),
                        .rate = 1,
                        .tile = {.q = random.between(0, 6), .dq = random.between(1, 6)}};
    BestCache cache(q_tiles, memory);
    std::vector<std::int64_t> order(at(q_tiles));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t kv = 0; kv < kv_tiles; ++kv) {
      std::reverse(order.begin(), order.end());  // what was touched last is touched first
      for (const std::int64_t q : order) {
        cache.load_q(q);
        cache.add_dq(q, kv == 0);
      }
    }
    const std::vector<std::string> rows(at(kv_tiles), std::string(at(q_tiles), 'f'));
    const Problem problem = test::tiles_problem(rows, 1, 1);
    const std::int64_t least = least_traffic(problem, memory, 1);
    CAPTURE(round, q_tiles, kv_tiles, memory.l2, memory.tile.q, memory.tile.dq);
    REQUIRE(cache.least() >= least);
    beyond_once += least > once(problem, memory) ? 1 : 0;
    tight += 4 * least >= 3 * cache.least() ? 1 : 0;
  }
  CHECK(beyond_once > 20);
  CHECK(tight > 20);
}

TEST_CASE("no table moves less, whatever its order, dispatch and grouping") {
  test::Random random(test::seed(82));
  std::int64_t played_tables = 0;
  std::int64_t beyond_once = 0;
  for (int round = 0; round < 6'000; ++round) {
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Problem problem = test::any_problem(random, 7);
    if (random.chance(2)) problem = test::with_random_groups(random, problem, 3);
    problem.sms = static_cast<std::int32_t>(random.between(1, 3));
    const Table table = test::random_live_table(random, problem, dispatch);
    Timing timing = test::random_timing(random, problem);
    timing.memory = Memory{.l2 = random.between(1, 60),
                           .rate = random.between(1, 9),
                           .tile = {.q = random.between(0, 9),
                                    .dq = random.between(0, 9),
                                    .kv = random.between(0, 9),
                                    .gradient = random.between(0, 9)},
                           .add_permille = random.between(0, 1'500)};
    if (!sim::simulate(table, timing).complete) continue;
    const sim::MemoryPlay played = sim::play_memory(table, timing);
    const std::int64_t sms = resident_lanes(problem, timing.residency);
    const std::int64_t least = least_traffic(problem, *timing.memory, sms);
    CAPTURE(round, problem.heads, problem.heads_kv, problem.span, problem.sms, timing.residency);
    REQUIRE(played.read + played.written >= least);
    const std::int64_t all = least + additions(problem, *timing.memory);
    REQUIRE(played.makespan * timing.memory->rate >= all);
    ++played_tables;
    beyond_once += least > once(problem, *timing.memory) ? 1 : 0;
  }
  CHECK(played_tables > 1'000);
  CHECK(beyond_once > 50);
}

}  // namespace
}  // namespace stagger::dag
