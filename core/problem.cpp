#include "core/problem.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"
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

/// `sliding left=4 right=all`, `document lengths(3) causal`; -1 is unbounded wherever it may stand.
std::string describe(const Mask& mask) {
  std::string line = mask.family->name;
  for (const auto& [key, value] : mask.values) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      line += " " + key + "=" + (*integer == -1 ? "all" : std::to_string(*integer));
    } else if (const auto* boolean = std::get_if<bool>(&value)) {
      if (*boolean) line += " " + key;
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      line += " " + key + "(" + std::to_string(list->size()) + ")";
    }
  }
  return line;
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

std::string describe(const Task& task) {
  return "(head " + std::to_string(task.head.value) + ", kv " + std::to_string(task.kv.value) +
         ", q " + std::to_string(task.q.value) + ")";
}

std::string describe(const Problem& problem) {
  std::string line = describe(problem.mask) + ", " + std::to_string(problem.grid.kv_tiles()) +
                     " KV x " + std::to_string(problem.grid.q_tiles()) + " Q tiles";
  if (problem.shape != TileShape{}) {
    line += " of " + std::to_string(problem.shape.kv) + " x " + std::to_string(problem.shape.q) +
            " tokens";
  }
  return line + ", " + counted(problem.heads, "head") + " on " + counted(problem.sms, "SM") + ": " +
         counted(problem.tasks(), "task");
}

}  // namespace stagger
