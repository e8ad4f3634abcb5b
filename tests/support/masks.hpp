#pragma once

#include "core/problem.hpp"

#include <cstdint>
#include <vector>

namespace stagger::test {

/// A problem of every registered kind of mask, its values drawn at random so that they fit the
/// lengths, or, for a kind for whose values nothing drawn fits, the example that it is listed with.
/// A kind that has its own lengths gets them; one that speaks of tiles has as many as the lengths.
/// Ends the test case if a kind has no problem.
[[nodiscard]] std::vector<Problem> every_mask(const Lengths& lengths, const TileShape& shape,
                                              std::int64_t heads, std::uint32_t seed);

/// Those and the corners that they might miss: small problems with ragged last tiles, unequal
/// lengths and queries that see nothing, tiles of 1 to 8 tokens, one and two heads.
[[nodiscard]] std::vector<Problem> every_small_mask();

}  // namespace stagger::test
