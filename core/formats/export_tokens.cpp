// Masks as pairs of tokens: FlashMask's columns, MagiAttention's slices, FlashInfer's blocks and
// sequences of several lengths. What a block-sparse mask does not say of a partial tile nobody can
// write.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"
#include "core/token_mask.hpp"

#include <algorithm>
#include <array>

namespace stagger::formats {
namespace {

KvTile kv_of(const Problem& problem, std::int64_t key) {
  return KvTile{static_cast<std::int32_t>(key / problem.shape.kv)};
}
QTile q_of(const Problem& problem, std::int64_t query) {
  return QTile{static_cast<std::int32_t>(query / problem.shape.q)};
}

void add_tensor(Bundle& bundle, const std::string& name, Dtype dtype,
                std::vector<std::int64_t> shape, std::vector<std::int64_t> elements) {
  NamedTensor named{.name = name};
  named.tensor = {.dtype = dtype, .shape = std::move(shape), .elements = std::move(elements)};
  bundle.tensors.push_back(std::move(named));
}

// ---- FlashMask --------------------------------------------------------------------------------

/// Queries that see a key, as at most three ranges of them; kMostTurns turns are not told apart.
class SeenBy {
 public:
  static constexpr std::size_t kMostTurns = 6;

  void turn(std::int64_t query) {
    if (count_ < kMostTurns) turns_[count_] = query;
    ++count_;
  }
  /// Ranges of queries within [begin, end) that do not see the key.
  [[nodiscard]] std::vector<KeyRange> masked(std::int64_t begin, std::int64_t end) const {
    std::vector<KeyRange> ranges;
    for (std::size_t turn = 0; turn <= count_; turn += 2) {
      const std::int64_t from = std::max(turn == 0 ? 0 : turns_[turn - 1], begin);
      const std::int64_t to = std::min(turn == count_ ? end : turns_[turn], end);
      if (from < to) ranges.push_back({from, to});
    }
    return ranges;
  }
  [[nodiscard]] bool is_too_many() const { return count_ > kMostTurns - 1; }
  [[nodiscard]] std::int64_t last_turn() const { return turns_[kMostTurns - 2]; }

 private:
  std::array<std::int64_t, kMostTurns> turns_ = {};
  std::size_t count_ = 0;
};

/// Borders of ranges: where keys that are seen begin, and end, in turn.
std::vector<std::int64_t> borders_of(std::span<const KeyRange> ranges) {
  std::vector<std::int64_t> borders;
  for (const KeyRange& range : ranges) {
    borders.push_back(range.begin);
    borders.push_back(range.end);
  }
  return borders;
}

std::vector<SeenBy> seen_by(const Problem& problem) {
  const KeyRanges rows = key_ranges(problem.mask, problem.lengths, problem.shape);
  std::vector<SeenBy> keys(at(problem.lengths.kv));
  std::vector<std::int64_t> before;
  for (std::int64_t query = 0; query < rows.queries(); ++query) {
    const std::vector<std::int64_t> borders = borders_of(rows.of(query));
    std::vector<std::int64_t> changed;
    std::ranges::set_symmetric_difference(before, borders, std::back_inserter(changed));
    for (std::size_t place = 0; place + 1 < changed.size(); place += 2) {
      for (std::int64_t key = changed[place]; key < changed[place + 1]; ++key) {
        keys[at(key)].turn(query);
        if (!keys[at(key)].is_too_many()) continue;
        refuse_tile("flashmask", kv_of(problem, key), q_of(problem, query),
                    "key " + std::to_string(key) +
                        " has more than two ranges of queries that do not see it");
      }
    }
    before = borders;
  }
  return keys;
}

/// The first query that sees a key when it is read as causal: those before stand before it.
std::int64_t diagonal(const Problem& problem, std::size_t key) {
  const std::int64_t shift = problem.lengths.kv - problem.lengths.q;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(key) - shift, 0, problem.lengths.q);
}

/// Whether nobody sees a key before the diagonal, and the rest of its column is one range.
bool fits_causal(const Problem& problem, const std::vector<SeenBy>& keys) {
  for (std::size_t key = 0; key < keys.size(); ++key) {
    const std::int64_t begin = diagonal(problem, key);
    const auto above = keys[key].masked(0, begin);
    const bool hidden = begin == 0 || (above.size() == 1 && above.front() == KeyRange{0, begin});
    if (!hidden || keys[key].masked(begin, problem.lengths.q).size() > 1) return false;
  }
  return true;
}

/// The masked ranges of a column in the form of four: the lower one, then the upper one.
std::array<std::int64_t, 4> four(const Problem& problem, const std::vector<KeyRange>& masked,
                                 std::size_t key) {
  const std::int64_t end = problem.lengths.q;
  if (masked.size() > 2) {
    refuse_tile(
        "flashmask", kv_of(problem, static_cast<std::int64_t>(key)), q_of(problem, masked[2].begin),
        "key " + std::to_string(key) + " has more than two ranges of queries that do not see it");
  }
  if (masked.empty()) return {end, end, 0, 0};
  if (masked.size() == 2) {
    return {masked[1].begin, masked[1].end, masked[0].begin, masked[0].end};
  }
  const KeyRange only = masked.front();
  if (only.begin == 0 && only.end < end) return {end, end, 0, only.end};
  return {only.begin, only.end, 0, 0};
}

}  // namespace

Bundle flashmask_bundle(const Problem& problem) {
  expect_known_pairs(problem, "flashmask");
  const std::vector<SeenBy> keys = seen_by(problem);
  const bool causal = fits_causal(problem, keys);
  const std::int64_t end = problem.lengths.q;
  std::vector<std::array<std::int64_t, 4>> rows;
  bool open_below = true;  // every lower range goes on to the last query
  bool open_above = true;  // every upper one begins at the first
  for (std::size_t key = 0; key < keys.size(); ++key) {
    rows.push_back(four(problem, keys[key].masked(causal ? diagonal(problem, key) : 0, end), key));
    auto& [lts, lte, uts, ute] = rows.back();
    if (causal && ute > 0) rows.back() = {uts, ute, 0, 0};
    if (lts == lte) lts = lte = end;
    open_below = open_below && lte == end;
    open_above = open_above && uts == 0;
  }
  std::vector<std::size_t> columns = {0, 1, 2, 3};
  if (causal) columns = open_below ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, 1};
  if (!causal && open_below && open_above) columns = {0, 3};
  std::vector<std::int64_t> elements;
  for (const auto& row : rows) {
    for (const std::size_t column : columns)
      elements.push_back(row[column]);
  }
  Bundle bundle;
  add_tensor(bundle, "startend_row_indices", Dtype::int32,
             {1, 1, problem.lengths.kv, static_cast<std::int64_t>(columns.size())},
             std::move(elements));
  add_tensor(bundle, "causal", Dtype::boolean, {}, {causal ? 1 : 0});
  return bundle;
}

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
  const TileGrid& grid = problem.grid;
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
