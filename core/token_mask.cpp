#include "core/token_mask.hpp"

#include "core/error.hpp"
#include "core/mask_rules.hpp"
#include "core/tiling.hpp"

#include <map>

namespace stagger {
namespace {

/// Marks the partial tiles of the masks of tiles that a mask is or is made of, by (kv, q).
void mark_partial(const Mask& mask, const Problem& problem, std::vector<bool>& marked) {
  if (mask.family->tiles != nullptr) {
    const TileGrid grid = tile(mask, problem.lengths, problem.shape);
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
        if (grid.kind(kv, q) != TileKind::partial) continue;
        marked[at(std::int64_t{kv.value} * grid.q_tiles() + q.value)] = true;
      }
    }
    return;
  }
  for (const auto& [key, value] : mask.values) {
    const auto* const parts = std::get_if<std::vector<Mask>>(&value);
    if (parts == nullptr) continue;
    for (const Mask& part : *parts)
      mark_partial(part, problem, marked);
  }
}

/// Those of one head.
std::int64_t assumed_tiles(const Problem& problem, Head head) {
  const Mask& mask = mask_of(problem.mask, head);
  if (!is_of_tiles(mask)) return 0;
  const TileGrid& grid = problem.grid_of(head);
  std::vector<bool> marked(at(std::int64_t{grid.kv_tiles()} * grid.q_tiles()));
  mark_partial(mask, problem, marked);
  std::int64_t count = 0;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const bool unknown = marked[at(std::int64_t{kv.value} * grid.q_tiles() + q.value)];
      count += unknown && grid.kind(kv, q) == TileKind::partial ? 1 : 0;
    }
  }
  return count;
}

}  // namespace

TokenMask::TokenMask(const Problem& problem) : TokenMask(problem, Head{0}) {
  expect_not_by_head(problem.mask);
}

TokenMask::TokenMask(const Problem& problem, Head head)
    : lengths_(problem.lengths), shape_(problem.shape), grid_(problem.grid_of(head)) {
  const Mask& mask = mask_of(problem.mask, head);
  if (mask.family->tiles == nullptr) rows_ = key_ranges(mask, lengths_, shape_);
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

std::int64_t assumed_tiles(const Problem& problem) {
  if (problem.shape == TileShape{.q = 1, .kv = 1}) return 0;  // the only pair attends
  if (!problem.mask.family->by_head) return problem.heads * assumed_tiles(problem, Head{0});
  std::map<std::int32_t, std::int64_t> of_place;
  std::int64_t count = 0;
  for (Head head{0}; head.value < problem.heads; ++head) {
    const auto [known, is_new] = of_place.emplace(mask_place(problem.mask, head), 0);
    if (is_new) known->second = assumed_tiles(problem, head);
    count += known->second;
  }
  return count;
}

}  // namespace stagger
