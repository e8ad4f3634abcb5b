#pragma once

#include "core/tile_grid.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace stagger {

/// The tile grids of a problem's heads: those that differ, and which of them each head has. All are
/// of one size. Mostly there is one, for however many heads.
class HeadGrids {
 public:
  HeadGrids() : grids_(1) {}

  /// One grid for all heads.
  HeadGrids(TileGrid grid) : grids_{std::move(grid)} {}

  /// Head h has `grids[of_head[h]]`. Grids that are equal become one, and those that no head has
  /// none. Requires grids of one size, and a place of them for one head at least.
  HeadGrids(const std::vector<TileGrid>& grids, const IndexVector<Head, std::int32_t>& of_head);

  /// Those that differ, in the order of the first heads that have them.
  [[nodiscard]] const IndexVector<std::int64_t, TileGrid>& distinct() const { return grids_; }
  [[nodiscard]] bool all_alike() const { return of_head_.empty(); }
  /// The heads' places among distinct(); empty if there is one grid.
  [[nodiscard]] const IndexVector<Head, std::int32_t>& places() const { return of_head_; }
  /// A head's place among distinct(). Requires the head to exist.
  [[nodiscard]] std::int32_t place_of(Head head) const {
    return of_head_.empty() ? 0 : of_head_[head];
  }
  [[nodiscard]] const TileGrid& of(Head head) const { return grids_[place_of(head)]; }

  /// How many of so many heads have each of the distinct grids. Requires as many heads as there
  /// are, which is for them to know who has one grid.
  [[nodiscard]] std::vector<std::int32_t> counts(std::int32_t heads) const;
  /// Live tiles of so many heads, likewise.
  [[nodiscard]] std::int64_t live_tiles(std::int32_t heads) const {
    return all_alike() ? heads * grids_.front().live_tiles() : live_tiles_;
  }

  /// Chains of all heads that have tasks, likewise. O(KV tiles of distinct grids).
  [[nodiscard]] std::int64_t live_chains(std::int32_t heads) const;

  /// Whether the heads of every part of `span` have one grid.
  [[nodiscard]] bool alike_in_parts(std::int32_t span) const;
  /// The grids of parts: every span-th head's. Requires alike_in_parts(span).
  [[nodiscard]] HeadGrids of_parts(std::int32_t span) const;

  friend bool operator==(const HeadGrids&, const HeadGrids&) = default;

 private:
  IndexVector<std::int64_t, TileGrid> grids_;
  IndexVector<Head, std::int32_t> of_head_;  ///< places of grids_; empty if there is one
  std::int64_t live_tiles_ = 0;              ///< of all heads, where grids differ
};

}  // namespace stagger
