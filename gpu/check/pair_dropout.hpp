#pragma once

#include "gpu/numerics/dropout.hpp"

namespace stagger::gpu {

/// Whether dropout keeps one pair of tokens, from that pair's own random bits: for references,
/// which share nothing with words of 32 keys.
///
/// A row's random bits are one long number, the results of counters 0, 1, 2 … one after the other,
/// and key k has bits [k * rule.bits, (k + 1) * rule.bits) of it.
[[nodiscard]] STAGGER_HOST_DEVICE constexpr bool keeps_pair(const DropoutRule& rule,
                                                            const DropoutRow& row,
                                                            std::uint64_t key) {
  const std::uint64_t first = key * static_cast<std::uint64_t>(rule.bits);
  const PhiloxCounter random =
      philox({{static_cast<std::uint32_t>(first / 128), row.query, row.head, row.batch}}, rule.key,
             rule.rounds);
  const std::uint64_t word = random.word[first % 128 / 32];
  return word << (64 - first % 32 - static_cast<std::uint64_t>(rule.bits)) >> (64 - rule.bits) <
         rule.threshold;
}

}  // namespace stagger::gpu
