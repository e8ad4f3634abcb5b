#pragma once

#include "workbench/backward_plan.hpp"
#include "workbench/stagger.h"

#include <cstdint>

namespace stagger::workbench::c {

/// Bytes from the first element of a tensor to behind its last.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Throws Failure unless a call has all tensors, aligned and strided as the kernels need them, with
/// gradients that overlap nothing, by strides that nest: the text names the tensor and the number.
/// `element_bytes` 2: for the kernels; 4: for the host, where any alignment of an element will do.
void check_tensors(const BackwardPlan& plan, const stagger_call& call, std::int64_t element_bytes);

/// Throws Failure unless the call has device memory for the plan and its workspace, aligned, each
/// apart from the other and from what is written, the workspace from every tensor.
void check_memory(const BackwardPlan& plan, const stagger_call& call);

/// Throws Failure for a mode that is none.
void check_mode(const stagger_call& call);

/// The scale of a call: what it says, else 1 / sqrt(head_dim). Throws Failure if it is none.
[[nodiscard]] float scale_of(const BackwardPlan& plan, const stagger_call& call);

}  // namespace stagger::workbench::c
