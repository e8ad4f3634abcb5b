#include "core/token_mask.hpp"

#include "core/error.hpp"

#include <string>

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

std::optional<std::pair<KvTile, QTile>> split_tile(const Problem& problem) {
  if (problem.mask.family->ranges == nullptr) return std::nullopt;
  const KeyRanges rows = key_ranges(problem.mask, problem.lengths, problem.shape);
  for (std::int64_t query = 0; query < rows.queries(); ++query) {
    std::int64_t last = -1;  // the KV tile in which the range before ends
    for (const KeyRange& range : rows.of(query)) {
      const std::int64_t first = range.begin / problem.shape.kv;
      if (first == last) {
        return std::pair{KvTile{static_cast<std::int32_t>(first)},
                         QTile{static_cast<std::int32_t>(query / problem.shape.q)}};
      }
      last = (range.end - 1) / problem.shape.kv;
    }
  }
  return std::nullopt;
}

std::string split_tile_refusal(const Problem& problem, const std::string& what) {
  const auto tile = split_tile(problem);
  if (!tile) return "";
  return what + " keeps one range of keys for each query of a tile; in tile (kv " +
         std::to_string(tile->first.value) + ", q " + std::to_string(tile->second.value) +
         ") a query sees keys in several ranges: run it on the CPU, or with smaller KV tiles";
}

}  // namespace stagger
