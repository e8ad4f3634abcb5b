#include "gpu/cuda/copy_rate.hpp"

#include "tests/support/catch.hpp"

namespace stagger::gpu {
namespace {

TEST_CASE("a copy moves what device memory of a GPU of today can") {
  const std::int64_t rate = copy_bytes_per_ns_on_cuda();
  CAPTURE(rate);
  CHECK(rate >= 100);
  CHECK(rate <= 8'000);
}

}  // namespace
}  // namespace stagger::gpu
