#include "schedules/search/round_symmetry.hpp"

#include <cstdint>
#include <map>
#include <utility>

namespace stagger::search {
namespace {

/// The first chains of parts that are alike, each with that of the next such part.
std::vector<ChainPair> parts_alike(const Problem& problem, const std::vector<Chain>& chains) {
  const bool in_turn = problem.combine == Combine::ordered;
  std::vector<ChainPair> pairs;
  std::map<std::pair<std::int32_t, KvHead>, std::size_t> last_first;
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    const Head head = chains[chain].head;
    if (chain > 0 && chains[chain - 1].head == head) continue;
    const std::pair key{problem.grids.place_of(head),
                        in_turn ? problem.kv_head_of(head) : KvHead{}};
    const auto [first, is_new] = last_first.emplace(key, chain);
    if (!is_new) pairs.emplace_back(std::exchange(first->second, chain), chain);
  }
  return pairs;
}

/// The first chains of KV tiles whose rows are equal, each with that of the next such KV tile: rows
/// of a part, or of all parts of a KV head where those are added in turn.
std::vector<ChainPair> rows_alike(const Problem& problem, const std::vector<Chain>& chains) {
  const bool in_turn = problem.combine == Combine::ordered;
  using Row = std::pair<std::int32_t, std::vector<QTile>>;  // of which part
  struct Rows {
    std::size_t first = 0;
    std::vector<Row> rows = {};
  };
  std::map<std::pair<std::int32_t, KvTile>, Rows> by_tile;
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    const auto& [head, kv, length] = chains[chain];
    const std::int32_t part = problem.part_of(head).value;
    const std::int32_t owner = in_turn ? problem.kv_head_of(head).value : part;
    Rows& tile = by_tile.try_emplace({owner, kv}, Rows{chain}).first->second;
    tile.rows.emplace_back(part, problem.grid_of(head).live_q(kv));
  }
  std::vector<ChainPair> pairs;
  std::map<std::pair<std::int32_t, std::vector<Row>>, std::size_t> last;
  for (auto& [place, tile] : by_tile) {
    const auto [same, is_new] =
        last.emplace(std::pair{place.first, std::move(tile.rows)}, tile.first);
    if (!is_new) pairs.emplace_back(std::exchange(same->second, tile.first), tile.first);
  }
  return pairs;
}

}  // namespace

std::vector<ChainPair> ordered_chains(const Problem& problem, const std::vector<Chain>& chains) {
  std::vector<ChainPair> ordered = parts_alike(problem, chains);
  const std::vector<ChainPair> rows = rows_alike(problem, chains);
  ordered.insert(ordered.end(), rows.begin(), rows.end());
  return ordered;
}

}  // namespace stagger::search
