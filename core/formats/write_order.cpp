#include "core/formats/write_order.hpp"

#include "core/error.hpp"
#include "core/index.hpp"

#include <algorithm>
#include <tuple>

namespace stagger::formats {
namespace {

[[noreturn]] void refuse_order(const std::string& what) {
  throw Error(ErrorKind::unsupported, "FlashAttention-4 cannot run the table: " + what);
}

/// A chain's slots, and when its CTA is launched: FlashAttention-4 has one for each.
struct Chain {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t place = 0;  ///< in its lane
  std::int32_t lane = 0;
  Head head = {};
  KvTile kv = {};
};

std::vector<Chain> chains_of(const Table& table) {
  std::vector<Chain> chains;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::int64_t place = 0;
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (!table.begins_chain(lane, slot)) continue;
      Chain chain{.begin = slot, .place = place++, .lane = lane.value};
      chain.head = table.slots[slot].task.head;
      chain.kv = table.slots[slot].task.kv;
      chain.end = slot + 1;
      while (!table.ends_chain(lane, chain.end - 1))
        ++chain.end;
      chains.push_back(chain);
    }
  }
  // In-order lanes are launched one after the other; of static ones, chain by chain.
  std::ranges::stable_sort(chains, [&](const Chain& left, const Chain& right) {
    const bool rounds = table.dispatch == Dispatch::static_;
    return std::tuple(rounds ? left.place : 0, left.lane) <
           std::tuple(rounds ? right.place : 0, right.lane);
  });
  return chains;
}

class Writer {
 public:
  Writer(const Table& table, const HeadGrids& grids)
      : table_(table), problem_(table.problem), grids_(grids) {}

  WriteOrder run() {
    if (problem_.span > 1) {
      refuse_order("a chain has " + std::to_string(problem_.span) +
                   " heads, its CTAs have one (--span 1)");
    }
    order_.heads = problem_.heads;
    const auto rows = at(std::int64_t{problem_.heads} * problem_.kv_tiles());
    for (OrderedList* list : {&order_.partial, &order_.full}) {
      list->ids.resize(rows);
      list->ranks.resize(rows);
    }
    const std::vector<Chain> chains = chains_of(table_);
    for (const Chain& chain : chains)
      add(chain);
    check_complete();
    check_ranks();
    check_launch(chains);
    if (alike()) keep_one_head();
    return std::move(order_);
  }

 private:
  [[nodiscard]] std::size_t row_of(Head head, KvTile kv) const {
    return at(std::int64_t{head.value} * problem_.kv_tiles() + kv.value);
  }

  void add(const Chain& chain) {
    const Task& first = table_.slots[chain.begin].task;
    if (!problem_.contains(first)) refuse_order(describe(first) + " is no task of the problem");
    const std::size_t row = row_of(chain.head, chain.kv);
    if (!order_.partial.ids[row].empty() || !order_.full.ids[row].empty()) {
      refuse_order("the chain of head " + std::to_string(chain.head.value) + ", kv " +
                   std::to_string(chain.kv.value) + " is in two pieces; a CTA has all of it");
    }
    for (std::int64_t slot = chain.begin; slot < chain.end; ++slot) {
      const auto& [task, rank] = table_.slots[slot];
      if (!problem_.contains(task) || !grids_.of(task.head).live(task.kv, task.q)) {
        refuse_order(describe(task) + " is no live tile");
      }
      const bool full = grids_.of(task.head).kind(task.kv, task.q) == TileKind::full;
      if (!full && !order_.full.ids[row].empty()) {
        refuse_order(describe(task) +
                     " is partial and comes behind a full tile of its chain; a CTA takes "
                     "its partial tiles first (dq_kv_order does not change that)");
      }
      OrderedList& list = full ? order_.full : order_.partial;
      list.ids[row].push_back(task.q.value);
      list.ranks[row].push_back(rank);
    }
  }

  void check_complete() const {
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
        std::vector<std::int64_t> ids = order_.partial.ids[row_of(head, kv)];
        const auto& full = order_.full.ids[row_of(head, kv)];
        ids.insert(ids.end(), full.begin(), full.end());
        std::ranges::sort(ids);
        const bool twice = std::ranges::adjacent_find(ids) != ids.end();
        if (twice || std::ssize(ids) != grids_.of(head).chain_length(kv)) {
          refuse_order("the chain of head " + std::to_string(head.value) + ", kv " +
                       std::to_string(kv.value) + " does not have each of its " +
                       std::to_string(grids_.of(head).chain_length(kv)) + " live tiles once");
        }
      }
    }
  }

  /// Every dQ tile's ranks are 0 to k - 1.
  void check_ranks() const {
    std::vector<bool> taken;
    for (Head head{0}; head.value < problem_.heads; ++head) {
      IndexVector<QTile, std::vector<std::int64_t>> ranks(problem_.q_tiles());
      for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
        for (const OrderedList* list : {&order_.partial, &order_.full}) {
          const std::size_t row = row_of(head, kv);
          for (std::size_t place = 0; place < list->ids[row].size(); ++place) {
            ranks[QTile{static_cast<std::int32_t>(list->ids[row][place])}].push_back(
                list->ranks[row][place]);
          }
        }
      }
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
        std::ranges::sort(ranks[q]);
        for (std::size_t rank = 0; rank < ranks[q].size(); ++rank) {
          if (ranks[q][rank] != static_cast<std::int64_t>(rank)) {
            refuse_order("the ranks of head " + std::to_string(head.value) + ", q " +
                         std::to_string(q.value) + " are not 0 to " +
                         std::to_string(ranks[q].size() - 1));
          }
        }
      }
    }
  }

  /// Each head's chains are launched by KV tile, all of them upwards or all downwards.
  void check_launch(const std::vector<Chain>& chains) {
    IndexVector<Head, const Chain*> before(problem_.heads, nullptr);
    bool up = false;
    bool down = false;
    for (const Chain& chain : chains) {
      const Chain*& last = before[chain.head];
      if (last != nullptr) (last->kv < chain.kv ? up : down) = true;
      if (up && down) {
        refuse_order(
            "the chains of head " + std::to_string(chain.head.value) + " are launched kv " +
            std::to_string(last->kv.value) + " before kv " + std::to_string(chain.kv.value) +
            ", and others the other way round; it launches them upwards, or all downwards (spt); "
            "any order of them needs dq_kv_order (its pull request 2512)");
      }
      last = &chain;
    }
    order_.spt = down;
    say_launch();
  }

  /// Where ranks do not go with the launch, those that are waited for may not be resident.
  void say_launch() {
    for (Head head{0}; head.value < problem_.heads; ++head) {
      IndexVector<QTile, std::int64_t> next(problem_.q_tiles(), 0);
      for (std::int32_t place = 0; place < problem_.kv_tiles(); ++place) {
        const KvTile kv{order_.spt ? problem_.kv_tiles() - 1 - place : place};
        const std::size_t row = row_of(head, kv);
        for (const OrderedList* list : {&order_.partial, &order_.full}) {
          for (std::size_t entry = 0; entry < list->ids[row].size(); ++entry) {
            const QTile q{static_cast<std::int32_t>(list->ids[row][entry])};
            if (list->ranks[row][entry] == next[q]++) continue;
            order_.notes.push_back(
                "the ranks do not go with the launch, first at head " + std::to_string(head.value) +
                ", kv " + std::to_string(kv.value) + ", q " + std::to_string(q.value) +
                ": it hangs where fewer CTAs are resident than `stagger verify` says");
            return;
          }
        }
      }
    }
  }

  [[nodiscard]] bool alike() const {
    const auto rows = problem_.kv_tiles();
    for (const OrderedList* list : {&order_.partial, &order_.full}) {
      for (std::size_t row = at(rows); row < list->ids.size(); ++row) {
        if (list->ids[row] != list->ids[row % at(rows)] ||
            list->ranks[row] != list->ranks[row % at(rows)]) {
          return false;
        }
      }
    }
    return true;
  }

  void keep_one_head() {
    order_.heads = 1;
    for (OrderedList* list : {&order_.partial, &order_.full}) {
      list->ids.resize(at(problem_.kv_tiles()));
      list->ranks.resize(at(problem_.kv_tiles()));
    }
  }

  const Table& table_;
  const Problem& problem_;
  const HeadGrids& grids_;
  WriteOrder order_;
};

}  // namespace

WriteOrder write_order_of(const Table& table, const HeadGrids& grids) {
  return Writer(table, grids).run();
}

}  // namespace stagger::formats
