#include "gpu/overlap/overlap.hpp"

#include "core/error.hpp"
#include "gpu/check/dropout.hpp"
#include "tests/support/catch.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::gpu::overlap {
namespace {

DropoutRule rule(int rounds = 7, int bits = 8) {
  return dropout_rule({.probability = 0.1, .rounds = rounds, .bits = bits});
}

/// All ways to have GEMMs and bits.
std::vector<Way> gemm_ways() {
  std::vector<Way> ways;
  for (const Room room : {Room::none, Room::streams, Room::warps, Room::warpgroup}) {
    for (const BitsPlace bits : {BitsPlace::nowhere, BitsPlace::before, BitsPlace::beside,
                                 BitsPlace::behind, BitsPlace::inside}) {
      const bool has_warps = room == Room::warps || room == Room::warpgroup;
      if (bits == BitsPlace::inside && !has_warps) continue;
      ways.push_back({.room = room, .bits = bits});
    }
  }
  return ways;
}

TEST_CASE("GEMMs and bits are right in every way, and a product's bits the same") {
  if (!overlap_refusal().empty()) {
    WARN(overlap_refusal());
    return;
  }
  // More tiles than clusters, fewer, one step of the sum, and rows of words that end anywhere.
  const OverlapProblem problems[] = {
      {.gemms = {{4096, 2560, 192}}, .batch = 2, .heads = 3, .seq = 200, .rule = rule(3)},
      {.gemms = {{256, 256, 64}, {512, 768, 320}}, .heads = 5, .seq = 1024, .rule = rule(10)},
      {.gemms = {{2304, 1280, 1024}}, .heads = 2, .seq = 640, .rule = rule(5, 32)}};
  for (const OverlapProblem& problem : problems) {
    OverlapRuns runs(problem);
    std::optional<std::uint64_t> digest;
    for (const Way& way : gemm_ways()) {
      CAPTURE(static_cast<int>(way.room), static_cast<int>(way.bits));
      const WayCheck check = runs.check(way);
      CHECK(check.right());
      CHECK((way.bits == BitsPlace::nowhere) == (check.words == 0));
      CHECK(check.gemm_digest == digest.value_or(check.gemm_digest));
      digest = check.gemm_digest;
    }
  }
}

// A GPU compares words of 32 random bits by instructions that no host has.
TEST_CASE("bits alone are right at every threshold's ends") {
  if (!overlap_refusal().empty()) {
    WARN(overlap_refusal());
    return;
  }
  for (const int bits : {8, 32}) {
    const std::uint64_t most = std::uint64_t{1} << bits;
    for (const std::uint64_t threshold :
         {std::uint64_t{0}, std::uint64_t{1}, most / 2, most - 1, most}) {
      for (const int rounds : {3, 7}) {
        DropoutRule all = rule(rounds, bits);
        all.threshold = threshold;
        OverlapRuns runs({.gemms = {}, .batch = 2, .heads = 3, .seq = 200, .rule = all});
        const WayCheck check = runs.check({.gemms = false, .bits = BitsPlace::before});
        CAPTURE(bits, threshold, rounds);
        CHECK(check.right());
        CHECK(check.words == 2 * 3 * 200 * 7);
      }
    }
  }
}

TEST_CASE("attention that reads bits leaves what attention leaves that makes them") {
  if (!overlap_refusal().empty()) {
    WARN(overlap_refusal());
    return;
  }
  for (const std::int64_t seq : {128, 384, 2048}) {
    OverlapRuns runs(
        {.gemms = {}, .batch = 2, .heads = 3, .seq = seq, .rule = rule(), .attention = true});
    const WayCheck without = runs.check({.gemms = false, .attention = Dropping::no});
    const WayCheck makes = runs.check({.gemms = false, .attention = Dropping::makes});
    const WayCheck reads =
        runs.check({.gemms = false, .bits = BitsPlace::before, .attention = Dropping::reads});
    CAPTURE(seq);
    CHECK(without.right());
    CHECK(makes.right());
    CHECK(reads.right());
    CHECK(makes.out_digest == reads.out_digest);
    CHECK(makes.out_digest != without.out_digest);
  }
}

TEST_CASE("what no kernel is for is refused") {
  if (!overlap_refusal().empty()) {
    WARN(overlap_refusal());
    return;
  }
  CHECK_THROWS_AS(OverlapRuns({.gemms = {{128, 256, 64}}, .heads = 1, .seq = 32, .rule = rule()}),
                  Error);
  CHECK_THROWS_AS(OverlapRuns({.gemms = {}, .heads = 1, .seq = 32, .rule = rule(4)}), Error);
  CHECK_THROWS_AS(
      OverlapRuns({.gemms = {}, .heads = 1, .seq = 64, .rule = rule(), .attention = true}), Error);
}

}  // namespace
}  // namespace stagger::gpu::overlap
