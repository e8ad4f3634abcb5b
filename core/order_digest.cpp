// A slot's place in the two orders that it is in: among the partials of its dQ tile by its rank,
// and along its chain by when it comes. Both are laid out for all heads in arrays of one entry a
// task, and each part's stretch of them is hashed: no order is kept beside its hash.

#include "core/order_digest.hpp"

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/rank_places.hpp"

#include <set>
#include <vector>

namespace stagger {
namespace {

/// For every (head, q, rank), which KV tile has it; as RankPlaces numbers them.
std::vector<std::int32_t> kv_by_rank(const Table& table) {
  const RankPlaces places(table.problem);
  std::vector<std::int32_t> tiles(places.size(), -1);
  for (const auto& [task, rank] : table.slots) {
    STAGGER_EXPECTS(rank >= 0 && rank < table.problem.contributions(task));
    std::int32_t& tile = tiles[places.of(task, rank)];
    STAGGER_EXPECTS(tile == -1);
    tile = task.kv.value;
  }
  return tiles;
}

/// The hashes of chains, by Problem::chain_place: of a chain's heads, by their place in the part,
/// and Q tiles in its order.
std::vector<Hash> chains(const Table& table) {
  const Problem& problem = table.problem;
  std::vector<Hash> hashes(at(problem.chains()));
  for (const auto& [task, rank] : table.slots) {
    Hash& hash = hashes[at(problem.chain_place(task))];
    hash.add(task.head.value % problem.span);
    hash.add(task.q.value);
  }
  return hashes;
}

/// The order in which the parts of every KV head's KV tiles are combined.
void add_dkv_ranks(const Table& table, Hash& hash) {
  const Problem& problem = table.problem;
  for (Part part{0}; part.value < problem.parts(); ++part) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
      if (problem.chain_length(part, kv) > 0) hash.add(table.dkv_rank(part, kv));
  }
}

}  // namespace

HeadOrders head_orders(const Table& table) {
  const Problem& problem = table.problem;
  const RankPlaces places(problem);
  const std::vector<std::int32_t> tiles = kv_by_rank(table);
  const std::vector<Hash> of_chains = chains(table);
  HeadOrders orders;
  std::set<std::uint64_t> distinct;
  Hash all;
  for (Part part{0}; part.value < problem.parts(); ++part) {
    Hash hash;
    for (std::int32_t member = 0; member < problem.span; ++member) {
      const Head head{part.value * problem.span + member};
      for (QTile q{0}; q.value < problem.q_tiles(); ++q) {
        hash.add(problem.contributions(head, q));
        for (std::int32_t rank = 0; rank < problem.contributions(head, q); ++rank)
          hash.add(tiles[places.of({head, {}, q}, rank)]);
      }
    }
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
      hash.add_long(of_chains[at(problem.chain_place(part, kv))].value());
    if (part.value == 0) orders.first = hash.value();
    distinct.insert(hash.value());
    all.add_long(hash.value());
  }
  orders.digest = all.value();
  orders.distinct = static_cast<std::int32_t>(distinct.size());
  return orders;
}

std::uint64_t order_digest(const Table& table, std::int32_t numerics, std::int64_t head_dim) {
  return order_digest(table, head_orders(table), numerics, head_dim);
}

std::uint64_t order_digest(const Table& table, const HeadOrders& orders, std::int32_t numerics,
                           std::int64_t head_dim) {
  const Problem& problem = table.problem;
  Hash hash;
  for (const std::int64_t word :
       {std::int64_t{numerics}, problem.shape.q, problem.shape.kv, head_dim,
        std::int64_t{problem.group()}, std::int64_t{problem.span}}) {
    hash.add_long(static_cast<std::uint64_t>(word));
  }
  hash.add(static_cast<std::int32_t>(problem.combine));
  hash.add_long(orders.digest);
  if (problem.combine == Combine::ordered) add_dkv_ranks(table, hash);
  return hash.value();
}

}  // namespace stagger
