#pragma once

#include "core/problem.hpp"

#include <vector>

namespace stagger::test {

/// One problem of every kind of mask, small, with ragged last tiles, unequal lengths and queries
/// that see nothing; tiles of 1 to 8 tokens.
[[nodiscard]] std::vector<Problem> every_mask();

}  // namespace stagger::test
