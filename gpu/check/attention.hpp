#pragma once

#include "core/problem.hpp"
#include "core/token_mask.hpp"
#include "gpu/check/dropout.hpp"
#include "gpu/numerics/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace stagger::gpu {

inline constexpr std::int64_t kMaxHeadDim = 512;

/// Sizes of the tensors. Q, dO, O and dQ are (heads, seq_q, head_dim), K, V, dK and dV are
/// (heads_kv, seq_kv, head_dim); all row-major. Head h reads KV head h / group().
struct AttentionShape {
  std::int32_t heads = 1;
  std::int32_t heads_kv = 1;  ///< divides heads
  std::int64_t seq_q = 1;
  std::int64_t seq_kv = 1;
  std::int32_t head_dim = 64;

  [[nodiscard]] std::int32_t group() const { return heads / heads_kv; }
  [[nodiscard]] std::size_t q_rows() const { return static_cast<std::size_t>(heads * seq_q); }
  [[nodiscard]] std::size_t q_elements() const { return q_rows() * dim(); }
  [[nodiscard]] std::size_t kv_elements() const {
    return static_cast<std::size_t>(heads_kv * seq_kv) * dim();
  }
  /// Returns the row of a query among all heads' queries.
  [[nodiscard]] std::size_t q_row(Head head, std::int64_t query) const {
    return static_cast<std::size_t>(head.value * seq_q + query);
  }
  /// Returns the row of a key that a head sees among all KV heads' keys.
  [[nodiscard]] std::size_t kv_row(Head head, std::int64_t key) const {
    return static_cast<std::size_t>(head.value / group() * seq_kv + key);
  }
  /// Returns how stored bits of dropout are laid out.
  [[nodiscard]] DropoutLayout dropout_layout() const {
    return {.heads = heads, .seq_q = seq_q, .seq_kv = seq_kv};
  }
  [[nodiscard]] std::size_t dim() const { return static_cast<std::size_t>(head_dim); }
  /// 1/sqrt(head_dim): scores are scale * Q K^T.
  [[nodiscard]] double scale() const;

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// Returns the sizes of a problem's tensors. Throws Error{usage} unless head_dim is 1 to
/// kMaxHeadDim.
[[nodiscard]] AttentionShape attention_shape(const Problem& problem, std::int64_t head_dim);

/// What the backward pass is given.
struct Inputs {
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
  std::vector<float> d_out;
};

/// Whether each tensor has the shape's elements.
[[nodiscard]] bool fits(const Inputs& inputs, const AttentionShape& shape);

/// Whether a dtype has every input.
[[nodiscard]] bool is_exact(const Inputs& inputs, Dtype dtype);

/// Returns nearly normal numbers (philox.hpp): element i of a tensor is random_normal(seed, tensor,
/// i), where Q, K, V, dO are tensors 0 to 3. Exact in every dtype.
[[nodiscard]] Inputs random_inputs(const AttentionShape& shape, std::uint64_t seed);

/// What the forward pass leaves for the backward pass.
struct Forward {
  std::vector<double> out;    ///< O
  std::vector<double> lse;    ///< by (head, query): log of the sum of exp(score); +infinity for a
                              ///< query that sees nothing, so that exp(score - lse) is 0; with
                              ///< dropout too it is of all scores
  std::vector<double> delta;  ///< by (head, query): D = rowsum(dO * O)
};

/// One attention problem with its numbers.
struct Attention {
  AttentionShape shape;
  HeadMasks masks;
  Inputs inputs;
  Forward forward;
  std::optional<Dropout> dropout = std::nullopt;  ///< absent: nothing is dropped
};

/// Runs the forward pass as it is defined, query by query, in double precision:
/// O = softmax(scale Q K^T, masked) V, elements of the softmax dropped and scaled if there is
/// dropout; the row of a query that sees nothing is 0. O(heads x queries x keys x head_dim).
[[nodiscard]] Attention make_attention(const Problem& problem, const AttentionShape& shape,
                                       Inputs inputs,
                                       std::optional<Dropout> dropout = std::nullopt);

/// Returns a problem with statistics of a forward pass that never ran (O = 0, one lse for all
/// rows): for times and order, which do not depend on them. O(heads x queries).
[[nodiscard]] Attention unjudged_attention(const Problem& problem, const AttentionShape& shape,
                                           Inputs inputs,
                                           std::optional<Dropout> dropout = std::nullopt);

/// Counts the floating-point operations of the backward pass as FlashAttention counts them: five
/// products of 2 head_dim operations for every pair of tokens that attends.
[[nodiscard]] double backward_flops(const Attention& attention);

}  // namespace stagger::gpu
