#pragma once

#include "cli/terminal.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/cuda/executor.hpp"
#include "workbench/analysis.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace stagger::cli {

/// A table that was run, and what that showed.
struct Execution {
  workbench::Analysis analysis;  ///< what was predicted of the table
  gpu::AttentionShape shape;
  gpu::BackwardOptions options;
  std::uint64_t seed = 0;
  std::string device;                   ///< the processor's name
  std::string kernel;                   ///< portable or replay
  std::optional<gpu::CudaDevice> cuda;  ///< absent: the run was on the CPU
  std::int64_t tick_ns = 0;             ///< of a replay; 0: the run was none
  Timing spun = {};                     ///< of a replay: what its phases spin, in ticks
  std::string refused;                  ///< why the table was not launched; empty if it was
  bool device_reference = false;        ///< where the gradients' reference comes from
  bool adds_partials = true;            ///< again, in the table's order, where they fit
  std::int64_t lost_partials = 0;  ///< bytes of those that are too large to be kept; 0: they are
  double flops = 0;
  std::optional<gpu::CheckedRuns> runs;  ///< absent: the table is too broken to be run

  [[nodiscard]] const char* verdict() const {
    if (!refused.empty()) return "refused";
    return runs ? gpu::verdict_name(runs->verdict) : "invalid";
  }
};

/// `stagger.run/1`.
[[nodiscard]] std::string run_json(const Execution& execution);

/// The same for people.
[[nodiscard]] std::string run_text(const Execution& execution, const Terminal& terminal);

}  // namespace stagger::cli
