#pragma once

#include "gpu/numerics/host_device.hpp"

#include <cstdint>

namespace stagger::gpu {

struct PhiloxCounter {
  std::uint32_t word[4] = {};
};

struct PhiloxKey {
  std::uint32_t word[2] = {};
};

/// Makes one round, and the key of the next one.
STAGGER_HOST_DEVICE constexpr void philox_round(PhiloxCounter& counter, PhiloxKey& key) {
  const std::uint64_t even = std::uint64_t{0xD2511F53} * counter.word[0];
  const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * counter.word[2];
  counter = {{static_cast<std::uint32_t>(odd >> 32) ^ counter.word[1] ^ key.word[0],
              static_cast<std::uint32_t>(odd),
              static_cast<std::uint32_t>(even >> 32) ^ counter.word[3] ^ key.word[1],
              static_cast<std::uint32_t>(even)}};
  key.word[0] += 0x9E3779B9;
  key.word[1] += 0xBB67AE85;
}

/// Returns four random words of a counter and a key, without a state: Philox-4x32 of so many
/// rounds. With 7 it passes the tests that its authors know, with 10 there is a margin; fewer do
/// not pass.
///
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr PhiloxCounter philox(PhiloxCounter counter,
                                                                 PhiloxKey key, int rounds = 10) {
#ifdef __CUDA_ARCH__
#pragma unroll 1  // a kernel would keep the keys of all rounds in registers
#endif
  for (int round = 0; round < rounds; ++round)
    philox_round(counter, key);
  return counter;
}

/// Returns what philox() does, of rounds that a kernel makes without a loop: for one that does
/// nothing else, and has the registers.
template <int kRounds>
[[nodiscard]] STAGGER_HOST_DEVICE constexpr PhiloxCounter philox_unrolled(PhiloxCounter counter,
                                                                          PhiloxKey key) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int round = 0; round < kRounds; ++round)
    philox_round(counter, key);
  return counter;
}

/// Returns the four words of place `index` of stream `stream` under a seed.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr PhiloxCounter random_words(std::uint64_t seed,
                                                                       std::uint32_t stream,
                                                                       std::uint64_t index) {
  return philox(
      {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream, 0}},
      {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}});
}

/// Returns a nearly normal number: mean 0, variance 1.003, between -3.4375 and 3.4375.
///
/// The sum of four uniform integers 0 … 110, centred, over 64: the standard deviation of that sum
/// is 64.08. All of it is integer arithmetic, and the result has 8 significant bits, so that it is
/// the same on every device and exact in fp32, fp16 and bf16 alike: no precision rounds its inputs.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr float random_normal(std::uint64_t seed,
                                                                std::uint32_t stream,
                                                                std::uint64_t index) {
  const PhiloxCounter words = random_words(seed, stream, index);
  std::int32_t sum = -220;
  for (const std::uint32_t word : words.word)
    sum += static_cast<std::int32_t>((word >> 16) * 111 >> 16);
  return static_cast<float>(sum) / 64;
}

}  // namespace stagger::gpu
