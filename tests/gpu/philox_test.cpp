#include "gpu/numerics/philox.hpp"

#include "tests/support/catch.hpp"

#include <cmath>
#include <vector>

namespace stagger::gpu {
namespace {

using Words = std::vector<std::uint32_t>;

Words philox_words(PhiloxCounter counter, PhiloxKey key, int rounds = 10) {
  const PhiloxCounter out = philox(counter, key, rounds);
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

TEST_CASE("Philox-4x32 of fewer rounds gives known answers too") {
  // Random123, kat_vectors, for 7 rounds; computed apart, for 5 and 3.
  CHECK(philox_words({{0, 0, 0, 0}}, {{0, 0}}, 7) ==
        Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  CHECK(philox_words({{~0U, ~0U, ~0U, ~0U}}, {{~0U, ~0U}}, 7) ==
        Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
  CHECK(philox_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}},
                     7) == Words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
  CHECK(philox_words({{0, 0, 0, 0}}, {{0, 0}}, 5) ==
        Words{0xf10446c0, 0xc841128b, 0x23f43d26, 0x6cb9f044});
  CHECK(philox_words({{0, 0, 0, 0}}, {{0, 0}}, 3) ==
        Words{0xaae8eb44, 0x02719033, 0xf734f9c9, 0x4942ddfb});
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
