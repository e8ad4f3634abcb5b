#pragma once

#include "core/formats/bundle.hpp"
#include "core/mask.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace stagger::formats {

/// Which pairs of FlashInfer's blocks attend, [blocks, R, C] in the order of `indices`: its `mask`,
/// or `packed_mask`, the same as bits. nullopt if the file has neither: every block is full. A mask
/// says the size of a block too, and `block` has it then. Throws Error{invalid_input} if a shape is
/// another, or if both are there and differ; Error{limit} above kMaxElements pairs.
[[nodiscard]] std::optional<std::vector<std::int64_t>> pairs_of_blocks(
    const Bundle& bundle, std::span<const std::int64_t> indptr, std::int64_t blocks,
    TileShape& block);

}  // namespace stagger::formats
