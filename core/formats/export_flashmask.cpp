// Masks as FlashMask's columns: for every key the queries that do not see it, two ranges at most.
// Heads that share K and V have one mask, and all masks one form.

#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/index.hpp"
#include "core/mask_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

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

/// The mask of all heads, or of one; who sees each of its keys.
struct Columns {
  Problem problem;  ///< of one mask
  std::optional<Head> head;
  std::vector<SeenBy> keys = {};

  [[noreturn]] void refuse(std::int64_t key, std::int64_t query) const {
    refuse_tile(
        "flashmask", kv_of(problem, key), q_of(problem, query),
        "key " + std::to_string(key) + " has more than two ranges of queries that do not see it",
        head);
  }
};

void see(Columns& columns) {
  const Problem& problem = columns.problem;
  const KeyRanges rows = key_ranges(problem.mask, problem.lengths, problem.shape);
  columns.keys.resize(at(problem.lengths.kv));
  std::vector<std::int64_t> before;
  for (std::int64_t query = 0; query < rows.queries(); ++query) {
    const std::vector<std::int64_t> borders = borders_of(rows.of(query));
    std::vector<std::int64_t> changed;
    std::ranges::set_symmetric_difference(before, borders, std::back_inserter(changed));
    for (std::size_t place = 0; place + 1 < changed.size(); place += 2) {
      for (std::int64_t key = changed[place]; key < changed[place + 1]; ++key) {
        columns.keys[at(key)].turn(query);
        if (columns.keys[at(key)].is_too_many()) columns.refuse(key, query);
      }
    }
    before = borders;
  }
}

/// The first query that sees a key when it is read as causal: those before stand before it.
std::int64_t diagonal(const Problem& problem, std::size_t key) {
  const std::int64_t shift = problem.lengths.kv - problem.lengths.q;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(key) - shift, 0, problem.lengths.q);
}

/// Whether nobody sees a key before the diagonal, and the rest of its column is one range.
bool fits_causal(const Columns& columns) {
  for (std::size_t key = 0; key < columns.keys.size(); ++key) {
    const std::int64_t begin = diagonal(columns.problem, key);
    const auto above = columns.keys[key].masked(0, begin);
    const bool hidden = begin == 0 || (above.size() == 1 && above.front() == KeyRange{0, begin});
    if (!hidden) return false;
    if (columns.keys[key].masked(begin, columns.problem.lengths.q).size() > 1) return false;
  }
  return true;
}

/// The masked ranges of a column in the form of four: the lower one, then the upper one.
std::array<std::int64_t, 4> four(const Columns& columns, const std::vector<KeyRange>& masked,
                                 std::size_t key) {
  const std::int64_t end = columns.problem.lengths.q;
  if (masked.size() > 2) columns.refuse(static_cast<std::int64_t>(key), masked[2].begin);
  if (masked.empty()) return {end, end, 0, 0};
  if (masked.size() == 2) {
    return {masked[1].begin, masked[1].end, masked[0].begin, masked[0].end};
  }
  const KeyRange only = masked.front();
  if (only.begin == 0 && only.end < end) return {end, end, 0, only.end};
  return {only.begin, only.end, 0, 0};
}

/// Numbers of every key, in a form that all masks have.
class Form {
 public:
  explicit Form(const std::vector<Columns>& masks)
      : causal_(std::ranges::all_of(masks, fits_causal)) {
    for (const Columns& columns : masks)
      add(columns);
  }

  [[nodiscard]] bool causal() const { return causal_; }
  /// Which of the four are written.
  [[nodiscard]] std::vector<std::size_t> places() const {
    if (causal_ && open_below_) return {0};
    if (causal_) return {0, 1};
    if (open_below_ && open_above_) return {0, 3};
    return {0, 1, 2, 3};
  }
  /// Those of one mask after those of the mask before it.
  [[nodiscard]] const std::vector<std::array<std::int64_t, 4>>& rows() const { return rows_; }

 private:
  void add(const Columns& columns) {
    const std::int64_t end = columns.problem.lengths.q;
    for (std::size_t key = 0; key < columns.keys.size(); ++key) {
      const std::int64_t begin = causal_ ? diagonal(columns.problem, key) : 0;
      rows_.push_back(four(columns, columns.keys[key].masked(begin, end), key));
      auto& [lts, lte, uts, ute] = rows_.back();
      if (causal_ && ute > 0) rows_.back() = {uts, ute, 0, 0};
      if (lts == lte) lts = lte = end;
      open_below_ = open_below_ && lte == end;
      open_above_ = open_above_ && uts == 0;
    }
  }

  bool causal_;
  bool open_below_ = true;  ///< every lower range goes on to the last query
  bool open_above_ = true;  ///< every upper one begins at the first
  std::vector<std::array<std::int64_t, 4>> rows_;
};

Columns columns_of(const Problem& problem, std::optional<Head> head) {
  const Head own = head.value_or(Head{0});
  Columns columns{.problem = {.mask = mask_of(problem.mask, own),
                              .lengths = problem.lengths,
                              .shape = problem.shape,
                              .grids = problem.grid_of(own)},
                  .head = head};
  expect_known_pairs(columns.problem, "flashmask", head);
  see(columns);
  return columns;
}

/// The place of each KV head's mask among `masks`, to which those that differ are added.
std::vector<std::int64_t> masks_of_kv_heads(const Problem& problem, std::vector<Columns>& masks) {
  std::vector<std::int64_t> places;
  std::map<std::int32_t, std::int64_t> found;  // by the place in the mask
  for (Head head{0}; head.value < problem.heads; ++head) {
    const Head first{head.value / problem.group() * problem.group()};
    const std::int32_t own = mask_place(problem.mask, head);
    if (own != mask_place(problem.mask, first)) {
      throw Error(ErrorKind::unsupported,
                  "flashmask has one mask for the heads that share K and V, and heads " +
                      std::to_string(first.value) + " and " + std::to_string(head.value) +
                      " have masks of their own");
    }
    if (head != first) continue;
    const auto [known, is_new] = found.emplace(own, std::ssize(masks));
    if (is_new) masks.push_back(columns_of(problem, head));
    places.push_back(known->second);
  }
  return places;
}

}  // namespace

Bundle flashmask_bundle(const Problem& problem) {
  std::vector<Columns> masks;
  std::vector<std::int64_t> places = {0};
  if (problem.mask.family->by_head) {
    expect_room(Checked(problem.lengths.kv) * 4 * problem.heads_kv, "flashmask");
    places = masks_of_kv_heads(problem, masks);
  } else {
    masks.push_back(columns_of(problem, std::nullopt));
  }
  if (masks.size() == 1) places.resize(1);
  const Form form(masks);
  const std::vector<std::size_t> columns = form.places();
  std::vector<std::int64_t> elements;
  const std::int64_t keys = problem.lengths.kv;
  for (const std::int64_t place : places) {
    for (std::int64_t key = 0; key < keys; ++key) {
      for (const std::size_t column : columns)
        elements.push_back(form.rows()[at(place * keys + key)][column]);
    }
  }
  Bundle bundle;
  NamedTensor indices{.name = "startend_row_indices"};
  indices.tensor = {.shape = {1, std::ssize(places), keys, std::ssize(columns)},
                    .elements = std::move(elements)};
  bundle.tensors.push_back(std::move(indices));
  NamedTensor flag{.name = "causal"};
  flag.tensor = {.dtype = Dtype::boolean, .shape = {}, .elements = {form.causal() ? 1 : 0}};
  bundle.tensors.push_back(std::move(flag));
  return bundle;
}

}  // namespace stagger::formats
