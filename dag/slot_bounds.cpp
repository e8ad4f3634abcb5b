#include "dag/slot_bounds.hpp"

#include "dag/packing.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>

namespace stagger::dag {
namespace {

constexpr std::int64_t kMatchedTiles = std::int64_t{1} << 20;
// Of all sets of chains that are packed: a second.
constexpr std::int64_t kPackedJobs = std::int64_t{1} << 22;
constexpr std::int64_t kPackingNodes = 20'000'000;
/// Tiles matched or jobs packed until it is asked whether to stop: milliseconds.
constexpr std::int64_t kAskedSteps = std::int64_t{1} << 16;
// Reductions take no time of their own here: what they are bound by are their rounds.
constexpr std::string_view kReductions[] = {"accumulation", "dkv"};

/// Asks whether to stop each time that so much was done, and not again once it was told to.
class Asking {
 public:
  explicit Asking(const Stop& stop)
      : stop_([this, &stop] { return stopped_ = stopped_ || stop(); }) {}
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  /// After so many more steps.
  [[nodiscard]] bool stops(std::int64_t steps) {
    steps_ += steps;
    if (stopped_ || steps_ < kAskedSteps) return stopped_;
    steps_ = 0;
    return stop_();
  }
  /// To be asked by others that count their own steps.
  [[nodiscard]] const Stop& stop() const { return stop_; }

 private:
  bool stopped_ = false;
  std::int64_t steps_ = 0;
  Stop stop_;
};

/// A maximum matching of KV tiles with Q tiles, grown by one KV tile at a time.
class Matching {
 public:
  explicit Matching(const TileGrid& grid) : kv_of_(grid.q_tiles(), KvTile{kNone}) {
    live_.reserve(grid.kv_tiles());
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
      live_.push_back(grid.live_q(kv));
  }

  void add(KvTile kv) {
    seen_.assign(kv_of_.size(), false);
    if (augment(kv)) ++edges_;
  }
  [[nodiscard]] std::int32_t edges() const { return edges_; }

 private:
  static constexpr std::int32_t kNone = -1;

  bool augment(KvTile kv) {
    for (const QTile q : live_[kv]) {
      if (seen_[q]) continue;
      seen_[q] = true;
      KvTile& other = kv_of_[q];
      if (other.value != kNone && !augment(other)) continue;
      other = kv;
      return true;
    }
    return false;
  }

  IndexVector<KvTile, std::vector<QTile>> live_;
  IndexVector<QTile, KvTile> kv_of_;
  IndexVector<QTile, bool> seen_;
  std::int32_t edges_ = 0;
};

/// KV tiles by component: those that share Q tiles, over others or not.
std::vector<std::vector<KvTile>> components(const TileGrid& grid) {
  IndexVector<KvTile, KvTile> parent(grid.kv_tiles());
  std::iota(parent.begin(), parent.end(), KvTile{0});
  const auto root = [&](KvTile kv) {
    while (parent[kv] != kv)
      kv = parent[kv] = parent[parent[kv]];
    return kv;
  };
  IndexVector<QTile, KvTile> first(grid.q_tiles(), KvTile{-1});
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (const QTile q : grid.live_q(kv)) {
      if (first[q].value < 0) first[q] = kv;
      parent[root(kv)] = root(first[q]);
    }
  }
  std::map<KvTile, std::vector<KvTile>> by_root;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (grid.chain_length(kv) > 0) by_root[root(kv)].push_back(kv);
  }
  std::vector<std::vector<KvTile>> groups;
  groups.reserve(by_root.size());
  for (auto& [kv, group] : by_root)
    groups.push_back(std::move(group));
  return groups;
}

class MatchingBound {
 public:
  /// Of the heads that have a grid. Packs with so many nodes at most.
  MatchingBound(const TileGrid& grid, std::int32_t heads, std::int32_t sms, std::int64_t nodes,
                Asking& asking)
      : grid_(grid), heads_(heads), sms_(sms), nodes_(nodes), asking_(asking) {}

  std::int64_t run() {
    const auto groups = components(grid_);
    std::vector<KvTile> all;
    for (const std::vector<KvTile>& group : groups) {
      all.insert(all.end(), group.begin(), group.end());
      if (groups.size() > 1) add_sets(group);
    }
    add_sets(all);
    return bound_;
  }

 private:
  /// The longest chains of one head, of which no more than `edges` run at once.
  struct Set {
    std::int64_t chains = 0;
    std::int64_t edges = 0;
  };

  /// The sets {d_i >= d} of some KV tiles; not all of them where packing all is too much work.
  void add_sets(std::vector<KvTile> tiles) {
    std::stable_sort(tiles.begin(), tiles.end(), [&](KvTile left, KvTile right) {
      return grid_.chain_length(left) > grid_.chain_length(right);
    });
    Matching matching(grid_);
    std::vector<Ticks> lengths;
    std::vector<Set> sets;
    std::int64_t jobs = 0;
    for (std::size_t place = 0; place < tiles.size(); ++place) {
      if (asking_.stops(grid_.chain_length(tiles[place]))) break;
      matching.add(tiles[place]);
      lengths.push_back(grid_.chain_length(tiles[place]));
      const bool last_of_length =
          place + 1 == tiles.size() || grid_.chain_length(tiles[place + 1]) < lengths.back();
      if (!last_of_length || matching.edges() == std::ssize(lengths)) continue;
      sets.push_back({std::ssize(lengths), matching.edges()});
      jobs += std::ssize(lengths) * (1 + heads_);
    }
    const std::int64_t stride = 1 + jobs / kPackedJobs;
    const std::int64_t nodes = nodes_ / std::max<std::int64_t>(2 * std::ssize(sets), 10);
    for (std::int64_t set = std::ssize(sets) - 1; set >= 0; set -= stride) {
      const auto& [chains, edges] = sets[at(set)];
      if (asking_.stops(chains * (1 + heads_))) return;
      const std::vector<Ticks> longest(lengths.begin(), lengths.begin() + chains);
      add_set(longest, edges, 1, nodes);
      add_set(longest, edges, heads_, nodes);
    }
  }

  /// Packs these chains of `heads` heads each, of which no more than `edges` a head run at once.
  void add_set(const std::vector<Ticks>& lengths, std::int64_t edges, std::int32_t heads,
               std::int64_t nodes) {
    const std::int64_t machines = std::min<std::int64_t>(edges * heads, sms_);
    std::vector<Ticks> jobs;
    for (std::int32_t head = 0; head < heads; ++head)
      jobs.insert(jobs.end(), lengths.begin(), lengths.end());
    const Packing packing =
        pack(std::move(jobs), static_cast<std::int32_t>(machines), nodes, asking_.stop());
    bound_ = std::max(bound_, packing.lower);
  }

  const TileGrid& grid_;
  std::int32_t heads_;
  std::int32_t sms_;
  std::int64_t nodes_;
  Asking& asking_;
  std::int64_t bound_ = 0;
};

/// The largest of the bounds for the heads that have one grid.
std::int64_t matching_bound(const Problem& problem, const Stop& stop) {
  Asking asking(stop);
  const std::vector<std::int32_t> heads = problem.grids.counts(problem.heads);
  std::int64_t bound = 0;
  for (std::size_t place = 0; place < heads.size(); ++place) {
    const TileGrid& grid = problem.grids.distinct()[place];
    const std::int64_t nodes = kPackingNodes / std::ssize(heads);
    bound = std::max(bound, MatchingBound(grid, heads[place], problem.sms, nodes, asking).run());
  }
  return bound;
}

/// The ends of a KV tile's chains are rounds apart: behind that of a chain are all that are no
/// shorter, and one of them is the last.
std::int64_t ends_bound(const Problem& problem) {
  const std::int32_t kv_heads = problem.grids.all_alike() ? 1 : problem.heads_kv;
  std::int64_t bound = 0;
  for (std::int32_t first = 0; first < kv_heads * problem.group_parts();
       first += problem.group_parts()) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      std::vector<std::int64_t> lengths;
      for (Part part{first}; part.value < first + problem.group_parts(); ++part) {
        const std::int64_t length = problem.chain_length(part, kv);
        if (length > 0) lengths.push_back(length);
      }
      std::sort(lengths.begin(), lengths.end(), std::greater<>());
      for (std::int64_t longer = 0; longer < std::ssize(lengths); ++longer)
        bound = std::max(bound, lengths[at(longer)] + longer);
    }
  }
  return bound;
}

}  // namespace

Bounds slot_bounds(const Problem& problem, const Stop& stop) {
  constexpr Timing kOneRound{.model = Model::chain, .compute = 1, .reduce = 0};
  Bounds bounds = lower_bounds(problem, kOneRound, Dispatch::static_, stop);
  if (bounds.degree_rounds == 0) return bounds;
  std::erase_if(bounds.all, [](const Bound& bound) {
    return std::ranges::find(kReductions, bound.by) != std::end(kReductions);
  });
  bounds.all.push_back(
      {"degree", bounds.degree_rounds, "a chain or a dQ tile one round at a time"});
  if (problem.combine == Combine::ordered) {
    bounds.all.push_back(
        {"dkv", ends_bound(problem), "the chains of one KV tile end one after the other"});
  }
  // Chains of several heads can run at once on as many dQ tiles as all of those have.
  if (problem.span == 1 && std::int64_t{problem.kv_tiles()} * problem.q_tiles() <= kMatchedTiles) {
    bounds.all.push_back({"matching", matching_bound(problem, stop),
                          "chains that can't all run at once, packed on as many SMs as can"});
  }
  bounds.best = largest_of(bounds.all);
  return bounds;
}

}  // namespace stagger::dag
