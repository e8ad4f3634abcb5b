#pragma once

#include "core/timing.hpp"
#include "schedules/search/chain.hpp"

#include <cstdint>

namespace stagger::search {

/// Deals chains to `sms` SMs so that the longest lane has few tasks, down to `target` at best:
/// longest first, then exchanges between the longest lane and the others, then a depth-first search
/// of at most `nodes` nodes. Lanes come out longest chain first. O(chains log chains), and for each
/// exchange O(chains * longest lane).
/// Source: Graham 1969; P || Cmax.
[[nodiscard]] ChainLanes pack_chains(std::vector<Chain> chains, std::int32_t sms, Ticks target,
                                     std::int64_t nodes = 100'000);

/// Tasks of the longest lane.
[[nodiscard]] Ticks longest_lane(const ChainLanes& lanes);

}  // namespace stagger::search
