#include "schedules/search/list_scheduling.hpp"

#include "dag/verify.hpp"
#include "schedules/search/packing.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

namespace stagger::search {
namespace {

constexpr ChainOrder kChainOrders[] = {ChainOrder::longest_by_head, ChainOrder::longest_by_kv,
                                       ChainOrder::launch_order, ChainOrder::reverse_order};

/// The rule, word for word: time goes by tick by tick, and at every tick each SM in turn takes the
/// task that can reduce soonest, if it is free. Chains are given by SM, or one list for all.
class NaiveListScheduling {
 public:
  NaiveListScheduling(const Problem& problem, const Timing& timing, ChainLanes queues, QOrder order)
      : problem_(problem),
        timing_(timing),
        order_(order),
        queues_(std::move(queues)),
        sms_(at(resident_lanes(problem, timing.residency))),
        turn_(at(problem.heads), std::vector<Ticks>(at(problem.q_tiles()), 0)),
        taken_(at(problem.heads), std::vector<std::int32_t>(at(problem.q_tiles()), 0)) {}

  Table run() {
    std::vector<std::vector<Slot>> lanes(at(problem_.sms));
    for (std::int64_t left = problem_.tasks(), now = 0; left > 0; ++now) {
      for (bool moved = true; moved;) {  // tasks of no ticks follow each other within one
        moved = false;
        for (std::size_t sm = 0; sm < sms_.size() && !moved; ++sm) {
          if (sms_[sm].free > now || !has_task(sm)) continue;
          lanes[sm].push_back(take(sms_[sm], now));
          --left;
          moved = true;
        }
      }
    }
    return table_of(problem_, lanes);
  }

 private:
  struct State {
    Chain chain;
    std::vector<QTile> left;
    bool begun = false;
    std::int32_t next_q = 0;  ///< cyclic: the first choice
    Ticks free = 0;
    Ticks writer = 0;
  };

  bool has_task(std::size_t sm) {
    State& state = sms_[sm];
    if (!state.left.empty()) return true;
    std::vector<Chain>& queue = queues_[sm % queues_.size()];
    if (queue.empty()) return false;
    state.chain = queue.front();
    queue.erase(queue.begin());
    state.left = problem_.grid_of(state.chain.head).live_q(state.chain.kv);
    state.begun = false;
    state.next_q = state.chain.kv.value % problem_.q_tiles();
    return true;
  }

  [[nodiscard]] Ticks handed(const State& state, QTile q, Ticks now) const {
    const bool partial = problem_.kind({state.chain.head, state.chain.kv, q}) == TileKind::partial;
    const Ticks computed =
        now + (state.begun ? 0 : timing_.launch) +
        (partial ? timing_.compute_partial.value_or(timing_.compute) : timing_.compute);
    return timing_.model == Model::overlap ? std::max(computed, state.writer) : computed;
  }

  Slot take(State& state, Ticks now) {
    const std::size_t head = at(state.chain.head.value);
    const std::int32_t q_tiles = problem_.q_tiles();
    const auto key = [&](QTile q) {
      const std::int32_t turns = (q.value - state.next_q + q_tiles) % q_tiles;
      const std::int32_t awaited =
          problem_.contributions(state.chain.head, q) - taken_[head][at(q.value)];
      const std::int32_t by_rule[] = {turns, q.value, -q.value, -awaited};
      return std::tuple(std::max(handed(state, q, now), turn_[head][at(q.value)]),
                        by_rule[static_cast<std::size_t>(order_)], turns);
    };
    const auto best = std::min_element(state.left.begin(), state.left.end(),
                                       [&](QTile a, QTile b) { return key(a) < key(b); });
    const QTile q = *best;
    const Ticks start = std::get<0>(key(q));
    const Ticks hand_over = handed(state, q, now);
    state.left.erase(best);
    state.begun = true;
    state.next_q = q.value + 1;
    state.writer = start + timing_.reduce;
    turn_[head][at(q.value)] = state.writer + timing_.latency;
    state.free = (timing_.model == Model::overlap ? hand_over : state.writer) +
                 (state.left.empty() ? timing_.epilogue : 0);
    return {{state.chain.head, state.chain.kv, q}, taken_[head][at(q.value)]++};
  }

  const Problem& problem_;
  const Timing& timing_;
  QOrder order_;
  ChainLanes queues_;
  std::vector<State> sms_;
  std::vector<std::vector<Ticks>> turn_;          ///< by head and Q tile
  std::vector<std::vector<std::int32_t>> taken_;  ///< by head and Q tile
};

/// The queue of a rule by comparing every two chains.
std::vector<Chain> queue_of(const Problem& problem, ChainOrder order) {
  const auto key = [&](const Chain& chain) {
    switch (order) {
      case ChainOrder::longest_by_head:
        return std::tuple(-chain.length, chain.head.value, chain.kv.value);
      case ChainOrder::longest_by_kv:
        return std::tuple(-chain.length, chain.kv.value, chain.head.value);
      case ChainOrder::launch_order:
        return std::tuple(0, chain.head.value, chain.kv.value);
      case ChainOrder::reverse_order:
        break;
    }
    return std::tuple(0, chain.head.value, -chain.kv.value);
  };
  std::vector<Chain> chains = chains_of(problem);
  std::sort(chains.begin(), chains.end(),
            [&](const Chain& a, const Chain& b) { return key(a) < key(b); });
  return chains;
}

TEST_CASE("list scheduling takes what can reduce soonest, under every option and rule") {
  test::Random random(test::seed(64));
  std::int64_t latent = 0;
  for (int round = 0; round < 1'500; ++round) {
    const Problem problem = test::any_problem(random, 7);
    Timing timing = test::random_timing(random, problem);
    timing.release = Release::immediate;
    const auto q = static_cast<QOrder>(random.between(0, kQOrders - 1));
    const ChainOrder chains = kChainOrders[random.between(0, 3)];
    CAPTURE(round, static_cast<int>(q), static_cast<int>(chains), timing.residency);
    const Table table = list_schedule(problem, timing, {chains, q});
    REQUIRE(dag::verify(table, timing).verdict == dag::Verdict::ok);
    REQUIRE(table.slots ==
            NaiveListScheduling(problem, timing, {queue_of(problem, chains)}, q).run().slots);
    Timing at_once = timing;
    at_once.latency = 0;
    latent += list_schedule(problem, at_once, {chains, q}).slots == table.slots ? 0 : 1;

    timing.residency = 0;
    const ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
    const Table packed = list_schedule(problem, timing, lanes, q);
    REQUIRE(dag::verify(packed, timing).verdict == dag::Verdict::ok);
    REQUIRE(packed.slots == NaiveListScheduling(problem, timing, lanes, q).run().slots);
  }
  CHECK(latent > 100);  // the latency has had a say
}

TEST_CASE("on a full mask with an SM per KV tile list scheduling finds the cyclic shift") {
  for (const std::int64_t n : {2, 5, 8, 17}) {
    const Problem problem = make_problem(make_mask("full"), {n, n}, {}, 2, n);
    const Table table = list_schedule(problem, {}, {});
    CHECK(sim::simulate(table, {}).makespan == 2 * n * 6);
  }
}

TEST_CASE("with a memory a list plans for hand-overs of a busy device that chance makes longer") {
  test::Random random(66);
  int others = 0;
  for (int round = 0; round < 300; ++round) {
    const Problem problem = test::any_problem(random, 7);
    Timing busy = test::random_timing(random, problem);
    Timing longer = busy;
    busy.memory = Memory{
        .l2 = 1, .rate = 1, .congestion = random.between(0, 9), .spread = random.between(0, 9)};
    longer.latency += busy.memory->congestion + 2 * busy.memory->spread;
    const ListRule rule{.chains = kChainOrders[random.between(0, 3)]};
    const Table planned = list_schedule(problem, busy, rule);
    CAPTURE(round);
    REQUIRE(planned.slots == list_schedule(problem, longer, rule).slots);
    busy.memory.reset();
    others += planned.slots == list_schedule(problem, busy, rule).slots ? 0 : 1;
  }
  CHECK(others > 30);
}

TEST_CASE("where a task is steps a list plans for a turn that each of them passes on") {
  test::Random random(test::seed(304));
  int others = 0;
  for (int round = 0; round < 300; ++round) {
    const Problem problem = test::any_problem(random, 7);
    Timing in_steps = test::random_timing(random, problem);
    in_steps.steps = static_cast<std::int32_t>(random.between(2, 4));
    in_steps.latency += in_steps.reduce;  // for the whole to be no shorter than none
    Timing whole = in_steps;
    whole.steps = 1;
    whole.latency -= in_steps.reduce - (in_steps.reduce + in_steps.steps - 1) / in_steps.steps;
    const ListRule rule{.chains = kChainOrders[random.between(0, 3)]};
    CAPTURE(round);
    const Table planned = list_schedule(problem, in_steps, rule);
    REQUIRE(planned.slots == list_schedule(problem, whole, rule).slots);
    whole.latency = in_steps.latency;
    others += planned.slots == list_schedule(problem, whole, rule).slots ? 0 : 1;
  }
  CHECK(others > 10);
}

}  // namespace
}  // namespace stagger::search
