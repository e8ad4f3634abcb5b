// Block masks as arrays of booleans, as SpargeAttn, SageAttention and others have them, whose tiles
// need not be square.

#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

/// The names under which boolean block masks are known.
constexpr const char* kNames[] = {"mask_id", "block_mask", "blockmask", "base_blockmask"};

std::string name_of(const Bundle& bundle) {
  for (const char* name : kNames) {
    if (bundle.has(name)) return name;
  }
  if (bundle.tensors.size() == 1) return bundle.tensors.front().name;
  bundle.reject("no array of that name: mask_id, block_mask, blockmask; or a single one");
}

}  // namespace

ImportedMask read_block_mask(Import& import) {
  const Bundle& bundle = import.bundle;
  const std::string name = name_of(bundle);
  const Leading leading = leading_of(bundle, name, 2);
  const Tensor& tensor = bundle.at(name);
  const std::int64_t q_tiles = leading.inner[0];
  const std::int64_t kv_tiles = leading.inner[1];
  check_grid_size(bundle, kv_tiles, q_tiles);
  const std::int64_t size = q_tiles * kv_tiles;
  check_zeros_and_ones(bundle, name);
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
  ImportedMask imported =
      import.tiled({leading.batches, leading.heads}, grid, import.block_size("BLOCK_SIZE"), {});
  import.understood("rows are Q tiles, columns KV tiles; every live tile is full");
  import.compose_causal(imported);
  return imported;
}

}  // namespace stagger::formats
