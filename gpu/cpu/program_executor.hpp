#pragma once

#include "gpu/check/attention.hpp"
#include "gpu/check/program.hpp"

#include <cstdint>
#include <optional>

namespace stagger::gpu {

struct ProgramOptions {
  Dtype dtype = Dtype::fp32;
  std::int32_t threads = 1;                             ///< >= 1
  std::optional<std::uint64_t> perturb = std::nullopt;  ///< seed of random delays and lane orders
  bool keep_partials = false;
};

/// Runs a program on CPU threads: a lane at a time for each, kernel after kernel. Requires a
/// program that fault_of() finds nothing wrong with, and an attention of its problem.
[[nodiscard]] ProgramRun program_on_cpu(const Program& program, const Attention& attention,
                                        const ProgramOptions& options);

}  // namespace stagger::gpu
