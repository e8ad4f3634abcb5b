#pragma once

#include "workbench/backward_plan.hpp"
#include "workbench/stagger.h"

#include <cstdint>

namespace stagger::workbench::c {

/// The Dtype of a stagger_dtype; `name` is whose value it is. Throws Failure.
[[nodiscard]] gpu::Dtype dtype_of(std::int32_t dtype, const char* name);

/// Makes the plan that a caller asks for. Throws Failure, and what plan_backward() throws.
[[nodiscard]] BackwardPlan plan_of(const stagger_problem& problem);

}  // namespace stagger::workbench::c
