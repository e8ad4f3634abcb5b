#pragma once

#include "core/formats/bundle.hpp"
#include "core/formats/mask_import.hpp"
#include "core/text.hpp"
#include "core/tile_grid.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::formats {

/// How many masks a file has, and whose they are.
struct MasksOfFile {
  std::int64_t batches = 1;
  std::int64_t heads = 1;
  bool of_kv_heads = false;  ///< a head has that of the KV head which it shares with others

  [[nodiscard]] std::int64_t count() const { return batches * heads; }
  /// `2 batches of 4 heads`.
  [[nodiscard]] std::string words() const {
    return std::to_string(batches) + does(batches, " batch of ", " batches of ") +
           counted(heads, "head");
  }
};

/// What the reader of one format works with: the file, the request, and what it has to say.
class Import {
 public:
  Import(const Bundle& tensors, const MaskFileRequest& how) : bundle(tensors), request(how) {}

  const Bundle& bundle;
  const MaskFileRequest& request;
  MaskOrigin origin;

  void understood(const std::string& what) { origin.understood.push_back(what); }
  void lost(const std::string& what) { origin.lost.push_back(what); }

  /// The numbers of a tensor, or of words like `(128, 128)`; nullopt if there is neither.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(std::string_view name) const;
  /// Exactly so many integers of that name. Throws Error{invalid_input} if there are others.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(std::string_view name,
                                                                 std::size_t count) const;
  /// Tokens of a block under that name, Q first; 0 x 0 if the file does not say. Throws
  /// Error{invalid_input} if that is no size.
  [[nodiscard]] TileShape block_size(std::string_view name) const;
  /// A yes or no of that name.
  [[nodiscard]] std::optional<bool> flag(std::string_view name) const;
  /// What the file says of whether the mask is causal.
  [[nodiscard]] std::optional<bool> causal_of_file() const;
  /// Whether the mask is causal: what the file says, else the request. Throws Error{usage} if they
  /// contradict each other.
  [[nodiscard]] std::optional<bool> causal();
  /// The tokens of the file's blocks; where it does not say, those of the request's tiles, or one.
  [[nodiscard]] TileShape block_or_asked(const TileShape& block) const;
  /// Blocks that the request's lengths have; 0 where it does not say.
  [[nodiscard]] Lengths asked_blocks(const TileShape& block) const;
  /// Tokens of the last block of a side that is cut, from the file's lengths or the request's; 0
  /// where it is whole, or nobody says.
  [[nodiscard]] Lengths ragged_tokens(const Lengths& lengths, const TileShape& block) const;
  /// Throws Error{usage} if the request has an answer that nobody asked for.
  void expect_heeded(const char* format) const;

  /// The masks of the file, [batches, heads], as one for all or as a mask by head: `mask(place)`
  /// makes that of a place, batch * heads + head. Where the request chooses one, that alone. Throws
  /// Error{usage} if the problem has other heads than there are masks for.
  [[nodiscard]] Mask by_head(const MasksOfFile& masks,
                             const std::function<Mask(std::int64_t)>& mask);

  /// Grids of blocks of `block` tokens (0: the file does not say), likewise, as a mask of the tiles
  /// that are asked for, which divide the blocks. `lengths` are the file's; 0: it does not say.
  [[nodiscard]] ImportedMask tiled(const MasksOfFile& masks,
                                   const std::function<TileGrid(std::int64_t)>& grid,
                                   const TileShape& block, const Lengths& lengths);
  /// Makes a mask of tiles, or each of those by head, causal too, where causal() says so.
  void compose_causal(ImportedMask& imported);
  /// A token-level mask; `lengths` are the file's, and what it has no word of is the request's.
  [[nodiscard]] ImportedMask of_tokens(Mask mask, const Lengths& lengths);

 private:
  /// The place of the mask of each head of the problem among batches x heads.
  [[nodiscard]] std::vector<std::int64_t> places_of_heads(const MasksOfFile& masks) const;
  [[nodiscard]] Lengths agreed(const Lengths& lengths) const;

  bool heeds_head_ = false;
  bool heeds_causal_ = false;
};

/// A tensor seen as [batches, heads, ...]: leading dimensions that are missing are 1. Throws
/// Error{invalid_input} if it has not `inner` dimensions and at most two before them.
struct Leading {
  std::int64_t batches = 1;
  std::int64_t heads = 1;
  std::vector<std::int64_t> inner;
  [[nodiscard]] std::int64_t masks() const { return batches * heads; }
};
[[nodiscard]] Leading leading_of(const Bundle& bundle, std::string_view name, std::size_t inner);

/// As many masks as two tensors have together, of which one batch or head may be for all of the
/// other's; nullopt if they do not fit.
[[nodiscard]] std::optional<MasksOfFile> together(const MasksOfFile& left,
                                                  const MasksOfFile& right);
/// The place of a mask, one of `all`, in a tensor of which one batch or head may be for all.
[[nodiscard]] std::int64_t own_place(const Leading& own, const MasksOfFile& all, std::int64_t mask);
/// Throws Error{limit} if so many masks of `size` numbers each are more than a file has.
void check_masks(const Bundle& bundle, const std::string& name, const MasksOfFile& masks,
                 std::int64_t size);

/// Throws Error{invalid_input} if an element of that tensor is neither 0 nor 1.
void check_zeros_and_ones(const Bundle& bundle, std::string_view name);

/// Throws Error{usage} if so many tokens do not make that grid of blocks.
void check_lengths(const Lengths& tokens, const TileShape& block, std::int64_t q_tiles,
                   std::int64_t kv_tiles);
/// Throws Error{limit} if a head has more tiles than are supported.
void check_grid_size(const Bundle& bundle, std::int64_t kv_tiles, std::int64_t q_tiles);

/// `[0,3,1,2]`, the place of an element in a tensor of that shape.
[[nodiscard]] std::string place_words(std::int64_t element, const std::vector<std::int64_t>& shape);

// The formats, a file each.
[[nodiscard]] ImportedMask read_flex(Import& import);
[[nodiscard]] ImportedMask read_fa4(Import& import);
[[nodiscard]] ImportedMask read_fa4_linear(Import& import);
[[nodiscard]] ImportedMask read_flashmask(Import& import);
[[nodiscard]] ImportedMask read_magi(Import& import);
[[nodiscard]] ImportedMask read_cu_seqlens(Import& import);
[[nodiscard]] ImportedMask read_bsr(Import& import);
[[nodiscard]] ImportedMask read_vsa(Import& import);
[[nodiscard]] ImportedMask read_block_mask(Import& import);

/// The prefix under which a bundle has FlashAttention-4's lists of one direction; nullopt if it has
/// none. Lists without a prefix are the backward pass's if they have a write order or `spt`.
enum class Direction { forward, backward };
[[nodiscard]] std::optional<std::string> fa4_prefix(const Bundle& bundle, Direction direction);
/// Whether the lists under both prefixes must be of the same tiles: their blocks are, or nobody
/// says and there may be as many. Throws Error{invalid_input} if the lists of one do not fit each
/// other.
[[nodiscard]] bool fa4_lists_are_alike(const Import& import, const std::string& backward,
                                       const std::string& forward);

}  // namespace stagger::formats
