#pragma once

#include "core/index.hpp"
#include "core/memory.hpp"
#include "core/problem.hpp"
#include "core/timing.hpp"
#include "sim/channels.hpp"
#include "sim/memory.hpp"
#include "sim/tile_cache.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace stagger::sim {

/// The tiles of a problem, kind after kind.
class Tiles {
 public:
  Tiles(const Problem& problem, const TileBytes& bytes)
      : bytes_(bytes),
        problem_(problem),
        q_tiles_(problem.q_tiles()),
        kv_tiles_(problem.kv_tiles()),
        q_(std::int64_t{problem.heads} * q_tiles_),
        kv_(2 * q_),
        gradient_(kv_ + std::int64_t{problem.heads_kv} * kv_tiles_),
        count_(gradient_ + (problem.combine == Combine::ordered ? gradient_ - kv_ : 0)) {}

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t dq(const Task& task) const {
    return std::int64_t{task.head.value} * q_tiles_ + task.q.value;
  }
  [[nodiscard]] std::int64_t q(const Task& task) const { return q_ + dq(task); }
  [[nodiscard]] std::int64_t kv(const Task& task) const {
    return kv_ + std::int64_t{problem_.kv_head_of(task.head).value} * kv_tiles_ + task.kv.value;
  }
  /// dK and dV that chains are combined into.
  [[nodiscard]] std::int64_t gradient(const Task& task) const {
    return gradient_ + problem_.dkv_place(task);
  }
  [[nodiscard]] std::int64_t bytes(std::int64_t tile) const {
    if (tile < q_) return bytes_.dq;
    if (tile < kv_) return bytes_.q;
    return tile < gradient_ ? bytes_.kv : bytes_.gradient;
  }

 private:
  TileBytes bytes_;
  const Problem& problem_;
  std::int64_t q_tiles_;
  std::int64_t kv_tiles_;
  std::int64_t q_;  ///< the first tile of Q and dO; those of dQ are before
  std::int64_t kv_;
  std::int64_t gradient_;
  std::int64_t count_;
};

/// What tiles are in L2 or on their way to it, and what is moved for them.
class TileMemory {
 public:
  TileMemory(const Memory& memory, const Problem& problem, MemoryPlay& play)
      : tiles(problem, memory.tile),
        play_(play),
        latency_(memory.latency),
        add_permille_(memory.add_permille),
        channels_(memory.rate),
        cache_(memory.l2, tiles.count()) {}

  /// When a tile that is read at `time` is there, `time` at the earliest.
  Ticks load(Ticks time, std::int64_t tile) {
    CachedTile& cached = cache_[tile];
    cached.touched = time;
    if (!cached.held()) {
      const std::int64_t bytes = tiles.bytes(tile);
      play_.read += bytes;
      cached.arrival = channels_.move(time, bytes) + latency_;
      take(time, tile);
    }
    return std::max(time, cached.arrival);
  }

  /// Writes the first of a tile at `time`, as a reduction does.
  void store(Ticks time, std::int64_t tile) {
    CachedTile& cached = cache_[tile];
    cached.dirty = true;
    cached.touched = time;
    if (!cached.held()) take(time, tile);
  }

  /// Writes so many bytes past L2 from `time` on, which nobody asks for again. Returns how long
  /// others keep them waiting.
  Ticks stream(Ticks time, std::int64_t bytes) {
    missed_ += bytes;
    play_.written += bytes;
    return channels_.move(time, bytes) - time - channels_.alone(bytes);
  }

  /// When a tile that is added to at `time` is there.
  Ticks add(Ticks time, std::int64_t tile) {
    occupy(time, tile);
    cache_[tile].dirty = true;
    return load(time, tile);
  }

  [[nodiscard]] Ticks idle() const { return channels_.idle(); }
  /// Bytes of the tiles that were touched while they were not in L2.
  [[nodiscard]] std::int64_t missed() const { return missed_; }

  Tiles tiles;

 private:
  /// An addition keeps a channel from moving anything. It does not wait for that itself.
  void occupy(Ticks time, std::int64_t tile) {
    const std::int64_t whole = tiles.bytes(tile);
    const std::int64_t bytes = whole / 1000 * add_permille_ + whole % 1000 * add_permille_ / 1000;
    if (bytes > 0) channels_.move(time, bytes);
  }

  void take(Ticks time, std::int64_t tile) {
    missed_ += tiles.bytes(tile);
    cache_.take(
        static_cast<std::int32_t>(tile), [this](std::int32_t each) { return tiles.bytes(each); },
        [&](std::int32_t each) { write_back(time, each); });
  }

  /// A tile leaves L2, to device memory if it was written to.
  void write_back(Ticks time, std::int32_t tile) {
    if (!std::exchange(cache_[tile].dirty, false)) return;
    play_.written += tiles.bytes(tile);
    channels_.move(time, tiles.bytes(tile));
  }

  MemoryPlay& play_;
  Ticks latency_;
  std::int64_t add_permille_;
  Channels channels_;
  TileCache cache_;
  std::int64_t missed_ = 0;
};

}  // namespace stagger::sim
