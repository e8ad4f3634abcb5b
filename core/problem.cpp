#include "core/problem.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/tiling.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace stagger {
namespace {

void check_count(const char* what, std::int64_t count, std::int64_t most) {
  if (count < 1) {
    throw Error(ErrorKind::usage,
                std::string(what) + " must be 1 or more, not " + std::to_string(count));
  }
  if (count > most) {
    throw Error(ErrorKind::limit, std::to_string(count) + " " + what + "; at most " +
                                      std::to_string(most) + " are supported");
  }
}

/// Refuses what would not fit in memory, before it is asked for.
void check_size(const TileGrid& grid, std::int64_t heads) {
  const std::int64_t tiles = std::int64_t{grid.kv_tiles()} * grid.q_tiles();
  const std::int64_t locks = std::int64_t{grid.kv_tiles()} + grid.q_tiles();
  const std::int64_t live = grid.live_tiles();
  const std::string problem =
      std::to_string(heads) + " heads of " + std::to_string(grid.kv_tiles()) + " x " +
      std::to_string(grid.q_tiles()) + " tiles, " + std::to_string(live) + " of them live";
  if (live > 0 && heads > kMaxTasks / live) {
    throw Error(ErrorKind::limit, problem + ": above the limit of " + std::to_string(kMaxTasks) +
                                      " tasks (" + std::to_string(kMaxTasks * kBytesPerTask >> 30) +
                                      " GiB)");
  }
  if ((tiles > 0 && heads > kMaxProblemTiles / tiles) || heads * locks > kMaxLocks) {
    throw Error(ErrorKind::limit, problem +
                                      ": too large a grid for so few live tiles; the limit is " +
                                      std::to_string(kMaxProblemTiles) + " tiles and " +
                                      std::to_string(kMaxLocks) + " KV and Q tiles in all heads");
  }
}

}  // namespace

Problem make_problem(Mask mask, const Lengths& lengths, const TileShape& shape, std::int64_t heads,
                     std::int64_t sms) {
  check_count("heads", heads, kMaxHeads);
  TileGrid grid = tile(mask, lengths, shape);
  if (sms == 0) sms = std::max(grid.kv_tiles(), 1);
  check_count("SMs", sms, kMaxSms);
  check_size(grid, heads);
  return {.heads = static_cast<std::int32_t>(heads),
          .sms = static_cast<std::int32_t>(sms),
          .mask = std::move(mask),
          .lengths = lengths,
          .shape = shape,
          .grid = std::move(grid)};
}

}  // namespace stagger
