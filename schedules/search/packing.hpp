#pragma once

#include "core/timing.hpp"
#include "schedules/search/chain.hpp"

#include <cstdint>

namespace stagger::search {

/// How long pack_chains() goes on.
struct PackingLimits {
  std::int64_t nodes = 100'000;      ///< of the depth-first search
  Stop stop = [] { return false; };  ///< asked before every exchange and node
};

/// Deals chains to `sms` SMs so that the longest lane has few tasks, down to `target` at best:
/// longest first, then exchanges between the longest lane and the others, then a depth-first
/// search. Lanes come out longest chain first, whole when it is stopped too. O(chains log chains),
/// and for each exchange O(chains * longest lane). Source: Graham 1969; P || Cmax.
[[nodiscard]] ChainLanes pack_chains(std::vector<Chain> chains, std::int32_t sms, Ticks target,
                                     const PackingLimits& limits = {});

/// Tasks of the longest lane.
[[nodiscard]] Ticks longest_lane(const ChainLanes& lanes);

}  // namespace stagger::search
