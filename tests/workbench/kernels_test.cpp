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
