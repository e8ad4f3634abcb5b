#pragma once

namespace stagger::gpu {

/// What Q, K, V, dO and the gradients are stored in. Sums are fp32 whatever it is; the operands P
/// and dS of the products that follow them are rounded to it, as tensor cores need them. So that dS
/// is rounded once, dQ gets its scale after its sum in 16-bit formats, as dK does in all.
enum class Dtype { fp32, bf16, fp16 };

inline constexpr const char* kDtypeNames[] = {"fp32", "bf16", "fp16"};
[[nodiscard]] constexpr const char* dtype_name(Dtype dtype) {
  return kDtypeNames[static_cast<int>(dtype)];
}

}  // namespace stagger::gpu
