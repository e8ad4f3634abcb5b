#include "schedules/search/packing.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <utility>

namespace stagger::search {
namespace {

bool longer(const Chain& left, const Chain& right) {
  return left.length > right.length;
}

class Packer {
 public:
  Packer(std::vector<Chain> chains, std::int32_t sms, Ticks target, const PackingLimits& limits)
      : chains_(std::move(chains)),
        target_(target),
        limits_(limits),
        lanes_(at(sms)),
        loads_(at(sms), 0) {
    std::stable_sort(chains_.begin(), chains_.end(), longer);
  }

  ChainLanes run() {
    longest_first();
    while (uneven() && !limits_.stop() && exchange()) {
    }
    if (uneven() && !limits_.stop()) search();
    for (std::vector<Chain>& lane : lanes_)
      std::stable_sort(lane.begin(), lane.end(), longer);
    return std::move(lanes_);
  }

 private:
  [[nodiscard]] bool uneven() const {
    return *std::max_element(loads_.begin(), loads_.end()) > target_;
  }

  void longest_first() {
    using Least = std::pair<Ticks, std::size_t>;  // load, lane
    std::priority_queue<Least, std::vector<Least>, std::greater<>> least;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      least.emplace(0, lane);
    for (const Chain& chain : chains_) {
      const std::size_t lane = least.top().second;
      least.pop();
      lanes_[lane].push_back(chain);
      least.emplace(loads_[lane] += chain.length, lane);
    }
  }

  /// Makes the longest lane shorter by moving a chain from it, or exchanging one for a shorter one,
  /// without making another as long; the most even such change. False if there is none.
  bool exchange() {
    const std::size_t from = at(std::max_element(loads_.begin(), loads_.end()) - loads_.begin());
    struct Change {
      Ticks highest;
      std::size_t mine;
      std::size_t lane;
      std::size_t theirs;
    };
    Change best{loads_[from], 0, from, 0};
    for (std::size_t mine = 0; mine < lanes_[from].size(); ++mine) {
      const Ticks given = lanes_[from][mine].length;
      for (std::size_t to = 0; to < lanes_.size(); ++to) {
        if (to == from) continue;
        for (std::size_t theirs = 0; theirs <= lanes_[to].size(); ++theirs) {
          const Ticks taken = theirs < lanes_[to].size() ? lanes_[to][theirs].length : 0;
          const Ticks highest = std::max(loads_[from] - given + taken, loads_[to] + given - taken);
          if (highest < best.highest) best = {highest, mine, to, theirs};
        }
      }
    }
    if (best.lane == from) return false;
    apply(from, best.mine, best.lane, best.theirs);
    return true;
  }

  void apply(std::size_t from, std::size_t mine, std::size_t to, std::size_t theirs) {
    Chain& given = lanes_[from][mine];
    const Ticks length = given.length;
    if (theirs < lanes_[to].size()) {
      const Ticks taken = lanes_[to][theirs].length;
      std::swap(given, lanes_[to][theirs]);
      loads_[from] += taken - length;
      loads_[to] += length - taken;
    } else {
      lanes_[to].push_back(given);
      lanes_[from].erase(lanes_[from].begin() + static_cast<std::ptrdiff_t>(mine));
      loads_[from] -= length;
      loads_[to] += length;
    }
  }

  /// Fills one lane after the other up to the target, each beginning with the longest chain left
  /// and going on to shorter ones, while all lanes together stay within the idle tasks there are.
  /// What was left when that failed is not tried again.
  void search() {
    constexpr std::size_t kChains = 4'000;  // frames of the recursion
    if (chains_.size() > kChains) return;
    nodes_ = limits_.nodes;
    idle_ = std::ssize(lanes_) * target_ - std::accumulate(loads_.begin(), loads_.end(), Ticks{0});
    left_.clear();
    for (const Chain& chain : chains_)
      left_[chain.length].push_back(chain);
    filled_.assign(1, {});
    if (idle_ < 0 || !next_lane()) return;
    filled_.resize(lanes_.size());
    lanes_ = std::move(filled_);
  }

  bool next_lane() {
    const auto longest = std::find_if(left_.begin(), left_.end(),
                                      [](const auto& row) { return !row.second.empty(); });
    if (longest == left_.end()) return true;
    if (filled_.size() > lanes_.size() || longest->first > target_) return false;
    std::vector<std::size_t> counts;
    for (const auto& [length, chains] : left_)
      counts.push_back(chains.size());
    if (failed_.contains(counts)) return false;
    take(longest);
    if (fill(longest, target_ - longest->first)) return true;
    give_back(longest);
    if (nodes_ > 0) failed_.insert(std::move(counts));
    return false;
  }

  /// Chains left by length, longest first.
  using Left = std::map<std::int32_t, std::vector<Chain>, std::greater<>>;

  /// Adds chains to the lane at hand that has `room`, from `length` on to shorter ones.
  bool fill(Left::iterator length, Ticks room) {
    if (limits_.stop()) nodes_ = 0;
    if (--nodes_ <= 0) return false;
    for (; length != left_.end(); ++length) {
      if (length->second.empty() || length->first > room) continue;
      take(length);
      if (fill(length, room - length->first)) return true;
      give_back(length);
      if (nodes_ <= 0) return false;
    }
    if (room > idle_) return false;
    idle_ -= room;
    filled_.emplace_back();
    if (next_lane()) return true;
    filled_.pop_back();
    idle_ += room;
    return false;
  }

  void take(Left::iterator length) {
    filled_.back().push_back(length->second.back());
    length->second.pop_back();
  }
  void give_back(Left::iterator length) {
    length->second.push_back(filled_.back().back());
    filled_.back().pop_back();
  }

  std::vector<Chain> chains_;
  Ticks target_;
  const PackingLimits& limits_;
  ChainLanes lanes_;
  std::vector<Ticks> loads_;
  std::int64_t nodes_ = 0;
  Ticks idle_ = 0;  ///< tasks that lanes may still be short of the target
  Left left_;
  ChainLanes filled_;  ///< the last one is at hand
  std::set<std::vector<std::size_t>> failed_;
};

}  // namespace

ChainLanes pack_chains(std::vector<Chain> chains, std::int32_t sms, Ticks target,
                       const PackingLimits& limits) {
  return Packer(std::move(chains), sms, target, limits).run();
}

Ticks longest_lane(const ChainLanes& lanes) {
  Ticks longest = 0;
  for (const std::vector<Chain>& lane : lanes) {
    longest = std::max(
        longest, std::accumulate(lane.begin(), lane.end(), Ticks{0},
                                 [](Ticks sum, const Chain& chain) { return sum + chain.length; }));
  }
  return longest;
}

}  // namespace stagger::search
