#pragma once

#include "core/tile_grid.hpp"

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

/// Keys [begin, end) that one query sees. Every token-level mask of the catalogue is one interval
/// a query.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

using MaskValue =
    std::variant<std::int64_t, bool, std::vector<std::int64_t>, std::vector<std::string>>;

/// One key of a mask description.
struct MaskKey {
  const char* name;
  const char* meaning;
  /// The value when the key is absent; its alternative is the key's type.
  MaskValue fallback;
  bool required = false;
};

struct MaskFamily;

/// A mask description: a family and its keys' values. A value; it holds every key of its family.
struct Mask {
  const MaskFamily* family = nullptr;
  std::map<std::string, MaskValue, std::less<>> values;

  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view key) const;
  [[nodiscard]] const std::vector<std::string>& strings(std::string_view key) const;
};

/// The rule that makes one kind of mask: a row of the table in mask.cpp. Exactly one of `rows`
/// and `tiles` is set.
struct MaskFamily {
  const char* name;
  const char* summary;
  const char* example;  ///< as `--mask` takes it
  std::vector<MaskKey> keys;

  /// The key range of every query, by query. Throws Error{invalid_input} if the values do not fit.
  std::vector<KeyRange> (*rows)(const Mask&, const Lengths&) = nullptr;
  /// The tile grid of a block-sparse mask; `q_tiles` and `kv_tiles` are what the problem wants.
  TileGrid (*tiles)(const Mask&, std::int32_t kv_tiles, std::int32_t q_tiles) = nullptr;
  /// What the values alone say about the size: tokens (`rows`) or tiles (`tiles`); 0 = nothing.
  Lengths (*implied)(const Mask&) = nullptr;
};

/// In the order `stagger list masks` prints.
[[nodiscard]] std::span<const MaskFamily> mask_families();

/// A mask with its absent keys filled in. Throws Error{invalid_input}, naming the known kinds or
/// keys, if the kind or a key is unknown, a required key is absent or a value has another type.
[[nodiscard]] Mask make_mask(std::string_view kind,
                             std::map<std::string, MaskValue, std::less<>> values = {});

/// Reads `kind:key=value,key=value`; lists are joined by '+'. Throws like make_mask.
[[nodiscard]] Mask parse_mask(std::string_view text);
/// The mask as parse_mask reads it, without what is as if absent: `sliding:left=4,right=0`.
[[nodiscard]] std::string mask_words(const Mask& mask);

}  // namespace stagger
