#pragma once

#include "gpu/check/backward.hpp"
#include "gpu/hopper/plan.hpp"
#include "gpu/numerics/dropout.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stagger::gpu::hopper {

/// A tensor (batch, head, row, dim) in device memory, by strides in elements; dim's is 1.
struct Tensor {
  void* data = nullptr;
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t head = 0;
};

/// The tensors of a backward pass. Their addresses are multiples of 16 bytes, and strides along
/// dimensions above 1 are positive multiples of 8 elements, but for lse's.
struct Tensors {
  Tensor q = {};
  Tensor k = {};
  Tensor v = {};
  Tensor out = {};
  Tensor d_out = {};
  Tensor lse = {};  ///< fp32: log of the sum of exp(score); without dim
  Tensor dq = {};
  Tensor dk = {};
  Tensor dv = {};
};

/// Where a call that is stopped says so: in host memory that the device can write. 64 bytes.
struct StopNote {
  std::uint32_t code = 0;  ///< kStopped once a call was stopped; the host clears it
  std::uint32_t device = 0;
  std::uint64_t call_id = 0;       ///< the first that was stopped since, and what is known of it:
  std::uint64_t order_digest = 0;  ///< its plan's
  std::uint64_t stopped_ns = 0;    ///< the device's global timer
  std::uint32_t count = 0;         ///< calls that were stopped
  std::uint32_t pad[7] = {};
};
static_assert(sizeof(StopNote) == 64);
inline constexpr std::uint32_t kStopped = 12;

/// One backward pass: everything is the caller's, and stays until the stream has gone past it.
struct Call {
  Tensors tensors = {};
  float scale = 0;
  Mode mode = Mode::deterministic;
  const void* plan = nullptr;  ///< the plan's image, on the device
  void* workspace = nullptr;   ///< on the device
  void* stream = nullptr;      ///< a cudaStream_t
  std::int64_t timeout_ns = 0;
  bool late = false;  ///< DeviceRun::late: for tables that need no two lanes at once
  StopNote* note = nullptr;
  std::uint64_t call_id = 0;
  std::uint64_t order_digest = 0;
  std::optional<DropoutWords> dropout = {};  ///< of a batch entry's heads; bits on the device
  float* partials = nullptr;  ///< of every slot, as dq_sums; nullptr: they are not kept
  /// Where parts are added in order: of every chain, by Problem::chain_place, in the order of
  /// dkv_place; nullptr: they are not kept.
  float* dk_partials = nullptr;
  float* dv_partials = nullptr;
};

/// Says why the current device does not run the kernels; empty if it does.
[[nodiscard]] std::string device_refusal();

/// Puts a plan's image into device memory, in the order of the stream. The image may go when this
/// returns. Throws Error{device}.
void upload(const Plan& plan, void* to, void* stream);

/// Enqueues a backward pass on the current device: no allocation, nothing is waited for. A call
/// that is stopped leaves NaN in every gradient. Throws Error{device} if it cannot be launched.
void enqueue(const Plan& plan, const Call& call);

}  // namespace stagger::gpu::hopper
