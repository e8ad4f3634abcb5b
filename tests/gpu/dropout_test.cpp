#include "gpu/numerics/dropout.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace stagger::gpu {
namespace {

DropoutRule rule(std::uint64_t seed, std::uint64_t offset) {
  return {.key = dropout_key(seed, offset), .threshold = 230};
}

/// The random bits of one element, found from the stream of all 128-bit results of its row as one
/// long number, and no words of 32 keys.
std::uint64_t bits_of(const DropoutRule& rule, const DropoutRow& row, std::uint64_t key) {
  const std::uint64_t first = key * static_cast<std::uint64_t>(rule.bits);  // bit in the stream
  std::uint64_t value = 0;
  for (int bit = 0; bit < rule.bits; ++bit) {
    const std::uint64_t place = first + static_cast<std::uint64_t>(bit);
    const PhiloxCounter random =
        philox({{static_cast<std::uint32_t>(place / 128), row.query, row.head, row.batch}},
               rule.key, rule.rounds);
    const std::uint32_t word = random.word[place % 128 / 32];
    value |= std::uint64_t{word >> place % 32 & 1} << bit;
  }
  return value;
}

TEST_CASE("an element is kept by its own bits alone") {
  test::Random random(test::seed(11));
  for (int round = 0; round < 2000; ++round) {
    const int bits = 8 << random.between(0, 2);
    const DropoutRule rule{
        .key = dropout_key(static_cast<std::uint64_t>(random.between(0, 9)),
                           static_cast<std::uint64_t>(random.between(0, 9))),
        .rounds = static_cast<int>(random.between(1, 10)),
        .bits = bits,
        .threshold = static_cast<std::uint64_t>(random.between(0, std::int64_t{1} << bits))};
    const DropoutRow row{static_cast<std::uint32_t>(random.between(0, 99)),
                         static_cast<std::uint32_t>(random.between(0, 99)),
                         static_cast<std::uint32_t>(random.between(0, 1 << 20))};
    const auto key = static_cast<std::uint64_t>(random.between(0, 1 << 20));
    CAPTURE(bits, rule.rounds, rule.threshold, row.batch, row.head, row.query, key);
    const std::uint32_t word = keep_word(rule, row, static_cast<std::uint32_t>(key / 32));
    CHECK((word >> key % 32 & 1) == (bits_of(rule, row, key) < rule.threshold ? 1U : 0U));
  }
}

TEST_CASE("stored bits are generated bits, whatever the order in which they are made") {
  const DropoutLayout layout{.heads = 3, .seq_q = 5, .seq_kv = 70};
  CHECK(layout.words_of_row() == 3);
  CHECK(layout.words(2) == 2 * 3 * 5 * 3);
  const DropoutRule one = rule(1, 2);
  std::vector<std::uint32_t> stored(static_cast<std::size_t>(layout.words(2)));
  for (std::uint32_t word = 3; word-- > 0;) {
    for (std::uint32_t query = 0; query < 5; ++query) {
      for (std::uint32_t batch = 2; batch-- > 0;) {
        for (std::uint32_t head = 0; head < 3; ++head) {
          const DropoutRow row{batch, head, query};
          stored[static_cast<std::size_t>(layout.place(row) + word)] = keep_word(one, row, word);
        }
      }
    }
  }
  std::size_t place = 0;
  for (std::uint32_t batch = 0; batch < 2; ++batch) {
    for (std::uint32_t head = 0; head < 3; ++head) {
      for (std::uint32_t query = 0; query < 5; ++query) {
        const DropoutRow row{batch, head, query};
        for (std::int64_t key = 0; key < 70; ++key) {
          CHECK(layout.kept(stored.data(), row, key) ==
                (bits_of(one, row, static_cast<std::uint64_t>(key)) < 230));
        }
        for (std::uint32_t word = 0; word < 3; ++word)
          CHECK(stored[place++] == keep_word(one, row, word));
      }
    }
  }
}

TEST_CASE("all or nothing is kept at the ends of the threshold") {
  DropoutRule all = rule(3, 4);
  all.threshold = 256;
  DropoutRule none = all;
  none.threshold = 0;
  DropoutRule wide = all;
  wide.bits = 32;
  wide.threshold = std::uint64_t{1} << 32;
  for (std::uint32_t word = 0; word < 100; ++word) {
    CHECK(keep_word(all, {}, word) == ~0U);
    CHECK(keep_word(none, {}, word) == 0);
    CHECK(keep_word(wide, {}, word) == ~0U);
  }
}

TEST_CASE("the kept fraction is the threshold's, in every bit") {
  constexpr int kWords = 1 << 15;
  for (const int rounds : {3, 5, 7, 10}) {
    DropoutRule one = rule(5, 6);
    one.rounds = rounds;
    std::int64_t kept = 0;
    std::vector<std::int64_t> of_bit(32);
    for (std::uint32_t place = 0; place < kWords; ++place) {
      const std::uint32_t word = keep_word(one, {place % 3, place % 5, place / 64}, place % 64);
      kept += std::popcount(word);
      for (std::size_t bit = 0; bit < 32; ++bit)
        of_bit[bit] += word >> bit & 1;
    }
    const double part = 230.0 / 256;
    CAPTURE(rounds, kept);
    const double all = 32.0 * kWords;
    CHECK(std::abs(static_cast<double>(kept) - part * all) <
          4 * std::sqrt(all * part * (1 - part)));
    double worst = 0;
    for (const std::int64_t bit : of_bit)
      worst = std::max(worst, std::abs(static_cast<double>(bit) - part * kWords));
    // Three rounds are not enough: counters that differ little leave single bits off by 20 sigma.
    CHECK((worst < 5 * std::sqrt(kWords * part * (1 - part))) == (rounds > 3));
  }
}

TEST_CASE("seed, offset, batch, head, query and key all matter") {
  DropoutRule base = rule(0, 0);
  base.threshold = 128;
  std::set<std::uint32_t> words;
  const auto add = [&](const DropoutRule& one, const DropoutRow& row, std::uint32_t word) {
    DropoutRule half = one;
    half.threshold = 128;
    words.insert(keep_word(half, row, word));
  };
  add(base, {}, 0);
  for (const int shift : {0, 7, 31}) {
    const std::uint32_t other = std::uint32_t{1} << shift;
    add(rule(other, 0), {}, 0);
    add(rule(0, other), {}, 0);
    add(rule(std::uint64_t{other} << 32, 0), {}, 0);
    add(rule(0, std::uint64_t{other} << 32), {}, 0);
    add(base, {.batch = other}, 0);
    add(base, {.head = other}, 0);
    add(base, {.query = other}, 0);
    if (shift < 31) add(base, {}, other);
  }
  CHECK(words.size() == 1 + 3 * 8 - 1);
}

}  // namespace
}  // namespace stagger::gpu
