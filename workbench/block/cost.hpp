#pragma once

#include "core/machine.hpp"
#include "workbench/block/kernels.hpp"
#include "workbench/block/operations.hpp"

#include <optional>
#include <string>
#include <vector>

namespace stagger::block {

/// What a kernel's time comes from.
enum class Bound { compute, memory, given, schedule };
inline constexpr const char* kBoundNames[] = {"compute", "memory", "given", "schedule"};

struct TimedKernel {
  Kernel kernel;
  double ms = 0;
  Bound bound_by = Bound::compute;
  std::vector<Operation> operations = {};  ///< that were counted; empty: none were
};

/// What determines a block's time but its dimensions.
struct CostRequest {
  Machine machine;                             ///< with rates of blocks
  std::optional<Load> load = std::nullopt;     ///< absent: that of the profile's first rates
  std::optional<Ops> ops = std::nullopt;       ///< absent: the first for which there is a kappa
  std::string attention = {};                  ///< whose rates; empty: the first that fits
  std::int64_t tp = 1;                         ///< tensor parallel devices
  std::optional<double> kappa = std::nullopt;  ///< in the place of the profile's
  /// Count eager operations one by one, by the profile's rates of them, in the place of a kappa.
  std::optional<Norms> norms = std::nullopt;
  std::optional<double> attention_forward_ms = std::nullopt;   ///< in the place of a rate
  std::optional<double> attention_backward_ms = std::nullopt;  ///< likewise
  /// Likewise, alone and rested: it takes as much longer as the block's clock is lower.
  std::optional<double> attention_backward_rested_ms = std::nullopt;
  std::optional<double> block_ms = std::nullopt;  ///< measured, in the place of the kernels' sum
};

/// One block on one device, forward and backward.
struct BlockCost {
  std::vector<TimedKernel> kernels;
  std::optional<Ops> ops = std::nullopt;  ///< absent: kappa was given, and nothing says them
  double kappa = 1;  ///< times the least time of their bytes that elementwise kernels take
  std::optional<Norms> norms = std::nullopt;  ///< absent: operations were not counted
  std::string attention;                      ///< whose rates; empty: both times were given
  double clock = 1;   ///< a part of the full one, at which the kernels are timed
  double tflops = 0;  ///< of tensor cores, over `kernels_ms`
  double kernels_ms = 0;
  double total_ms = 0;  ///< `block_ms` if that was given, else `kernels_ms`
  double attention_backward_ms = 0;

  /// The part of the block that the backward pass of attention takes, 0 to 1.
  [[nodiscard]] double fraction() const { return attention_backward_ms / total_ms; }
};

/// Returns the kind of layers by which profiles name a kappa: "swiglu", "gelu" or "experts".
[[nodiscard]] const char* layers_of(const Transformer& model);

/// Returns what each kernel takes: a GEMM its FLOPs by the rate, with what it does not hide of its
/// bytes, or those if that is longer; an elementwise kernel kappa times its bytes by the rate of
/// copies of that size, or what its operations take; attention its FLOPs by the implementation's
/// rate. Tensor cores are at the clock that the device has behind so many TFLOP/s of the block as a
/// whole; what is given is not. Throws Error{usage}, which names what the profile has, if it lacks
/// a rate, or if the block takes no longer than its attention.
[[nodiscard]] BlockCost cost_of(const Transformer& model, const CostRequest& request);

}  // namespace stagger::block
