#include "workbench/kernels.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "workbench/time_model.hpp"

namespace stagger::workbench {
namespace {

TEST_CASE("kernels are found by their names, and of an unknown one the nearest is told") {
  REQUIRE(kernels().size() == 3);
  for (const Kernel& kernel : kernels())
    CHECK(&kernel_of(kernel.name) == &kernel);
  CHECK_THROWS_WITH(kernel_of("hoper"),
                    Catch::Contains("unknown kernel 'hoper'; did you mean hopper"));
  CHECK(kernel_key("replay", "fp32", 64) == KernelKey{.kernel = "replay"});
  CHECK(kernel_key("portable", "bf16", 64) ==
        KernelKey{.kernel = "portable", .dtype = "bf16", .head_dim = 64});
  CHECK(kernel_key("somebody's", "bf16", 8) ==
        KernelKey{.kernel = "somebody's", .dtype = "bf16", .head_dim = 8});
}

TEST_CASE("a task of 128 queries is two steps where head_dim leaves no room for one") {
  const auto steps = [](std::int64_t head_dim, std::int64_t tile_q) {
    return kernel_of("hopper").steps(head_dim, {.q = tile_q, .kv = 128});
  };
  for (const std::int64_t head_dim : {64, 128}) {
    CHECK(steps(head_dim, 64) == 1);
    CHECK(steps(head_dim, 80) == 1);
  }
  CHECK(steps(64, 128) == 1);
  CHECK(steps(128, 128) == 2);
  CHECK(steps(128, 96) == 1);  // tiles that it does not run
  CHECK(kernel_of("portable").steps == nullptr);
}

TEST_CASE("ticks are scaled to ns each, and a partial tile only where it has its own") {
  const Timing ns =
      in_ns({.compute = 3, .reduce = 2, .latency = 5, .launch = 7, .epilogue = 11}, 10);
  CHECK(ns.compute == 30);
  CHECK_FALSE(ns.compute_partial.has_value());
  CHECK(ns.reduce == 20);
  CHECK(ns.latency == 50);
  CHECK(ns.launch == 70);
  CHECK(ns.epilogue == 110);
  CHECK(in_ns({.compute_partial = 4}, 10).compute_partial == 40);
  constexpr Ticks kMost = Ticks{1} << 60;
  CHECK(in_ns({.compute = kMost / 10}, 10).compute == kMost / 10 * 10);
  CHECK_THROWS_AS(in_ns({.compute = kMost / 10 + 1}, 10), Error);
}

}  // namespace
}  // namespace stagger::workbench
