#include "core/token_mask.hpp"

#include "core/error.hpp"

namespace stagger {

TokenMask::TokenMask(const Problem& problem)
    : lengths_(problem.lengths), shape_(problem.shape), grid_(problem.grid) {
  if (problem.mask.family->tiles == nullptr) {
    rows_ = key_ranges(problem.mask, problem.lengths, problem.shape);
  }
}

KeyRange TokenMask::keys(std::int64_t query, KvTile kv) const {
  const std::int64_t begin = kv.value * shape_.kv;
  KeyRange keys{begin, begin};
  each_range(query, kv, [&](const KeyRange& range) {
    STAGGER_EXPECTS(keys.begin == keys.end);
    keys = range;
  });
  return keys;
}

std::vector<KeyRange> TokenMask::keys(std::int64_t query) const {
  if (rows_.queries() > 0) {
    const std::span<const KeyRange> row = rows_.of(query);
    return {row.begin(), row.end()};
  }
  std::vector<KeyRange> ranges;
  for (KvTile kv{0}; kv.value < grid_.kv_tiles(); ++kv) {
    each_range(query, kv, [&](const KeyRange& range) {
      if (!ranges.empty() && ranges.back().end == range.begin) {
        ranges.back().end = range.end;
      } else {
        ranges.push_back(range);
      }
    });
  }
  return ranges;
}

bool TokenMask::sees(std::int64_t query, std::int64_t key) const {
  bool sees = false;
  each_range(query, KvTile{static_cast<std::int32_t>(key / shape_.kv)},
             [&](const KeyRange& range) { sees |= range.begin <= key && key < range.end; });
  return sees;
}

std::int64_t TokenMask::pairs() const {
  std::int64_t count = 0;
  for (std::int64_t query = 0; query < lengths_.q; ++query) {
    for (KvTile kv{0}; kv.value < grid_.kv_tiles(); ++kv)
      each_range(query, kv, [&](const KeyRange& range) { count += range.end - range.begin; });
  }
  return count;
}

std::vector<bool> split_tiles(const Problem& problem) {
  std::vector<bool> split;
  if (problem.mask.family->ranges == nullptr) return split;
  const KeyRanges rows = key_ranges(problem.mask, problem.lengths, problem.shape);
  for (std::int64_t query = 0; query < rows.queries(); ++query) {
    const std::int64_t q = query / problem.shape.q;
    std::int64_t last = -1;  // the KV tile in which the range before ends
    for (const KeyRange& range : rows.of(query)) {
      const std::int64_t kv = range.begin / problem.shape.kv;
      if (kv == last) {
        split.resize(at(std::int64_t{problem.grid.kv_tiles()} * problem.grid.q_tiles()));
        split[at(kv * problem.grid.q_tiles() + q)] = true;
      }
      last = (range.end - 1) / problem.shape.kv;
    }
  }
  return split;
}

}  // namespace stagger
