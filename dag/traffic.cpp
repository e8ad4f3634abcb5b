#include "dag/traffic.hpp"

#include "core/checked.hpp"

#include <algorithm>
#include <vector>

namespace stagger::dag {
namespace {

/// Q tiles of a chain that its SM may load before the chain before it has made its last addition:
/// one is computed and waits for the writer, one is loaded ahead.
constexpr std::int64_t kAhead = 2;

/// The Q tiles of all heads that somebody computes with.
std::int64_t q_tiles_touched(const Problem& problem) {
  const std::vector<std::int32_t> heads = problem.grids.counts(problem.heads);
  std::int64_t tiles = 0;
  for (std::size_t place = 0; place < heads.size(); ++place) {
    const TileGrid& grid = problem.grids.distinct()[place];
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      tiles += grid.contributions(q) > 0 ? heads[place] : 0;
  }
  return tiles;
}

/// The KV tiles of all KV heads whose K and V somebody reads.
std::int64_t kv_tiles_read(const Problem& problem) {
  const std::int32_t kv_heads = problem.grids.all_alike() ? 1 : problem.heads_kv;
  std::int64_t tiles = 0;
  for (KvHead kv_head{0}; kv_head.value < kv_heads; ++kv_head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
      tiles += problem.dkv_contributions(kv_head, kv) > 0 ? 1 : 0;
  }
  return tiles * (problem.heads_kv / kv_heads);
}

/// Bytes that a chain of so many tasks moves even where L2 holds the best that it can at its start:
/// a dQ tile that it keeps saves a read and the write before it, a Q tile a read.
std::int64_t pass(std::int64_t tasks, const Memory& memory) {
  const TileBytes& tile = memory.tile;
  const std::int64_t touched =
      tasks * 2 * tile.dq + std::max<std::int64_t>(tasks - kAhead, 0) * tile.q;
  return std::max<std::int64_t>(touched - memory.l2 - std::min(memory.l2, tasks * tile.dq), 0);
}

/// Bytes of Q and of dQ before its last addition that the passes of some SM move: the average over
/// the SMs at least. A dQ tile's first addition, once a tile, reads nothing.
std::int64_t passes(const Problem& problem, const Memory& memory, std::int64_t sms,
                    std::int64_t q_tiles) {
  const std::vector<std::int32_t> heads = problem.grids.counts(problem.heads);
  std::int64_t bytes = 0;
  for (std::size_t place = 0; place < heads.size(); ++place) {
    const TileGrid& grid = problem.grids.distinct()[place];
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      const std::int64_t tasks = std::int64_t{problem.span} * grid.chain_length(kv);
      bytes += heads[place] / problem.span * pass(tasks, memory);
    }
  }
  return divide_up(bytes, sms) - 2 * q_tiles * memory.tile.dq;
}

}  // namespace

std::int64_t least_traffic(const Problem& problem, const Memory& memory, std::int64_t sms) {
  const TileBytes& tile = memory.tile;
  const std::int64_t q_tiles = q_tiles_touched(problem);
  const std::int64_t kv_tiles = kv_tiles_read(problem);
  // Parts that are combined in order share a tile of dK and dV, which L2 may keep as it may dQ;
  // others have one each, which goes past it.
  const bool ordered = problem.combine == Combine::ordered;
  const std::int64_t kept = q_tiles * tile.dq + (ordered ? kv_tiles * tile.gradient : 0);
  const std::int64_t streamed =
      ordered ? 0 : problem.grids.live_chains(problem.heads) / problem.span * tile.gradient;
  return kv_tiles * tile.kv + std::max(q_tiles * tile.q, passes(problem, memory, sms, q_tiles)) +
         streamed + std::max<std::int64_t>(kept - memory.l2, 0);
}

std::int64_t additions(const Problem& problem, const Memory& memory) {
  const auto taken = [&](std::int64_t bytes) {
    return bytes / 1000 * memory.add_permille + bytes % 1000 * memory.add_permille / 1000;
  };
  const std::int64_t to_dq = problem.tasks() - q_tiles_touched(problem);
  const std::int64_t to_dkv =
      problem.combine == Combine::ordered
          ? problem.grids.live_chains(problem.heads) / problem.span - kv_tiles_read(problem)
          : 0;
  return to_dq * taken(memory.tile.dq) + to_dkv * taken(memory.tile.gradient);
}

}  // namespace stagger::dag
