#pragma once

#include "core/table.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/check/reference.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::gpu {

/// How far a gradient is from the reference. Both are relative to the larger of the gradient and
/// its terms (Exact::terms), which are alike unless everything cancels: a query that sees one key
/// has dS = 0, and rounding errors alone.
struct Deviation {
  double frobenius = 0;  ///< norm of the difference
  double most = 0;       ///< largest element of the difference, relative to the largest element
};
[[nodiscard]] Deviation deviation(const std::vector<float>& gradient, const Exact& exact);

/// Returns what both numbers of a Deviation are held to; gpu/README.md says why.
///
///     fp32    8 * 2^-24 * sqrt(head_dim + max(group * seq_q, seq_kv))
///     bf16    that + 6 * 2^-8
///     fp16    that + 6 * (2^-11 + 2^-25 * max(group * seq_q, seq_kv))
[[nodiscard]] double error_bound(const AttentionShape& shape, Dtype dtype);

/// Returns error_bound()'s formula for a dtype, for a report.
[[nodiscard]] const char* error_bound_formula(Dtype dtype);

/// Returns FNV-1a, 64 bits, over the bytes of the elements in order, as 16 hexadecimal digits.
[[nodiscard]] std::string digest(const std::vector<float>& values);

/// The digest of each gradient.
struct Digests {
  std::string dq;
  std::string dk;
  std::string dv;
  friend bool operator==(const Digests&, const Digests&) = default;
};
[[nodiscard]] Digests digests(const Gradients& gradients);

/// Returns the largest difference of two elements at the same place.
[[nodiscard]] double largest_difference(const std::vector<float>& left,
                                        const std::vector<float>& right);

/// Says what is wrong with the order in which a run added: for every dQ tile the n-th to reduce
/// must have rank n, and its turn must not be before the end of the one before by more than
/// times_error_ns. Empty if nothing is; at most `limit` sentences.
[[nodiscard]] std::vector<std::string> order_faults(const Table& table, const Backward& backward,
                                                    std::size_t limit = 10);

/// Adds a run's own partials on the host in the order of the table's ranks: dQ. Nothing if they are
/// no order, the ranks of a (head, q) not being 0 … k-1. Requires a run that kept its partials.
/// Compare it with Backward::dq_added().
[[nodiscard]] std::optional<std::vector<float>> reaccumulate(const Table& table,
                                                             const AttentionShape& shape,
                                                             const std::vector<float>& partials);

struct DkvSums {
  std::vector<float> dk;
  std::vector<float> dv;
};

/// Adds each part's own dK and dV on the host, in the order of the ranks. Nothing if they are no
/// order. Requires a run in this dtype that kept its partials, of KV heads with several parts.
/// Compare it with dk_sums and dv_sums; where the run has none, it is rounded, and to be compared
/// with the gradients.
[[nodiscard]] std::optional<DkvSums> reaccumulate_dkv(const Table& table, const Backward& run,
                                                      Dtype dtype);

/// Returns the bytes of one run's dQ partials.
[[nodiscard]] std::int64_t partial_bytes(const Table& table, const AttentionShape& shape);

/// Returns the bytes that cross-checked runs take on the host: inputs, forward, reference, two
/// runs' results, the SMs' own memory and, if `options` keep them, one run's partials.
[[nodiscard]] std::int64_t run_bytes(const Table& table, const AttentionShape& shape,
                                     const BackwardOptions& options);

}  // namespace stagger::gpu
