#pragma once

#include "gpu/check/attention.hpp"
#include "gpu/check/program.hpp"

namespace stagger::gpu {

/// Runs a program on the GPU by portable tiles: kernels one after the other, each an ordinary grid
/// of a CTA for every lane, then passes that add dQ's buffers and heads' dK and dV. What it leaves
/// has the bits of program_on_cpu(). An SM has one lane at a time, as in the model, and takes the
/// next one when it has ended. A run that takes longer than `options.timeout` is stopped.
///
/// Requires what program_on_cpu() requires and a device. Throws Error{device} if that lacks memory,
/// Error{unsupported} if two fp32 tiles do not fit into its shared memory, Error{limit} where there
/// is a bits_refusal().
[[nodiscard]] ProgramRun program_on_cuda(const Program& program, const Attention& attention,
                                         const ProgramOptions& options);

}  // namespace stagger::gpu
