// Masks as pairs of tokens: MagiAttention's slices and FlashInfer's blocks. What a block-sparse
// mask does not say of a partial tile nobody can write.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"
#include "core/token_mask.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

void add_tensor(Bundle& bundle, const std::string& name, Dtype dtype,
                std::vector<std::int64_t> shape, std::vector<std::int64_t> elements) {
  NamedTensor named{.name = name};
  named.tensor = {.dtype = dtype, .shape = std::move(shape), .elements = std::move(elements)};
  bundle.tensors.push_back(std::move(named));
}

}  // namespace

// ---- MagiAttention ----------------------------------------------------------------------------

namespace {

/// A slice that the next query's keys may go on: by how much its ends have moved with each query.
struct OpenSlice {
  std::int64_t query = 0;  ///< its first
  KeyRange first;
  KeyRange last;
  std::int64_t rows = 1;
  std::int64_t begin_step = 0;
  std::int64_t end_step = 0;

  /// Takes the next query's range, if it goes on as the ones before.
  bool takes(const KeyRange& range) {
    const std::int64_t begin = range.begin - last.begin;
    const std::int64_t end = range.end - last.end;
    const bool goes_on = rows == 1 ? (begin == 0 || begin == 1) && (end == 0 || end == 1)
                                   : begin == begin_step && end == end_step;
    if (!goes_on) return false;
    begin_step = begin;
    end_step = end;
    last = range;
    ++rows;
    return true;
  }
};

class Slicer {
 public:
  void add(std::int64_t query, std::span<const KeyRange> ranges) {
    std::vector<OpenSlice> next;
    std::size_t place = 0;
    for (const KeyRange& range : ranges) {
      while (place < open_.size() && open_[place].last.begin + 1 < range.begin)
        close(open_[place++]);
      if (place < open_.size() && open_[place].takes(range)) {
        next.push_back(open_[place++]);
      } else {
        next.push_back({.query = query, .first = range, .last = range});
      }
    }
    for (; place < open_.size(); ++place)
      close(open_[place]);
    open_ = std::move(next);
  }

  Bundle bundle() {
    for (const OpenSlice& slice : open_)
      close(slice);
    std::ranges::stable_sort(closed_, [](const OpenSlice& left, const OpenSlice& right) {
      return std::pair(left.query, left.first.begin) < std::pair(right.query, right.first.begin);
    });
    std::vector<std::int64_t> q;
    std::vector<std::int64_t> kv;
    std::vector<std::int64_t> types;
    for (const OpenSlice& slice : closed_) {
      q.insert(q.end(), {slice.query, slice.query + slice.rows});
      kv.insert(kv.end(), {slice.first.begin, slice.last.end});
      types.push_back(2 * slice.begin_step + slice.end_step);
    }
    const auto slices = static_cast<std::int64_t>(closed_.size());
    Bundle bundle;
    add_tensor(bundle, "q_ranges", Dtype::int32, {slices, 2}, std::move(q));
    add_tensor(bundle, "k_ranges", Dtype::int32, {slices, 2}, std::move(kv));
    add_tensor(bundle, "attn_type_map", Dtype::int32, {slices}, std::move(types));
    return bundle;
  }

 private:
  void close(const OpenSlice& slice) { closed_.push_back(slice); }

  std::vector<OpenSlice> open_;
  std::vector<OpenSlice> closed_;
};

}  // namespace

Bundle magi_bundle(const Problem& problem) {
  expect_known_pairs(problem, "magi");
  const KeyRanges rows = key_ranges(problem.mask, problem.lengths, problem.shape);
  Slicer slicer;
  for (std::int64_t query = 0; query < rows.queries(); ++query)
    slicer.add(query, rows.of(query));
  return slicer.bundle();
}

// ---- FlashInfer -------------------------------------------------------------------------------

Bundle bsr_bundle(const Problem& problem) {
  const TileGrid& grid = problem.common_grid();
  const KvTile last_kv{grid.kv_tiles() - 1};
  const QTile last_q{grid.q_tiles() - 1};
  if (problem.lengths.q % problem.shape.q != 0 || problem.lengths.kv % problem.shape.kv != 0) {
    refuse_tile("bsr", last_kv, last_q, "tokens are missing; its blocks are whole");
  }
  expect_known_pairs(problem, "bsr");
  const std::int64_t pairs = problem.shape.q * problem.shape.kv;
  std::vector<std::int64_t> indptr = {0};
  std::vector<std::int64_t> indices;
  bool partial = false;
  for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      if (!grid.live(kv, q)) continue;
      indices.push_back(kv.value);
      partial = partial || grid.kind(kv, q) == TileKind::partial;
    }
    indptr.push_back(std::ssize(indices));
  }
  const std::int64_t blocks = std::ssize(indices);
  if (partial && !(Checked(blocks) * pairs).within(kMaxElements)) {
    throw Error(ErrorKind::limit, "bsr: masks of " + std::to_string(blocks) + " blocks of " +
                                      std::to_string(pairs) + " pairs are not written");
  }
  std::vector<std::int64_t> mask;
  if (partial) {
    const TokenMask tokens(problem);
    mask.assign(at(blocks * pairs), 0);
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      for (std::int64_t place = indptr[at(q)]; place < indptr[at(q.value + 1)]; ++place) {
        const KvTile kv{static_cast<std::int32_t>(indices[at(place)])};
        for (std::int64_t row = 0; row < problem.shape.q; ++row) {
          tokens.each_range(q.value * problem.shape.q + row, kv, [&](const KeyRange& range) {
            const std::int64_t first = place * pairs + (row - kv.value) * problem.shape.kv;
            for (std::int64_t key = range.begin; key < range.end; ++key)
              mask[at(first + key)] = 1;
          });
        }
      }
    }
  }
  Bundle bundle;
  add_tensor(bundle, "indptr", Dtype::int32, {std::int64_t{grid.q_tiles()} + 1}, std::move(indptr));
  add_tensor(bundle, "indices", Dtype::int32, {blocks}, std::move(indices));
  if (partial) {
    add_tensor(bundle, "mask", Dtype::boolean, {blocks, problem.shape.q, problem.shape.kv},
               std::move(mask));
  }
  for (const auto& [name, value] :
       {std::pair{"M", problem.lengths.q}, std::pair{"N", problem.lengths.kv},
        std::pair{"R", problem.shape.q}, std::pair{"C", problem.shape.kv}}) {
    add_tensor(bundle, name, Dtype::int64, {}, {value});
  }
  return bundle;
}

}  // namespace stagger::formats
