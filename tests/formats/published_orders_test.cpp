// Write orders that others have published, from masks and tables of ours: as FlashAttention-4's
// lists they are the tickets that its kernel hands out, and as ranks they are right or hang.

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/formats/write_order.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "workbench/tickets/document.hpp"
#include "workbench/tickets/lint.hpp"
#include "workbench/tickets/play.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace stagger::formats {
namespace {

void add_number(Bundle& bundle, const char* name, std::int64_t number) {
  NamedTensor named{.name = name};
  named.tensor = {.dtype = Dtype::int64, .shape = {}, .elements = {number}};
  bundle.tensors.push_back(std::move(named));
}

/// A causal mask of so many tokens in blocks of 256 queries and so many keys, whose kernel has
/// tiles of 128: groups of a KV block, of all, and of the last; lock values of the last Q tile.
struct CoarseBlocks {
  std::int64_t tokens;
  std::int64_t kv_block;
  std::int64_t groups;
  std::int64_t total;
  std::int64_t last;
  std::set<std::int32_t> locks = {};
};

const std::vector<CoarseBlocks> kCoarse = {{1152, 384, 3, 9, 3},
                                           {1024, 512, 2, 4, 2},
                                           {1023, 384, 3, 8, 2, {0, 1, 3, 4, 5, 6, 7, 8}},
                                           {641, 512, 2, 3, 1, {0, 2, 3}},
                                           {1793, 768, 3, 8, 2},
                                           {1089, 512, 2, 5, 1, {0, 2, 3, 4, 5}}};

/// The lists of the mask with the order of a launch downwards, as a file.
std::string coarse_lists(const CoarseBlocks& of) {
  const Problem problem = make_problem(make_mask("causal"), {of.tokens, of.tokens},
                                       {.q = 256, .kv = of.kv_block}, 1, 0);
  const Table table = schedules::build(schedules::select("fa4-sparse:spt=1"), problem);
  std::vector<std::string> notes;
  Bundle bundle =
      export_mask(problem, *find_export_format("fa4"), Ragged::in_bounds, &table, notes);
  CHECK(notes.empty());
  add_number(bundle, "q_subtile", 2);
  add_number(bundle, "groups", of.groups);
  add_number(bundle, "group_total", of.total);
  add_number(bundle, "q_tiles", (of.tokens + 127) / 128);
  return write_bundle(std::move(bundle), "x.npz");
}

TEST_CASE("12: causal masks in coarse blocks are the tickets of FlashAttention-4's kernel") {
  for (const CoarseBlocks& of : kCoarse) {
    CAPTURE(of.tokens, of.kv_block);
    const std::string file = coarse_lists(of);
    CHECK(tickets::lint(file, "x.npz", {}).findings.empty());
    tickets::Tickets tickets = tickets::read_document(file, "x.npz").tickets;
    CHECK(tickets.programs() == of.total);
    std::set<std::int32_t> locks;
    std::int32_t bridge = 1;
    for (const tickets::Step& step : tickets.steps) {
      if (step.task.q.value == (of.tokens + 127) / 128 - 1) locks.insert(step.wait);
      bridge = std::max(bridge, step.add);
    }
    if (!of.locks.empty()) CHECK(locks == of.locks);
    CHECK(bridge == 1 + of.groups - of.last);
    for (const std::int32_t residency : {std::int32_t{1}, tickets.programs()}) {
      tickets.residency = residency;
      CHECK_FALSE(tickets::play(tickets).hangs);
    }
    for (tickets::Step& step : tickets.steps)
      step.add = 1;
    CHECK(tickets::play(tickets).hangs == (of.last < of.groups));
  }
}

TEST_CASE("11: KV blocks of four tiles that are all live have the turns of all of their tiles") {
  const Problem problem = make_problem(make_mask("full"), {384, 1024}, {.q = 256, .kv = 512}, 1, 0);
  const Table table = schedules::build(schedules::select("fa4-sparse"), problem);
  std::vector<std::string> notes;
  Bundle bundle =
      export_mask(problem, *find_export_format("fa4"), Ragged::in_bounds, &table, notes);
  CHECK(bundle.at("backward.full_block_cnt").elements == std::vector<std::int64_t>{2, 2});
  add_number(bundle, "q_subtile", 2);
  add_number(bundle, "groups", 4);
  add_number(bundle, "q_tiles", 3);
  const std::string file = write_bundle(std::move(bundle), "x.npz");
  CHECK(tickets::lint(file, "x.npz", {.residency = 1}).findings.empty());
  const tickets::Tickets tickets = tickets::read_document(file, "x.npz").tickets;
  CHECK(tickets.programs() == 8);
  REQUIRE(tickets.steps.size() == 24);
  for (const tickets::Step& step : tickets.steps) {
    CHECK(step.wait == step.task.kv.value);
    CHECK(step.add == 1);
  }
}

TEST_CASE("22: ranks are counted over the tiles that are live, or the first of them hangs") {
  const Problem problem = make_problem(
      make_mask("tiles", {{"rows", std::vector<std::string>{".", "f", "f", "f", "f"}}}), {1, 5}, {},
      1, 0);
  Table table = schedules::build(schedules::select("fa4-sparse"), problem);
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::ok);
  const WriteOrder order = write_order_of(table, problem.common_grid());
  CHECK(order.full.ranks == std::vector<std::vector<std::int64_t>>{{}, {0}, {1}, {2}, {3}});
  use_kv_index_ranks(table);  // 1 to 4
  CHECK(dag::verify(table, {}).verdict == dag::Verdict::deadlock);
  CHECK_THROWS_WITH(write_order_of(table, problem.common_grid()),
                    Catch::Contains("the ranks of head 0, q 0 are not 0 to 3"));
}

}  // namespace
}  // namespace stagger::formats
