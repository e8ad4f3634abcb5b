#include "core/head_grids.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace stagger {

HeadGrids::HeadGrids(const std::vector<TileGrid>& grids,
                     const IndexVector<Head, std::int32_t>& of_head) {
  STAGGER_EXPECTS(!of_head.empty());
  std::vector<std::int32_t> places(grids.size(), -1);  // among grids_, -1: not there yet
  of_head_.reserve(of_head.size());
  for (const std::int32_t given : of_head) {
    std::int32_t& place = places[at(given)];
    if (place < 0) {
      const TileGrid& grid = grids[at(given)];
      place = static_cast<std::int32_t>(std::ranges::find(grids_, grid) - grids_.begin());
      if (place == std::ssize(grids_)) grids_.push_back(grid);
      STAGGER_EXPECTS(grid.kv_tiles() == grids_.front().kv_tiles() &&
                      grid.q_tiles() == grids_.front().q_tiles());
    }
    of_head_.push_back(place);
  }
  if (grids_.size() == 1) {
    of_head_.clear();
    return;
  }
  for (const std::int32_t place : of_head_)
    live_tiles_ += grids_[place].live_tiles();
}

std::vector<std::int32_t> HeadGrids::counts(std::int32_t heads) const {
  if (all_alike()) return {heads};
  std::vector<std::int32_t> counts(grids_.size(), 0);
  for (const std::int32_t place : of_head_)
    ++counts[at(place)];
  return counts;
}

std::int64_t HeadGrids::live_chains(std::int32_t heads) const {
  const std::vector<std::int32_t> heads_of = counts(heads);
  std::int64_t chains = 0;
  for (std::size_t place = 0; place < heads_of.size(); ++place) {
    const TileGrid& grid = grids_[place];
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
      chains += grid.chain_length(kv) > 0 ? heads_of[place] : 0;
  }
  return chains;
}

bool HeadGrids::alike_in_parts(std::int32_t span) const {
  for (Head head{0}; head.value < std::ssize(of_head_); ++head) {
    if (of_head_[head] != of_head_[Head{head.value / span * span}]) return false;
  }
  return true;
}

HeadGrids HeadGrids::of_parts(std::int32_t span) const {
  STAGGER_EXPECTS(alike_in_parts(span));
  if (all_alike()) return *this;
  IndexVector<Head, std::int32_t> of_part;
  for (Head head{0}; head.value < std::ssize(of_head_); head.value += span)
    of_part.push_back(of_head_[head]);
  return {grids_, of_part};
}

}  // namespace stagger
