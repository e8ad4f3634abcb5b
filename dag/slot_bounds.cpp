#include "dag/slot_bounds.hpp"

#include "dag/packing.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

namespace stagger::dag {
namespace {

constexpr std::int64_t kMatchedTiles = std::int64_t{1} << 20;
constexpr std::string_view kAccumulation = "accumulation";

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
  explicit MatchingBound(const Problem& problem) : problem_(problem) {}

  std::int64_t run() {
    const auto groups = components(problem_.grid);
    std::vector<KvTile> all;
    for (const std::vector<KvTile>& group : groups) {
      all.insert(all.end(), group.begin(), group.end());
      if (groups.size() > 1) add_sets(group);
    }
    add_sets(all);
    return bound_;
  }

 private:
  /// The sets {d_i >= d} of some KV tiles.
  void add_sets(std::vector<KvTile> set) {
    const TileGrid& grid = problem_.grid;
    std::stable_sort(set.begin(), set.end(), [&](KvTile left, KvTile right) {
      return grid.chain_length(left) > grid.chain_length(right);
    });
    Matching matching(grid);
    std::vector<Ticks> lengths;
    for (std::size_t place = 0; place < set.size(); ++place) {
      matching.add(set[place]);
      lengths.push_back(grid.chain_length(set[place]));
      const bool last_of_length =
          place + 1 == set.size() || grid.chain_length(set[place + 1]) < lengths.back();
      if (last_of_length && matching.edges() < std::ssize(lengths)) {
        add_set(lengths, matching.edges(), 1);
        add_set(lengths, matching.edges(), problem_.heads);
      }
    }
  }

  /// Packs these chains of `heads` heads each, of which no more than `edges` a head run at once.
  void add_set(const std::vector<Ticks>& lengths, std::int64_t edges, std::int32_t heads) {
    const std::int64_t machines = std::min<std::int64_t>(edges * heads, problem_.sms);
    std::vector<Ticks> jobs;
    for (std::int32_t head = 0; head < heads; ++head)
      jobs.insert(jobs.end(), lengths.begin(), lengths.end());
    bound_ = std::max(bound_, pack(std::move(jobs), static_cast<std::int32_t>(machines)).lower);
  }

  const Problem& problem_;
  std::int64_t bound_ = 0;
};

}  // namespace

Bounds slot_bounds(const Problem& problem) {
  constexpr Timing kOneRound{.model = Model::chain, .compute = 1, .reduce = 0};
  Bounds bounds = lower_bounds(problem, kOneRound, Dispatch::static_);
  if (bounds.degree_rounds == 0) return bounds;
  // Reductions take no time of their own here: what a dQ tile is bound by are its rounds.
  std::erase_if(bounds.all, [](const Bound& bound) { return bound.by == kAccumulation; });
  bounds.all.push_back(
      {"degree", bounds.degree_rounds, "a chain or a dQ tile one round at a time"});
  const TileGrid& grid = problem.grid;
  if (std::int64_t{grid.kv_tiles()} * grid.q_tiles() <= kMatchedTiles) {
    bounds.all.push_back({"matching", MatchingBound(problem).run(),
                          "chains that can't all run at once, packed on as many SMs as can"});
  }
  bounds.best = largest_of(bounds.all);
  return bounds;
}

}  // namespace stagger::dag
