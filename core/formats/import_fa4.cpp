// FlashAttention-4's BlockSparseTensors: an object for the forward pass, rows of Q tiles that list
// KV tiles, and another for the backward pass, the other way round and perhaps with other blocks;
// and the layout by offsets of the arbitrary-mask fork.

#include "core/formats/import_context.hpp"
#include "core/formats/tile_lists.hpp"

#include <algorithm>
#include <memory>

namespace stagger::formats {
namespace {

/// The object of one direction.
class Object {
 public:
  Object(const Import& import, const std::string& prefix, bool linear)
      : bundle_(&import.bundle), prefix_(prefix) {
    partial_ = list(prefix + "mask_block", linear);
    full_ = list(prefix + "full_block", linear);
    if (partial_ == nullptr) bundle_->reject(prefix + "mask_block_cnt is missing");
    if (full_ != nullptr && full_->rows() != partial_->rows()) {
      bundle_->reject(prefix + "full_block_cnt is of another shape than " + prefix +
                      "mask_block_cnt");
    }
    block = import.block_size(prefix + "block_size");
  }

  [[nodiscard]] TileList& partial() const { return *partial_; }
  [[nodiscard]] TileList* full() const { return full_.get(); }
  /// Tiles of the other side, as far as ids say.
  [[nodiscard]] std::int64_t columns() const {
    return std::max(partial_->columns(), full_ ? full_->columns() : 0);
  }
  /// Ids that a row has room for.
  [[nodiscard]] std::int64_t width() const {
    return std::max(partial_->width(), full_ ? full_->width() : 0);
  }
  [[nodiscard]] TileGrid grid(std::int64_t mask, bool rows_are_q, std::int64_t columns) const {
    return grid_of(partial_.get(), full(), mask, rows_are_q, columns);
  }

  TileShape block{.q = 0, .kv = 0};  ///< (sparse_q, sparse_kv); 0: not said

 private:
  [[nodiscard]] std::unique_ptr<TileList> list(const std::string& name, bool linear) const {
    if (!bundle_->has(name + "_cnt") && !bundle_->has(name + "_idx")) return nullptr;
    if (linear) {
      return std::make_unique<TileList>(*bundle_, name + "_cnt", name + "_offset", name + "_idx");
    }
    return std::make_unique<TileList>(*bundle_, name + "_cnt", name + "_idx");
  }

  const Bundle* bundle_;
  std::string prefix_;
  std::unique_ptr<TileList> partial_;
  std::unique_ptr<TileList> full_;
};

void compare(const Import& import, const TileGrid& backward, const TileGrid& forward) {
  if (const auto tile = difference(backward, forward)) {
    import.bundle.reject(
        "the backward pass's lists are not the transpose of the forward pass's: "
        "tile " +
        *tile + " is another in them");
  }
}

/// Whether the lists of both passes must be of the same tiles: their blocks are, or nobody says and
/// there may be as many.
bool are_alike(const Object& backward, const Object& forward) {
  if (backward.block != forward.block) return false;
  const auto fits = [](const Object& object, const Object& other) {
    return std::max(object.columns(), object.width()) <= other.partial().rows();
  };
  const bool said = backward.block.q > 0;
  return said || (fits(backward, forward) && fits(forward, backward));
}

/// What is said of the forward pass's lists beside the backward pass's.
std::string words_of(const Object& backward, const Object& forward, bool alike) {
  if (alike) return "the forward pass's lists are the same tiles";
  const bool said = backward.block.q > 0 && forward.block.q > 0;
  return said ? "the forward pass's lists are of other blocks, and are not compared"
              : "nothing says that the forward pass's lists are of the same blocks, and they are "
                "not compared";
}

/// Lists of sequences of several lengths are refused, under whichever prefix.
void refuse_sequences(const Bundle& bundle) {
  for (const NamedTensor& each : bundle.tensors) {
    if (!each.name.ends_with("cu_total_m_blocks") && !each.name.ends_with("cu_block_idx_offsets")) {
      continue;
    }
    bundle.reject("lists of sequences of several lengths (" + each.name +
                  ") have no backward pass; export the mask as cu-seqlens");
  }
}

ImportedMask read(Import& import, bool linear) {
  const Bundle& bundle = import.bundle;
  refuse_sequences(bundle);
  const auto back = fa4_prefix(bundle, Direction::backward);
  const auto ahead = fa4_prefix(bundle, Direction::forward);
  if (!back && !ahead)
    bundle.reject("mask_block_cnt is missing; there are: " + [&] {
      std::string names;
      for (const std::string& name : bundle.names())
        names += (names.empty() ? "" : ", ") + name;
      return names;
    }());
  const bool rows_are_q = !back;
  const Object object(import, back ? *back : *ahead, linear);
  std::unique_ptr<Object> forward;
  if (back && ahead) forward = std::make_unique<Object>(import, *ahead, linear);
  const bool compares = forward && are_alike(object, *forward);
  const Lengths asked = import.asked_blocks(object.block);
  OtherSide side{
      .ids = object.columns(), .room = object.width(), .asked = rows_are_q ? asked.kv : asked.q};
  if (compares) side.transposed = forward->partial().rows();
  const std::int64_t columns = side.tiles();
  import.understood(rows_are_q ? "the forward pass's lists: KV tiles by Q tile"
                               : "the backward pass's lists: Q tiles by KV tile");
  if (forward) import.understood(words_of(object, *forward, compares));
  if (object.full() == nullptr) {
    import.understood("no full lists: every live tile is partial");
    import.lost("which of the live tiles are full");
  }
  import.understood("ragged rule in-bounds: a tile that reaches beyond the last token may be full");
  import.lost("mask_mod: which pairs of a partial tile attend");
  spread(bundle, {&object.partial(), object.full(), compares ? &forward->partial() : nullptr,
                  compares ? forward->full() : nullptr});
  const auto grid = [&](std::int64_t mask) {
    TileGrid tiles = object.grid(mask, rows_are_q, columns);
    if (compares) compare(import, tiles, forward->grid(mask, true, tiles.kv_tiles()));
    return tiles;
  };
  return import.tiled(object.partial().masks(), grid, object.block, {});
}

}  // namespace

bool fa4_lists_are_alike(const Import& import, const std::string& backward,
                         const std::string& forward) {
  return are_alike(Object(import, backward, false), Object(import, forward, false));
}

ImportedMask read_fa4(Import& import) {
  return read(import, false);
}

ImportedMask read_fa4_linear(Import& import) {
  return read(import, true);
}

}  // namespace stagger::formats
