// Which values masks of several ranges take, and what they mean: every small list of them, against
// the definitions written out here. A tile is one pair of tokens, so that a grid is what is seen.

#include "core/error.hpp"
#include "core/tiling.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

namespace stagger {
namespace {

using Values = std::vector<std::int64_t>;

constexpr Lengths kUnequal{.q = 2, .kv = 3};

std::optional<TileGrid> taken(const Mask& mask, const Lengths& lengths = kUnequal) {
  try {
    return tile(mask, lengths, {1, 1});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::invalid_input);
    return std::nullopt;
  }
}

template <class Sees>
void require_seen(const TileGrid& grid, const Sees& sees) {
  for (std::int64_t kv = 0; kv < grid.kv_tiles(); ++kv) {
    for (std::int64_t q = 0; q < grid.q_tiles(); ++q) {
      CAPTURE(kv, q);
      REQUIRE((grid.kind(KvTile{static_cast<std::int32_t>(kv)},
                         QTile{static_cast<std::int32_t>(q)}) != TileKind::empty) == sees(q, kv));
    }
  }
}

/// Calls `act` with every list of up to `most` numbers from `first` to `last`.
void each_list(std::size_t most, std::int64_t first, std::int64_t last,
               const std::function<void(const Values&)>& act) {
  std::vector<Values> lists{{}};
  for (std::size_t next = 0; next < lists.size(); ++next) {
    act(lists[next]);
    if (lists[next].size() == most) continue;
    for (std::int64_t value = first; value <= last; ++value) {
      Values longer = lists[next];
      longer.push_back(value);
      lists.push_back(std::move(longer));
    }
  }
}

Values ones(std::size_t count) {
  return Values(count, 1);
}

TEST_CASE("global keys are any of those there are, and no others") {
  std::int64_t accepted = 0;
  std::int64_t refused = 0;
  for (const std::int64_t first : {-1, 0, 1, 2, 3, 4}) {
    for (const bool symmetric : {false, true}) {
      each_list(2, -1, kUnequal.kv, [&](const Values& tokens) {
        CAPTURE(first, symmetric, tokens);
        const auto is_key = [](std::int64_t token) { return token >= 0 && token < kUnequal.kv; };
        const bool fits = first >= 0 && std::all_of(tokens.begin(), tokens.end(), is_key);
        const auto grid = taken(
            make_mask("global", {{"first", first}, {"tokens", tokens}, {"symmetric", symmetric}}));
        REQUIRE(grid.has_value() == fits);
        ++(fits ? accepted : refused);
        if (!grid) return;
        const auto is_global = [&](std::int64_t key) {
          return key < first || std::count(tokens.begin(), tokens.end(), key) > 0;
        };
        // The last query stands with the last key.
        require_seen(*grid, [&](std::int64_t q, std::int64_t kv) {
          return is_global(kv) || (symmetric && is_global(q + kUnequal.kv - kUnequal.q));
        });
      });
    }
  }
  CHECK(accepted == 5 * 2 * (1 + 3 + 9));
  CHECK(refused > 100);
}

TEST_CASE("slices are pairs of a begin and an end, as many of queries as of keys") {
  for (std::size_t q = 0; q <= 6; ++q) {
    for (std::size_t kv = 0; kv <= 6; ++kv) {
      for (std::size_t types = 0; types <= 4; ++types) {
        CAPTURE(q, kv, types);
        const bool fits = q == kv && q % 2 == 0 && (types == 0 || types == q / 2);
        const Mask mask =
            make_mask("slices", {{"q", ones(q)}, {"kv", ones(kv)}, {"types", ones(types)}});
        REQUIRE(taken(mask).has_value() == fits);
      }
    }
  }
}

TEST_CASE("a slice is a range within the tokens, and a type that is known") {
  std::int64_t accepted = 0;
  each_list(2, -1, kUnequal.q + 1, [&](const Values& q) {
    each_list(2, -1, kUnequal.kv + 1, [&](const Values& kv) {
      if (q.size() < 2 || kv.size() < 2) return;
      for (std::int64_t type = -1; type <= 4; ++type) {
        CAPTURE(q, kv, type);
        const bool fits = q[0] >= 0 && q[0] <= q[1] && q[1] <= kUnequal.q && kv[0] >= 0 &&
                          kv[0] <= kv[1] && kv[1] <= kUnequal.kv && type >= 0 && type <= 3;
        const auto grid =
            taken(make_mask("slices", {{"q", q}, {"kv", kv}, {"types", Values{type}}}));
        REQUIRE(grid.has_value() == fits);
        accepted += fits ? 1 : 0;
        if (!grid) continue;
        // Causal: as many keys are left out at the end as queries follow. Inverse: at the begin, as
        // many as queries precede.
        require_seen(*grid, [&](std::int64_t row, std::int64_t key) {
          const std::int64_t follow = q[1] - 1 - row;
          const std::int64_t precede = row - q[0];
          return row >= q[0] && row < q[1] && key >= kv[0] && key < kv[1] &&
                 (type % 2 == 0 || key < kv[1] - follow) && (type < 2 || key >= kv[0] + precede);
        });
      }
    });
  });
  CHECK(accepted == 6 * 10 * 4);
}

TEST_CASE("FlashMask takes the columns of one of its four forms, an entry a key") {
  const std::vector<Values> columns{{}, {0, 1, 2}, {0, 1}, {0, 1, 2, 2}};
  std::int64_t accepted = 0;
  for (const bool causal : {false, true}) {
    for (std::size_t form = 0; form < 256; ++form) {
      const std::size_t chosen[] = {form % 4, form / 4 % 4, form / 16 % 4, form / 64};
      const auto [lts, lte, uts, ute] = chosen;
      CAPTURE(causal, lts, lte, uts, ute);
      const bool whole =
          std::all_of(std::begin(chosen), std::end(chosen), [](auto at) { return at < 2; });
      const bool known = causal ? uts == 0 && ute == 0 : ute == 1 && (lte == 1) == (uts == 1);
      const auto grid = taken(make_mask("flashmask", {{"causal", causal},
                                                      {"lts", columns[lts]},
                                                      {"lte", columns[lte]},
                                                      {"uts", columns[uts]},
                                                      {"ute", columns[ute]}}));
      REQUIRE(grid.has_value() == (lts == 1 && whole && known));
      accepted += grid ? 1 : 0;
    }
  }
  CHECK(accepted == 4);
}

TEST_CASE("FlashMask's rows are 0 or more, each column's of each key") {
  const std::vector<const char*> names{"lts", "lte", "uts", "ute"};
  for (std::size_t wrong = 0; wrong < names.size(); ++wrong) {
    for (std::size_t key = 0; key < 3; ++key) {
      for (const std::int64_t value : {-2, -1, 0, 1, 5}) {
        std::vector<Values> columns(names.size(), Values{1, 1, 1});
        columns[wrong][key] = value;
        CAPTURE(names[wrong], key, value);
        const auto grid = taken(make_mask("flashmask", {{"causal", false},
                                                        {"lts", columns[0]},
                                                        {"lte", columns[1]},
                                                        {"uts", columns[2]},
                                                        {"ute", columns[3]}}));
        REQUIRE(grid.has_value() == (value >= 0));
        if (!grid) continue;
        require_seen(*grid, [&](std::int64_t q, std::int64_t kv) {
          const auto at = static_cast<std::size_t>(kv);
          return !(columns[0][at] <= q && q < columns[1][at]) &&
                 !(columns[2][at] <= q && q < columns[3][at]);
        });
      }
    }
  }
}

}  // namespace
}  // namespace stagger
