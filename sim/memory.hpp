#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "sim/simulate.hpp"

#include <cstdint>
#include <optional>

namespace stagger::sim {

/// What a played table asks of the memory, and how long it takes with it.
struct MemoryPlay {
  Ticks makespan = 0;          ///< with the memory, until the last channel is idle
  Ticks last_reduction = 0;    ///< end of the last reduction, with the memory
  std::int64_t touched = 0;    ///< bytes that tasks and chains touch, in L2 or not
  std::int64_t hit = 0;        ///< those of them that were in L2
  std::int64_t read = 0;       ///< bytes from device memory
  std::int64_t written = 0;    ///< bytes to device memory; what is in L2 at the end is not
  std::int64_t in_flight = 0;  ///< most bytes of dQ tiles begun and not finished, at any time
};

/// Plays a table whose phases wait for the tiles that they touch, step by step in the order of time
/// and, at one time, of SMs.
///
///   K, V, Q   a chain's launch loads its K and V and its first Q tile (with dO, lse and D), a
///             compute phase's start the chain's next Q tile; a compute phase starts once its tiles
///             are there
///   dQ        loaded when it is a reduction's turn, which starts once it is there; rank 0 stores,
///             and loads nothing
///   dK, dV    written past L2 when the SM is through with the chain's epilogue, or with a lane and
///             all its additions, as nobody asks for them again: the next chain is launched later
///             by what others keep them waiting; or loaded and added to when it is combined in
///             order
///   L2        tiles leave that were not asked for for long (tile_cache.hpp). One on its way is
///             waited for
///   channels  what is not in L2 is brought by one of kMemoryChannels, drawn at random, after what
///             that was asked for before, and is there the memory's latency after that. Tiles that
///             leave and were written to keep one busy too, and nobody waits for them
///   additions keep a channel busy for `add_permille` of their bytes, and do not wait for that
///   turns     a release is seen later the more SMs reduce (load.hpp), and by chance (spread.hpp)
///   clock     compute phases are longer at first, the more SMs reduce (load.hpp)
///
/// With tiles of no bytes, no latency, congestion, spread and dip it is what simulate() says.
/// Requires `timing.memory` and a table that does not hang. O(tasks) time, some 40 bytes a tile of
/// scratch memory.
[[nodiscard]] MemoryPlay play_memory(const Table& table, const Timing& timing);

/// Plays a table as play_memory() does. Returns when every phase starts, with `compute_start`;
/// 16 bytes a task, and 8 more each where parts are combined in order and where the clock dips.
[[nodiscard]] Simulation simulate_with_memory(const Table& table, const Timing& timing);

/// Returns the makespan of a table, with the memory if there is one; nullopt if it hangs.
[[nodiscard]] std::optional<Ticks> makespan_of(const Table& table, const Timing& timing);

}  // namespace stagger::sim
