#pragma once

#include "core/table.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"

#include <cstdint>
#include <string>

namespace stagger::gpu {

inline constexpr std::int32_t kMaxThreads = 1024;

/// Runs a table's backward pass on CPU threads: a task at a time per SM, its dQ added when the
/// semaphore of (head, q) shows its rank.
///
/// `options.threads` workers play the lanes that are resident; fewer threads than lanes never
/// starve a lane (gpu/cpu/lanes.hpp). Requires each live task exactly once, every chain on one lane
/// and at most kMaxThreads; ranks may be anything.
[[nodiscard]] Backward backward_on_cpu(const Table& table, const Attention& attention,
                                       const BackwardOptions& options);

/// Returns as many threads as there are SMs or, if those are fewer, cores (but 2 at least).
[[nodiscard]] std::int32_t default_threads(const Table& table, const BackwardOptions& options);

/// Returns the processor's name, or "cpu" if it is not known.
[[nodiscard]] std::string cpu_name();

}  // namespace stagger::gpu
