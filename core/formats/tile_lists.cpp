#include "core/formats/tile_lists.hpp"

#include "core/error.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

void check_rows(const Bundle& bundle, const std::string& name, std::int64_t rows) {
  if (rows <= kMaxTiles) return;
  throw Error(ErrorKind::limit, bundle.source + ": " + name + ": " + std::to_string(rows) +
                                    " rows; at most " + std::to_string(kMaxTiles) +
                                    " tiles of a side are supported");
}

}  // namespace

TileList::TileList(const Bundle& bundle, const std::string& cnt, const std::string& idx)
    : bundle_(&bundle),
      name_(idx),
      count_leading_(leading_of(bundle, cnt, 1)),
      id_leading_(leading_of(bundle, idx, 2)),
      counts_(&bundle.at(cnt)),
      ids_(&bundle.at(idx)) {
  const auto masks = together(MasksOfFile{count_leading_.batches, count_leading_.heads},
                              MasksOfFile{id_leading_.batches, id_leading_.heads});
  if (!masks || id_leading_.inner[0] != rows()) {
    bundle.reject(cnt + " has a shape of " + shape_words(counts_->shape) + ", " + idx + " one of " +
                  shape_words(ids_->shape));
  }
  masks_ = *masks;
  check_rows(bundle, cnt, rows());
  check_masks(bundle, idx, masks_, rows());
  width_ = id_leading_.inner[1];
  for (std::size_t row = 0; row < counts_->elements.size(); ++row) {
    const std::int64_t count = counts_->elements[row];
    if (count < 0 || count > width_) {
      bundle.reject(cnt + place_words(static_cast<std::int64_t>(row), counts_->shape) + " = " +
                    std::to_string(count) + ", and " + idx + " has room for " +
                    std::to_string(width_));
    }
  }
}

TileList::TileList(const Bundle& bundle, const std::string& cnt, const std::string& offset,
                   const std::string& idx)
    : bundle_(&bundle),
      name_(idx),
      count_leading_(leading_of(bundle, cnt, 1)),
      id_leading_(count_leading_),
      masks_{count_leading_.batches, count_leading_.heads},
      counts_(&bundle.at(cnt)),
      offsets_(&bundle.at(offset)),
      ids_(&bundle.at(idx)) {
  check_rows(bundle, cnt, rows());
  const std::size_t lists = counts_->elements.size();
  const std::size_t offsets = offsets_->elements.size();
  if (offsets != lists && offsets != lists + 1) {
    bundle.reject(offset + " has " + std::to_string(offsets) + " entries for the " +
                  std::to_string(lists) + " of " + cnt + " (there may be one more)");
  }
  const auto size = static_cast<std::int64_t>(ids_->elements.size());
  for (std::size_t row = 0; row < lists; ++row) {
    const std::int64_t begin = offsets_->elements[row];
    const std::int64_t count = counts_->elements[row];
    if (begin < 0 || begin > size || count < 0 || count > size - begin) {
      bundle.reject(cnt + place_words(static_cast<std::int64_t>(row), counts_->shape) + " = " +
                    std::to_string(count) + " from " + offset + "[" + std::to_string(row) +
                    "] = " + std::to_string(begin) + " on leaves the " + std::to_string(size) +
                    " entries of " + idx);
    }
  }
}

std::int64_t TileList::count_place(std::int64_t mask, std::int64_t row) const {
  return own_place(count_leading_, masks_, mask) * rows() + row;
}

std::int64_t TileList::begin_of(std::int64_t mask, std::int64_t row) const {
  if (offsets_ != nullptr) return offsets_->elements[at(count_place(mask, row))];
  return (own_place(id_leading_, masks_, mask) * rows() + row) * width_;
}

std::span<const std::int64_t> TileList::ids(std::int64_t mask, std::int64_t row) const {
  const std::int64_t count = counts_->elements[at(count_place(mask, row))];
  return std::span(ids_->elements).subspan(at(begin_of(mask, row)), at(count));
}

std::int64_t TileList::columns() const {
  std::int64_t columns = 0;
  for (std::int64_t mask = 0; mask < masks_.count(); ++mask) {
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (const std::int64_t id : ids(mask, row))
        columns = std::max(columns, id < kMaxTiles ? id + 1 : 0);
    }
  }
  return columns;
}

std::string TileList::place(std::int64_t mask, std::int64_t row, std::int64_t index) const {
  const std::int64_t element = begin_of(mask, row) + index;
  return name_ + place_words(element, ids_->shape) + " = " +
         std::to_string(ids_->elements[at(element)]);
}

void spread(const Bundle& bundle, std::initializer_list<TileList*> lists) {
  MasksOfFile all;
  for (const TileList* const list : lists) {
    if (list == nullptr) continue;
    const auto both = together(all, list->masks());
    if (!both) {
      bundle.reject(list->name() + " is of " + list->masks().words() + ", and others of " +
                    all.words());
    }
    all = *both;
  }
  for (TileList* const list : lists) {
    if (list == nullptr) continue;
    check_masks(bundle, list->name(), all, list->rows());
    list->spread(all);
  }
}

TileGrid grid_of(const TileList* partial, const TileList* full, std::int64_t mask, bool rows_are_q,
                 std::int64_t columns) {
  const std::int64_t rows = (partial != nullptr ? partial : full)->rows();
  const std::int64_t q_tiles = rows_are_q ? rows : columns;
  const std::int64_t kv_tiles = rows_are_q ? columns : rows;
  if (columns > kMaxTiles || rows * columns > kMaxGridTiles) {
    throw Error(ErrorKind::limit, std::to_string(kv_tiles) + " x " + std::to_string(q_tiles) +
                                      " tiles; at most " + std::to_string(kMaxGridTiles) +
                                      " a head are supported");
  }
  std::vector<TileKind> kinds(at(rows * columns), TileKind::empty);
  for (const TileList* list : {partial, full}) {
    if (list == nullptr) continue;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<const std::int64_t> ids = list->ids(mask, row);
      for (std::size_t index = 0; index < ids.size(); ++index) {
        const auto place = [&] { return list->place(mask, row, static_cast<std::int64_t>(index)); };
        const std::int64_t id = ids[index];
        if (id < 0 || id >= columns) {
          list->bundle().reject(place() + " is no " + (rows_are_q ? "KV" : "Q") +
                                " tile; there are " + std::to_string(columns));
        }
        TileKind& tile = kinds[at(rows_are_q ? id * q_tiles + row : row * q_tiles + id)];
        if (tile != TileKind::empty) {
          list->bundle().reject(place() + ": that tile of this row is listed twice");
        }
        tile = list == partial ? TileKind::partial : TileKind::full;
      }
    }
  }
  return {static_cast<std::int32_t>(kv_tiles), static_cast<std::int32_t>(q_tiles),
          std::move(kinds)};
}

std::optional<std::string> difference(const TileGrid& left, const TileGrid& right) {
  for (KvTile kv{0}; kv.value < left.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < left.q_tiles(); ++q) {
      if (left.kind(kv, q) != right.kind(kv, q)) {
        return "(kv " + std::to_string(kv.value) + ", q " + std::to_string(q.value) + ")";
      }
    }
  }
  return std::nullopt;
}

}  // namespace stagger::formats
