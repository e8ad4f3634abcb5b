#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"
#include "sim/simulate.hpp"

#include <cstdint>
#include <vector>

namespace stagger::sim {

/// A window of time in which device memory was touched.
struct MemoryWindow {
  Ticks phases = 0;            ///< its start by the phases alone
  Ticks length = 0;            ///< by the phases alone
  Ticks start = 0;             ///< with the memory
  Ticks end = 0;               ///< with the memory
  std::int64_t bytes = 0;      ///< read from and written to device memory
  std::int64_t in_flight = 0;  ///< most bytes of dQ tiles begun and not finished, at any time in it
};

/// What a played table asks of the memory, and how long it takes with it.
struct MemoryPlay {
  Ticks makespan = 0;          ///< with the memory; at least Simulation::makespan
  Ticks last_reduction = 0;    ///< end of the last reduction, with the memory
  std::int64_t touched = 0;    ///< bytes that tasks and chains touch, in L2 or not
  std::int64_t hit = 0;        ///< those of them that were in L2
  std::int64_t read = 0;       ///< bytes from device memory
  std::int64_t written = 0;    ///< bytes to device memory; what is in L2 at the end is not
  std::int64_t in_flight = 0;  ///< most bytes of dQ tiles begun and not finished, at any time
  std::vector<MemoryWindow> windows;  ///< those with traffic, in order

  /// When something happens with the memory that happens at `phases` by the phases alone.
  /// O(log windows).
  [[nodiscard]] Ticks at(Ticks phases) const;
};

/// How long a window takes whose phases and whose traffic take so long each: as long as the longer
/// one, max + min^3 / (5 max^2), since neither flows evenly. Requires both below 2^62.
[[nodiscard]] Ticks with_traffic(Ticks phases, Ticks traffic);

/// Plays what a simulated table touches, in the order of time, through an L2 cache of whole tiles,
/// and stretches the time that device memory cannot follow.
///
///   order    rounds of compute + reduce ticks; within a round lane by lane
///   touches  a chain reads K and V when it is launched and writes dK and dV with its last
///            reduction; a task reads Q and dO when its compute phase starts, and adds to its dQ
///            tile when its reduction starts (rank 0 stores)
///   L2       tiles leave at random (tile_cache.hpp); one that was written to, to device memory.
///            Only what is stored whole need not be read first.
///   time     windows of 8 rounds, each with_traffic() of its own
///
/// Requires `timing.memory` and a complete simulation. O(tasks), and O(tasks log tasks) where
/// rounds are few of many; 16 bytes a task of scratch memory.
[[nodiscard]] MemoryPlay play_memory(const Table& table, const Timing& timing,
                                     const Simulation& simulation);

}  // namespace stagger::sim
