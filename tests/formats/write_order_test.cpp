#include "core/formats/write_order.hpp"

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/index.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

#include <string>

namespace stagger::formats {
namespace {

using Elements = std::vector<std::int64_t>;

Table built(const char* schedule, const char* mask, std::int64_t n, std::int64_t tile,
            std::int64_t heads = 1) {
  return schedules::build(
      schedules::select(schedule),
      make_problem(parse_mask(mask), {n * tile, n * tile}, {tile, tile}, heads, 0));
}

std::string refusal(const Table& table) {
  try {
    static_cast<void>(write_order_of(table, table.problem.common_grid()));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unsupported);
    const std::string what = error.what();
    const std::string before = "FlashAttention-4 cannot run the table: ";
    REQUIRE(what.starts_with(before));
    return what.substr(before.size());
  }
  return "";
}

/// A table of one lane for each KV tile, slots as (q, rank).
Table by_hand(const char* rows, const std::vector<std::vector<std::pair<int, int>>>& lanes) {
  const auto n = static_cast<std::int64_t>(lanes.size());
  Table table;
  table.problem = make_problem(parse_mask(std::string("tiles:rows=") + rows), {n, n}, {}, 1, 0);
  table.dispatch = Dispatch::in_order;
  for (std::int32_t kv = 0; kv < n; ++kv) {
    for (const auto& [q, rank] : lanes[at(kv)])
      table.slots.push_back({{Head{0}, KvTile{kv}, QTile{q}}, rank});
    table.end_lane();
  }
  return table;
}

TEST_CASE("FlashAttention-4's own order has the lock values that it computes") {
  // formats.md: 16 tokens, tiles of 2, left 5.
  const WriteOrder up =
      write_order_of(built("fa4-sparse", "sliding:left=5,right=0", 8, 2),
                     built("fa4-sparse", "sliding:left=5,right=0", 8, 2).problem.common_grid());
  CHECK_FALSE(up.spt);
  CHECK(up.heads == 1);
  CHECK(up.notes.empty());
  CHECK(up.partial.ids[3] == Elements{3, 6});
  CHECK(up.full.ids[3] == Elements{4, 5});
  CHECK(up.partial.ranks ==
        std::vector<Elements>{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {3, 0}, {3}, {3}, {3}});
  CHECK(up.full.ranks ==
        std::vector<Elements>{{0, 0}, {1, 1}, {2, 1}, {2, 1}, {2, 1}, {2, 1}, {2}, {}});
}

TEST_CASE("launched downwards it is spt") {
  Table table = by_hand("ff+ff", {{{0, 1}, {1, 1}}, {{0, 0}, {1, 0}}});
  CHECK(write_order_of(table, table.problem.common_grid()).notes.size() == 1);
  // The same with the lanes the other way round.
  std::swap(table.slots[0], table.slots[2]);
  std::swap(table.slots[1], table.slots[3]);
  const WriteOrder order = write_order_of(table, table.problem.common_grid());
  CHECK(order.spt);
  CHECK(order.notes.empty());
  CHECK(order.full.ranks == std::vector<Elements>{{1, 1}, {0, 0}});
}

TEST_CASE("any order of a chain's tiles within a class is written by the lists") {
  const Table table = by_hand("pf+ff", {{{0, 0}, {1, 0}}, {{1, 1}, {0, 1}}});
  const WriteOrder order = write_order_of(table, table.problem.common_grid());
  CHECK(order.partial.ids == std::vector<Elements>{{0}, {}});
  CHECK(order.full.ids == std::vector<Elements>{{1}, {1, 0}});
  CHECK(order.full.ranks == std::vector<Elements>{{0}, {1, 1}});
  std::vector<std::string> notes;
  const Bundle bundle =
      export_mask(table.problem, *find_export_format("fa4"), Ragged::in_bounds, &table, notes);
  CHECK(bundle.at("backward.full_block_idx") == Tensor{Dtype::int32, {1, 1, 2, 2}, {1, 0, 1, 0}});
  CHECK(bundle.at("backward.dq_write_order_full") ==
        Tensor{Dtype::int32, {1, 1, 2, 2}, {0, 0, 1, 1}});
  CHECK(bundle.at("backward.dq_write_order") == Tensor{Dtype::int32, {1, 1, 2, 1}, {0, 0}});
  CHECK(bundle.at("backward.spt").elements == Elements{0});
}

TEST_CASE("a table that FlashAttention-4 cannot run is refused with the condition that fails") {
  CHECK(refusal(by_hand("pf+ff", {{{1, 0}, {0, 0}}, {{0, 1}, {1, 1}}}))
            .find("(head 0, kv 0, q 0) is partial and comes behind a full tile") !=
        std::string::npos);
  CHECK(refusal(by_hand("ff+ff", {{{0, 0}, {1, 0}}, {{0, 2}, {1, 1}}})) ==
        "the ranks of head 0, q 0 are not 0 to 1");
  CHECK(refusal(by_hand("ff+ff", {{{0, 0}}, {{0, 1}, {1, 0}}})) ==
        "the chain of head 0, kv 0 does not have each of its 2 live tiles once");
  CHECK(refusal(by_hand(
            "fff+fff+fff",
            {{{0, 0}, {1, 0}, {0, 1}}, {{0, 2}, {1, 1}, {2, 0}}, {{0, 3}, {1, 2}, {2, 1}}})) ==
        "the chain of head 0, kv 0 does not have each of its 3 live tiles once");
  CHECK(refusal(by_hand("f.+ff", {{{0, 0}, {1, 0}}, {{0, 1}, {1, 1}}})) ==
        "(head 0, kv 0, q 1) is no live tile");
  Table three = by_hand("f..+f..+f..", {{{0, 0}}, {{0, 1}}, {{0, 2}}});
  std::swap(three.slots[0], three.slots[1]);
  CHECK(refusal(three).find("launched kv 0 before kv 2, and others the other way round") !=
        std::string::npos);
  three = by_hand("f..+f..+f..", {{{0, 0}}, {{0, 1}}, {{0, 2}}});
  CHECK(refusal(three).empty());
}

TEST_CASE("ranks that need more CTAs at once are written, and said") {
  const Table table = built("shift", "full", 4, 1, 2);
  const WriteOrder order = write_order_of(table, table.problem.common_grid());
  CHECK(order.heads == 1);
  REQUIRE(order.notes.size() == 1);
  CHECK(
      order.notes.front().find("the ranks do not go with the launch, first at head 0, kv 0, q 1") !=
      std::string::npos);
}

TEST_CASE("a task that is none of the problem's is refused, whether it begins a chain or not") {
  const auto with = [](std::size_t slot, Task task) {
    Table table = by_hand("ff+ff", {{{0, 0}, {1, 0}}, {{0, 1}, {1, 1}}});
    table.slots[static_cast<std::int64_t>(slot)].task = task;
    return refusal(table);
  };
  CHECK(with(2, {Head{5}, KvTile{1}, QTile{0}}) == "(head 5, kv 1, q 0) is no task of the problem");
  CHECK(with(2, {Head{0}, KvTile{2}, QTile{0}}) == "(head 0, kv 2, q 0) is no task of the problem");
  CHECK(with(3, {Head{0}, KvTile{1}, QTile{2}}) == "(head 0, kv 1, q 2) is no live tile");
}

TEST_CASE("a chain in two pieces is refused, even where each is a CTA of its own") {
  Table table = by_hand("ff+ff", {{{0, 0}}, {{0, 1}, {1, 0}}});
  table.slots.push_back({{Head{0}, KvTile{0}, QTile{1}}, 1});
  table.end_lane();
  CHECK(refusal(table) == "the chain of head 0, kv 0 is in two pieces; a CTA has all of it");
}

TEST_CASE("the write order of masks by head is of every head's own tiles") {
  const Table table = schedules::build(
      schedules::select("fa4-sparse"),
      make_problem(parse_mask("heads; causal; sliding:left=5,right=0"), {16, 16}, {2, 2}, 4, 0));
  const WriteOrder order = write_order_of(table, table.problem.grids);
  CHECK(order.heads == 4);
  for (const Head head : {Head{0}, Head{1}, Head{2}, Head{3}}) {
    const Mask& own = mask_of(table.problem.mask, head);
    const WriteOrder alone = write_order_of(built("fa4-sparse", mask_words(own).c_str(), 8, 2),
                                            table.problem.grid_of(head));
    for (std::size_t kv = 0; kv < 8; ++kv) {
      CAPTURE(head.value, kv);
      const std::size_t row = at(head.value * 8) + kv;
      CHECK(order.partial.ids[row] == alone.partial.ids[kv]);
      CHECK(order.partial.ranks[row] == alone.partial.ranks[kv]);
      CHECK(order.full.ids[row] == alone.full.ids[kv]);
      CHECK(order.full.ranks[row] == alone.full.ranks[kv]);
    }
  }
}

}  // namespace
}  // namespace stagger::formats
