#include "core/wait.hpp"

#include "tests/support/catch.hpp"

namespace stagger {
namespace {

TEST_CASE("who waits for whom is said in a line each, by SMs or by CTAs") {
  const Wait wait{.lane = Lane{3},
                  .task = {Head{1}, KvTile{2}, QTile{4}},
                  .rank = 5,
                  .value = 6,
                  .for_task = {Head{1}, KvTile{7}, QTile{4}},
                  .for_rank = 8,
                  .for_lane = Lane{9}};
  Wait same = wait;
  same.for_lane = same.lane;
  Wait never = wait;
  never.promised = false;
  Wait chain = wait;
  chain.dkv = true;
  chain.kv_head = KvHead{10};
  Wait out{.lane = Lane{3}, .launched = false, .for_lane = Lane{9}};
  const std::string at = "SM 3 is at " + describe(wait.task);
  const std::string first =
      ": " + describe(wait.for_task) + ", rank 8, must reduce first, and that is ";
  const std::string shows = " and waits for lock value 5 of dQ(head 1, q 4), which shows 6";
  CHECK(describe({wait, same, never, chain, out}, Dispatch::static_) ==
        std::vector<std::string>{
            at + shows + first + "on SM 9", at + shows + first + "behind it on the same SM",
            at + shows + "; no task ever brings that value",
            "SM 3 is behind " + describe(wait.task) +
                " and waits for lock value 5 of dK, dV(KV head 10, kv 2), which shows 6: the chain "
                "of " +
                describe(wait.for_task) + ", rank 8, must reduce first, and that is on SM 9",
            "SM 3 is not launched: it waits for an SM, and SM 9 holds one"});
  CHECK(describe({same, out}, Dispatch::in_order) ==
        std::vector<std::string>{
            "CTA 3 is at " + describe(wait.task) + shows + first + "behind it on the same CTA",
            "CTA 3 is not launched: it waits for an SM, and CTA 9 holds one"});
  CHECK(describe(std::vector<Wait>{}, Dispatch::static_).empty());
}

}  // namespace
}  // namespace stagger
