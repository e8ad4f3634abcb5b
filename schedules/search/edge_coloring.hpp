#pragma once

#include "schedules/search/chain.hpp"
#include "schedules/search/round_times.hpp"

#include <cstdint>
#include <optional>

namespace stagger::search {

/// Q orders without a collision for chains whose lanes and orders are given, so that each has its
/// rounds: a proper edge colouring of KV tiles × dQ tiles with rounds as colours, in which a
/// chain's colours are its own interval. Tasks are coloured one by one; where no round of the chain
/// is free at the dQ tile, an alternating path of two rounds is exchanged, and if every such path
/// leaves an interval, a task in the way is coloured anew. nullopt if `moves` of those were not
/// enough (with one-sided intervals a colouring need not exist), or when `stop()` is true. O(tasks
/// * rounds) without evictions; heads * q_tiles * rounds integers of memory. Source: König 1916
/// (the alternating path); the interval constraint is ours.
[[nodiscard]] std::optional<RoundTimes> color_edges(const Problem& problem, const ChainLanes& lanes,
                                                    std::uint64_t seed, std::int64_t moves,
                                                    const Stop& stop);

}  // namespace stagger::search
