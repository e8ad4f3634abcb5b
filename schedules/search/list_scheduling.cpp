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
  if (rule.window > 0) sort_by([&](const Chain& chain) { return chain.head.value / rule.window; });
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
        tiles_(at(problem.heads) * at(problem.grid.q_tiles())) {}

  Table run() {
    for (std::size_t sm = 0; sm < sms_.size(); ++sm)
      ready_.emplace(0, sm);
    while (!ready_.empty()) {
      const auto [time, sm] = ready_.top();
      ready_.pop();
      if (sms_[sm].left.empty() && !take_chain(sms_[sm], sm % queues_.size())) continue;
      take_task(sms_[sm], lanes_[sm], time);
      ready_.emplace(sms_[sm].ready, sm);
    }
    return table_of(problem_, lanes_);
  }

 private:
  struct SmState {
    Chain chain;
    std::vector<QTile> left;  ///< of the chain, ascending
    std::int32_t last_q = 0;
    bool first = true;  ///< no task of the chain taken yet
    Ticks ready = 0;    ///< when the next task can be taken
    Ticks writer = 0;   ///< overlap model: when the last reduction ends
  };

  /// One dQ tile: its accumulation so far.
  struct DqTile {
    Ticks turn = 0;          ///< when the next reduction may start
    std::int32_t taken = 0;  ///< reductions so far
  };

  bool take_chain(SmState& sm, std::size_t queue) {
    if (taken_[queue] == queues_[queue].size()) return false;
    sm.chain = queues_[queue][taken_[queue]++];
    sm.left = problem_.grid.live_q(sm.chain.kv);
    sm.last_q = sm.chain.kv.value % problem_.grid.q_tiles() - 1;
    sm.first = true;
    return true;
  }

  [[nodiscard]] DqTile& tile(const SmState& sm, QTile q) {
    return tiles_[at(sm.chain.head.value) * at(problem_.grid.q_tiles()) + at(q.value)];
  }

  void take_task(SmState& sm, std::vector<Slot>& lane, Ticks time) {
    const Ticks begin = time + (sm.first ? timing_.launch : 0);
    const std::size_t choice = choose(sm, begin);
    const QTile q = sm.left[choice];
    const Ticks handed = hand_over(sm, q, begin);
    sm.left.erase(sm.left.begin() + static_cast<std::ptrdiff_t>(choice));
    sm.first = false;
    sm.last_q = q.value;

    DqTile& dq = tile(sm, q);
    lane.push_back({{sm.chain.head, sm.chain.kv, q}, dq.taken++});
    const Ticks start = std::max(handed, dq.turn);
    sm.writer = start + timing_.reduce;
    dq.turn = sm.writer + timing_.latency;
    sm.ready = overlap_ ? handed : sm.writer;
    if (sm.left.empty()) sm.ready += timing_.epilogue;
  }

  /// When a task whose compute phase starts at `begin` is ready to reduce.
  [[nodiscard]] Ticks hand_over(const SmState& sm, QTile q, Ticks begin) const {
    const Ticks computed = begin + timing_.compute_of(problem_, {sm.chain.head, sm.chain.kv, q});
    return overlap_ ? std::max(computed, sm.writer) : computed;
  }

  /// The task that can reduce soonest; of equals the rule's.
  [[nodiscard]] std::size_t choose(const SmState& sm, Ticks begin) {
    std::size_t best = 0;
    std::pair<Ticks, std::int64_t> least{0, 0};
    for (std::size_t place = 0; place < sm.left.size(); ++place) {
      const DqTile& dq = tile(sm, sm.left[place]);
      const Ticks handed = hand_over(sm, sm.left[place], begin);
      const std::pair key{std::max(handed, dq.turn), preference(sm, sm.left[place], dq)};
      if (place > 0 && key >= least) continue;
      least = key;
      best = place;
    }
    return best;
  }

  [[nodiscard]] std::int64_t preference(const SmState& sm, QTile q, const DqTile& dq) const {
    const std::int32_t q_tiles = problem_.grid.q_tiles();
    const std::int32_t after_last = (q.value - sm.last_q - 1 + q_tiles) % q_tiles;
    switch (order_) {
      case QOrder::cyclic:
        return after_last;
      case QOrder::ascending:
        return q.value;
      case QOrder::descending:
        return -q.value;
      case QOrder::most_awaited:
        break;
    }
    const std::int64_t awaited = problem_.grid.contributions(q) - dq.taken;
    return -awaited * q_tiles + after_last;
  }

  const Problem& problem_;
  const Timing& timing_;
  QOrder order_;
  bool overlap_;
  ChainLanes queues_;
  std::vector<std::size_t> taken_;  ///< chains taken, by queue
  std::vector<std::vector<Slot>> lanes_;
  std::vector<SmState> sms_;
  std::vector<DqTile> tiles_;
  /// SMs by when they can take a task.
  std::priority_queue<std::pair<Ticks, std::size_t>, std::vector<std::pair<Ticks, std::size_t>>,
                      std::greater<>>
      ready_;
};

}  // namespace

Table list_schedule(const Problem& problem, const Timing& timing, const ListRule& rule) {
  return ListScheduler(problem, timing, {ordered_chains(problem, rule)}, rule.q).run();
}

Table list_schedule(const Problem& problem, const Timing& timing, const ChainLanes& lanes,
                    QOrder order) {
  return ListScheduler(problem, timing, lanes, order).run();
}

}  // namespace stagger::search
