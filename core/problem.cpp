#include "core/problem.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/span.hpp"
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
void check_size(const HeadGrids& grids, std::int32_t heads) {
  const std::int32_t kv_tiles = grids.distinct().front().kv_tiles();
  const std::int32_t q_tiles = grids.distinct().front().q_tiles();
  const std::int64_t tiles = std::int64_t{kv_tiles} * q_tiles;
  const std::int64_t locks = std::int64_t{kv_tiles} + q_tiles;
  const std::int64_t live = grids.live_tiles(heads);
  const std::string problem = std::to_string(heads) + " heads of " + std::to_string(kv_tiles) +
                              " x " + std::to_string(q_tiles) + " tiles, " +
                              (grids.all_alike() ? std::to_string(live / heads) + " of them live"
                                                 : std::to_string(live) + " live in all");
  // A chain costs as much as a task: where each has one task only, that is twice as much.
  if (live + grids.live_chains(heads) > kMaxTasks) {
    throw Error(ErrorKind::limit, problem + ": above the limit of " + std::to_string(kMaxTasks) +
                                      " tasks and chains (" +
                                      std::to_string(kMaxTasks * kBytesPerTask >> 30) + " GiB)");
  }
  if ((tiles > 0 && heads > kMaxProblemTiles / tiles) || heads * locks > kMaxLocks) {
    throw Error(ErrorKind::limit, problem +
                                      ": too large a grid for so few live tiles; the limit is " +
                                      std::to_string(kMaxProblemTiles) + " tiles and " +
                                      std::to_string(kMaxLocks) + " KV and Q tiles in all heads");
  }
}

std::string describe(const Mask& mask);

/// `by head: causal; full`, or how many masks there are.
std::string describe_by_head(const Mask& mask) {
  constexpr std::size_t kListed = 4;
  const std::vector<Mask>& masks = mask.masks("of");
  if (masks.size() > kListed) return "by head: " + std::to_string(masks.size()) + " masks";
  std::string line;
  for (const Mask& each : masks)
    line += (line.empty() ? "by head: " : "; ") + describe(each);
  return line;
}

/// `sliding left=4 right=all`, `document lengths(3) causal`; -1 is unbounded wherever it may stand.
std::string describe(const Mask& mask) {
  if (mask.family->by_head) return describe_by_head(mask);
  const auto parts = mask.values.find("of");
  if (parts != mask.values.end()) {
    std::string line;
    for (const Mask& part : std::get<std::vector<Mask>>(parts->second)) {
      const bool apart = part.values.contains("of");
      line += (line.empty() ? "" : std::string(" ") + mask.family->name + " ") +
              (apart ? "(" + describe(part) + ")" : describe(part));
    }
    return line;
  }
  std::string line = mask.family->name;
  for (const auto& [key, value] : mask.values) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      line += " " + key + "=" + (*integer == -1 ? "all" : std::to_string(*integer));
    } else if (const auto* boolean = std::get_if<bool>(&value)) {
      if (*boolean) line += " " + key;
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      if (!list->empty()) line += " " + key + "(" + std::to_string(list->size()) + ")";
    }
  }
  return line;
}

}  // namespace

const TileGrid& Problem::common_grid() const {
  if (grids.all_alike()) return grids.distinct().front();
  throw Error(ErrorKind::unsupported, "heads have different masks: that is for one mask of all");
}

std::int32_t Problem::parts_with_tasks(KvHead kv_head, std::int32_t parts, KvTile kv) const {
  const std::int32_t first = kv_head.value * group_parts();
  std::int32_t count = 0;
  for (Part part{first}; part.value < first + parts; ++part)
    count += chain_length(part, kv) > 0 ? 1 : 0;
  return count;
}

Problem make_problem(Mask mask, const Lengths& lengths, const TileShape& shape, std::int64_t heads,
                     std::int64_t sms, const Grouping& grouping) {
  check_count("heads", heads, kMaxHeads);
  const std::int64_t heads_kv = grouping.heads_kv == 0 ? heads : grouping.heads_kv;
  check_count("KV heads", heads_kv, heads);
  if (heads % heads_kv != 0) {
    throw Error(ErrorKind::usage, std::to_string(heads_kv) + " KV heads do not divide " +
                                      std::to_string(heads) + " heads into equal groups");
  }
  HeadGrids grids = tile_heads(mask, lengths, shape, static_cast<std::int32_t>(heads));
  if (sms == 0) sms = std::max(grids.distinct().front().kv_tiles(), 1);
  check_count("SMs", sms, kMaxSms);
  check_size(grids, static_cast<std::int32_t>(heads));
  Problem problem{.heads = static_cast<std::int32_t>(heads),
                  .heads_kv = static_cast<std::int32_t>(heads_kv),
                  .sms = static_cast<std::int32_t>(sms),
                  .mask = std::move(mask),
                  .lengths = lengths,
                  .shape = shape,
                  .grids = std::move(grids)};
  const std::int64_t span = grouping.span == 0 ? span_rule(problem).span : grouping.span;
  return with_span(std::move(problem), span, grouping.combine);
}

Problem with_span(Problem problem, std::int64_t span, Combine combine) {
  if (span < 1 || problem.group() % span != 0) {
    throw Error(ErrorKind::usage, "a span of " + std::to_string(span) +
                                      " heads does not divide a group of " +
                                      std::to_string(problem.group()));
  }
  problem.span = static_cast<std::int32_t>(span);
  if (!problem.grids.alike_in_parts(problem.span)) {
    throw Error(ErrorKind::unsupported, "a chain of " + std::to_string(span) +
                                            " heads, some of which have different masks, would "
                                            "be ragged: give a span within which masks are alike");
  }
  if (problem.span == problem.group()) {
    combine = Combine::none;
  } else if (combine == Combine::none) {
    throw Error(ErrorKind::usage, "chains of " + std::to_string(span) + " of " +
                                      std::to_string(problem.group()) +
                                      " heads leave parts of dK and dV to combine");
  }
  problem.combine = combine;
  return problem;
}

Problem problem_of_parts(Problem problem) {
  problem.grids = problem.grids.of_parts(problem.span);
  problem.heads = problem.parts();
  problem.span = 1;
  return problem;
}

void expect_one_mask(const Problem& problem, const char* what) {
  if (mask_heads(problem.mask) == 0) return;
  throw Error(ErrorKind::unsupported,
              std::string(what) +
                  " does not know heads with masks of their own yet: give one mask "
                  "for all heads");
}

std::string describe(const Task& task) {
  return "(head " + std::to_string(task.head.value) + ", kv " + std::to_string(task.kv.value) +
         ", q " + std::to_string(task.q.value) + ")";
}

std::string describe(const Problem& problem) {
  std::string line = describe(problem.mask) + ", " + std::to_string(problem.kv_tiles()) + " KV x " +
                     std::to_string(problem.q_tiles()) + " Q tiles";
  if (problem.shape != TileShape{}) {
    line += " of " + std::to_string(problem.shape.kv) + " x " + std::to_string(problem.shape.q) +
            " tokens";
  }
  line += ", " + counted(problem.heads, "head");
  if (problem.group() > 1) {
    line += " of " + counted(problem.heads_kv, "KV head") + ", " + std::to_string(problem.span) +
            " a chain";
  }
  return line + " on " + counted(problem.sms, "SM") + ": " + counted(problem.tasks(), "task");
}

}  // namespace stagger
