#include "schedules/search/chain_search.hpp"

#include "dag/verify.hpp"
#include "schedules/search/chain.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/naive.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

constexpr Ticks kFar = Ticks{1} << 40;
bool never() {
  return false;
}

TEST_CASE("the exhaustive search finds what trying every table finds") {
  test::Random random(test::seed(65));
  std::int64_t searched = 0;
  while (searched < 400) {
    const Problem problem = test::any_problem(random, 3);
    if (problem.tasks() == 0 || problem.tasks() > 5) continue;
    ++searched;
    Timing timing;
    timing.compute = random.between(0, 6);
    if (random.chance(2)) timing.compute_partial = random.between(0, 8);
    timing.reduce = random.between(1, 6);
    timing.latency = random.between(0, 2);
    timing.launch = random.between(0, 2);
    timing.epilogue = random.between(0, 2);
    CAPTURE(searched, problem.heads, problem.sms, problem.kv_tiles(), problem.q_tiles(),
            timing.compute, timing.longest_compute(), timing.reduce, timing.latency, timing.launch,
            timing.epilogue);
    const ChainSearch found = search_chains(problem, timing, kFar, 0, 1'000'000, never);
    REQUIRE(found.complete);
    REQUIRE(found.table.has_value());
    REQUIRE(dag::verify(*found.table, timing).verdict == dag::Verdict::ok);
    REQUIRE(sim::simulate(*found.table, timing).makespan == found.makespan);
    REQUIRE(found.makespan == test::naive_optimum(problem, timing));
    // Nothing lies below the optimum.
    const ChainSearch none = search_chains(problem, timing, found.makespan, 0, 1'000'000, never);
    REQUIRE(none.complete);
    REQUIRE_FALSE(none.table.has_value());
  }
}

/// The optimum in the chain model by a search that prunes nothing: any SM may begin any chain or go
/// on with its own, in any order; only a state that is the same to the tick is not tried again.
class EveryState {
 public:
  EveryState(const Problem& problem, const Timing& timing) : problem_(problem), timing_(timing) {
    for (const Chain& chain : chains_of(problem))
      state_.left.emplace_back(chain, problem.grid_of(chain.head).live_q(chain.kv));
    state_.sms.assign(static_cast<std::size_t>(problem.sms), {0, -1});
  }

  Ticks best() {
    descend();
    return best_;
  }

 private:
  struct State {
    std::vector<std::pair<Chain, std::vector<QTile>>> left;
    std::vector<std::pair<Ticks, int>> sms;         ///< free from, at which chain
    std::map<std::pair<Head, QTile>, Ticks> turns;  ///< when the next reduction may start
  };

  void descend() {
    if (!seen_.insert(key()).second) return;
    bool done = true;
    for (std::size_t sm = 0; sm < state_.sms.size(); ++sm) {
      for (std::size_t chain = 0; chain < state_.left.size(); ++chain) {
        const bool own = state_.sms[sm].second == static_cast<int>(chain);
        const bool idle = state_.sms[sm].second == -1;
        const auto& [row, left] = state_.left[chain];
        const bool begun = std::ssize(left) < row.length;
        if (left.empty() || !(own || (idle && !begun))) continue;
        done = false;
        for (std::size_t place = 0; place < left.size(); ++place)
          take(sm, chain, place, own);
      }
    }
    if (!done) return;
    Ticks end = 0;
    for (const auto& [free, chain] : state_.sms)
      end = std::max(end, free);
    best_ = std::min(best_, end);
  }

  void take(std::size_t sm, std::size_t chain, std::size_t place, bool own) {
    const State before = state_;
    auto& [row, left] = state_.left[chain];
    const QTile q = left[place];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
    auto& [free, at_chain] = state_.sms[sm];
    const bool partial = problem_.kind({row.head, row.kv, q}) == TileKind::partial;
    const Ticks computed =
        free + (own ? 0 : timing_.launch) +
        (partial ? timing_.compute_partial.value_or(timing_.compute) : timing_.compute);
    Ticks& turn = state_.turns[{row.head, q}];
    const Ticks end = std::max(computed, turn) + timing_.reduce;
    turn = end + timing_.latency;
    free = end + (left.empty() ? timing_.epilogue : 0);
    at_chain = left.empty() ? -1 : static_cast<int>(chain);
    descend();
    state_ = before;
  }

  /// SMs are alike.
  [[nodiscard]] std::vector<Ticks> key() const {
    std::vector<Ticks> key;
    auto sms = state_.sms;
    std::sort(sms.begin(), sms.end());
    for (const auto& [free, chain] : sms)
      key.insert(key.end(), {free, chain});
    for (const auto& [row, left] : state_.left) {
      key.push_back(-1);
      for (const QTile q : left)
        key.push_back(q.value);
    }
    for (const auto& [tile, turn] : state_.turns)
      key.insert(key.end(), {tile.first.value, tile.second.value, turn});
    return key;
  }

  const Problem& problem_;
  const Timing& timing_;
  State state_;
  std::set<std::vector<Ticks>> seen_;
  Ticks best_ = kFar;
};

/// Chains of one or two tasks, more than there are SMs: SMs idle from different times on.
Problem short_chains(test::Random& random) {
  std::vector<std::string> rows;
  for (std::int64_t row = random.between(3, 6); row > 0; --row) {
    rows.emplace_back("...");
    for (std::int64_t tile = random.between(1, 2); tile > 0; --tile)
      rows.back()[static_cast<std::size_t>(random.between(0, 2))] = 'f';
  }
  return test::tiles_problem(rows, 1, static_cast<std::int32_t>(random.between(2, 3)));
}

TEST_CASE("up to nine tasks, with latency and launch, pruning loses nothing") {
  test::Random random(test::seed(85));
  std::int64_t searched = 0;
  while (searched < 150) {
    const Problem problem = random.chance(2) ? short_chains(random) : test::any_problem(random, 4);
    if (problem.tasks() < 3 || problem.tasks() > 9 || problem.sms > 3) continue;
    if (problem.tasks() > 6 && !random.chance(6)) continue;  // large ones cost most of the time
    ++searched;
    Timing timing{.compute = random.between(0, 5),
                  .reduce = random.between(1, 5),
                  .latency = random.between(0, 3),
                  .launch = random.between(0, 6),
                  .epilogue = random.between(0, 3)};
    if (random.chance(3)) timing.compute_partial = random.between(0, 8);
    CAPTURE(searched, problem.heads, problem.sms, problem.kv_tiles(), problem.q_tiles(),
            timing.compute, timing.longest_compute(), timing.reduce, timing.latency, timing.launch,
            timing.epilogue);
    const Ticks best = EveryState(problem, timing).best();
    const ChainSearch found = search_chains(problem, timing, kFar, 0, 10'000'000, never);
    REQUIRE(found.complete);
    REQUIRE(found.makespan == best);
    // With a table to beat most of the tree is cut; what beats it by a tick must remain.
    const ChainSearch closer = search_chains(problem, timing, best + 1, 0, 10'000'000, never);
    REQUIRE(closer.complete);
    REQUIRE(closer.makespan == best);
    REQUIRE(closer.table.has_value());
  }
}

TEST_CASE("what is pruned stays pruned") {
  // The states that the search looked at when this was written; the seed stays.
  test::Random random(86);
  std::int64_t nodes = 0;
  for (int round = 0; round < 60;) {
    const Problem problem = test::random_problem(random, 4);
    if (problem.tasks() < 6 || problem.tasks() > 10 || problem.sms < 2) continue;
    ++round;
    const Timing timing{.compute = random.between(1, 5),
                        .reduce = random.between(1, 5),
                        .latency = random.between(0, 3),
                        .launch = random.between(0, 6),
                        .epilogue = random.between(0, 3)};
    const ChainSearch found = search_chains(problem, timing, kFar, 0, 10'000'000, never);
    REQUIRE(found.complete);
    nodes += found.nodes;
  }
  CHECK(nodes <= 9'619);
}

TEST_CASE("where launches are long, an SM that has been idle is ahead of one that has not") {
  const auto best = [](const std::vector<std::string>& rows, const Timing& timing) {
    const Problem problem = test::tiles_problem(rows, 1, 3);
    const ChainSearch found = search_chains(problem, timing, kFar, 0, 1'000'000, never);
    CHECK(found.complete);
    CHECK(found.makespan == EveryState(problem, timing).best());
    return found.makespan;
  };
  CHECK(best({"ff.", "f..", "f..", "..f", "..f"},
             {.compute = 1, .reduce = 3, .latency = 1, .launch = 9}) == 26);
  CHECK(best({"..f", "f.f", "f..", "..f", "f.."},
             {.compute = 4, .reduce = 1, .latency = 3, .launch = 9, .epilogue = 2}) == 32);
  CHECK(best({"pf", "p.", "pf", "p."}, {.compute = 1, .reduce = 3, .latency = 1, .launch = 5}) ==
        21);
}

TEST_CASE("a collision costs a reduction, not a slot") {
  const Problem problem = make_problem(make_mask("full"), {2, 3}, {}, 1, 3);
  const ChainSearch found = search_chains(problem, {}, kFar, 0, 1'000'000, never);
  CHECK(found.complete);
  CHECK(found.makespan == 13);
  const Problem taller = make_problem(make_mask("full"), {3, 4}, {}, 1, 4);
  CHECK(search_chains(taller, {}, kFar, 19, 1'000'000, never).makespan == 19);
}

TEST_CASE("a search that is cut short does not claim to be complete") {
  const Problem problem = make_problem(make_mask("full"), {4, 4}, {}, 1, 3);
  CHECK_FALSE(search_chains(problem, {}, kFar, 0, 10, never).complete);
  CHECK_FALSE(search_chains(problem, {}, kFar, 0, 1'000'000, [] { return true; }).complete);
}

}  // namespace
}  // namespace stagger::search
