#pragma once

#include "core/table.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/check/clock_anchors.hpp"
#include "gpu/cuda/masked_tiles.hpp"
#include "gpu/numerics/host_device.hpp"

#include <cstdint>
#include <vector>

namespace stagger::gpu::cuda {

inline constexpr int kThreads = 256;    ///< of every CTA
inline constexpr int kDelayPlaces = 4;  ///< before compute, turn, release and whatever follows

/// A slot as the device reads it: what the table says, and what its neighbours and its tile say.
struct alignas(8) DeviceSlot {
  std::int32_t head = 0;
  std::int32_t kv = 0;
  std::int32_t q = 0;
  std::int32_t rank = 0;
  std::int32_t partial = -1;  ///< its tile's place in MaskedTiles; -1 = nothing is hidden
  bool begins_chain = false;
  bool ends_chain = false;
};

/// Finds the places of masked tiles; -1 for others. By (kv, q), row-major.
[[nodiscard]] std::vector<std::int32_t> masked_places(const Problem& problem,
                                                      const MaskedTiles& masked);

/// Lists a table's slots, lane by lane.
[[nodiscard]] std::vector<DeviceSlot> device_slots(const Table& table, const MaskedTiles& masked);

/// Lists the ranks of chains among those of their KV tile, by Problem::chain_place; -1 where a
/// chain has no tasks and so no rank.
[[nodiscard]] std::vector<std::int32_t> dkv_ranks(const Table& table);

/// A table in device memory. No schedule is compiled into a kernel: it follows these arrays.
struct DeviceTable {
  const DeviceSlot* slots = nullptr;
  const std::int64_t* lane_begin = nullptr;  ///< as in Table
  const std::int64_t* places = nullptr;  ///< by (head, q): first of its ranks, as RankPlaces says
  std::int32_t lanes = 0;
  std::int32_t q_tiles = 0;
  std::int32_t kv_tiles = 0;
  std::int32_t span = 1;                    ///< heads of a chain
  std::int32_t parts = 1;                   ///< chains that come together at a KV tile
  const std::int32_t* dkv_ranks = nullptr;  ///< by Problem::chain_place; nullptr: not in order

  /// The chain of a slot as Problem::chain_place, and the KV tile that it is added to as dkv_place.
  [[nodiscard]] STAGGER_HOST_DEVICE std::int64_t chain_of(const DeviceSlot& slot) const {
    return std::int64_t{slot.head / span} * kv_tiles + slot.kv;
  }
  [[nodiscard]] STAGGER_HOST_DEVICE std::int64_t dkv_tile_of(const DeviceSlot& slot) const {
    return std::int64_t{slot.head / (span * parts)} * kv_tiles + slot.kv;
  }
};

/// What a run is told and what it leaves behind, in device memory.
struct DeviceRun {
  Mode mode = Mode::deterministic;
  bool delayed_release = false;
  const std::uint8_t* delays = nullptr;  ///< by slot and place: delay_us; nullptr: none
  std::int64_t timeout_ns = 0;           ///< the longest any task may wait for its turn
  std::int32_t* locks = nullptr;         ///< by (head, q, step): the rank whose turn it is
  std::int32_t* counts = nullptr;        ///< by (head, q): reductions so far
  std::int64_t* witness = nullptr;       ///< as Backward::witness
  TaskClocks* times = nullptr;           ///< by slot; nullptr: none are taken
  /// Where parts are added in order, as Backward has them, for each of a KV tile's semaphores.
  std::int32_t* dkv_locks = nullptr;
  std::int32_t* dkv_counts = nullptr;  ///< the hopper kernel: nullptr: no witness, nor chain_times
  std::int32_t* dkv_witness = nullptr;
  ChainTimes* chain_times = nullptr;    ///< of the global timer
  Sm* lane_sms = nullptr;               ///< by lane; the hopper kernel: nullptr: none are kept
  std::int32_t* smids = nullptr;        ///< by CTA; likewise
  std::int32_t* lanes_taken = nullptr;  ///< beyond each CTA's first, unless `late`
  std::int32_t* stop = nullptr;         ///< 1: a wait was too long, and every CTA leaves
  /// CTAs may start whenever there is room for them, and whoever starts takes the next lane: for
  /// tables that need no two lanes at once. Else CTA i begins with lane i. The hopper kernel.
  bool late = false;
};

}  // namespace stagger::gpu::cuda
