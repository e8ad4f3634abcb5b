#pragma once

#include <cstdint>

namespace stagger {

// Limits on input, so that hostile or mistyped sizes end in a message and not in swap.

inline constexpr std::int64_t kMaxTokens = std::int64_t{1} << 26;     ///< per sequence
inline constexpr std::int64_t kMaxTiles = std::int64_t{1} << 20;      ///< per side of a tile grid
inline constexpr std::int64_t kMaxGridTiles = std::int64_t{1} << 26;  ///< tiles of one head
inline constexpr std::int64_t kMaxKeyRanges = std::int64_t{1} << 26;  ///< of all queries: 1 GiB
inline constexpr std::int64_t kMaxBitBytes = std::int64_t{1} << 30;   ///< of a mask, for a GPU
inline constexpr int kMaxMaskParts = 64;                              ///< of a composed mask
inline constexpr std::int64_t kMaxHeadMasks = 4096;                   ///< of a mask by head
inline constexpr std::int64_t kMaxMaskTiles = std::int64_t{1} << 28;  ///< of all those: 256 MiB
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxProblemTiles = std::int64_t{1} << 34;  ///< of all heads
inline constexpr std::int64_t kMaxLocks = std::int64_t{1} << 28;         ///< heads x (KV + Q tiles)
inline constexpr std::int64_t kMaxSms = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxTasks = std::int64_t{1} << 26;  ///< and chains of a table: 4 GiB
inline constexpr std::int64_t kMaxRunBytes = std::int64_t{1} << 32;  ///< of a run on the CPU
inline constexpr std::int64_t kMaxCudaRunBytes = std::int64_t{1}
                                                 << 35;  ///< on the host, beside one
inline constexpr std::int64_t kMaxPartialBytes = std::int64_t{1} << 32;  ///< of them, dQ partials
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 28;
inline constexpr int kMaxJsonDepth = 32;

inline constexpr std::int32_t kMaxSteps = 64;  ///< that a task is taken in

/// What a task may cost in memory over generate, verify and simulate; and a chain, once more.
inline constexpr std::int64_t kBytesPerTask = 64;

}  // namespace stagger
