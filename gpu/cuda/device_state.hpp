#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace stagger::gpu {

/// The current CUDA device of this thread.
struct DeviceState {
  std::int32_t device = -1;  ///< -1: none
  std::int32_t sms = 0;
  std::int32_t major = 0;  ///< compute capability
  std::int32_t minor = 0;
  std::int32_t driver = 0;  ///< 1000 major + 10 minor of the CUDA that it knows; 0: none
  std::string why_not;      ///< why there is none; empty if there is
};

/// Describes the current device; without one it says why, and does not throw.
[[nodiscard]] DeviceState device_state();

/// Makes the context of the current device current on this thread, if none is. Functions of the
/// driver need one (those of the runtime find it by themselves), and a thread that has called
/// nothing of the runtime, like autograd's on a process's first backward pass, has none. A context
/// that is current, whoever made it, stays. Throws Error{device}.
void enter_context();

/// Finds the device whose memory an address is in; -1 if it is none's.
[[nodiscard]] std::int32_t device_of(const void* address);

/// Whether a stream (a cudaStream_t) is being captured into a graph.
[[nodiscard]] bool is_captured(void* stream);

/// Allocates host memory that every device can write, all 0. Throws Error{device}.
[[nodiscard]] void* new_mapped_memory(std::size_t bytes);
void delete_mapped_memory(void* memory) noexcept;

}  // namespace stagger::gpu
