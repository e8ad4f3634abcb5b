#pragma once

#include "core/checked.hpp"
#include "core/formats/bundle.hpp"
#include "core/problem.hpp"
#include "core/table.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::formats {

/// What a tile is that reaches beyond the last token, and of which every pair that is there
/// attends.
enum class Ragged {
  flex,       ///< partial: FlexAttention pads the mask with zeros
  in_bounds,  ///< full: FlashAttention-4 looks only at tokens that are there
};

/// A layout that masks are written in.
struct ExportFormat {
  const char* name;  ///< as `--as` takes it
  const char* summary;
  bool has_ragged;         ///< it tells full from partial tiles
  Ragged ragged;           ///< its consumer's rule
  bool has_order = false;  ///< it holds a table's write order too
};
[[nodiscard]] std::span<const ExportFormat> export_formats();
/// nullptr if there is none of that name.
[[nodiscard]] const ExportFormat* find_export_format(std::string_view name);

/// The tensors of a mask in a format: one head's for all, or, where heads have masks of their own,
/// every head's. With a table the backward lists of `fa4` are in the order of its chains, and
/// `dq_write_order` has its ranks. What is to be known of them is added to `notes`. Throws
/// Error{unsupported}, naming the tile, if the format cannot hold the mask, or the condition, if
/// FlashAttention-4 cannot run the table; Error{limit} above kMaxElements.
[[nodiscard]] Bundle export_mask(const Problem& problem, const ExportFormat& format, Ragged ragged,
                                 const Table* table, std::vector<std::string>& notes);

/// The file of a bundle, by its extension: `.npz`, `.safetensors` or `.json`. Throws Error{usage}
/// of another.
[[nodiscard]] std::string write_bundle(Bundle bundle, std::string_view path);

/// The grids with ragged tiles by that rule.
[[nodiscard]] HeadGrids by_rule(const Problem& problem, Ragged ragged);

// The formats, a file each.
[[nodiscard]] Bundle flex_bundle(const HeadGrids& grids, const Problem& problem);
[[nodiscard]] Bundle fa4_bundle(const HeadGrids& grids, const Problem& problem, const Table* table,
                                std::vector<std::string>& notes);
[[nodiscard]] Bundle flashmask_bundle(const Problem& problem);
[[nodiscard]] Bundle magi_bundle(const Problem& problem);
[[nodiscard]] Bundle bsr_bundle(const Problem& problem);
[[nodiscard]] Bundle cu_seqlens_bundle(const Problem& problem);

/// Throws Error{unsupported}: `why` a format cannot hold a tile of the mask, which is all heads' or
/// that of one.
[[noreturn]] void refuse_tile(const char* format, KvTile kv, QTile q, const std::string& why,
                              std::optional<Head> head = std::nullopt);

/// Throws Error{unsupported} if the mask is block-sparse and a tile is partial: nobody knows of
/// which pairs.
void expect_known_pairs(const Problem& problem, const char* format,
                        std::optional<Head> head = std::nullopt);

/// Throws Error{limit} if so many numbers are more than a file of tensors has.
void expect_room(const Checked& numbers, const char* format);

}  // namespace stagger::formats
