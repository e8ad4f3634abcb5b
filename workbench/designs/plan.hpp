#pragma once

#include "core/problem.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace stagger::designs {

/// What a chain keeps in registers from its first task to its last.
enum class Keeps {
  kv,  ///< a KV tile with its dK and dV: its tasks are Q tiles
  q,   ///< a Q tile with its dQ: its tasks are KV tiles
};

/// How many of a task's five GEMMs (S, dP, dV, dK, dQ) a chain does.
inline constexpr std::int64_t kGemms = 5;        ///< all of them
inline constexpr std::int64_t kDkvGemms = 4;     ///< S and dP, for dV and dK
inline constexpr std::int64_t kDqGemms = 3;      ///< S and dP, for dQ
inline constexpr std::int64_t kStoredGemms = 1;  ///< dQ alone, from a dS that was stored

/// The live tasks of one tile of one head, or of several heads that share K and V, on one SM: one
/// at least.
struct Chain {
  Head head;               ///< the first
  std::int32_t heads = 1;  ///< one after the other
  std::int32_t tile = 0;   ///< the KV or Q tile that is kept
  Keeps keeps = Keeps::kv;
  std::int32_t gemms = 5;   ///< of each task; with all five it is reduced into dQ
  std::int32_t buffer = 0;  ///< of dQ's sums, that it is reduced into
};

/// In which order a chain takes its tiles.
enum class TileOrder {
  ascending,
  descending,
  partial_first,  ///< those that are masked pair by pair, then the full ones, each ascending
};

/// CTAs in launch order that wait for nobody: no two of them reduce into one buffer of one tile.
struct FreeLanes {
  std::vector<Chain> chains = {};
  std::vector<std::int64_t> lane_begin = {0};  ///< ascending; lanes + 1 entries
  TileOrder kv_order = TileOrder::ascending;   ///< of a Q tile's chain
  TileOrder q_order = TileOrder::ascending;    ///< of a KV tile's

  [[nodiscard]] std::int64_t lanes() const {
    return static_cast<std::int64_t>(lane_begin.size()) - 1;
  }
  void end_lane() { lane_begin.push_back(static_cast<std::int64_t>(chains.size())); }
};

/// A kernel, which starts when the one before has ended.
struct Stage {
  std::string name = {};
  Problem problem = {};  ///< whose tiles it works on
  /// In units of the plan. Of free lanes a compute phase is that of one GEMM of a tile.
  Timing timing = {};
  std::variant<FreeLanes, Table> work = {};
  std::int64_t bytes = 0;  ///< it moves at least these; free lanes
};

/// A pass over whole tensors, before or after the kernels.
struct Pass {
  const char* name = "";
  std::int64_t bytes = 0;  ///< read and written
  std::int64_t launches = 1;
};

/// What bits move with, beside the numbers, the mask and the lengths: the words of reports.
namespace bits {
inline constexpr const char* kSms = "sms";
inline constexpr const char* kBatch = "batch";  ///< how many heads there are
inline constexpr const char* kTileQ = "tile-q";
inline constexpr const char* kTileKv = "tile-kv";
inline constexpr const char* kSplits = "splits";        ///< buffers that dQ is summed in
inline constexpr const char* kRanks = "ranks";          ///< the table's accumulation order
inline constexpr const char* kTiming = "timing";        ///< the model that a search goes by
inline constexpr const char* kPairs = "pairs";          ///< which KV tiles are summed first
inline constexpr const char* kGemm = "gemm";            ///< the kernel that multiplies dS by K
inline constexpr const char* kWorkspace = "workspace";  ///< how many chunks dS is stored in
}  // namespace bits

/// What a design does of one problem.
struct Plan {
  std::string name = {};  ///< with its parameters
  std::string note = {};  ///< what it chose: its schedule, its buffers
  std::vector<Stage> stages = {};
  Ticks units = 1;  ///< of the stages' times that make one tick
  std::int64_t flops = 0;
  std::int64_t workspace_bytes = 0;
  std::int64_t hbm_bytes = 0;  ///< read from and written to device memory, at least
  std::vector<Pass> passes = {};
  std::int64_t dq_targets = 0;  ///< places in memory that dQ is summed in; 0: in registers
  std::vector<const char*> bits_depend_on = {};
  /// What a task of a stage is called in a picture: nullptr if it is a task of the problem.
  Task (*original)(const Problem& problem, const Task& task) = nullptr;

  /// GEMMs of a live tile over the five that there are, in per mille; 1000 without live tiles.
  std::int64_t compute_permille = 1000;

  /// Kernels and passes.
  [[nodiscard]] std::int64_t launches() const;
};

}  // namespace stagger::designs
