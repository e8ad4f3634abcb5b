// FlashMask's startend_row_indices: for every key up to four numbers, the queries that do not see
// it.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/key_ranges.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
#include "core/tiling.hpp"

#include <algorithm>
#include <array>

namespace stagger::formats {
namespace {

constexpr const char* kName = "startend_row_indices";

/// The columns of a form, in their order.
std::vector<const char*> columns_of(bool causal, std::int64_t count, const Bundle& bundle) {
  if (causal && count == 1) return {"lts"};
  if (causal && count == 2) return {"lts", "lte"};
  if (!causal && count == 2) return {"lts", "ute"};
  if (!causal && count == 4) return {"lts", "lte", "uts", "ute"};
  bundle.reject(std::string(kName) + " has " + std::to_string(count) + " columns, which a " +
                (causal ? "causal" : "two-way") +
                " mask has not: 1 or 2 of a causal one, 2 or 4 of another");
}

bool is_causal(Import& import, std::int64_t columns) {
  if (const auto causal = import.causal()) return *causal;
  if (columns == 2) {
    throw Error(ErrorKind::usage, import.bundle.source +
                                      ": two columns are lts, lte of a causal mask and lts, ute "
                                      "of another, and the file does not say which: give "
                                      "--mask-causal true or false");
  }
  return columns == 1;
}

/// Rows [begin, end) of `queries` that do not see a key, sorted and apart.
void find_hidden(const Mask& mask, std::size_t key, const Lengths& lengths,
                 std::vector<KeyRange>& hidden) {
  std::vector<KeyRange> all;
  const auto column = [&](const char* name, std::int64_t absent) {
    const auto& values = mask.integers(name);
    return values.empty() ? absent : values[key];
  };
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    const KeyRange rows{std::max(begin, std::int64_t{0}), std::min(end, lengths.q)};
    if (rows.begin < rows.end) all.push_back(rows);
  };
  add(column("lts", 0), column("lte", lengths.q));
  add(column("uts", 0), column("ute", 0));
  if (mask.boolean("causal")) {
    add(0, static_cast<std::int64_t>(key) - (lengths.kv - lengths.q));
  }
  std::ranges::sort(all, {}, &KeyRange::begin);
  hidden.clear();
  add_union(all, {}, hidden);
}

std::int64_t size_of(const std::vector<KeyRange>& ranges) {
  std::int64_t size = 0;
  for (const KeyRange& range : ranges)
    size += range.end - range.begin;
  return size;
}

/// Refuses columns of which the queries see too many ranges of keys, before anything is made of
/// them: a query begins one at each key that it sees, and of which the key before is hidden.
/// O(keys).
void check_ranges(const Bundle& bundle, const Mask& mask, const Lengths& lengths) {
  std::vector<KeyRange> before = {{0, lengths.q}};
  std::vector<KeyRange> hidden;
  std::vector<KeyRange> both;
  std::int64_t ranges = 0;
  for (std::int64_t key = 0; key < lengths.kv; ++key) {
    find_hidden(mask, at(key), lengths, hidden);
    both.clear();
    add_intersection(before, hidden, both);
    ranges += size_of(before) - size_of(both);
    before.swap(hidden);
  }
  if (ranges <= kMaxKeyRanges) return;
  throw Error(ErrorKind::limit, bundle.source + ": a mask of " + std::to_string(ranges) +
                                    " ranges of keys, over all queries; at most " +
                                    std::to_string(kMaxKeyRanges) + " are supported");
}

/// Least and largest of a column's numbers in each KV tile.
struct Bounds {
  std::vector<std::int64_t> least;
  std::vector<std::int64_t> most;
};

Bounds bounds_of(const std::vector<std::int64_t>& column, std::int64_t tile, std::int64_t limit) {
  Bounds bounds;
  for (std::size_t key = 0; key < column.size(); ++key) {
    const std::int64_t value = std::min(column[key], limit);
    if (static_cast<std::int64_t>(key) % tile == 0) {
      bounds.least.push_back(value);
      bounds.most.push_back(value);
    }
    bounds.least.back() = std::min(bounds.least.back(), value);
    bounds.most.back() = std::max(bounds.most.back(), value);
  }
  return bounds;
}

/// Tiles that the kernel visits although no pair in them attends: it looks at each interval alone,
/// by its bounds in a tile, and so does not see what only both of them, or one and the diagonal,
/// leave empty.
std::int64_t visited_empty(const Mask& mask, const Lengths& lengths, const TileShape& shape) {
  const TileGrid grid = tile(mask, lengths, shape);
  const bool causal = mask.boolean("causal");
  const auto column = [&](const char* key, std::int64_t absent) {
    const auto& values = mask.integers(key);
    return bounds_of(values.empty() ? std::vector(at(lengths.kv), absent) : values, shape.kv,
                     lengths.q);
  };
  const Bounds lts = column("lts", 0);
  const Bounds lte = column("lte", lengths.q);
  const Bounds uts = column("uts", 0);
  const Bounds ute = column("ute", 0);
  std::int64_t visited = 0;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      if (grid.live(kv, q)) continue;
      const std::int64_t first = q.value * shape.q;
      const std::int64_t last = std::min(first + shape.q, lengths.q);
      const auto dead = [&](const Bounds& begin, const Bounds& end) {
        return begin.most[at(kv)] <= first && end.least[at(kv)] >= last;
      };
      const bool above = causal && last - 1 + lengths.kv - lengths.q < kv.value * shape.kv;
      if (!above && !dead(lts, lte) && !(!causal && dead(uts, ute))) ++visited;
    }
  }
  return visited;
}

/// The window that the call had beside the columns.
std::optional<Mask> window_of(Import& import, bool causal) {
  const auto sizes = import.numbers("window_size");
  if (!sizes) return std::nullopt;
  if (sizes->empty() || sizes->size() > 2) import.bundle.reject("window_size is one number or two");
  const std::int64_t left = sizes->front();
  const std::int64_t right = sizes->size() == 2 ? sizes->back() : causal ? 0 : left;
  import.understood("window: left=" + std::to_string(left) + ", right=" + std::to_string(right) +
                    ", bottom-right aligned");
  return make_mask("sliding", {{"left", left}, {"right", right}});
}

constexpr const char* kKept = "block_mask";

/// Which masks a `block_mask` of 0 and 1 is for; nullopt if the file has none.
std::optional<Leading> leading_of_kept(const Import& import, const Lengths& lengths) {
  if (!import.bundle.has(kKept)) return std::nullopt;
  Leading leading = leading_of(import.bundle, kKept, 2);
  check_zeros_and_ones(import.bundle, kKept);
  constexpr TileShape kBlock{.q = 128, .kv = 128};
  if (import.request.shape != kBlock) {
    throw Error(ErrorKind::usage, import.bundle.source +
                                      ": block_mask is of tiles of 128 x 128 tokens: give "
                                      "--tile-q 128 --tile-kv 128");
  }
  const std::int64_t q_tiles = divide_up(lengths.q, kBlock.q);
  const std::int64_t kv_tiles = divide_up(lengths.kv, kBlock.kv);
  if (leading.inner[0] != q_tiles || leading.inner[1] != kv_tiles) {
    import.bundle.reject("block_mask is of " + std::to_string(leading.inner[0]) + " x " +
                         std::to_string(leading.inner[1]) +
                         " Q by KV tiles, where the columns have " + std::to_string(q_tiles) +
                         " x " + std::to_string(kv_tiles));
  }
  return leading;
}

/// The masks that columns and `block_mask` make together: one batch or head of either is for all
/// of the other's.
MasksOfFile masks_of(const Bundle& bundle, const Leading& columns,
                     const std::optional<Leading>& kept) {
  const MasksOfFile own{.batches = columns.batches, .heads = columns.heads, .of_kv_heads = true};
  if (!kept) return own;
  const MasksOfFile others{.batches = kept->batches, .heads = kept->heads};
  const auto both = together(own, others);
  if (!both) {
    bundle.reject(std::string(kKept) + " is of " + others.words() + ", and " + kName + " of " +
                  own.words());
  }
  check_masks(bundle, kKept, *both, columns.inner[0] * columns.inner[1]);
  return *both;
}

/// The tiles that the `block_mask` at that place keeps.
Mask kept_tiles(const Bundle& bundle, const Leading& leading, std::int64_t place) {
  const Tensor& kept = bundle.at(kKept);
  const std::int64_t q_tiles = leading.inner[0];
  const std::int64_t kv_tiles = leading.inner[1];
  std::vector<std::string> rows(at(kv_tiles), std::string(at(q_tiles), '.'));
  for (std::int64_t q = 0; q < q_tiles; ++q) {
    for (std::int64_t kv = 0; kv < kv_tiles; ++kv) {
      if (kept.elements[at((place * q_tiles + q) * kv_tiles + kv)] != 0) rows[at(kv)][at(q)] = 'f';
    }
  }
  return make_mask("tiles", {{"rows", std::move(rows)}});
}

}  // namespace

ImportedMask read_flashmask(Import& import) {
  const Bundle& bundle = import.bundle;
  const Tensor& tensor = bundle.at(kName);
  const Leading leading = leading_of(bundle, kName, 2);
  const std::int64_t keys = leading.inner[0];
  const std::int64_t count = leading.inner[1];
  if (keys > kMaxTokens) throw Error(ErrorKind::limit, bundle.source + ": too many keys");
  const bool causal = is_causal(import, count);
  const std::vector<const char*> names = columns_of(causal, count, bundle);
  const std::int64_t size = keys * count;
  const auto columns = [&](std::int64_t place) {
    std::map<std::string, MaskValue, std::less<>> values = {{"causal", causal}};
    for (std::int64_t column = 0; column < count; ++column) {
      std::vector<std::int64_t> rows;
      for (std::int64_t key = 0; key < keys; ++key)
        rows.push_back(tensor.elements[at(place * size + key * count + column)]);
      values.emplace(names[at(column)], std::move(rows));
    }
    return make_mask("flashmask", std::move(values));
  };
  std::string form;
  for (const char* name : names)
    form += std::string(form.empty() ? "" : ", ") + name;
  import.understood("columns " + form + (causal ? "; causal, bottom-right aligned" : "; two-way"));
  Lengths lengths{import.request.lengths.q, keys};
  if (lengths.q == 0) {
    lengths.q = keys;
    import.understood("as many queries as keys (--seq-q says otherwise)");
  }
  const std::optional<Mask> window = window_of(import, causal);
  const std::optional<Leading> kept = leading_of_kept(import, lengths);
  const MasksOfFile masks = masks_of(bundle, leading, kept);
  std::optional<std::int64_t> visited;
  for (std::int64_t place = 0; place < leading.masks(); ++place) {
    const Mask own = columns(place);
    check_ranges(bundle, own, lengths);
    if (import.request.shape.q > 0 && import.request.shape.kv > 0) {
      visited = visited.value_or(0) + visited_empty(own, lengths, import.request.shape);
    }
  }
  Mask mask = import.by_head(masks, [&](std::int64_t place) {
    std::vector<Mask> parts = {columns(own_place(leading, masks, place))};
    if (window) parts.push_back(*window);
    if (kept) parts.push_back(kept_tiles(bundle, *kept, own_place(*kept, masks, place)));
    return parts.size() == 1 ? std::move(parts.front()) : make_mask("and", {{"of", parts}});
  });
  if (visited) {
    import.understood(counted(*visited, "empty tile") +
                      " that its kernel visits: it looks at each interval alone");
  }
  if (kept) {
    import.understood("and of these the tiles that block_mask keeps");
  }
  return import.of_tokens(std::move(mask), lengths);
}

}  // namespace stagger::formats
