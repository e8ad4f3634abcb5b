// Masks made of masks, and the keys that the queries of any mask see.

#include "core/mask_rules.hpp"
#include "core/tiling.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace stagger {

// ---- composition ------------------------------------------------------------------------------

namespace {

using Join = void (*)(std::span<const KeyRange>, std::span<const KeyRange>, std::vector<KeyRange>&);

KeyRanges combined(const Mask& mask, const Lengths& lengths, const TileShape& shape, Join join) {
  const std::vector<Mask>& parts = mask.masks("of");
  KeyRanges result = key_ranges(parts.front(), lengths, shape);
  std::vector<KeyRange> seen;
  for (const Mask& part : std::span(parts).subspan(1)) {
    const KeyRanges own = key_ranges(part, lengths, shape);
    KeyRanges rows;
    for (std::int64_t query = 0; query < lengths.q; ++query) {
      seen.clear();
      join(result.of(query), own.of(query), seen);
      for (const KeyRange& range : seen)
        rows.add(range);
      rows.end_query();
    }
    result = std::move(rows);
  }
  return result;
}

}  // namespace

KeyRanges and_ranges(const Mask& mask, const Lengths& lengths, const TileShape& shape) {
  return combined(mask, lengths, shape, add_intersection);
}

KeyRanges or_ranges(const Mask& mask, const Lengths& lengths, const TileShape& shape) {
  return combined(mask, lengths, shape, add_union);
}

// ---- any mask ---------------------------------------------------------------------------------

namespace {

KeyRanges ranges_of_tiles(const TileGrid& grid, const Lengths& lengths, const TileShape& shape) {
  KeyRanges rows;
  for (std::int64_t query = 0; query < lengths.q; ++query) {
    const QTile q{static_cast<std::int32_t>(query / shape.q)};
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      const std::int64_t begin = kv.value * shape.kv;
      rows.add(keys_of_tile(grid.kind(kv, q), query % shape.q, begin,
                            std::min(begin + shape.kv, lengths.kv)));
    }
    rows.end_query();
  }
  return rows;
}

}  // namespace

KeyRanges key_ranges(const Mask& mask, const Lengths& lengths, const TileShape& shape) {
  if (mask.family->rows != nullptr) return KeyRanges(mask.family->rows(mask, lengths));
  if (mask.family->ranges != nullptr) return mask.family->ranges(mask, lengths, shape);
  return ranges_of_tiles(tile(mask, lengths, shape), lengths, shape);
}

}  // namespace stagger
