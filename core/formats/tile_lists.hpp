#pragma once

#include "core/formats/import_context.hpp"
#include "core/tile_grid.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

namespace stagger::formats {

/// A list of tiles for each row of tiles, per batch and head: counts, and ids of which only the
/// first so many mean something.
class TileList {
 public:
  /// Reads `cnt` [B, H, rows] and `idx` [B, H, rows, width]; leading dimensions may be missing, and
  /// one batch or head is for all of the other's. Throws Error{invalid_input} if they do not fit
  /// each other.
  TileList(const Bundle& bundle, const std::string& cnt, const std::string& idx);
  /// Reads lists that share one array of ids: row r has those from `offset[r]` on.
  TileList(const Bundle& bundle, const std::string& cnt, const std::string& offset,
           const std::string& idx);

  [[nodiscard]] const MasksOfFile& masks() const { return masks_; }
  /// Makes the list one of so many masks: its one batch or head is for all of them. Requires that
  /// it has one, or as many.
  void spread(const MasksOfFile& masks) { masks_ = masks; }
  [[nodiscard]] std::int64_t rows() const { return count_leading_.inner.front(); }
  /// Ids that a row has room for; those of all rows where they lie in one array: 0.
  [[nodiscard]] std::int64_t width() const { return width_; }
  /// The tiles of a row of a mask (batch * heads + head), whichever their order.
  [[nodiscard]] std::span<const std::int64_t> ids(std::int64_t mask, std::int64_t row) const;
  /// One more than the largest id of any list.
  [[nodiscard]] std::int64_t columns() const;
  /// `kv_indices[0,1,3,2]`.
  [[nodiscard]] std::string place(std::int64_t mask, std::int64_t row, std::int64_t index) const;
  /// `kv_indices`.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Bundle& bundle() const { return *bundle_; }

 private:
  /// The place of a mask's row among the rows of counts, and where its ids begin.
  [[nodiscard]] std::int64_t count_place(std::int64_t mask, std::int64_t row) const;
  [[nodiscard]] std::int64_t begin_of(std::int64_t mask, std::int64_t row) const;

  const Bundle* bundle_;
  std::string name_;
  Leading count_leading_;
  Leading id_leading_;
  MasksOfFile masks_;
  std::int64_t width_ = 0;
  const Tensor* counts_;
  const Tensor* offsets_ = nullptr;
  const Tensor* ids_;
};

/// Makes all of the lists, of which any may be nullptr, lists of as many masks: one batch or head
/// is for all of the others'. Throws Error{invalid_input} if one has another number of them,
/// Error{limit} if that are more numbers than a file has.
void spread(const Bundle& bundle, std::initializer_list<TileList*> lists);

/// What says how many tiles there are on the side that ids count, where the file's lengths do not.
struct OtherSide {
  std::int64_t ids = 0;                         ///< one more than the largest of all
  std::int64_t room = 0;                        ///< for ids in a row
  std::optional<std::int64_t> transposed = {};  ///< rows of the transposed lists, if there are any
  std::int64_t asked = 0;                       ///< by the request; 0: it does not say

  /// The rows of the transposed lists; else what is asked for, else the room, that of all ids at
  /// least.
  [[nodiscard]] std::int64_t tiles() const {
    return transposed ? *transposed : std::max(ids, asked > 0 ? asked : room);
  }
};

/// The grid of one mask (batch * heads + head); `rows_are_q` says which way the rows go, `columns`
/// how many tiles there are the other way. Throws Error{invalid_input} if an id is none of them, or
/// listed twice.
[[nodiscard]] TileGrid grid_of(const TileList* partial, const TileList* full, std::int64_t mask,
                               bool rows_are_q, std::int64_t columns);

/// The first tile that two grids do not agree on: `(kv 3, q 5)`; nullopt if there is none.
[[nodiscard]] std::optional<std::string> difference(const TileGrid& left, const TileGrid& right);

}  // namespace stagger::formats
