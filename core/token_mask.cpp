#include "core/token_mask.hpp"

#include "core/error.hpp"
#include "core/mask_rules.hpp"

#include <map>

namespace stagger {

TokenMask::TokenMask(const Problem& problem) : TokenMask(problem, Head{0}) {
  expect_not_by_head(problem.mask);
}

TokenMask::TokenMask(const Problem& problem, Head head)
    : lengths_(problem.lengths), shape_(problem.shape), grid_(problem.grid_of(head)) {
  const Mask& mask = mask_of(problem.mask, head);
  if (mask.family->tiles == nullptr) rows_ = key_ranges(mask, lengths_, shape_);
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

HeadMasks::HeadMasks(const Problem& problem) {
  if (!problem.mask.family->by_head) {
    masks_.emplace_back(problem);
    return;
  }
  std::map<std::int32_t, std::int32_t> places;  // of masks_, by place in the mask
  of_head_.reserve(problem.heads);
  for (Head head{0}; head.value < problem.heads; ++head) {
    const auto next = static_cast<std::int32_t>(masks_.size());
    const auto [place, is_new] = places.emplace(mask_place(problem.mask, head), next);
    if (is_new) masks_.emplace_back(problem, head);
    of_head_.push_back(place->second);
  }
}

const TokenMask& HeadMasks::common() const {
  if (of_head_.empty()) return masks_.front();
  throw Error(ErrorKind::unsupported, "heads have masks of their own: that is for one mask of all");
}

std::int64_t HeadMasks::pairs(std::int32_t heads) const {
  if (of_head_.empty()) return heads * masks_.front().pairs();
  std::vector<std::int64_t> pairs;
  pairs.reserve(masks_.size());
  for (const TokenMask& mask : masks_)
    pairs.push_back(mask.pairs());
  std::int64_t count = 0;
  for (const std::int32_t place : of_head_)
    count += pairs[at(place)];
  return count;
}

std::vector<bool> split_tiles(const Problem& problem) {
  expect_not_by_head(problem.mask);
  std::vector<bool> split;
  if (problem.mask.family->ranges == nullptr) return split;
  const KeyRanges rows = key_ranges(problem.mask, problem.lengths, problem.shape);
  for (std::int64_t query = 0; query < rows.queries(); ++query) {
    const std::int64_t q = query / problem.shape.q;
    std::int64_t last = -1;  // the KV tile in which the range before ends
    for (const KeyRange& range : rows.of(query)) {
      const std::int64_t kv = range.begin / problem.shape.kv;
      if (kv == last) {
        split.resize(at(std::int64_t{problem.kv_tiles()} * problem.q_tiles()));
        split[at(kv * problem.q_tiles() + q)] = true;
      }
      last = (range.end - 1) / problem.shape.kv;
    }
  }
  return split;
}

}  // namespace stagger
