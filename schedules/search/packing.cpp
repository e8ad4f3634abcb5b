#include "schedules/search/packing.hpp"

#include <algorithm>
#include <numeric>

namespace stagger::search {
namespace {

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

bool longer(const Chain& left, const Chain& right) {
  return left.length > right.length;
}

class Packer {
 public:
  Packer(std::vector<Chain> chains, std::int32_t sms, Ticks target)
      : chains_(std::move(chains)), target_(target), lanes_(at(sms)), loads_(at(sms), 0) {
    std::stable_sort(chains_.begin(), chains_.end(), longer);
  }

  ChainLanes run(std::int64_t nodes) {
    longest_first();
    while (*std::max_element(loads_.begin(), loads_.end()) > target_ && exchange()) {
    }
    if (*std::max_element(loads_.begin(), loads_.end()) > target_) search(nodes);
    for (std::vector<Chain>& lane : lanes_)
      std::stable_sort(lane.begin(), lane.end(), longer);
    return std::move(lanes_);
  }

 private:
  void longest_first() {
    for (const Chain& chain : chains_) {
      const auto least = std::min_element(loads_.begin(), loads_.end()) - loads_.begin();
      lanes_[at(least)].push_back(chain);
      loads_[at(least)] += chain.length;
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

  /// Depth first over chains, longest first, into lanes of at most `target` tasks.
  void search(std::int64_t nodes) {
    nodes_ = nodes;
    std::vector<Ticks> loads(lanes_.size(), 0);
    std::vector<std::size_t> lane_of(chains_.size(), 0);
    if (!place(0, loads, lane_of)) return;
    for (std::vector<Chain>& lane : lanes_)
      lane.clear();
    for (std::size_t chain = 0; chain < chains_.size(); ++chain)
      lanes_[lane_of[chain]].push_back(chains_[chain]);
  }

  bool place(std::size_t chain, std::vector<Ticks>& loads, std::vector<std::size_t>& lane_of) {
    constexpr std::size_t kDeepest = 4'000;  // frames of the recursion
    if (chain == chains_.size()) return true;
    if (--nodes_ <= 0 || chain >= kDeepest) return false;
    for (std::size_t lane = 0; lane < loads.size(); ++lane) {
      const Ticks load = loads[lane];
      if (load + chains_[chain].length > target_) continue;
      const auto end = loads.begin() + static_cast<std::ptrdiff_t>(lane);
      if (std::find(loads.begin(), end, load) != end) continue;  // as good as an earlier lane
      loads[lane] += chains_[chain].length;
      lane_of[chain] = lane;
      if (place(chain + 1, loads, lane_of)) return true;
      loads[lane] = load;
    }
    return false;
  }

  std::vector<Chain> chains_;
  Ticks target_;
  ChainLanes lanes_;
  std::vector<Ticks> loads_;
  std::int64_t nodes_ = 0;
};

}  // namespace

ChainLanes pack_chains(std::vector<Chain> chains, std::int32_t sms, Ticks target,
                       std::int64_t nodes) {
  return Packer(std::move(chains), sms, target).run(nodes);
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
