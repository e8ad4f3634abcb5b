#pragma once

#include "core/problem.hpp"
#include "schedules/search/chain.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace stagger::search {

/// Places of two chains.
using ChainPair = std::pair<std::size_t, std::size_t>;

/// The pairs of chains that have to start in this order, if symmetry is broken. Parts that are
/// alike can exchange names, and so can equal rows of a part; where parts are combined in order,
/// parts of one KV head, and KV tiles whose rows are equal in all of its parts. Of all tables that
/// differ by names alone one is left whose starts, chain by chain, are lexicographically least: no
/// exchange gives the first chain that it moves an earlier start, so all pairs hold at once.
/// Requires chains_of(problem). O(tasks log tasks).
[[nodiscard]] std::vector<ChainPair> ordered_chains(const Problem& problem,
                                                    const std::vector<Chain>& chains);

}  // namespace stagger::search
