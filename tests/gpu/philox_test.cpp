#include "gpu/numerics/philox.hpp"

#include "tests/support/catch.hpp"

#include <cmath>
#include <vector>

namespace stagger::gpu {
namespace {

using Words = std::vector<std::uint32_t>;

Words philox_words(PhiloxCounter counter, PhiloxKey key) {
  const PhiloxCounter out = philox(counter, key);
  return {std::begin(out.word), std::end(out.word)};
}

TEST_CASE("Philox-4x32-10 gives the known answers of its authors") {
  // Random123, kat_vectors: all bits 0, all bits 1, the digits of pi.
  CHECK(philox_words({{0, 0, 0, 0}}, {{0, 0}}) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_words({{~0U, ~0U, ~0U, ~0U}}, {{~0U, ~0U}}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                     {{0xa4093822, 0x299f31d0}}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("inputs are nearly normal, exact in 8 bits, and different in every stream and seed") {
  constexpr int kCount = 100'000;
  double sum = 0;
  double squares = 0;
  double with_next = 0;
  int equal_streams = 0;
  int equal_seeds = 0;
  float before = 0;
  for (int index = 0; index < kCount; ++index) {
    const float value = random_normal(7, 0, static_cast<std::uint64_t>(index));
    REQUIRE(std::abs(value) <= 3.4375F);
    REQUIRE(value * 64 == std::trunc(value * 64));
    sum += double{value};
    squares += double{value} * double{value};
    with_next += double{value} * double{before};
    before = value;
    equal_streams += value == random_normal(7, 1, static_cast<std::uint64_t>(index)) ? 1 : 0;
    equal_seeds += value == random_normal(8, 0, static_cast<std::uint64_t>(index)) ? 1 : 0;
  }
  CHECK(std::abs(sum / kCount) < 0.01);
  CHECK(std::abs(squares / kCount - 1.003) < 0.02);
  CHECK(std::abs(with_next / kCount) < 0.01);
  CHECK(equal_streams < kCount / 100);
  CHECK(equal_seeds < kCount / 100);
}

}  // namespace
}  // namespace stagger::gpu
