#pragma once

#include "gpu/check/attention.hpp"
#include "gpu/check/program.hpp"

namespace stagger::gpu {

/// Runs a program on CPU threads: a lane at a time for each, kernel after kernel. Requires a
/// program that fault_of() finds nothing wrong with, and an attention of its problem.
[[nodiscard]] ProgramRun program_on_cpu(const Program& program, const Attention& attention,
                                        const ProgramOptions& options);

}  // namespace stagger::gpu
