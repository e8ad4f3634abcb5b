#pragma once

#include "gpu/check/attention.hpp"
#include "gpu/check/reference.hpp"

namespace stagger::gpu {

/// Does what make_attention() does on the first CUDA device, in double precision too, with sums in
/// another order. For what is too large for the host. Deterministic. Throws Error{device} if it
/// lacks memory, Error{limit} as block_mask() does. Requires a device.
///
/// O(heads x queries x keys x head_dim) time, O(inputs) memory; with reference_gradients_on_cuda()
/// about 22 head_dim floating-point operations a pair of tokens for head_dim up to 64, and 34 for
/// 128.
[[nodiscard]] Attention make_attention_on_cuda(const Problem& problem, const AttentionShape& shape,
                                               Inputs inputs,
                                               std::optional<Dropout> dropout = std::nullopt);

/// Does what reference_gradients() does on the first CUDA device. Throws and requires what
/// make_attention_on_cuda() does.
[[nodiscard]] ReferenceGradients reference_gradients_on_cuda(const Attention& attention);

}  // namespace stagger::gpu
