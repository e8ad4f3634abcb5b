#pragma once

#include "core/mask.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagger {

/// Throws Error{invalid_input}.
[[noreturn]] void reject_mask(const std::string& what);

/// The family or the key of that name. Throws Error{invalid_input}, naming the known ones.
[[nodiscard]] const MaskFamily& find_mask_family(std::string_view kind);
[[nodiscard]] const MaskKey& find_mask_key(const MaskFamily& family, std::string_view name);

// The rules of the families of mask.cpp: what a MaskFamily points to.

[[nodiscard]] std::vector<KeyRange> full_rows(const Mask& mask, const Lengths& lengths);
[[nodiscard]] std::vector<KeyRange> causal_rows(const Mask& mask, const Lengths& lengths);
[[nodiscard]] std::vector<KeyRange> sliding_rows(const Mask& mask, const Lengths& lengths);
[[nodiscard]] std::vector<KeyRange> prefix_rows(const Mask& mask, const Lengths& lengths);
[[nodiscard]] std::vector<KeyRange> document_rows(const Mask& mask, const Lengths& lengths);
[[nodiscard]] std::vector<KeyRange> varlen_rows(const Mask& mask, const Lengths& lengths);
[[nodiscard]] std::vector<KeyRange> block_causal_rows(const Mask& mask, const Lengths& lengths);

[[nodiscard]] Lengths document_size(const Mask& mask);
[[nodiscard]] Lengths varlen_size(const Mask& mask);
[[nodiscard]] Lengths block_causal_size(const Mask& mask);

[[nodiscard]] KeyRanges global_ranges(const Mask& mask, const Lengths& lengths,
                                      const TileShape& shape);
[[nodiscard]] KeyRanges slices_ranges(const Mask& mask, const Lengths& lengths,
                                      const TileShape& shape);
[[nodiscard]] KeyRanges flashmask_ranges(const Mask& mask, const Lengths& lengths,
                                         const TileShape& shape);
[[nodiscard]] KeyRanges and_ranges(const Mask& mask, const Lengths& lengths,
                                   const TileShape& shape);
[[nodiscard]] KeyRanges or_ranges(const Mask& mask, const Lengths& lengths, const TileShape& shape);

[[nodiscard]] Lengths slices_size(const Mask& mask);
[[nodiscard]] Lengths flashmask_size(const Mask& mask);

[[nodiscard]] TileGrid tiles_grid(const Mask& mask, std::int32_t kv_tiles, std::int32_t q_tiles);
[[nodiscard]] TileGrid csr_grid(const Mask& mask, std::int32_t kv_tiles, std::int32_t q_tiles);
[[nodiscard]] Lengths tiles_size(const Mask& mask);
[[nodiscard]] Lengths csr_size(const Mask& mask);

/// Masks that a mask is made of, and their masks, itself included.
[[nodiscard]] std::int64_t mask_parts(const Mask& mask);

/// A head's place among the masks of a mask by head.
[[nodiscard]] std::int32_t mask_place(const Mask& mask, Head head);
/// Throws Error{usage} if a mask by head has masks for a number that does not divide so many heads.
void check_mask_heads(const Mask& mask, std::int32_t heads);
/// Throws Error{unsupported} of a mask by head.
void expect_not_by_head(const Mask& mask);

/// `slices[3] of 7`: whether a query is in a slice, and which keys it sees there.
[[nodiscard]] KeyRange slice_keys(const Mask& slices, std::size_t slice, std::int64_t query);

}  // namespace stagger
