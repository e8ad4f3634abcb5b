#include "schedules/search/list_scheduling.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace stagger::search {
namespace {

std::vector<Chain> ordered_chains(const Problem& problem, const ListRule& rule) {
  std::vector<Chain> chains = chains_of(problem);
  const auto sort_by = [&](auto key) {
    std::stable_sort(chains.begin(), chains.end(),
                     [&](const Chain& left, const Chain& right) { return key(left) < key(right); });
  };
  switch (rule.chains) {
    case ChainOrder::longest_by_head:
      sort_by([](const Chain& chain) { return -chain.length; });
      break;
    case ChainOrder::longest_by_kv:
      sort_by([](const Chain& chain) { return std::pair(-chain.length, chain.kv); });
      break;
    case ChainOrder::launch_order:
      break;
    case ChainOrder::reverse_order:
      sort_by([](const Chain& chain) { return std::pair(chain.head, -chain.kv.value); });
      break;
  }
  if (rule.window > 0) {
    sort_by([&](const Chain& chain) { return problem.part_of(chain.head).value / rule.window; });
  }
  return chains;
}

class ListScheduler {
 public:
  /// SM i takes from queue i mod queues.
  ListScheduler(const Problem& problem, const Timing& timing, ChainLanes queues, QOrder order)
      : problem_(problem),
        timing_(timing),
        order_(order),
        overlap_(timing.model == Model::overlap),
        queues_(std::move(queues)),
        taken_(queues_.size(), 0),
        lanes_(at(problem.sms)),
        sms_(at(resident_lanes(problem, timing.residency))),
        tiles_(at(problem.heads) * at(problem.q_tiles())) {
    if (problem.combine != Combine::ordered) return;
    kv_tiles_.resize(at(problem.heads_kv) * at(problem.kv_tiles()));
    dkv_ranks_.assign(problem.chains(), -1);
  }

  std::optional<Table> run(const Stop& stop) {
    constexpr std::int64_t kOften = std::int64_t{1} << 16;  // places looked at: below a millisecond
    for (std::size_t sm = 0; sm < sms_.size(); ++sm)
      ready_.emplace(0, sm);
    while (!ready_.empty()) {
      if (looked_at_ >= kOften) {
        if (stop()) return std::nullopt;
        looked_at_ = 0;
      }
      const auto [time, sm] = ready_.top();
      ready_.pop();
      if (sms_[sm].left.empty() && !take_chain(sms_[sm], sm % queues_.size())) continue;
      take_task(sms_[sm], lanes_[sm], time);
      ready_.emplace(sms_[sm].ready, sm);
    }
    Table table = table_of(problem_, lanes_);
    table.dkv_ranks = std::move(dkv_ranks_);
    return table;
  }

 private:
  struct SmState {
    Chain chain;
    Head head;                 ///< of the chain's
    std::vector<QTile> left;   ///< of that head, ascending
    std::int32_t partial = 0;  ///< of them; 0 if all compute alike
    std::int32_t last_q = 0;
    bool first = true;  ///< no task of the chain taken yet
    Ticks ready = 0;    ///< when the next task can be taken
    Ticks writer = 0;   ///< overlap model: when the last reduction ends
  };

  /// One dQ tile, or the dK and dV of one KV tile: its accumulation so far.
  struct Accumulation {
    Ticks turn = 0;          ///< when the next reduction may start
    std::int32_t taken = 0;  ///< reductions so far
  };

  bool take_chain(SmState& sm, std::size_t queue) {
    if (taken_[queue] == queues_[queue].size()) return false;
    sm.chain = queues_[queue][taken_[queue]++];
    sm.first = true;
    begin_head(sm, sm.chain.head);
    return true;
  }

  void begin_head(SmState& sm, Head head) {
    sm.head = head;
    sm.left = problem_.grid_of(head).live_q(sm.chain.kv);
    sm.partial = 0;
    for (std::size_t place = 0; !timing_.uniform() && place < sm.left.size(); ++place)
      sm.partial += is_partial(sm, sm.left[place]) ? 1 : 0;
    sm.last_q = sm.chain.kv.value % problem_.q_tiles() - 1;
  }

  /// Whether the chain has another head after the one that it is at.
  [[nodiscard]] bool has_next_head(const SmState& sm) const {
    return sm.head.value + 1 < sm.chain.head.value + problem_.span;
  }

  [[nodiscard]] Accumulation& tile(const SmState& sm, QTile q) {
    return tiles_[at(sm.head.value) * at(problem_.q_tiles()) + at(q.value)];
  }

  void take_task(SmState& sm, std::vector<Slot>& lane, Ticks time) {
    const Ticks begin = time + (sm.first ? timing_.launch : 0);
    const std::size_t choice = choose(sm, begin);
    const QTile q = sm.left[choice];
    const Ticks handed = hand_over(sm, q, begin);
    if (sm.partial > 0 && is_partial(sm, q)) --sm.partial;
    sm.left.erase(sm.left.begin() + static_cast<std::ptrdiff_t>(choice));
    sm.first = false;
    sm.last_q = q.value;

    Accumulation& dq = tile(sm, q);
    lane.push_back({{sm.head, sm.chain.kv, q}, dq.taken++});
    const Ticks start = std::max(handed, dq.turn);
    sm.writer = start + timing_.reduce;
    dq.turn = start + timing_.planned_turn();
    sm.ready = overlap_ ? handed : sm.writer;
    if (!sm.left.empty()) return;
    if (has_next_head(sm)) return begin_head(sm, Head{sm.head.value + 1});
    if (!kv_tiles_.empty()) combine(sm);
    sm.ready += timing_.epilogue;
  }

  /// Reduces a chain that ends into dK and dV, next in their accumulation.
  void combine(SmState& sm) {
    const Task task{sm.chain.head, sm.chain.kv, QTile{0}};
    Accumulation& tile = kv_tiles_[at(problem_.dkv_place(task))];
    dkv_ranks_[problem_.chain_place(task)] = tile.taken++;
    sm.writer = std::max(sm.writer, tile.turn) + timing_.reduce_kv;
    tile.turn = sm.writer + timing_.planned_hand_over();
    if (!timing_.reduce_kv_async) sm.ready = sm.writer;
  }

  [[nodiscard]] bool is_partial(const SmState& sm, QTile q) const {
    return problem_.kind({sm.head, sm.chain.kv, q}) == TileKind::partial;
  }

  /// When a task whose compute phase starts at `begin` is ready to reduce.
  [[nodiscard]] Ticks hand_over(const SmState& sm, QTile q, Ticks begin) const {
    return hand_over(sm, timing_.compute_of(problem_, {sm.head, sm.chain.kv, q}), begin);
  }
  [[nodiscard]] Ticks hand_over(const SmState& sm, Ticks compute, Ticks begin) const {
    return std::max(begin + compute, sm.writer);
  }

  /// When the soonest of the chain's tasks left is ready, its turn left aside.
  [[nodiscard]] Ticks soonest(const SmState& sm, Ticks begin) const {
    if (sm.partial == 0) return hand_over(sm, timing_.compute, begin);
    const Ticks partial = hand_over(sm, timing_.compute_of(TileKind::partial), begin);
    const bool only = sm.partial == std::ssize(sm.left);
    return only ? partial : std::min(partial, hand_over(sm, timing_.compute, begin));
  }

  /// The task that can reduce soonest; of equals the rule's. Looks in the order that the rule
  /// prefers, so that nothing after one that is as soon as any can be has a chance.
  [[nodiscard]] std::size_t choose(const SmState& sm, Ticks begin) {
    if (order_ == QOrder::most_awaited) return choose_most_awaited(sm, begin);
    const std::size_t count = sm.left.size();
    const Ticks floor = soonest(sm, begin);
    std::size_t place = first_choice(sm);
    std::size_t best = place;
    Ticks least = start_of(sm, place, begin);
    for (std::size_t seen = 1; seen < count && least > floor; ++seen) {
      place = order_ == QOrder::descending ? place - 1 : (place + 1 == count ? 0 : place + 1);
      const Ticks start = start_of(sm, place, begin);
      if (start >= least) continue;
      least = start;
      best = place;
    }
    return best;
  }

  /// When a task left can begin to reduce.
  [[nodiscard]] Ticks start_of(const SmState& sm, std::size_t place, Ticks begin) {
    ++looked_at_;
    return std::max(hand_over(sm, sm.left[place], begin), tile(sm, sm.left[place]).turn);
  }

  [[nodiscard]] std::size_t first_choice(const SmState& sm) const {
    if (order_ == QOrder::ascending) return 0;
    if (order_ == QOrder::descending) return sm.left.size() - 1;
    const auto next = std::upper_bound(sm.left.begin(), sm.left.end(), QTile{sm.last_q});
    return next == sm.left.end() ? 0 : static_cast<std::size_t>(next - sm.left.begin());
  }

  [[nodiscard]] std::size_t choose_most_awaited(const SmState& sm, Ticks begin) {
    const std::int32_t q_tiles = problem_.q_tiles();
    std::size_t best = 0;
    std::tuple<Ticks, std::int32_t, std::int32_t> least;
    for (std::size_t place = 0; place < sm.left.size(); ++place) {
      const QTile q = sm.left[place];
      const std::int32_t awaited = problem_.contributions(sm.head, q) - tile(sm, q).taken;
      const std::int32_t after_last = (q.value - sm.last_q - 1 + q_tiles) % q_tiles;
      const std::tuple key{start_of(sm, place, begin), -awaited, after_last};
      if (place > 0 && key >= least) continue;
      least = key;
      best = place;
    }
    return best;
  }

  const Problem& problem_;
  const Timing& timing_;
  QOrder order_;
  bool overlap_;
  ChainLanes queues_;
  std::vector<std::size_t> taken_;  ///< chains taken, by queue
  std::vector<std::vector<Slot>> lanes_;
  std::vector<SmState> sms_;
  std::vector<Accumulation> tiles_;
  std::vector<Accumulation>
      kv_tiles_;  ///< by (KV head, kv); empty unless parts are combined in order
  IndexVector<std::int64_t, std::int32_t> dkv_ranks_;
  std::int64_t looked_at_ = 0;  ///< tasks, since `stop` was last asked
  /// SMs by when they can take a task.
  std::priority_queue<std::pair<Ticks, std::size_t>, std::vector<std::pair<Ticks, std::size_t>>,
                      std::greater<>>
      ready_;
};

}  // namespace

std::optional<Table> list_schedule(const Problem& problem, const Timing& timing,
                                   const ListRule& rule, const Stop& stop) {
  return ListScheduler(problem, timing, {ordered_chains(problem, rule)}, rule.q).run(stop);
}

std::optional<Table> list_schedule(const Problem& problem, const Timing& timing,
                                   const ChainLanes& lanes, QOrder order, const Stop& stop) {
  return ListScheduler(problem, timing, lanes, order).run(stop);
}

Table list_schedule(const Problem& problem, const Timing& timing, const ListRule& rule) {
  return *list_schedule(problem, timing, rule, [] { return false; });
}

Table list_schedule(const Problem& problem, const Timing& timing, const ChainLanes& lanes,
                    QOrder order) {
  return *list_schedule(problem, timing, lanes, order, [] { return false; });
}

}  // namespace stagger::search
