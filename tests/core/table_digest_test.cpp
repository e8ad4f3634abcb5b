#include "core/table_digest.hpp"

#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <set>
#include <string>
#include <vector>

namespace stagger {
namespace {

template <class Tile>
std::vector<Tile> shuffled(test::Random& random, std::int32_t tiles) {
  std::vector<Tile> names;
  for (Tile tile{0}; tile.value < tiles; ++tile.value)
    names.push_back(tile);
  random.shuffle(names);
  return names;
}

/// Other names for every head, and in every head other names for KV and Q tiles. Of a full mask the
/// table stays right.
Table renamed(const Table& table, test::Random& random) {
  const Problem& problem = table.problem;
  const auto heads = shuffled<Head>(random, problem.heads);
  std::vector<std::vector<KvTile>> kv;
  std::vector<std::vector<QTile>> q;
  for (Head head{0}; head.value < problem.heads; ++head) {
    kv.push_back(shuffled<KvTile>(random, problem.kv_tiles()));
    q.push_back(shuffled<QTile>(random, problem.q_tiles()));
  }
  Table other = table;
  for (Slot& slot : other.slots) {
    const auto head = static_cast<std::size_t>(slot.task.head.value);
    slot.task = {heads[head], kv[head][static_cast<std::size_t>(slot.task.kv.value)],
                 q[head][static_cast<std::size_t>(slot.task.q.value)]};
  }
  return other;
}

TEST_CASE("other names of heads and tiles are the same table, anything else is another") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    test::Random random(seed);
    const Problem problem =
        make_problem(make_mask("full"), {random.between(2, 6) * 16, random.between(2, 6) * 16},
                     {16, 16}, random.between(1, 3), random.between(2, 5));
    const Table table = test::random_table(random, problem, Dispatch::static_);
    const std::uint64_t digest = table_digest(table);
    CHECK(table_digest(renamed(table, random)) == digest);

    Table other = table;
    other.dispatch = Dispatch::in_order;
    CHECK(table_digest(other) != digest);
    other = table;
    other.slots.front().rank += 1;
    CHECK(table_digest(other) != digest);
    other = table;
    other.end_lane();
    CHECK(table_digest(other) != digest);
  }
}

TEST_CASE("a full tile and a partial one make two tables, wherever the tile is") {
  const auto digest = [](const std::vector<std::string>& rows) {
    const Problem problem = test::tiles_problem(rows, 2, 2);
    return table_digest(schedules::build(schedules::select("ascending"), problem));
  };
  const std::uint64_t full = digest({"fff", "fff"});
  CHECK(digest({"fff", "fff"}) == full);
  std::set<std::uint64_t> digests = {full};
  for (const char* row : {"pff", "fpf", "ffp", "ppf", "ppp"}) {
    digests.insert(digest({row, "fff"}));
    digests.insert(digest({"fff", row}));
  }
  CHECK(digests.size() == 11);
}

TEST_CASE("named schedules that build one table have one digest") {
  const auto digest = [](const char* name, const char* mask) {
    const Problem problem = make_problem(make_mask(mask), {256, 256}, {16, 16}, 3, 5);
    return table_digest(schedules::build(schedules::select(name), problem));
  };
  CHECK(digest("lpt-ascending", "full") == digest("grid-ascending", "full"));
  CHECK(digest("lpt-ascending", "full") == digest("spt", "full"));             // KV tiles mirrored
  CHECK(digest("lpt-ascending", "full") == digest("lpt-descending", "full"));  // Q tiles mirrored
  CHECK(digest("ascending", "full") != digest("lpt-ascending", "full"));
  CHECK(digest("lpt-ascending", "causal") != digest("spt", "causal"));
  CHECK(digest("lpt-ascending", "causal") != digest("lpt-descending", "causal"));
}

}  // namespace
}  // namespace stagger
