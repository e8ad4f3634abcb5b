#pragma once

#include "workbench/block/replacement.hpp"

#include <optional>
#include <string>

namespace stagger::block {

/// A bar chart of a block: a bar a kernel, by length what it takes, coloured by the kind of work;
/// under the attention backward pass what replaces it, hatched.
[[nodiscard]] std::string bars_svg(const std::string& title, const BlockCost& cost,
                                   const std::optional<Replacement>& replacement);

}  // namespace stagger::block
