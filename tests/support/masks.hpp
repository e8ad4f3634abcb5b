#pragma once

#include "core/problem.hpp"
#include "tests/support/random.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace stagger::test {

/// A problem of every registered kind of mask for all heads, its values drawn at random so that
/// they fit the lengths, or, for a kind for whose values nothing drawn fits, the example that it is
/// listed with. A kind that has its own lengths gets them; one that speaks of tiles has as many as
/// the lengths. Ends the test case if a kind has no problem.
[[nodiscard]] std::vector<Problem> every_mask(const Lengths& lengths, const TileShape& shape,
                                              std::int64_t heads, std::uint32_t seed);

/// Those and the corners that they might miss: small problems with ragged last tiles, unequal
/// lengths and queries that see nothing, tiles of 1 to 8 tokens, one and two heads.
[[nodiscard]] std::vector<Problem> every_small_mask();

/// Kinds of masks of which every_mask() has one each.
[[nodiscard]] std::int64_t kinds_of_masks();

/// Small problems whose heads have masks of their own, of one range of keys a query and of several,
/// alike in tiles and not, with heads that share K and V and chains.
[[nodiscard]] std::vector<Problem> small_masks_by_head();

/// The mask of the pairs of tokens for which `sees(query, key)` is true, whatever they are.
[[nodiscard]] Mask mask_of_pairs(const Lengths& lengths,
                                 const std::function<bool(std::int64_t, std::int64_t)>& sees);

/// Pairs in up to `most` ranges of keys a query, of any length, and queries that see nothing.
[[nodiscard]] Mask random_ranges(Random& random, const Lengths& lengths, std::int64_t most);

/// Masks of which keys are seen by several ranges of queries within tiles of 64: global tokens that
/// see every key, too, beside a window, causal and not, FlashMask's two intervals, random ranges,
/// and random ranges in some tiles alone. Requires at least 500 tokens.
[[nodiscard]] std::vector<Problem> masks_in_bits(Random& random, const Lengths& lengths,
                                                 const TileShape& shape, std::int64_t heads,
                                                 const Grouping& grouping = {});

}  // namespace stagger::test
