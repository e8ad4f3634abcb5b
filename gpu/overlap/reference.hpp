#pragma once

#include "gpu/numerics/dropout.hpp"
#include "gpu/numerics/philox.hpp"
#include "gpu/overlap/work.hpp"

#include <cstdint>
#include <vector>

namespace stagger::gpu::overlap {

inline constexpr int kAttentionDim = 128;

/// What is multiplied. Elements have 8 significant bits: exact in bf16, the same on every device.
enum class Input : std::uint32_t { a, b, q, k, v };
[[nodiscard]] STAGGER_HOST_DEVICE constexpr float input(Input which, std::int64_t index) {
  return random_normal(20260101, static_cast<std::uint32_t>(which),
                       static_cast<std::uint64_t>(index));
}

/// An element in double precision, and how far off a kernel may be that sums in fp32 and rounds to
/// bf16.
struct Element {
  double value = 0;
  double bound = 0;
};

/// Returns an element of C. Of a kernel it is rounded once, after k / 16 additions of about
/// sqrt(k).
[[nodiscard]] Element product_element(const GemmShape& shape, std::int64_t row,
                                      std::int64_t column);

/// Returns a row of attention's output, rows counted over all heads, without tiles. With a rule
/// elements of P are dropped by keep_word(), bit by bit; without one nothing is. Of a kernel P is
/// rounded as well as the output: its roundings add up like a random walk.
[[nodiscard]] std::vector<Element> attention_row(std::int64_t heads, std::int64_t seq,
                                                 const DropoutRule* rule, std::int64_t row);

/// Returns a word of [batch, heads, seq, ceil(seq / 32)] by its place among all.
[[nodiscard]] std::uint32_t stored_word(std::int64_t heads, std::int64_t seq,
                                        const DropoutRule& rule, std::int64_t word);

}  // namespace stagger::gpu::overlap
