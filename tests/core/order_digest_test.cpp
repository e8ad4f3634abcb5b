#include "core/order_digest.hpp"

#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace stagger {
namespace {

Table built(const char* schedule, const char* mask, std::int32_t heads, std::int32_t sms,
            Lengths lengths = {256, 256}, TileShape tile = {16, 32}) {
  return schedules::build(schedules::select(schedule),
                          make_problem(parse_mask(mask), lengths, tile, heads, sms));
}

std::uint64_t digest(const Table& table) {
  return order_digest(table, 1, 64);
}

/// The orders of one head, spelled out: KV tiles by rank of every Q tile, Q tiles along the chain
/// of every KV tile.
std::string spelled(const Table& table, std::int32_t head) {
  std::map<std::int32_t, std::map<std::int32_t, std::int32_t>> by_rank;
  std::map<std::int32_t, std::vector<std::int32_t>> chains;
  for (const auto& [task, rank] : table.slots) {
    if (task.head.value != head) continue;
    by_rank[task.q.value][rank] = task.kv.value;
    chains[task.kv.value].push_back(task.q.value);
  }
  std::string text;
  const auto add = [&text](char before, std::int32_t number) {
    text += before;
    text += std::to_string(number);
  };
  for (const auto& [q, tiles] : by_rank) {
    add('q', q);
    for (const auto& [rank, kv] : tiles)
      add(' ', kv);
  }
  for (const auto& [kv, tiles] : chains) {
    add('k', kv);
    for (const std::int32_t q : tiles)
      add(' ', q);
  }
  return text;
}

/// Another table with the same orders: lanes in another order, under other SMs.
Table shuffled_lanes(const Table& table, test::Random& random) {
  std::vector<Lane> lanes;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane)
    lanes.push_back(lane);
  random.shuffle(lanes);
  Table other{.name = table.name, .problem = table.problem, .dispatch = Dispatch::in_order};
  for (const Lane lane : lanes) {
    for (const Slot& slot : table.lane(lane))
      other.slots.push_back(slot);
    other.end_lane();
  }
  return other;
}

TEST_CASE("an order digest is blind to lanes and SMs, and to nothing else of an order") {
  std::int64_t cases = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const Problem problem = make_problem(make_mask(seed % 2 == 0 ? "full" : "causal"),
                                         {random.between(2, 6) * 16, random.between(2, 6) * 16},
                                         {16, 16}, random.between(1, 3), random.between(2, 5));
    const Table table = test::random_table(random, problem, Dispatch::static_);
    const std::uint64_t own = digest(table);
    CHECK(digest(shuffled_lanes(table, random)) == own);
    CHECK(order_digest(table, 2, 64) != own);
    CHECK(order_digest(table, 1, 128) != own);
    // Two ranks of a tile, exchanged.
    Table other = table;
    for (std::int64_t left = 0; left < std::ssize(other.slots); ++left) {
      for (std::int64_t right = 0; right < left; ++right) {
        Slot& a = other.slots[left];
        Slot& b = other.slots[right];
        if (a.task.head != b.task.head || a.task.q != b.task.q) continue;
        std::swap(a.rank, b.rank);
        REQUIRE(digest(other) != own);
        std::swap(a.rank, b.rank);
        ++cases;
      }
    }
    // Two neighbours of a chain, exchanged.
    for (Lane lane{0}; lane.value < other.lanes(); ++lane) {
      for (std::int64_t slot = other.begin_of(lane) + 1; slot < other.end_of(lane); ++slot) {
        if (other.begins_chain(lane, slot)) continue;
        std::swap(other.slots[slot - 1], other.slots[slot]);
        REQUIRE(digest(other) != own);
        std::swap(other.slots[slot - 1], other.slots[slot]);
        ++cases;
      }
    }
  }
  CHECK(cases > 3000);
}

TEST_CASE("heads have as many orders as there are when they are spelled out") {
  const char* const kSchedules[] = {"ascending", "descending",      "grid-ascending",
                                    "spt",       "lpt-descending",  "lpt-ascending",
                                    "shift",     "symmetric-shift", "fa4-sparse"};
  std::int64_t cases = 0;
  for (const char* mask : {"full", "causal", "sliding:left=70,right=0"}) {
    for (const char* schedule : kSchedules) {
      for (const std::int32_t heads : {1, 2, 5}) {
        for (const std::int32_t sms : {3, 4, 6, 7, 8, 16}) {
          CAPTURE(mask, schedule, heads, sms);
          const Problem problem = make_problem(parse_mask(mask), {256, 256}, {32, 32}, heads, sms);
          const schedules::Selection selection = schedules::select(schedule);
          if (schedules::why_unsupported(selection, problem)) continue;
          const Table table = schedules::build(selection, problem);
          std::set<std::string> orders;
          for (std::int32_t head = 0; head < heads; ++head)
            orders.insert(spelled(table, head));
          CHECK(head_orders(table).distinct == std::ssize(orders));
          ++cases;
        }
      }
    }
  }
  CHECK(cases > 200);
}

TEST_CASE("schedules by launch order have one order for every head, count of heads and of SMs") {
  for (const char* schedule : {"ascending", "descending", "grid-ascending", "lpt-ascending",
                               "lpt-descending", "spt", "fa4-sparse"}) {
    for (const char* mask : {"full", "causal", "sliding:left=70,right=0"}) {
      CAPTURE(schedule, mask);
      const HeadOrders alone = head_orders(built(schedule, mask, 1, 4));
      for (const std::int32_t heads : {1, 2, 17}) {
        for (const std::int32_t sms : {3, 8, 13}) {
          const HeadOrders orders = head_orders(built(schedule, mask, heads, sms));
          CHECK(orders.distinct == 1);
          CHECK(orders.first == alone.first);
        }
      }
    }
  }
}

TEST_CASE("tiles are part of an order digest") {
  const std::uint64_t own = digest(built("spt", "full", 2, 4, {128, 128}, {16, 32}));
  CHECK(digest(built("spt", "full", 2, 4, {128, 128}, {16, 64})) != own);
  CHECK(digest(built("spt", "full", 2, 4, {256, 256}, {32, 64})) != own);  // as many tiles
  CHECK(digest(built("spt", "full", 3, 4, {128, 128}, {16, 32})) != own);
  CHECK(digest(built("spt", "full", 2, 5, {128, 128}, {16, 32})) == own);
}

TEST_CASE("the first head's order is told from another's, whatever comes behind it") {
  const HeadOrders up = head_orders(built("ascending", "causal", 1, 4));
  const HeadOrders down = head_orders(built("descending", "causal", 1, 4));
  CHECK(up.first != down.first);
  CHECK(head_orders(built("ascending", "causal", 3, 4)).first == up.first);
  CHECK(head_orders(built("descending", "causal", 3, 4)).first == down.first);
}

}  // namespace
}  // namespace stagger
