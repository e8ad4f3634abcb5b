#pragma once

#include "core/formats/import_context.hpp"
#include "core/tile_grid.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace stagger::formats {

/// A list of tiles for each row of tiles, per batch and head: counts, and ids of which only the
/// first so many mean something.
class TileList {
 public:
  /// Reads `cnt` [B, H, rows] and `idx` [B, H, rows, width]; leading dimensions may be missing.
  /// Throws Error{invalid_input} if they do not fit each other.
  TileList(const Bundle& bundle, const std::string& cnt, const std::string& idx);
  /// Reads lists that share one array of ids: row r has those from `offset[r]` on.
  TileList(const Bundle& bundle, const std::string& cnt, const std::string& offset,
           const std::string& idx);

  [[nodiscard]] std::int64_t batches() const { return leading_.batches; }
  [[nodiscard]] std::int64_t heads() const { return leading_.heads; }
  [[nodiscard]] std::int64_t rows() const { return leading_.inner.front(); }
  /// Ids that a row has room for; those of all rows where they lie in one array: 0.
  [[nodiscard]] std::int64_t width() const { return width_; }
  /// The tiles of a row, whichever their order.
  [[nodiscard]] std::span<const std::int64_t> ids(std::int64_t head, std::int64_t row) const;
  /// One more than the largest id of any list.
  [[nodiscard]] std::int64_t columns() const;
  /// `kv_indices[0,1,3,2]`.
  [[nodiscard]] std::string place(std::int64_t head, std::int64_t row, std::int64_t index) const;
  [[nodiscard]] const Bundle& bundle() const { return *bundle_; }

 private:
  const Bundle* bundle_;
  std::string name_;
  Leading leading_;
  std::int64_t width_ = 0;
  const Tensor* counts_;
  const Tensor* offsets_ = nullptr;
  const Tensor* ids_;
};

/// The grid of one head; `rows_are_q` says which way the rows go, `columns` how many tiles there
/// are the other way. Throws Error{invalid_input} if an id is none of them, or listed twice.
[[nodiscard]] TileGrid grid_of(const TileList* partial, const TileList* full, std::int64_t head,
                               bool rows_are_q, std::int64_t columns);

/// The first tile that two grids do not agree on: `(kv 3, q 5)`; nullopt if there is none.
[[nodiscard]] std::optional<std::string> difference(const TileGrid& left, const TileGrid& right);

}  // namespace stagger::formats
