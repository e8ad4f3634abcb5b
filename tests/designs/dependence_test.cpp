#include "workbench/designs/dependence.hpp"

#include "tests/designs/played.hpp"
#include "tests/support/catch.hpp"
#include "workbench/designs/design.hpp"

#include <array>
#include <set>
#include <string>
#include <vector>

namespace stagger::designs {
namespace {

TEST_CASE("what bits move with is what moves the orders") {
  const Problem problem = causal(8, 4, 8);
  using Words = std::set<std::string>;
  const Words tiles = {"tile-q", "tile-kv"};
  CHECK(bits_of(played("two-pass", problem)) == tiles);
  CHECK(bits_of(played("two-pass:launches=2", problem)) == tiles);
  CHECK(bits_of(played("opentau", problem)) == Words{"tile-kv"});
  CHECK(bits_of(played("opentau:tile=4", problem)).empty());
  CHECK(bits_of(played("head-per-cta", problem)) == tiles);
  CHECK(bits_of(played("split", problem)) == Words{"tile-q", "tile-kv", "splits", "sms", "batch"});
  CHECK(bits_of(played("split:buffers=3", problem)) == Words{"tile-q", "tile-kv", "splits"});
  CHECK(bits_of(played("split-best", problem)).count("timing") == 1);
  // The launched schedules go by the mask alone; those that deal waves to SMs do not.
  for (const char* schedule : {"spt", "lpt-ascending", "lpt-descending", "grid-ascending"}) {
    CAPTURE(schedule);
    CHECK(bits_of(played("ordered", problem, schedule)) == Words{"tile-q", "tile-kv", "ranks"});
  }
  CHECK(bits_of(played("ordered", problem, "symmetric-shift")).count("sms") == 1);
  CHECK(bits_of(played("ordered", problem, "optimal")).count("timing") == 1);
}

TEST_CASE("what moves the orders of many tasks is found on fewer of them") {
  const Problem problem = causal(96, 240, 8);
  REQUIRE(problem.tasks() > 1 << 20);
  const auto words = [&](const char* schedule) {
    std::vector<const char*> bits;
    dependence_of(schedules::select(schedule), problem).add_to(bits);
    return std::set<std::string>(bits.begin(), bits.end());
  };
  CHECK(words("spt").empty());
  CHECK(words("symmetric-shift").count("sms") == 1);
  // A schedule of as many SMs as KV tiles has no table in larger tiles: then both may move them.
  const Problem square = make_problem(make_mask("causal"), {32'768, 32'768}, {128, 128}, 2, 256);
  const schedules::Selection blocks = schedules::select("head-blocks");
  REQUIRE_FALSE(schedules::why_unsupported(blocks, square));
  std::vector<const char*> bits;
  dependence_of(blocks, square).add_to(bits);
  CHECK(std::set<std::string>(bits.begin(), bits.end()) == std::set<std::string>{"sms", "batch"});
}

TEST_CASE("of a mask in many tiles the orders are those in larger ones") {
  const auto words = [](const char* schedule, std::int64_t tile) {
    const Problem problem = make_problem(make_mask("causal"), {32'768, 32'768}, {tile, tile}, 6, 8);
    std::vector<const char*> bits;
    dependence_of(schedules::select(schedule), problem).add_to(bits);
    return std::set<std::string>(bits.begin(), bits.end());
  };
  for (const char* schedule : {"spt", "symmetric-shift", "lpt-descending", "head-blocks"}) {
    CAPTURE(schedule);
    // 128 tiles a side, which are few enough, and 256, which are not.
    CHECK(words(schedule, 128) == words(schedule, 256));
  }
  CHECK(words("symmetric-shift", 128) != std::set<std::string>{"sms", "batch"});
}

TEST_CASE("a mask that is given in tiles is asked for its orders as it is, however many") {
  const std::vector<std::string> rows(200, std::string(200, 'f'));
  const Problem problem =
      make_problem(make_mask("tiles", {{"rows", rows}}), {200, 200}, {}, 2, 200);
  std::vector<const char*> bits;
  dependence_of(schedules::select("spt"), problem).add_to(bits);
  CHECK(bits.empty());
}

TEST_CASE("a mask that is made of others is cut anew as its parts are") {
  const auto problem = [](const char* mask) {
    return make_problem(parse_mask(mask), {64, 64}, {4, 4}, 1, 4);
  };
  const Problem whole = problem("sliding:left=3,right=0 | global:first=1");
  const Analysis cut = played("opentau:tile=2", whole);
  // Two diagonals of 2 x 2 tokens a query tile, a third where the window begins in one, and the
  // first key's tile, which the first two rows of tiles have anyway.
  CHECK(cut.plan.stages.front().problem.tasks() ==
        make_problem(whole.mask, {64, 64}, {2, 2}, 1, 4).tasks());
  CHECK(cut.plan.note == "tiles of 2 x 2 tokens");
  const Problem tiles = make_problem(parse_mask("tiles:rows=ff+ff & causal"), {8, 8}, {4, 4}, 1, 4);
  CHECK(why_unsupported(select("opentau:tile=2"), request_of(tiles)) ==
        "tile= cuts a mask of tokens anew; this one is of tiles");
}

TEST_CASE("orders are asked for with one more and one less, half, twice and one") {
  CHECK(other_counts(8) == std::array<std::int64_t, 5>{7, 9, 4, 16, 1});
  CHECK(other_counts(1) == std::array<std::int64_t, 5>{1, 2, 1, 2, 1});
  // What moves with another number of heads alone, and with none of these.
  const auto words = [](const char* schedule, const Problem& problem) {
    std::vector<const char*> bits;
    dependence_of(schedules::select(schedule), problem).add_to(bits);
    return std::set<std::string>(bits.begin(), bits.end());
  };
  CHECK(words("spt", causal(8, 4, 8)).empty());
  CHECK(words("optimal", causal(8, 4, 8)) == std::set<std::string>{"sms", "batch", "timing"});
}

}  // namespace
}  // namespace stagger::designs
