#pragma once

#include "gpu/check/attention.hpp"
#include "gpu/check/reference.hpp"

#include <cstdint>
#include <functional>
#include <optional>

namespace stagger::workbench {

/// Where double-precision gradients come from, which runs are judged by.
enum class Reference {
  host,
  device,  ///< requires a GPU
  none,    ///< gradients are not judged
};

/// Whether they come from the GPU: if nothing is said, beside a run on it whose problem is large.
[[nodiscard]] bool uses_device_reference(std::optional<Reference> reference, bool on_gpu,
                                         const gpu::AttentionShape& shape);

/// A problem with its numbers, and what its gradients should be.
struct JudgedProblem {
  gpu::Attention attention;
  std::optional<gpu::ReferenceGradients> exact;  ///< absent: they are not judged
};

/// Draws the inputs of a seed, and the bits of dropout if there is some, and computes what is to
/// become of them, by the GPU or on the host; nothing of Reference::none.
[[nodiscard]] JudgedProblem judged_problem(
    const Problem& problem, const gpu::AttentionShape& shape, std::uint64_t seed,
    std::optional<Reference> reference, bool by_device,
    const std::function<void(const char*, double)>& progress,
    const std::optional<gpu::DropoutOptions>& dropout = std::nullopt);

}  // namespace stagger::workbench
