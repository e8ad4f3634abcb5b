#include "tests/support/naive.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace stagger::test {
namespace {

/// A chain in the slot model, its Q tiles in order.
struct SlotChain {
  std::size_t lane = 0;
  std::vector<Slot> slots;
  std::int64_t start = 0;
};

/// Moves the chain that a rule says starts too early by one round; whether there was one.
bool push_one(const Table& table, std::vector<SlotChain>& chains) {
  const auto place_of = [&](const SlotChain& chain) {
    const Task& task = chain.slots.front().task;
    return std::tuple{table.problem.kv_head_of(task.head), task.kv, table.dkv_rank(task)};
  };
  std::map<std::tuple<KvHead, KvTile, std::int32_t>, std::int64_t> end_of_rank;
  std::map<std::tuple<Head, QTile, std::int32_t>, std::int64_t> time_of_rank;
  for (const SlotChain& chain : chains) {
    if (table.problem.combine == Combine::ordered) {
      end_of_rank[place_of(chain)] = chain.start + std::ssize(chain.slots);
    }
    for (std::size_t k = 0; k < chain.slots.size(); ++k) {
      const Slot& slot = chain.slots[k];
      time_of_rank[{slot.task.head, slot.task.q, slot.rank}] =
          chain.start + static_cast<std::int64_t>(k);
    }
  }
  std::map<std::size_t, std::int64_t> lane_free;
  for (SlotChain& chain : chains) {
    bool early = chain.start < lane_free[chain.lane];
    for (std::size_t k = 0; k < chain.slots.size(); ++k) {
      const Slot& slot = chain.slots[k];
      const auto before = time_of_rank.find({slot.task.head, slot.task.q, slot.rank - 1});
      early = early || (before != time_of_rank.end() &&
                        before->second >= chain.start + static_cast<std::int64_t>(k));
    }
    auto in_turn = place_of(chain);
    --std::get<2>(in_turn);
    const auto part = end_of_rank.find(in_turn);
    early = early ||
            (part != end_of_rank.end() && part->second >= chain.start + std::ssize(chain.slots));
    if (early) {
      ++chain.start;
      return true;
    }
    lane_free[chain.lane] = chain.start + std::ssize(chain.slots);
  }
  return false;
}

/// Tries all starts and Q orders.
class AllRounds {
 public:
  explicit AllRounds(const Problem& problem) : problem_(problem) {
    for (std::int32_t first = 0; first < problem.heads; first += problem.span) {
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
        std::vector<Task> chain;
        for (Head head{first}; head.value < first + problem.span; ++head) {
          for (const QTile q : problem.grid_of(head).live_q(kv))
            chain.push_back({head, kv, q});
        }
        if (!chain.empty()) chains_.push_back(chain);
      }
    }
  }

  bool fit(std::int64_t rounds) {
    rounds_ = rounds;
    running_.assign(static_cast<std::size_t>(rounds), 0);
    used_.clear();
    ends_.clear();
    return place(0);
  }

 private:
  bool place(std::size_t chain) {
    if (chain == chains_.size()) return true;
    std::vector<Task> order = chains_[chain];
    do {
      for (std::int64_t start = 0; start + std::ssize(order) <= rounds_; ++start) {
        if (!mark(order, start)) continue;
        const bool fits = place_end(order.front(), start + std::ssize(order), chain + 1);
        unmark(order, start, order.size());
        if (fits) return true;
      }
    } while (std::next_permutation(order.begin(), order.end()));
    return false;
  }

  /// Whether the rest fits where a chain ends; of a KV tile's parts in order one at a time may.
  bool place_end(const Task& of_chain, std::int64_t end, std::size_t next) {
    if (problem_.combine != Combine::ordered) return place(next);
    const std::int32_t group = problem_.heads / problem_.heads_kv;
    const std::tuple tile{of_chain.head.value / group, of_chain.kv, end};
    if (!ends_.insert(tile).second) return false;
    const bool fits = place(next);
    ends_.erase(tile);
    return fits;
  }

  bool mark(const std::vector<Task>& order, std::int64_t start) {
    for (std::size_t k = 0; k < order.size(); ++k) {
      const std::int64_t round = start + static_cast<std::int64_t>(k);
      std::int32_t& running = running_[static_cast<std::size_t>(round)];
      if (running < problem_.sms && used_.insert({order[k].head, order[k].q, round}).second) {
        ++running;
        continue;
      }
      unmark(order, start, k);
      return false;
    }
    return true;
  }

  void unmark(const std::vector<Task>& order, std::int64_t start, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::int64_t round = start + static_cast<std::int64_t>(k);
      used_.erase({order[k].head, order[k].q, round});
      --running_[static_cast<std::size_t>(round)];
    }
  }

  const Problem& problem_;
  std::int64_t rounds_ = 0;
  std::vector<std::vector<Task>> chains_;
  std::vector<std::int32_t> running_;  ///< chains, by round
  std::set<std::tuple<Head, QTile, std::int64_t>> used_;
  std::set<std::tuple<std::int32_t, KvTile, std::int64_t>> ends_;  ///< by KV head
};

}  // namespace

std::optional<std::int64_t> naive_rounds(const Table& table) {
  std::vector<SlotChain> chains;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (table.begins_chain(lane, slot)) chains.push_back({at(lane), {}, 0});
      chains.back().slots.push_back(table.slots[slot]);
    }
  }
  std::int64_t makespan = 0;
  while (push_one(table, chains)) {
    for (const SlotChain& chain : chains)
      makespan = std::max(makespan, chain.start + std::ssize(chain.slots));
    // Behind each part at most a round that its KV tile's others have to themselves.
    const std::int64_t most = 2 * std::ssize(table.slots) + 1 + std::ssize(chains);
    if (makespan > most) return std::nullopt;
  }
  makespan = 0;
  for (const SlotChain& chain : chains)
    makespan = std::max(makespan, chain.start + std::ssize(chain.slots));
  return makespan;
}

std::int64_t naive_round_optimum(const Problem& problem) {
  AllRounds all(problem);
  std::int64_t rounds = 0;
  while (!all.fit(rounds))
    ++rounds;
  return rounds;
}

}  // namespace stagger::test
