// Masks that a plan is given: gradients are of pairs that are known.

#include "core/formats/mask_import.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/backward_plan.hpp"

#include <string>
#include <variant>

namespace stagger::workbench {
namespace {

std::string planned(const Mask& mask) {
  PlanRequest request{.mask = mask, .lengths = {256, 256}};
  request.batch = 1;
  request.heads_q = 2;
  request.heads_kv = 2;
  request.head_dim = 64;
  request.sms = 4;
  request.schedule = "spt";
  request.tile_q = 128;
  return test::said([&] {
    const auto made = plan_backward(request);
    return std::string(std::holds_alternative<BackwardPlan>(made) ? "planned" : "broken");
  });
}

Mask imported(const std::string& text) {
  return formats::read_mask_file(text, "mask", {.lengths = {256, 256}}).mask;
}

TEST_CASE("a plan takes no file's partial tiles for lower triangles") {
  const std::string ids = R"("BLOCK_SIZE": [128, 128], "kv_indices": [[[[0, 1], [1, 0]]]])";
  const Mask partial = imported("{" + ids + R"(, "kv_num_blocks": [[[1, 1]]]})");
  const std::string said = planned(partial);
  CAPTURE(said);
  CHECK(said.find("(flex) does not say which pairs attend in 4 partial tiles: give ") !=
        std::string::npos);
  // Full tiles are known, and so is a description of ours.
  CHECK(planned(imported("{" + ids + R"(, "kv_num_blocks": [[[0, 0]]], )" +
                         R"("full_kv_num_blocks": [[[1, 2]]], )" +
                         R"("full_kv_indices": [[[[0, 1], [0, 1]]]]})")) == "planned");
  CHECK(planned(parse_mask("tiles:rows=p.+fp")) == "planned");
}

TEST_CASE("a mask that is of tiles says which tiles its plan has") {
  const auto tile_of = [](const Mask& mask, const std::string& schedule) {
    PlanRequest request{.mask = mask, .lengths = {768, 768}};
    request.batch = 1;
    request.heads_q = 4;
    request.heads_kv = 2;
    request.head_dim = 64;
    request.schedule = schedule;
    return test::said([&] {
      const auto made = plan_backward(request);
      return std::to_string(std::get<BackwardPlan>(made).table.problem.shape.q);
    });
  };
  // The profile has Q tiles of 64, 80 and 128 at this head_dim.
  const auto causal = [](std::int64_t tile_q) {
    const Problem problem = make_problem(parse_mask("causal"), {768, 768}, {tile_q, 128}, 1, 1);
    return tiles_mask(problem.grids);
  };
  for (const std::string schedule : {"auto", "spt"}) {
    CHECK(tile_of(causal(64), schedule) == "64");
    CHECK(tile_of(causal(80), schedule) == "80");
    CHECK(tile_of(causal(128), schedule) == "128");
    CHECK_THAT(tile_of(causal(96), schedule), Catch::Contains("tiles: rows[0] has 8 tiles, not"));
  }
}

}  // namespace
}  // namespace stagger::workbench
