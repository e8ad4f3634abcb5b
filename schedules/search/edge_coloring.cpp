#include "schedules/search/edge_coloring.hpp"

#include "schedules/search/dice.hpp"

#include <algorithm>
#include <deque>
#include <vector>

namespace stagger::search {
namespace {

constexpr std::int32_t kFree = -1;
constexpr std::int64_t kMostCells = std::int64_t{1} << 26;  ///< 256 MiB of them
constexpr int kMostPaths = 64;                              ///< tried for a task

class EdgeColoring {
 public:
  EdgeColoring(const Problem& problem, const ChainLanes& lanes, std::uint64_t seed)
      : problem_(problem), dice_(seed) {
    for (const std::vector<Chain>& lane : lanes) {
      std::int64_t round = 0;
      for (const Chain& chain : lane) {
        chains_.push_back({chain, round, std::vector<std::int32_t>(at(chain.length), kFree)});
        round += chain.length;
      }
      rounds_ = std::max(rounds_, round);
    }
  }

  std::optional<RoundTimes> run(std::int64_t moves, const Stop& stop) {
    constexpr std::uint64_t kOften = 64;  // tasks, each of which may try paths
    const std::int64_t tiles = std::int64_t{problem_.heads} * problem_.q_tiles();
    if (tiles * rounds_ > kMostCells) return std::nullopt;
    chain_at_.assign(at(tiles * rounds_), kFree);
    for (std::int32_t chain = 0; chain < std::ssize(chains_); ++chain) {
      for (const QTile q :
           problem_.grid_of(chains_[at(chain)].chain.head).live_q(chains_[at(chain)].chain.kv))
        uncolored_.push_back({chain, q.value});
    }
    for (std::uint64_t colored = 0; !uncolored_.empty(); ++colored) {
      if (colored % kOften == 0 && stop()) return std::nullopt;
      const Edge edge = uncolored_.front();
      uncolored_.pop_front();
      if (color_free(edge) || color_by_path(edge)) continue;
      if (--moves < 0) return std::nullopt;
      evict_for(edge);
    }
    return times();
  }

 private:
  struct Colored {
    Chain chain;
    std::int64_t start = 0;
    std::vector<std::int32_t> q_at;  ///< by round of its interval; kFree: free
    [[nodiscard]] bool has(std::int64_t round) const {
      return round >= start && round < start + chain.length;
    }
  };
  struct Edge {
    std::int32_t chain = 0;
    std::int32_t q = 0;
  };

  [[nodiscard]] std::int32_t& chain_at(Head head, std::int32_t q, std::int64_t round) {
    const std::int64_t tile = std::int64_t{head.value} * problem_.q_tiles() + q;
    return chain_at_[at(tile * rounds_ + round)];
  }
  [[nodiscard]] std::int32_t& q_at(std::int32_t chain, std::int64_t round) {
    Colored& colored = chains_[at(chain)];
    return colored.q_at[at(round - colored.start)];
  }

  void set(const Edge& edge, std::int64_t round) {
    q_at(edge.chain, round) = edge.q;
    chain_at(chains_[at(edge.chain)].chain.head, edge.q, round) = edge.chain;
  }
  void clear(const Edge& edge, std::int64_t round) {
    q_at(edge.chain, round) = kFree;
    chain_at(chains_[at(edge.chain)].chain.head, edge.q, round) = kFree;
  }

  /// Slots of the chain that no task has yet.
  [[nodiscard]] std::vector<std::int64_t> free_rounds(std::int32_t chain) const {
    const Colored& colored = chains_[at(chain)];
    std::vector<std::int64_t> free;
    for (std::int64_t place = 0; place < colored.chain.length; ++place) {
      if (colored.q_at[at(place)] == kFree) free.push_back(colored.start + place);
    }
    return free;
  }

  bool color_free(const Edge& edge) {
    const Colored& colored = chains_[at(edge.chain)];
    for (std::int64_t place = 0; place < colored.chain.length; ++place) {
      const std::int64_t round = colored.start + place;
      if (colored.q_at[at(place)] != kFree) continue;
      if (chain_at(colored.chain.head, edge.q, round) != kFree) continue;
      set(edge, round);
      return true;
    }
    return false;
  }

  /// Frees a round of the chain at the dQ tile by exchanging it with one that is free there along
  /// an alternating path.
  bool color_by_path(const Edge& edge) {
    const Head head = chains_[at(edge.chain)].chain.head;
    int paths = 0;
    for (const std::int64_t wanted : free_rounds(edge.chain)) {
      const std::int64_t around = chains_[at(chain_at(head, edge.q, wanted))].start;
      for (std::int64_t step = 0; step < rounds_; ++step) {
        const std::int64_t other =
            (around + step) % rounds_;  // near where the one in the way may go
        if (chain_at(head, edge.q, other) != kFree) continue;
        if (exchange(head, edge.q, wanted, other)) {
          set(edge, wanted);
          return true;
        }
        if (++paths >= kMostPaths) return false;
      }
    }
    return false;
  }

  /// Exchanges two rounds along the path that begins at a dQ tile with `from`; false if a chain on
  /// it does not have both rounds.
  bool exchange(Head head, std::int32_t q, std::int64_t from, std::int64_t to) {
    std::vector<Edge> had_from;
    std::vector<Edge> had_to;
    for (;;) {
      const std::int32_t chain = chain_at(head, q, from);
      if (chain == kFree) break;
      if (!chains_[at(chain)].has(to)) return false;
      had_from.push_back({chain, q});
      q = q_at(chain, to);
      if (q == kFree) break;
      had_to.push_back({chain, q});
    }
    for (const Edge& edge : had_from)
      clear(edge, from);
    for (const Edge& edge : had_to)
      clear(edge, to);
    for (const Edge& edge : had_from)
      set(edge, to);
    for (const Edge& edge : had_to)
      set(edge, from);
    return true;
  }

  /// Gives the task one of a few random rounds of its chain, the one where it puts the fewest
  /// others out: the one that has the dQ tile there, and its own chain's, unless that can have the
  /// chain's free round. Those are coloured anew.
  void evict_for(const Edge& edge) {
    constexpr int kTried = 12;
    const Colored& colored = chains_[at(edge.chain)];
    const Head head = colored.chain.head;
    const std::int64_t free = free_rounds(edge.chain).front();
    std::int64_t best = free;
    int least = 3;
    for (int tried = 0; tried < kTried; ++tried) {
      const std::size_t place = dice_.roll(at(colored.chain.length));
      const std::int64_t round = colored.start + static_cast<std::int64_t>(place);
      const std::int32_t own = q_at(edge.chain, round);
      const int evicted = (chain_at(head, edge.q, round) != kFree ? 1 : 0) +
                          (own != kFree && chain_at(head, own, free) != kFree ? 1 : 0);
      if (evicted >= least) continue;
      least = evicted;
      best = round;
    }
    const std::int32_t own = q_at(edge.chain, best);
    if (own != kFree) put_out({edge.chain, own}, best);
    const std::int32_t other = chain_at(head, edge.q, best);
    if (other != kFree) put_out({other, edge.q}, best);
    set(edge, best);
  }

  void put_out(const Edge& edge, std::int64_t round) {
    clear(edge, round);
    uncolored_.push_front(edge);
  }

  [[nodiscard]] RoundTimes times() const {
    RoundTimes times;
    for (const Colored& colored : chains_) {
      for (std::size_t place = 0; place < colored.q_at.size(); ++place) {
        times.push_back({{colored.chain.head, colored.chain.kv, QTile{colored.q_at[place]}},
                         colored.start + static_cast<std::int64_t>(place)});
      }
    }
    return times;
  }

  const Problem& problem_;
  Dice dice_;
  std::vector<Colored> chains_;
  std::int64_t rounds_ = 0;
  std::vector<std::int32_t> chain_at_;  ///< by dQ tile and round
  std::deque<Edge> uncolored_;
};

}  // namespace

std::optional<RoundTimes> color_edges(const Problem& problem, const ChainLanes& lanes,
                                      std::uint64_t seed, std::int64_t moves, const Stop& stop) {
  return EdgeColoring(problem, lanes, seed).run(moves, stop);
}

}  // namespace stagger::search
