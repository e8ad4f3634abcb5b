// Masks as FlashMask's columns: for every key the queries that do not see it, two ranges at most.

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/index.hpp"

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
  NamedTensor indices{.name = "startend_row_indices"};
  indices.tensor = {.shape = {1, 1, problem.lengths.kv, std::ssize(columns)},
                    .elements = std::move(elements)};
  bundle.tensors.push_back(std::move(indices));
  NamedTensor flag{.name = "causal"};
  flag.tensor = {.dtype = Dtype::boolean, .shape = {}, .elements = {causal ? 1 : 0}};
  bundle.tensors.push_back(std::move(flag));
  return bundle;
}

}  // namespace stagger::formats
