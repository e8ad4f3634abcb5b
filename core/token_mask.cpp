#include "core/token_mask.hpp"

#include <algorithm>

namespace stagger {

TokenMask::TokenMask(const Problem& problem)
    : lengths_(problem.lengths), shape_(problem.shape), grid_(problem.grid) {
  const MaskFamily& family = *problem.mask.family;
  if (family.rows != nullptr) rows_ = family.rows(problem.mask, problem.lengths);
}

KeyRange TokenMask::keys(std::int64_t query, KvTile kv) const {
  const std::int64_t begin = kv.value * shape_.kv;
  const std::int64_t end = std::min(begin + shape_.kv, lengths_.kv);
  if (!rows_.empty()) {
    const KeyRange& row = rows_[at(query)];
    const std::int64_t first = std::clamp(row.begin, begin, end);
    return {first, std::clamp(row.end, first, end)};
  }
  switch (grid_.kind(kv, QTile{static_cast<std::int32_t>(query / shape_.q)})) {
    case TileKind::full:
      return {begin, end};
    case TileKind::partial:
      return {begin, std::min(begin + query % shape_.q + 1, end)};
    case TileKind::empty:
      break;
  }
  return {begin, begin};
}

std::vector<KeyRange> TokenMask::keys(std::int64_t query) const {
  std::vector<KeyRange> ranges;
  const auto add = [&](const KeyRange& range) {
    if (range.begin >= range.end) return;
    if (!ranges.empty() && ranges.back().end == range.begin) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  };
  if (!rows_.empty()) {
    const KeyRange& row = rows_[at(query)];
    add({std::max(row.begin, std::int64_t{0}), std::min(row.end, lengths_.kv)});
    return ranges;
  }
  for (KvTile kv{0}; kv.value < grid_.kv_tiles(); ++kv)
    add(keys(query, kv));
  return ranges;
}

bool TokenMask::sees(std::int64_t query, std::int64_t key) const {
  const KeyRange range = keys(query, KvTile{static_cast<std::int32_t>(key / shape_.kv)});
  return range.begin <= key && key < range.end;
}

std::int64_t TokenMask::pairs() const {
  std::int64_t count = 0;
  for (std::int64_t query = 0; query < lengths_.q; ++query) {
    for (KvTile kv{0}; kv.value < grid_.kv_tiles(); ++kv) {
      const KeyRange range = keys(query, kv);
      count += range.end - range.begin;
    }
  }
  return count;
}

}  // namespace stagger
