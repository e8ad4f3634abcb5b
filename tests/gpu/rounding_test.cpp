#include "gpu/numerics/rounding.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace stagger::gpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A 16-bit format, and its numbers as the standard defines them.
struct Format {
  Dtype dtype;
  int fraction_bits;
  std::uint16_t infinity;
  std::uint16_t (*bits)(float);
  float (*number)(std::uint16_t);

  /// Takes a number that is positive and finite.
  [[nodiscard]] double defined(std::uint16_t bits_of) const {
    const int bias = (1 << (14 - fraction_bits)) - 1;
    const int exponent = bits_of >> fraction_bits;
    const int fraction = bits_of & ((1 << fraction_bits) - 1);
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    return std::ldexp(significand, std::max(exponent, 1) - bias - fraction_bits);
  }
};

constexpr Format kFormats[] = {{Dtype::bf16, 7, 0x7f80, bf16_bits, from_bf16},
                               {Dtype::fp16, 10, 0x7c00, fp16_bits, from_fp16}};

void check_both_signs(const Format& format, float value, std::uint16_t expected) {
  CAPTURE(dtype_name(format.dtype), value, expected);
  REQUIRE(format.bits(value) == expected);
  REQUIRE(format.bits(-value) == (expected | 0x8000));
  REQUIRE(std::bit_cast<std::uint32_t>(rounded(-value, format.dtype)) ==
          std::bit_cast<std::uint32_t>(-format.number(expected)));
}

TEST_CASE("every number of a 16-bit format is what the standard says, and rounds to itself") {
  for (const Format& format : kFormats) {
    for (std::uint16_t bits = 0; bits < format.infinity; ++bits) {
      REQUIRE(double{format.number(bits)} == format.defined(bits));
      check_both_signs(format, format.number(bits), bits);
    }
    check_both_signs(format, kInfinity, format.infinity);
    REQUIRE(format.number(format.infinity) == kInfinity);
    for (int bits = format.infinity + 1; bits < 0x8000; ++bits) {
      const float nan = format.number(static_cast<std::uint16_t>(bits));
      REQUIRE(std::isnan(nan));
      check_both_signs(format, nan, 0x7fff);
    }
  }
}

/// Rounding is monotone, so that the places where it changes say all of it.
TEST_CASE("between two numbers of a format, halves go to the even one and others to the nearest") {
  std::int64_t ties = 0;
  for (const Format& format : kFormats) {
    for (std::uint16_t below = 0; below < format.infinity; ++below) {
      const auto above = static_cast<std::uint16_t>(below + 1);
      // Beyond the largest number comes what would be the next one, and rounds to infinity.
      const double middle = (format.defined(below) + format.defined(above)) / 2;
      const auto tie = static_cast<float>(middle);
      REQUIRE(double{tie} == middle);
      check_both_signs(format, tie, below % 2 == 0 ? below : above);
      check_both_signs(format, std::nextafter(tie, 0.0F), below);
      check_both_signs(format, std::nextafter(tie, kInfinity), above);
      ++ties;
    }
  }
  CHECK(ties == 0x7f80 + 0x7c00);
}

TEST_CASE("rounding is monotone and off by half a unit at most") {
  test::Random random(20260505);
  for (const Format& format : kFormats) {
    for (int round = 0; round < 200'000; ++round) {
      const auto bits = static_cast<std::uint32_t>(random.between(0, 0x7f7fffff));
      const auto value = std::bit_cast<float>(bits);
      const std::uint16_t got = format.bits(value);
      REQUIRE(got <= format.bits(std::nextafter(value, kInfinity)));
      if (got >= format.infinity) continue;
      const double unit = format.defined(got) - format.defined(got == 0 ? 0 : got - 1);
      const double next = format.defined(got + 1) - format.defined(got);
      REQUIRE(std::abs(double{value} - format.defined(got)) <= std::max(unit, next) / 2);
    }
  }
}

TEST_CASE("fp32 is not rounded") {
  CHECK(rounded(0x1.fffffep-3F, Dtype::fp32) == 0x1.fffffep-3F);
  CHECK(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN(), Dtype::fp32)));
}

}  // namespace
}  // namespace stagger::gpu
