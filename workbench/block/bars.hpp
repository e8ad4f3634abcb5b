#pragma once

#include "workbench/block/replacement.hpp"

#include <optional>
#include <string>

namespace stagger::block {

/// A bar chart of a block: a bar a kernel, by length what it takes, coloured by the kind of work;
/// under the attention backward pass what replaces it, pale. Under all of it the block before and
/// then, by the rule and, where that is another, at its own clock.
[[nodiscard]] std::string bars_svg(const std::string& title, const BlockCost& cost,
                                   const std::optional<Replacement>& replacement,
                                   const std::optional<Settled>& settled = std::nullopt);

}  // namespace stagger::block
