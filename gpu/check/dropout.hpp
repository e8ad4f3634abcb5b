#pragma once

#include "gpu/numerics/dropout.hpp"

#include <cstdint>
#include <vector>

namespace stagger::gpu {

/// Where the backward pass has the bits of dropout from. They are the same bits.
enum class MaskBits {
  generated,  ///< made where they are needed
  stored,     ///< read from memory, where an earlier pass has left them
};
inline constexpr const char* kMaskBitsNames[] = {"generated", "stored"};
[[nodiscard]] constexpr const char* mask_bits_name(MaskBits mask_bits) {
  return kMaskBitsNames[static_cast<int>(mask_bits)];
}

/// Dropout of P as it is asked for.
struct DropoutOptions {
  double probability = 0;    ///< that an element is dropped; from 0 to below 1
  std::uint64_t seed = 1;    ///< of the bits; inputs have their own
  std::uint64_t offset = 0;  ///< the call's place among those of the seed
  int rounds = 7;            ///< of Philox-4x32
  int bits = 8;              ///< random bits that decide on an element: 8, 16 or 32
  MaskBits mask_bits = MaskBits::generated;
};

/// Returns the rule that comes nearest to what is asked for: it keeps a multiple of 2^-bits of all
/// elements, and not nothing. Throws Error{usage} if the probability is not from 0 to below 1.
[[nodiscard]] DropoutRule dropout_rule(const DropoutOptions& options);

/// Returns the part of all elements that a rule keeps: threshold / 2^bits.
[[nodiscard]] double kept_part(const DropoutRule& rule);

/// Returns what a kept element of P is multiplied by, so that its mean is P: 1 / kept_part().
[[nodiscard]] double keep_scale(const DropoutRule& rule);

/// Dropout of one problem: O = (P keep scale) V. Heads are of batch entry 0.
struct Dropout {
  DropoutRule rule;
  std::vector<std::uint32_t> stored;  ///< as DropoutLayout says; empty: they are generated
};

/// Makes the rule and, if they are to be stored, the bits. O(heads x queries x keys) then.
[[nodiscard]] Dropout make_dropout(const DropoutOptions& options, const DropoutLayout& layout);

/// Returns dropout as executors take it. Refers to the stored bits.
[[nodiscard]] DropoutWords dropout_words(const Dropout& dropout, const DropoutLayout& layout);

/// Returns what dropout multiplies one element of P by, found by keeps_pair(): 0 or keep_scale().
[[nodiscard]] double pair_weight(const Dropout& dropout, std::int32_t head, std::int64_t query,
                                 std::int64_t key);

}  // namespace stagger::gpu
