#pragma once

#include <algorithm>
#include <cstdint>

namespace stagger {

/// Bytes that the tasks of a kernel touch in device memory, tile by tile.
struct TileBytes {
  std::int64_t q = 0;         ///< read by a task: Q, dO, lse and D of its Q tile
  std::int64_t dq = 0;        ///< of a dQ tile's sums: stored by rank 0, read and written by others
  std::int64_t kv = 0;        ///< read by a chain at its start: K and V
  std::int64_t gradient = 0;  ///< written by a chain at its end: dK and dV

  friend bool operator==(const TileBytes&, const TileBytes&) = default;
};

/// Parts of L2 and the device memory behind it that work at once: each moves one tile at a time, at
/// an equal part of the rate, or adds to one. Of a GPU's it is what measured runs were predicted
/// best with, not what is soldered there.
inline constexpr std::int64_t kMemoryChannels = 16;

/// Most that an addition may take of the channels: a hundred times its bytes.
inline constexpr std::int64_t kMostAddPermille = 100'000;

/// Sequences that chance may be drawn from: the same tasks with other luck.
inline constexpr std::int64_t kMemoryDraws = 64;

/// The memory behind the SMs: an L2 cache of whole tiles, through which turns are handed over, and
/// device memory of a certain rate behind it.
struct Memory {
  std::int64_t l2 = 0;    ///< bytes that stay, > 0
  std::int64_t rate = 0;  ///< bytes of device memory a tick, read and written, all channels, > 0
  /// Bytes of device memory a tick for who streams and adds nothing, >= 0; 0: as `rate`. No table
  /// gets all channels to work at once, so that the rate which tells its time is above this one.
  std::int64_t stream_rate = 0;
  TileBytes tile = {};
  /// Thousandths of its bytes that an addition takes of the channels, as if they were moved, where
  /// the tile is in L2 and where it is not, 0 to kMostAddPermille. Rank 0 stores, and takes
  /// nothing.
  std::int64_t add_permille = 0;
  /// Ticks from device memory's having moved a tile until it is there, >= 0.
  std::int64_t latency = 0;
  /// Ticks that a hand-over takes longer while every SM reduces as often as it can, >= 0.
  std::int64_t congestion = 0;
  /// Ticks that a hand-over takes longer by chance, in the mean, >= 0.
  std::int64_t spread = 0;
  /// Ticks from a kernel's begin on for which its clock dips if it makes more than half of a device
  /// reduce at once, >= 0.
  std::int64_t dip = 0;
  /// Ticks of them that are lost by SMs that all reduce as often as they can, 0 to dip / 2.
  std::int64_t dip_loss = 0;
  /// Which of kMemoryDraws sequences that chance is drawn from, 0 to kMemoryDraws - 1.
  std::int64_t draw = 0;

  /// Bytes a tick for who streams.
  [[nodiscard]] std::int64_t streamed() const { return stream_rate > 0 ? stream_rate : rate; }

  friend bool operator==(const Memory&, const Memory&) = default;
};

/// What SMs lose in a dip that are `sms` of a device's `all`, of what all of them lose, while they
/// all reduce: nothing if they are no more than half of it. What fewer of them lose is in
/// proportion to that.
[[nodiscard]] constexpr std::int64_t lost_on(std::int64_t dip_loss, std::int32_t sms,
                                             std::int32_t all) {
  return sms >= all ? dip_loss : dip_loss * std::max(0, 2 * sms - all) / all;
}

}  // namespace stagger
