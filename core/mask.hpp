#pragma once

#include "core/head_grids.hpp"
#include "core/key_ranges.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stagger {

/// Tokens of one head's query and key sequences.
struct Lengths {
  std::int64_t q = 0;
  std::int64_t kv = 0;
  friend bool operator==(const Lengths&, const Lengths&) = default;
};

/// Tokens of one tile; the last tile of a sequence may be ragged.
struct TileShape {
  std::int64_t q = 1;
  std::int64_t kv = 1;
  friend bool operator==(const TileShape&, const TileShape&) = default;
};

struct Mask;

using MaskValue = std::variant<std::int64_t, bool, std::vector<std::int64_t>,
                               std::vector<std::string>, std::vector<Mask>>;

struct MaskFamily;

/// What was understood of a file that a mask is from, and what of it is not in the mask.
struct MaskOrigin {
  std::string format;  ///< `flex`; empty: the mask is no import
  std::vector<std::string> understood;
  std::vector<std::string> lost;
};

/// A mask description: a family and its keys' values. A value; it holds every key of its family.
struct Mask {
  const MaskFamily* family = nullptr;
  std::map<std::string, MaskValue, std::less<>> values = {};
  MaskOrigin origin = {};

  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view key) const;
  [[nodiscard]] const std::vector<std::string>& strings(std::string_view key) const;
  [[nodiscard]] const std::vector<Mask>& masks(std::string_view key) const;

  /// Whether family and values are the same, wherever they are from.
  friend bool operator==(const Mask& mask, const Mask& other) {
    return mask.family == other.family && mask.values == other.values;
  }
};

/// One key of a mask description.
struct MaskKey {
  const char* name;
  const char* meaning;
  /// The value when the key is absent; its alternative is the key's type.
  MaskValue fallback;
  bool required = false;
};

/// The rule that makes one kind of mask: a row of the table in mask.cpp. Exactly one of `rows`,
/// `ranges`, `tiles` and `by_head` is set.
struct MaskFamily {
  const char* name;
  const char* summary;
  const char* example;  ///< as `--mask` takes it
  std::vector<MaskKey> keys;

  /// The key range of every query, by query. Throws Error{invalid_input} if the values do not fit.
  std::vector<KeyRange> (*rows)(const Mask&, const Lengths&) = nullptr;
  /// The keys that each query sees, where they may be several ranges. Of a block-sparse mask the
  /// tile shape counts.
  KeyRanges (*ranges)(const Mask&, const Lengths&, const TileShape&) = nullptr;
  /// The tile grid of a block-sparse mask; `q_tiles` and `kv_tiles` are what the problem wants.
  TileGrid (*tiles)(const Mask&, std::int32_t kv_tiles, std::int32_t q_tiles) = nullptr;
  /// Whether it is several masks, each for some of the heads: only a whole mask can be that.
  bool by_head = false;
  /// What the values alone say about the size: tokens (`rows`) or tiles (`tiles`); 0 = nothing.
  Lengths (*implied)(const Mask&) = nullptr;
};

/// In the order `stagger list masks` prints.
[[nodiscard]] std::span<const MaskFamily> mask_families();

/// A mask with its absent keys filled in. Throws Error{invalid_input}, naming the known kinds or
/// keys, if the kind or a key is unknown, a required key is absent or a value has another type.
[[nodiscard]] Mask make_mask(std::string_view kind,
                             std::map<std::string, MaskValue, std::less<>> values = {});

/// Reads `kind:key=value,key=value`; lists are joined by '+', masks by '&' (which binds closer) and
/// '|', with parentheses; masks by head by ';', after `heads`. Throws like make_mask, and
/// Error{limit} above kMaxMaskParts.
[[nodiscard]] Mask parse_mask(std::string_view text);
/// The mask as parse_mask reads it, without what is as if absent: `sliding:left=4,right=0`.
[[nodiscard]] std::string mask_words(const Mask& mask);

/// Whether a mask, or one that it is made of, is of tiles: it fits tiles of one size alone.
[[nodiscard]] bool is_of_tiles(const Mask& mask);

/// What the mask says of the size itself, in tokens; 0 = nothing.
[[nodiscard]] Lengths implied_lengths(const Mask& mask, const TileShape& shape);

/// How many heads a mask by head has masks for: a batch may have them over and over. 0: it is one
/// mask for all.
[[nodiscard]] std::int64_t mask_heads(const Mask& mask);
/// The mask of a head: of a mask by head one of its parts, else the mask itself.
[[nodiscard]] const Mask& mask_of(const Mask& mask, Head head);

/// The keys that every query sees; of a partial tile of a block-sparse mask, by TokenMask's rule.
/// Throws like tile(), and Error{limit} above kMaxKeyRanges.
[[nodiscard]] KeyRanges key_ranges(const Mask& mask, const Lengths& lengths,
                                   const TileShape& shape);

/// A grid as a `tiles` mask, and grids that differ as a mask by head of those.
[[nodiscard]] Mask tiles_mask(const TileGrid& grid);
[[nodiscard]] Mask tiles_mask(const HeadGrids& grids);

}  // namespace stagger
