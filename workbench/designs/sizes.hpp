#pragma once

#include "core/checked.hpp"
#include "workbench/designs/design.hpp"

#include <cstdint>
#include <vector>

namespace stagger::designs {

/// Elements of a problem's tensors, by the symbols of the formulas, and bytes of one.
struct Sizes {
  std::int64_t x = 0;     ///< of Q, dO, O and dQ: heads * seq_q * head_dim
  std::int64_t y = 0;     ///< of K, V, dK and dV: heads_kv * seq_kv * head_dim
  std::int64_t yh = 0;    ///< of dK by query heads: heads * seq_kv * head_dim
  std::int64_t rows = 0;  ///< heads * seq_q
  std::int64_t e = 2;     ///< bytes of an element
};

/// Throws Error{limit} above 2^46 elements.
[[nodiscard]] Sizes sizes_of(const Request& request);

/// A number of bytes or operations. Throws Error{limit} if it left 64 bits.
[[nodiscard]] std::int64_t counted_up(Checked number);

/// What every design reads and writes: Q, dO, O, K, V, dQ, dK, dV once, lse and D written and read.
[[nodiscard]] std::int64_t least_bytes(const Sizes& sizes);

/// Floating-point operations of GEMMs over all live tiles of a grid of whole tiles.
[[nodiscard]] std::int64_t flops_of(const Problem& problem, std::int64_t head_dim,
                                    std::int64_t gemms);

/// D = rowsum(dO O), which comes first in every design.
[[nodiscard]] Pass d_pass(const Sizes& sizes);

/// Adds what dQ's fp32 sums in memory cost: their workspace, traffic and conversion.
void add_dq_sums(const Sizes& sizes, Plan& plan);

/// Adds what the parts of a group's dK and dV cost, where there are several.
void add_parts(const Problem& problem, const Sizes& sizes, Plan& plan);

}  // namespace stagger::designs
