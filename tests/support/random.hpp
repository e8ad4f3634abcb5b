#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace stagger::test {

/// The seed of a random test, its own unless STAGGER_TEST_SEED turns it to others: what a test
/// cannot try in its time, many runs do. Says so, for a failure to be had again.
[[nodiscard]] std::uint32_t seed(std::uint32_t own);

/// Seeded numbers; tests capture the seed.
class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  bool chance(int one_in) { return between(1, one_in) == 1; }
  template <class Items>
  void shuffle(Items& items) {
    std::shuffle(items.begin(), items.end(), engine_);
  }

 private:
  std::mt19937 engine_;
};

/// A problem of up to `most` tiles a side, heads and SMs: full, causal or any pattern of tiles.
[[nodiscard]] Problem random_problem(Random& random, std::int64_t most);
/// A problem of 2 to 4 heads, some of which have other masks than others, as small.
[[nodiscard]] Problem random_problem_by_head(Random& random, std::int64_t most);
/// One of the two, mostly of one mask for all heads.
[[nodiscard]] Problem any_problem(Random& random, std::int64_t most);

/// The problem with each head shared by a group of up to `most` heads, chains of some of them.
[[nodiscard]] Problem with_random_groups(Random& random, Problem problem, std::int32_t most);

/// Small durations, every option of the model used now and then.
[[nodiscard]] Timing random_timing(Random& random, const Problem& problem);

/// The timing with a random reduction into dK and dV.
[[nodiscard]] Timing with_random_combination(Random& random, Timing timing);

/// Gives the parts of every KV tile that has tasks ranks in a random order.
void shuffle_dkv_ranks(Random& random, Table& table);

/// Whole chains dealt to lanes at random, Q tiles in any order, ranks at random: often a deadlock.
[[nodiscard]] Table random_table(Random& random, const Problem& problem, Dispatch dispatch);

/// A random table whose ranks, of parts too, are given out in the order of a random run, so that it
/// runs to its end with all lanes resident and immediate release.
[[nodiscard]] Table random_live_table(Random& random, const Problem& problem, Dispatch dispatch);

/// A table of a random problem of up to `most` tiles a side, heads and SMs, one time in two with
/// groups of up to `most_of_group` heads; static or in-order. `live` is asked, after all these are
/// drawn, whether its ranks go with a run.
[[nodiscard]] Table drawn_table(Random& random, std::int64_t most,
                                const std::function<bool()>& live, std::int32_t most_of_group = 3);

/// One time in two the parts of a table that are combined in order have ranks in a random one.
void perhaps_shuffle_dkv_ranks(Random& random, Table& table);

/// One rank, Q tile, KV tile or head of a slot one off: never what it was.
void break_slot(Random& random, Table& table);

/// A slot out of its lane, or twice in one.
void break_lane(Random& random, Table& table);

/// A mask from rows of `f`, `p` and `.`, one string per KV tile.
[[nodiscard]] Problem tiles_problem(const std::vector<std::string>& rows, std::int32_t heads,
                                    std::int32_t sms);

}  // namespace stagger::test
