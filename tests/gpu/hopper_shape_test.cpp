#include "gpu/hopper_shape.hpp"

#include "tests/support/catch.hpp"

#include <vector>

namespace stagger::gpu {
namespace {

TEST_CASE("a tile's dQ in the order of its threads has every element once") {
  for (const HopperShape& shape : kHopperShapes) {
    CAPTURE(shape.head_dim, shape.tile_q);
    const std::int32_t elements = shape.head_dim * shape.tile_q;
    std::vector<bool> seen(static_cast<std::size_t>(elements));
    for (std::int32_t element = 0; element < elements; ++element) {
      const DqPlace place = dq_place(shape, element);
      REQUIRE(place.query >= 0);
      REQUIRE(place.query < shape.tile_q);
      REQUIRE(place.dim >= 0);
      REQUIRE(place.dim < shape.head_dim);
      const auto index = static_cast<std::size_t>(place.query * shape.head_dim + place.dim);
      REQUIRE_FALSE(seen[index]);
      seen[index] = true;
    }
    CHECK(dq_sums_of_thread(shape) * 256 == elements);
  }
}

TEST_CASE("a warpgroup's half of a tile's dQ is one piece") {
  for (const HopperShape& shape : kHopperShapes) {
    const std::int32_t elements = shape.head_dim * shape.tile_q;
    for (std::int32_t element = 0; element < elements; ++element) {
      const DqPlace place = dq_place(shape, element);
      const std::int32_t half = 2 * element / elements;
      const bool by_query = dq_split(shape) == DqSplit::queries;
      const std::int32_t expected =
          by_query ? 2 * place.query / shape.tile_q : 2 * place.dim / shape.head_dim;
      REQUIRE(half == expected);
    }
  }
}

}  // namespace
}  // namespace stagger::gpu
