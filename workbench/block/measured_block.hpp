#pragma once

#include "core/block_rates.hpp"
#include "workbench/block/kernels.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagger::block {

/// One block with one attention, forward and backward, as a device ran it.
struct MeasuredBlock {
  Transformer model;  ///< with its tokens
  Ops ops = Ops::eager;
  std::string attention;  ///< as profiles call it: "cudnn", "flash-deterministic", "stagger:auto"
  double total_ms = 0;    ///< in a row
  std::map<std::pair<std::string, Pass>, double> within = {};  ///< ms by kernels; empty: not known
  std::optional<double> elementwise_ms = std::nullopt;  ///< by a profiler, as it names kernels
  std::optional<double> rested_ms = std::nullopt;       ///< attention's backward pass alone, rested
};

/// The blocks of one document, and the device's copies.
struct MeasuredBlocks {
  std::string device;
  std::int32_t sms = 0;
  std::string driver;  ///< as machine profiles write it: 13.0
  std::string date;
  std::optional<Load> load = std::nullopt;  ///< that it was under; absent: not said
  std::vector<RateAt> copy = {};
  std::vector<MeasuredBlock> blocks = {};
};

/// Reads schema `stagger.block-bench/1`, which scripts/bench_block.py writes; what was not timed is
/// left out. Throws Error{invalid_input} with the path of what is wrong.
[[nodiscard]] MeasuredBlocks read_measured_blocks(std::string_view text, const std::string& source);

}  // namespace stagger::block
