#include "gpu/cuda/load_latency.hpp"

#include "tests/support/catch.hpp"

namespace stagger::gpu {
namespace {

TEST_CASE("device memory answers later than the L2 cache") {
  const LoadLatency load = load_latency_on_cuda();
  CAPTURE(load.l2, load.memory);
  CHECK(load.l2 >= 50);
  CHECK(load.memory >= load.l2 + 50);
  CHECK(load.memory <= 3'000);
}

}  // namespace
}  // namespace stagger::gpu
