#pragma once

#include "gpu/check/backward.hpp"
#include "workbench/backward_plan.hpp"

#include <array>
#include <chrono>
#include <cstdint>

namespace stagger::workbench {

/// fp32 numbers in host memory (batch, row, head, dim), by strides in elements; dim's is 1.
struct HostTensor {
  float* data = nullptr;
  std::array<std::int64_t, 3> stride = {};  ///< batch, row, head
};

/// One backward pass on CPU threads.
struct HostCall {
  HostTensor q, k, v, out, d_out;
  HostTensor lse;  ///< without dim; rows that see nothing have either infinity
  HostTensor dq, dk, dv;
  gpu::Dtype arithmetic = gpu::Dtype::fp32;  ///< inputs have to be exact in it
  std::int32_t threads = 0;                  ///< 0: as many as there are cores
  std::chrono::milliseconds timeout{60'000};
};

/// Plays a plan's table on CPU threads. A chain adds up dK and dV of its heads; those of several
/// parts of a KV head are added in fp32, in the table's order or upwards, and rounded once. Returns
/// how the run ended: one that hung or waited for too long leaves NaN in every gradient. Throws
/// Error{invalid_input} if an input is not exact, Error{limit} if it would take too much memory.
[[nodiscard]] gpu::Outcome run_on_host(const BackwardPlan& plan, const HostCall& call);

}  // namespace stagger::workbench
