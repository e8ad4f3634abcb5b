#pragma once

#include "workbench/block/overlap.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::block {

/// What `--sweep` asks for: sequences from one to another, doubled each time, for several heads.
struct SweepRange {
  std::int64_t first_seq = 0;
  std::int64_t last_seq = 0;
  std::vector<std::int64_t> heads;
};

/// Reads `seq=2048:65536,heads=48,64,96,128`. Throws Error{usage}.
[[nodiscard]] SweepRange parse_sweep(std::string_view text);

/// Returns what is predicted at every point, by heads, then by sequence. Throws Error.
[[nodiscard]] std::vector<Overlap> sweep(const SweepRange& range, const DropoutShape& shape,
                                         const RngChoice& rng, const Calibration& calibration,
                                         bool both);

/// The speedup against the sequence, a curve for each number of heads through its points, and under
/// it a strip for each that is shaded by region.
[[nodiscard]] std::string sweep_svg(const std::string& title, const SweepRange& range,
                                    const DropoutShape& shape, const RngChoice& rng,
                                    const Calibration& calibration, bool both);

}  // namespace stagger::block
