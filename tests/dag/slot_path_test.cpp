#include "dag/slot_path.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace stagger::dag {
namespace {

/// The rounds by pushing every task to the round after the one before it, in its lane's chain order
/// and in its accumulation, and the end of every chain behind that of the part before, until
/// nothing moves; nullopt if that never ends. The tasks of a chain move together.
std::optional<std::int64_t> pushed(const Table& table) {
  struct Placed {
    std::size_t chain = 0;
    std::int64_t position = 0;
  };
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> length;
  std::vector<bool> follows;
  std::map<std::tuple<Head, QTile, std::int32_t>, Placed> by_rank;
  std::map<std::tuple<std::int32_t, KvTile, std::int32_t>, std::size_t> by_part_rank;
  const std::int32_t group = table.problem.heads / table.problem.heads_kv;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (table.begins_chain(lane, slot)) {
        start.push_back(0);
        length.push_back(0);
        follows.push_back(slot > table.begin_of(lane));
      }
      const auto& [task, rank] = table.slots[slot];
      by_rank[{task.head, task.q, rank}] = {start.size() - 1, length.back()++};
      if (table.problem.combine != Combine::ordered) continue;
      by_part_rank[{task.head.value / group, task.kv, table.dkv_rank(task)}] = start.size() - 1;
    }
  }
  for (std::size_t round = 0; round <= start.size() + 1; ++round) {
    bool moved = false;
    const auto push = [&](std::size_t chain, std::int64_t to) {
      if (start[chain] >= to) return;
      start[chain] = to;
      moved = true;
    };
    for (std::size_t chain = 0; chain < start.size(); ++chain) {
      if (follows[chain]) push(chain, start[chain - 1] + length[chain - 1]);
    }
    for (const auto& [rank, placed] : by_rank) {
      const auto before =
          by_rank.find({std::get<0>(rank), std::get<1>(rank), std::get<2>(rank) - 1});
      if (before == by_rank.end()) continue;
      const Placed& other = before->second;
      push(placed.chain, start[other.chain] + other.position + 1 - placed.position);
    }
    for (const auto& [place, chain] : by_part_rank) {
      const auto& [kv_head, kv, rank] = place;
      const auto before = by_part_rank.find({kv_head, kv, rank - 1});
      if (before == by_part_rank.end()) continue;
      push(chain, start[before->second] + length[before->second] + 1 - length[chain]);
    }
    if (moved) continue;
    std::int64_t rounds = 0;
    for (std::size_t chain = 0; chain < start.size(); ++chain)
      rounds = std::max(rounds, start[chain] + length[chain]);
    return rounds;
  }
  return std::nullopt;
}

TEST_CASE("the rounds of a table are those that pushing its chains gives") {
  test::Random random(test::seed(41));
  std::int64_t fit = 0;
  std::int64_t cycles = 0;
  for (int round = 0; round < 2'000; ++round) {
    Problem problem = test::any_problem(random, 5);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 4);
    Table table = random.chance(2) ? test::random_live_table(random, problem, Dispatch::static_)
                                   : test::random_table(random, problem, Dispatch::static_);
    test::perhaps_shuffle_dkv_ranks(random, table);
    CAPTURE(round);
    const std::optional<std::int64_t> rounds = pushed(table);
    REQUIRE(slot_path(table) == rounds);
    ++(rounds ? fit : cycles);
  }
  CHECK(fit > 500);
  CHECK(cycles > 300);
}

}  // namespace
}  // namespace stagger::dag
