#pragma once

#include "core/memory.hpp"
#include "core/problem.hpp"

#include <cstdint>

namespace stagger::dag {

/// Bytes that every table of a problem moves between device memory and an L2 of `memory.l2` bytes,
/// whatever the L2 keeps, on so many SMs: what is read or written once at least, and what an SM's
/// chains, each of which passes over all its Q tiles, cannot have left there for one another.
/// O(tiles). Source: dag/README.md.
[[nodiscard]] std::int64_t least_traffic(const Problem& problem, const Memory& memory,
                                         std::int64_t sms);

/// What the additions of every table of a problem, all reductions but the first of a tile, take of
/// the memory's channels, in bytes that these could move meanwhile. O(tiles).
[[nodiscard]] std::int64_t additions(const Problem& problem, const Memory& memory);

}  // namespace stagger::dag
