// Dense and compressed block masks: FlashInfer's BSR, and arrays of booleans as SpargeAttn,
// SageAttention and others have them, whose tiles need not be square.

#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

void check_grid(const Bundle& bundle, std::int64_t kv_tiles, std::int64_t q_tiles) {
  if (kv_tiles <= kMaxTiles && q_tiles <= kMaxTiles && kv_tiles * q_tiles <= kMaxGridTiles) return;
  throw Error(ErrorKind::limit, bundle.source + ": " + std::to_string(kv_tiles) + " x " +
                                    std::to_string(q_tiles) + " tiles; at most " +
                                    std::to_string(kMaxGridTiles) + " a head are supported");
}

/// What a block's own mask makes of it.
TileKind kind_of(const Tensor& mask, std::int64_t block, std::int64_t pairs) {
  const auto begin = mask.elements.begin() + block * pairs;
  const auto seen =
      std::count_if(begin, begin + pairs, [](std::int64_t pair) { return pair != 0; });
  return seen == 0 ? TileKind::empty : seen == pairs ? TileKind::full : TileKind::partial;
}

/// A number of blocks from tokens, or from the largest column.
std::int64_t columns_of(const Import& import, const std::vector<std::int64_t>& indices,
                        std::int64_t block) {
  std::int64_t columns = 0;
  for (const std::int64_t index : indices)
    columns = std::max(columns, index < kMaxTiles ? index + 1 : 0);
  const auto keys = import.numbers("N", 1);
  if (!keys || block == 0) return columns;
  if (keys->front() < 0 || keys->front() > kMaxTokens) import.bundle.reject("N is no length");
  return (keys->front() + block - 1) / block;
}

/// The names under which boolean block masks are known.
constexpr const char* kNames[] = {"mask_id", "block_mask", "blockmask", "base_blockmask"};

std::string name_of(const Bundle& bundle) {
  for (const char* name : kNames) {
    if (bundle.has(name)) return name;
  }
  if (bundle.tensors.size() == 1) return bundle.tensors.front().name;
  bundle.reject("no array of that name: mask_id, block_mask, blockmask; or a single one");
}

/// A mask, or every one of those by head, and causal.
Mask each_and_causal(Mask mask) {
  if (!mask.family->by_head) {
    return make_mask("and", {{"of", std::vector<Mask>{std::move(mask), make_mask("causal")}}});
  }
  std::vector<Mask> masks;
  for (const Mask& each : mask.masks("of"))
    masks.push_back(each_and_causal(each));
  return make_mask("heads", {{"of", std::move(masks)}, {"heads", mask.integers("heads")}});
}

}  // namespace

ImportedMask read_bsr(Import& import) {
  const Bundle& bundle = import.bundle;
  const std::vector<std::int64_t>& indptr = bundle.at("indptr").elements;
  const std::vector<std::int64_t>& indices = bundle.at("indices").elements;
  const auto number = [&](const char* name) {
    const auto value = import.numbers(name, 1);
    if (value && (value->front() < 1 || value->front() > kMaxTokens)) {
      bundle.reject(std::string(name) + " is " + std::to_string(value->front()));
    }
    return value ? value->front() : 0;
  };
  const TileShape block{.q = number("R"), .kv = number("C")};
  if (indptr.empty() || indptr.front() != 0 ||
      indptr.back() != static_cast<std::int64_t>(indices.size()) ||
      !std::is_sorted(indptr.begin(), indptr.end())) {
    bundle.reject("indptr goes upwards from 0 to the " + std::to_string(indices.size()) +
                  " entries of indices");
  }
  const std::int64_t q_tiles = std::ssize(indptr) - 1;
  const std::int64_t kv_tiles = columns_of(import, indices, block.kv);
  check_grid(bundle, kv_tiles, q_tiles);
  const Tensor* mask = bundle.find("mask");
  std::int64_t pairs = 0;
  if (mask != nullptr) {
    if (mask->shape.size() != 3 || mask->shape[0] != std::ssize(indices) ||
        (block.q > 0 && mask->shape[1] != block.q) ||
        (block.kv > 0 && mask->shape[2] != block.kv)) {
      bundle.reject("mask has a shape of " + shape_words(mask->shape) + ", not [" +
                    std::to_string(indices.size()) + ",R,C]");
    }
    pairs = mask->shape[1] * mask->shape[2];
  }
  std::vector<TileKind> kinds(at(kv_tiles * q_tiles), TileKind::empty);
  for (std::int64_t q = 0; q < q_tiles; ++q) {
    for (std::int64_t place = indptr[at(q)]; place < indptr[at(q + 1)]; ++place) {
      const std::int64_t kv = indices[at(place)];
      if (kv < 0 || kv >= kv_tiles) {
        bundle.reject("indices[" + std::to_string(place) + "] = " + std::to_string(kv) +
                      " is no block of keys; there are " + std::to_string(kv_tiles));
      }
      TileKind& tile = kinds[at(kv * q_tiles + q)];
      if (tile != TileKind::empty) {
        bundle.reject("indices[" + std::to_string(place) + "]: block row " + std::to_string(q) +
                      " has column " + std::to_string(kv) + " twice");
      }
      tile = mask == nullptr ? TileKind::full : kind_of(*mask, place, pairs);
    }
  }
  import.understood("block rows are Q tiles, one mask for all heads");
  if (mask == nullptr) {
    import.understood("no mask of its own: every block is full");
  } else {
    import.understood("full and partial blocks by counting the pairs of their masks");
    import.lost("which pairs of a partial block attend");
  }
  const auto tokens = [&](const char* name) {
    const auto value = import.numbers(name, 1);
    return value && block.q > 0 && block.kv > 0 ? value->front() : 0;
  };
  TileGrid grid(static_cast<std::int32_t>(kv_tiles), static_cast<std::int32_t>(q_tiles),
                std::move(kinds));
  return import.tiled({}, [&](std::int64_t) { return grid; }, block, {tokens("M"), tokens("N")});
}

ImportedMask read_block_mask(Import& import) {
  const Bundle& bundle = import.bundle;
  const std::string name = name_of(bundle);
  const Leading leading = leading_of(bundle, name, 2);
  const Tensor& tensor = bundle.at(name);
  const std::int64_t q_tiles = leading.inner[0];
  const std::int64_t kv_tiles = leading.inner[1];
  check_grid(bundle, kv_tiles, q_tiles);
  const std::int64_t size = q_tiles * kv_tiles;
  for (std::size_t place = 0; place < tensor.elements.size(); ++place) {
    if (tensor.elements[place] != 0 && tensor.elements[place] != 1) {
      bundle.reject(name + place_words(static_cast<std::int64_t>(place), tensor.shape) + " = " +
                    std::to_string(tensor.elements[place]) + ", neither 0 nor 1");
    }
  }
  const auto grid = [&](std::int64_t head) {
    std::vector<TileKind> kinds;
    kinds.reserve(at(size));
    for (std::int64_t kv = 0; kv < kv_tiles; ++kv) {
      for (std::int64_t q = 0; q < q_tiles; ++q) {
        const bool live = tensor.elements[at(head * size + q * kv_tiles + kv)] != 0;
        kinds.push_back(live ? TileKind::full : TileKind::empty);
      }
    }
    return TileGrid(static_cast<std::int32_t>(kv_tiles), static_cast<std::int32_t>(q_tiles),
                    std::move(kinds));
  };
  const auto block = import.numbers("BLOCK_SIZE", 2);
  ImportedMask imported = import.tiled(
      {leading.batches, leading.heads}, grid,
      block ? TileShape{.q = block->front(), .kv = block->back()} : TileShape{.q = 0, .kv = 0}, {});
  import.understood("rows are Q tiles, columns KV tiles; every live tile is full");
  const std::optional<bool> causal = import.causal();
  if (causal.value_or(false)) {
    imported.mask = each_and_causal(std::move(imported.mask));
    import.understood("and causal, bottom-right aligned");
  }
  return imported;
}

}  // namespace stagger::formats
