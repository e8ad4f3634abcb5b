#include "gpu/hopper/shape.hpp"
#include "tests/support/catch.hpp"

#include <vector>

namespace stagger::gpu::hopper {
namespace {

TEST_CASE("a step's dQ in the order of its threads has every element once") {
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.head_dim, shape.step_q);
    CHECK(shape.steps() * shape.step_q == shape.tile_q);
    const std::int32_t elements = shape.head_dim * shape.step_q;
    std::vector<bool> seen(static_cast<std::size_t>(elements));
    for (std::int32_t element = 0; element < elements; ++element) {
      const DqPlace place = dq_place(shape.head_dim, shape.step_q, element);
      REQUIRE(place.query >= 0);
      REQUIRE(place.query < shape.step_q);
      REQUIRE(place.dim >= 0);
      REQUIRE(place.dim < shape.head_dim);
      const auto index = static_cast<std::size_t>(place.query * shape.head_dim + place.dim);
      REQUIRE_FALSE(seen[index]);
      seen[index] = true;
    }
    CHECK(dq_sums_of_thread(shape.head_dim, shape.step_q) * 256 == elements);
  }
}

TEST_CASE("a tile's dK in the order of its threads has every element once, each warp's together") {
  for (const std::int32_t head_dim : {64, 128}) {
    const std::int32_t elements = kTileKv * head_dim;
    std::vector<bool> seen(static_cast<std::size_t>(elements));
    for (std::int32_t element = 0; element < elements; ++element) {
      const DkvPlace place = dkv_place(head_dim, element);
      REQUIRE(place.key / 16 == element / (elements / 8));
      REQUIRE(place.dim >= 0);
      REQUIRE(place.dim < head_dim);
      const auto index = static_cast<std::size_t>(place.key * head_dim + place.dim);
      REQUIRE_FALSE(seen[index]);
      seen[index] = true;
    }
  }
}

TEST_CASE("a warpgroup's half of a step's dQ is one piece") {
  for (const Shape& shape : kShapes) {
    const std::int32_t elements = shape.head_dim * shape.step_q;
    const DqSplit split = dq_split(shape.head_dim, shape.step_q);
    const bool by_query = split == DqSplit::queries || split == DqSplit::columns_of_dims;
    for (std::int32_t element = 0; element < elements; ++element) {
      const DqPlace place = dq_place(shape.head_dim, shape.step_q, element);
      const std::int32_t half = 2 * element / elements;
      const std::int32_t expected =
          by_query ? 2 * place.query / shape.step_q : 2 * place.dim / shape.head_dim;
      REQUIRE(half == expected);
    }
  }
}

}  // namespace
}  // namespace stagger::gpu::hopper
