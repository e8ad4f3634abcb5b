// The bounds as their words in dag/README.md say, task by task, for every timing and grouping.

#include "core/table.hpp"
#include "dag/bounds.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace stagger::dag {
namespace {

using Values = std::vector<Ticks>;

/// The words of dag/README.md, task by task.
class Said {
 public:
  Said(const Problem& problem, const Timing& timing, Dispatch dispatch)
      : problem_(problem),
        timing_(timing),
        sms_(resident_lanes(problem, timing.residency)),
        overlap_(timing.model == Model::overlap),
        ordered_(problem.combine == Combine::ordered),
        stays_(ordered_ && !timing.reduce_kv_async),
        drains_(overlap_ && (dispatch == Dispatch::static_ || timing.next_lane) && !stays_) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      for (Head first{0}; first.value < problem.heads; first.value += problem.span) {
        Values computes;
        for (const QTile q : problem.grid_of(first).live_q(kv)) {
          for (Head head = first; head.value < first.value + problem.span; ++head)
            computes.push_back(timing.compute_of(problem, {head, kv, q}));
        }
        std::sort(computes.begin(), computes.end());
        if (computes.empty()) continue;
        of_kv_[{problem.kv_head_of(first), kv}].push_back(computes);
        chains_.push_back(computes);
        all_.insert(all_.end(), computes.begin(), computes.end());
      }
    }
    std::sort(all_.begin(), all_.end());
  }

  [[nodiscard]] Values values() const {
    Values costs;
    for (const Values& chain : chains_)
      costs.push_back(added(chain));
    const Ticks sum = std::accumulate(costs.begin(), costs.end(), Ticks{0});
    const auto share = static_cast<std::ptrdiff_t>((std::ssize(all_) + sms_ - 1) / sms_);
    const Ticks busiest = added({all_.begin(), all_.begin() + share});
    Ticks accumulated = 0;
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q)
        accumulated = std::max(accumulated, accumulation(problem_.contributions(head, q)));
    }
    Values loads(at(sms_), 0);
    Values values{once() + std::max((sum + sms_ - 1) / sms_, busiest),
                  once() + *std::max_element(costs.begin(), costs.end()),
                  once() + best_packing(costs, loads, 0), accumulated};
    if (ordered_) values.push_back(second_accumulation());
    if (timing_.memory) values.push_back(traffic(*timing_.memory));
    return values;
  }

 private:
  /// What a lane of chains pays once, beyond what each adds.
  [[nodiscard]] Ticks once() const {
    if (!drains_) return 0;
    const Ticks begin = timing_.launch + all_.front();
    return begin + std::max(timing_.reduce, timing_.epilogue) -
           std::max(timing_.epilogue + begin, timing_.reduce);
  }

  /// What an SM does after a chain's last reduction into dQ.
  [[nodiscard]] Ticks ending() const { return timing_.epilogue + (stays_ ? timing_.reduce_kv : 0); }

  /// From the end of a chain's first compute phase to that of its last reduction into dQ.
  [[nodiscard]] Ticks behind_first(const Values& computes) const {
    Ticks ticks = timing_.reduce;
    for (std::size_t task = 1; task < computes.size(); ++task) {
      ticks +=
          overlap_ ? std::max(computes[task], timing_.reduce) : computes[task] + timing_.reduce;
    }
    return ticks;
  }

  /// What these tasks as a chain add, the shortest first.
  [[nodiscard]] Ticks added(const Values& computes) const {
    const Ticks begin = timing_.launch + computes.front();
    const Ticks steady = behind_first(computes) - timing_.reduce;
    return steady + (drains_ ? std::max(timing_.epilogue + begin, timing_.reduce)
                             : begin + timing_.reduce + ending());
  }

  /// All ways to have whole chains before and after all but S of the reductions.
  [[nodiscard]] Ticks accumulation(std::int64_t contributions) const {
    Ticks head = INT64_MAX;
    Ticks before = INT64_MAX;
    Ticks after = INT64_MAX;
    for (const Values& chain : chains_) {
      const Ticks computing = std::accumulate(chain.begin(), chain.end(), Ticks{0});
      const Ticks reducing = std::ssize(chain) * timing_.reduce;
      head = std::min(head, timing_.launch + chain.front());
      before =
          std::min(before, drains_ ? timing_.launch + computing + timing_.epilogue : added(chain));
      after = std::min(after, drains_ ? reducing : added(chain));
    }
    Ticks most = 0;
    for (std::int64_t first = 0; first * sms_ < contributions; ++first) {
      for (std::int64_t last = 0; (first + last) * sms_ < contributions; ++last) {
        const std::int64_t inner = contributions - (first + last) * sms_;
        most = std::max(most, head + first * before + inner * timing_.reduce +
                                  (inner - 1) * timing_.latency + last * after +
                                  (drains_ ? 0 : ending()));
      }
    }
    return most;
  }

  /// The parts of one KV tile one after the other, behind the shortest of their chains.
  [[nodiscard]] Ticks second_accumulation() const {
    Ticks most = 0;
    for (const auto& [tile, chains] : of_kv_) {
      Ticks shortest = INT64_MAX;
      for (const Values& chain : chains)
        shortest = std::min(shortest, timing_.launch + chain.front() + behind_first(chain));
      Ticks end = shortest + timing_.reduce_kv;
      for (std::size_t part = 1; part < chains.size(); ++part)
        end += timing_.latency + timing_.reduce_kv;
      most = std::max(most, end + (timing_.reduce_kv_async ? 0 : timing_.epilogue));
    }
    return most;
  }

  /// Every tile with a task is read once; dK and dV that are not combined in order go past the
  /// cache, and what else is written leaves a cache that cannot hold it. Of Q and dQ some SM moves
  /// what its chains' passes do, if that is more. Who finds a tile that was begun adds to it.
  [[nodiscard]] Ticks traffic(const Memory& memory) const {
    std::int64_t read = 0;
    std::int64_t written = ordered_ ? std::ssize(of_kv_) * memory.tile.gradient : 0;
    std::int64_t passes = 0;
    std::int64_t added = 0;
    for (const Values& chain : chains_)
      passes += passed(std::ssize(chain), memory);
    passes = (passes + sms_ - 1) / sms_;
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
        if (problem_.contributions(head, q) == 0) continue;
        read += memory.tile.q;
        written += memory.tile.dq;
        passes -= 2 * memory.tile.dq;  // the first addition is none, and no write comes before
        for (std::int32_t rank = 1; rank < problem_.contributions(head, q); ++rank)
          added += memory.tile.dq * memory.add_permille / 1'000;
      }
    }
    read = std::max(read, passes) + std::ssize(of_kv_) * memory.tile.kv;
    const std::int64_t past = ordered_ ? 0 : std::ssize(chains_) * memory.tile.gradient;
    for (const auto& [tile, parts] : of_kv_) {
      for (std::size_t part = 1; ordered_ && part < parts.size(); ++part)
        added += memory.tile.gradient * memory.add_permille / 1'000;
    }
    const std::int64_t bytes =
        read + past + added + (written > memory.l2 ? written - memory.l2 : 0);
    return bytes / memory.rate + (bytes % memory.rate > 0 ? 1 : 0);
  }

  /// What a chain of so many tasks moves: the tiles that L2 may hold at its start are taken out one
  /// after the other, dQ's first, which are read and were written.
  static std::int64_t passed(std::int64_t tasks, const Memory& memory) {
    std::int64_t bytes = 0;
    std::int64_t room = memory.l2;
    for (std::int64_t task = 0; task < tasks; ++task) {
      const std::int64_t kept = std::min(room, memory.tile.dq);
      bytes += 2 * (memory.tile.dq - kept);
      room -= kept;
    }
    for (std::int64_t task = 2; task < tasks; ++task)  // two may have come before
      bytes += memory.tile.q;
    return bytes > room ? bytes - room : 0;
  }

  static Ticks best_packing(const Values& jobs, Values& loads, std::size_t next) {
    if (next == jobs.size()) return *std::max_element(loads.begin(), loads.end());
    Ticks best = INT64_MAX;
    for (Ticks& load : loads) {
      const bool alike = load == 0;  // idle SMs are alike
      load += jobs[next];
      best = std::min(best, best_packing(jobs, loads, next + 1));
      load -= jobs[next];
      if (alike) break;
    }
    return best;
  }

  const Problem& problem_;
  const Timing& timing_;
  std::int64_t sms_;
  bool overlap_;
  bool ordered_;
  bool stays_;
  bool drains_;
  std::vector<Values> chains_;  ///< the compute phases of every chain, shortest first
  Values all_;                  ///< all of them, shortest first
  std::map<std::pair<KvHead, KvTile>, std::vector<Values>> of_kv_;  ///< those of parts
};

/// Compares all bounds of random problems with what is said of them; how often each was the best.
std::map<std::string, std::int64_t> compared(test::Random& random, bool grouped) {
  std::map<std::string, std::int64_t> best;
  for (std::int64_t problems = 0; problems < 3'000;) {
    Problem problem = test::any_problem(random, grouped ? 3 : 5);
    if (grouped) problem = test::with_random_groups(random, std::move(problem), 4);
    if (problem.tasks() == 0 || problem.chains() > 6) continue;
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Timing timing = test::random_timing(random, problem);
    if (grouped) timing = test::with_random_combination(random, timing);
    if (random.chance(3)) {
      timing.memory = Memory{.l2 = random.between(0, 60),
                             .rate = random.between(1, 9),
                             .tile = {.q = random.between(0, 9),
                                      .dq = random.between(0, 9),
                                      .kv = random.between(0, 9),
                                      .gradient = random.between(0, 9)},
                             .add_permille = random.chance(2) ? random.between(0, 3'000) : 0};
    }
    const Bounds bounds = lower_bounds(problem, timing, dispatch);
    Values values;
    for (const Bound& bound : bounds.all)
      values.push_back(bound.ticks);
    CAPTURE(problems, problem.heads, problem.heads_kv, problem.span, problem.sms, timing.residency,
            dispatch == Dispatch::static_, timing.model == Model::overlap, timing.compute,
            timing.shortest_compute(), timing.longest_compute(), timing.reduce, timing.latency,
            timing.launch, timing.epilogue, timing.reduce_kv, timing.reduce_kv_async);
    REQUIRE(values == Said(problem, timing, dispatch).values());
    // The first of the largest is the best.
    const auto most = std::max_element(values.begin(), values.end());
    REQUIRE(bounds.best.ticks == *most);
    REQUIRE(std::string(bounds.best.by) == bounds.all[at(most - values.begin())].by);
    REQUIRE(bounds.packing_exact);
    ++best[bounds.best.by];
    ++problems;
  }
  return best;
}

TEST_CASE("every bound is what its words say, computed task by task") {
  test::Random random(17);
  const auto best = compared(random, false);
  CHECK(best.size() == 5);
  for (const auto& [by, count] : best) {
    CAPTURE(by);
    CHECK(count > 50);
  }
}

TEST_CASE("every bound of heads that share K and V is what its words say") {
  test::Random random(19);
  const auto best = compared(random, true);
  CHECK(best.size() == 6);
  CHECK(best.at("dkv") > 50);
  CHECK(best.at("traffic") > 50);
}

TEST_CASE("the rounds of the longest chain or accumulation are the degree") {
  test::Random random(21);
  for (int round = 0; round < 500; ++round) {
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 5), 3);
    std::int64_t most = 0;
    for (Head head{0}; head.value < problem.heads; ++head) {
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
        const auto tasks = std::ssize(problem.grid_of(head).live_q(kv));
        most = std::max<std::int64_t>(most, problem.span * tasks);
      }
      for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
        std::int64_t contributions = 0;
        for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
          contributions += problem.live({head, kv, q}) ? 1 : 0;
        most = std::max(most, contributions);
      }
    }
    CAPTURE(round);
    REQUIRE(lower_bounds(problem, {}, Dispatch::static_).degree_rounds == most);
  }
}

}  // namespace
}  // namespace stagger::dag
