// The masks of which a query may see several ranges of keys.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/mask_rules.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

namespace stagger {
namespace {

void add_all(std::span<const KeyRange> ranges, KeyRanges& to) {
  for (const KeyRange& range : ranges)
    to.add(range);
}

}  // namespace

// ---- global -----------------------------------------------------------------------------------

namespace {

/// The global keys as ranges, sorted and apart.
std::vector<KeyRange> global_keys(const Mask& mask, std::int64_t keys) {
  const std::int64_t first = mask.integer("first");
  if (first < 0) reject_mask("global: first = " + std::to_string(first) + ": must be 0 or more");
  std::vector<std::int64_t> tokens = mask.integers("tokens");
  for (std::size_t place = 0; place < tokens.size(); ++place) {
    if (tokens[place] < 0 || tokens[place] >= keys) {
      reject_mask("global: tokens[" + std::to_string(place) + "] = " +
                  std::to_string(tokens[place]) + " is no key; there are " + std::to_string(keys));
    }
  }
  std::sort(tokens.begin(), tokens.end());
  std::vector<KeyRange> single;
  single.reserve(tokens.size());
  for (const std::int64_t token : tokens)
    single.push_back({token, token + 1});
  std::vector<KeyRange> ranges;
  const KeyRange begin{0, std::min(first, keys)};
  add_union(std::span(&begin, begin.end > 0 ? 1 : 0), single, ranges);
  return ranges;
}

}  // namespace

KeyRanges global_ranges(const Mask& mask, const Lengths& lengths, const TileShape&) {
  const std::vector<KeyRange> seen = global_keys(mask, lengths.kv);
  const bool symmetric = mask.boolean("symmetric");
  KeyRanges rows;
  for (std::int64_t query = 0; query < lengths.q; ++query) {
    const std::int64_t position = query + lengths.kv - lengths.q;
    const bool sees_all = symmetric && std::ranges::any_of(seen, [&](const KeyRange& range) {
                            return range.begin <= position && position < range.end;
                          });
    if (sees_all) {
      rows.add({0, lengths.kv});
    } else {
      add_all(seen, rows);
    }
    rows.end_query();
  }
  return rows;
}

// ---- slices -----------------------------------------------------------------------------------

Lengths slices_size(const Mask& mask) {
  const auto most = [&](const char* key) {
    const auto& ends = mask.integers(key);
    return ends.empty() ? 0 : std::max<std::int64_t>(*std::ranges::max_element(ends), 0);
  };
  return {most("q"), most("kv")};
}

namespace {

/// Slices whose ranges are pairs within the lengths, of known types.
std::size_t checked_slices(const Mask& mask, const Lengths& lengths) {
  const auto& types = mask.integers("types");
  const std::size_t slices = mask.integers("q").size() / 2;
  for (const auto& [key, tokens] : {std::pair{"q", lengths.q}, std::pair{"kv", lengths.kv}}) {
    const auto& ends = mask.integers(key);
    if (ends.size() != 2 * slices || ends.size() % 2 != 0) {
      reject_mask("slices: q and kv are a begin and an end for each slice; they have " +
                  std::to_string(mask.integers("q").size()) + " and " +
                  std::to_string(mask.integers("kv").size()) + " numbers");
    }
    for (std::size_t slice = 0; slice < slices; ++slice) {
      const std::int64_t begin = ends[2 * slice];
      const std::int64_t end = ends[2 * slice + 1];
      if (begin < 0 || begin > end || end > tokens) {
        reject_mask("slices: " + std::string(key) + " of slice " + std::to_string(slice) + " is [" +
                    std::to_string(begin) + ", " + std::to_string(end) + "), not within [0, " +
                    std::to_string(tokens) + ")");
      }
    }
  }
  if (!types.empty() && types.size() != slices) {
    reject_mask("slices: " + std::to_string(types.size()) + " types for " + std::to_string(slices) +
                " slices");
  }
  for (std::size_t slice = 0; slice < types.size(); ++slice) {
    if (types[slice] < 0 || types[slice] > 3) {
      reject_mask("slices: types[" + std::to_string(slice) + "] = " + std::to_string(types[slice]) +
                  "; known: 0 full, 1 causal, 2 inverse causal, 3 both");
    }
  }
  return slices;
}

}  // namespace

KeyRange slice_keys(const Mask& mask, std::size_t slice, std::int64_t query) {
  const auto& q = mask.integers("q");
  const auto& kv = mask.integers("kv");
  const auto& types = mask.integers("types");
  const std::int64_t row = query - q[2 * slice];
  const std::int64_t rows = q[2 * slice + 1] - q[2 * slice];
  const std::int64_t begin = kv[2 * slice];
  const std::int64_t end = kv[2 * slice + 1];
  if (row < 0 || row >= rows) return {begin, begin};
  const std::int64_t type = types.empty() ? 0 : types[slice];
  KeyRange keys{begin, end};
  if (type == 1 || type == 3) keys.end = std::min(end, end - rows + row + 1);
  if (type == 2 || type == 3) keys.begin = begin + row;
  keys.end = std::max(keys.end, begin);
  keys.begin = std::min(keys.begin, keys.end);
  return keys;
}

KeyRanges slices_ranges(const Mask& mask, const Lengths& lengths, const TileShape&) {
  const auto& q = mask.integers("q");
  std::vector<std::size_t> waiting(checked_slices(mask, lengths));
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  Checked work = 0;
  for (const std::size_t slice : waiting)
    work = work + (q[2 * slice + 1] - q[2 * slice]);
  if (!work.within(kMaxKeyRanges)) {
    throw Error(ErrorKind::limit,
                "slices of more than " + std::to_string(kMaxKeyRanges) + " queries in all");
  }
  // From the last to begin to the first: those that begin next are at the back.
  std::ranges::sort(waiting, [&](std::size_t left, std::size_t right) {
    return std::pair(q[2 * left], left) > std::pair(q[2 * right], right);
  });
  std::vector<std::size_t> active;
  std::vector<KeyRange> seen;
  KeyRanges rows;
  for (std::int64_t query = 0; query < lengths.q; ++query) {
    for (; !waiting.empty() && q[2 * waiting.back()] <= query; waiting.pop_back())
      active.push_back(waiting.back());
    std::erase_if(active, [&](std::size_t slice) { return q[2 * slice + 1] <= query; });
    seen.clear();
    for (const std::size_t slice : active)
      seen.push_back(slice_keys(mask, slice, query));
    std::ranges::sort(seen, {}, &KeyRange::begin);
    add_all(seen, rows);
    rows.end_query();
  }
  return rows;
}

// ---- flashmask --------------------------------------------------------------------------------

Lengths flashmask_size(const Mask& mask) {
  const auto keys = static_cast<std::int64_t>(mask.integers("lts").size());
  return {keys, keys};
}

namespace {

/// Rows [begin, end) that do not see a key, three at most, sorted and apart.
class MaskedRows {
 public:
  MaskedRows(const Mask& mask, const Lengths& lengths)
      : mask_(mask), lengths_(lengths), causal_(mask.boolean("causal")) {
    for (const char* key : {"lts", "lte", "uts", "ute"}) {
      const auto& column = mask.integers(key);
      const bool needed = key == std::string_view("lts");
      if ((needed || !column.empty()) && std::ssize(column) != lengths.kv) {
        reject_mask("flashmask: " + std::string(key) + " has " + std::to_string(column.size()) +
                    " entries for " + std::to_string(lengths.kv) + " keys");
      }
      for (std::size_t place = 0; place < column.size(); ++place) {
        if (column[place] < 0) {
          reject_mask("flashmask: " + std::string(key) + "[" + std::to_string(place) +
                      "] = " + std::to_string(column[place]) + " is no query");
        }
      }
    }
    const bool lte = !mask.integers("lte").empty();
    const bool uts = !mask.integers("uts").empty();
    const bool ute = !mask.integers("ute").empty();
    if (causal_ ? uts || ute : !ute || lte != uts) {
      reject_mask(
          "flashmask: causal takes lts, or lts and lte; without it lts and ute, or all four");
    }
  }

  [[nodiscard]] std::vector<KeyRange> of(std::size_t key) const {
    const auto column = [&](const char* name, std::int64_t absent) {
      const auto& values = mask_.integers(name);
      return values.empty() ? absent : std::min(values[key], lengths_.q);
    };
    std::vector<KeyRange> masked;
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      if (begin < end) masked.push_back({begin, end});
    };
    add(column("lts", 0), column("lte", lengths_.q));
    if (causal_) {
      const auto shift = lengths_.kv - lengths_.q;
      add(0, std::min(static_cast<std::int64_t>(key) - shift, lengths_.q));
    } else {
      add(column("uts", 0), column("ute", 0));
    }
    std::ranges::sort(masked, {}, &KeyRange::begin);
    std::vector<KeyRange> apart;
    add_union(masked, {}, apart);
    return apart;
  }

 private:
  const Mask& mask_;
  Lengths lengths_;
  bool causal_;
};

/// A key that a query sees, and the one before did not, or the other way round.
struct Turn {
  std::int64_t query;
  std::int64_t key;
};

std::vector<Turn> turns_of(const Mask& mask, const Lengths& lengths) {
  const MaskedRows masked(mask, lengths);
  std::vector<Turn> turns;
  for (std::int64_t key = 0; key < lengths.kv; ++key) {
    std::int64_t seen_from = 0;
    for (const KeyRange& rows : masked.of(at(key))) {
      if (seen_from < rows.begin) {
        turns.push_back({seen_from, key});
        turns.push_back({rows.begin, key});
      }
      seen_from = rows.end;
    }
    if (seen_from < lengths.q) turns.push_back({seen_from, key});
  }
  std::ranges::stable_sort(turns, {}, &Turn::query);
  return turns;
}

}  // namespace

KeyRanges flashmask_ranges(const Mask& mask, const Lengths& lengths, const TileShape&) {
  const std::vector<Turn> turns = turns_of(mask, lengths);
  std::set<std::int64_t> borders;  // where keys that are seen begin, and end, in turn
  const auto flip = [&](std::int64_t border) {
    if (borders.erase(border) == 0) borders.insert(border);
  };
  KeyRanges rows;
  auto turn = turns.begin();
  for (std::int64_t query = 0; query < lengths.q; ++query) {
    for (; turn != turns.end() && turn->query == query; ++turn) {
      flip(turn->key);
      flip(turn->key + 1);
    }
    for (auto border = borders.begin(); border != borders.end(); ++border) {
      const std::int64_t begin = *border;
      rows.add({begin, *++border});
    }
    rows.end_query();
  }
  return rows;
}

}  // namespace stagger
