#pragma once

#include "core/head_grids.hpp"
#include "core/index.hpp"
#include "core/mask.hpp"

#include <compare>
#include <cstdint>
#include <string>

namespace stagger {

/// One live tile of one head: compute, then reduce into dQ[head, q].
struct Task {
  Head head;
  KvTile kv;
  QTile q;

  friend constexpr auto operator<=>(const Task&, const Task&) = default;
};

/// `(head 0, kv 3, q 5)`.
[[nodiscard]] std::string describe(const Task& task);

/// Where the parts of a KV head's dK and dV come together.
enum class Combine {
  none,      ///< there is one part: they stay in the registers of its chain
  partials,  ///< in a pass after the kernel, from a buffer a part
  ordered,   ///< in one accumulation a KV tile, each part in its turn: a second semaphore
};

inline constexpr const char* kCombineNames[] = {"none", "partials", "ordered"};
[[nodiscard]] constexpr const char* combine_name(Combine combine) {
  return kCombineNames[static_cast<int>(combine)];
}

/// Which heads share K and V, and which of those share chains; 0 for what is not given.
struct Grouping {
  std::int64_t heads_kv = 0;            ///< 0: as many as heads
  std::int64_t span = 0;                ///< heads of a chain; 0: by the rule of core/span.hpp
  Combine combine = Combine::partials;  ///< where the span is below the group
};

/// What is to be scheduled: `heads` tile grids on `sms` SMs, mostly copies of one.
///
/// A group of heads / heads_kv heads shares the K and V of a KV head: head h those of KV head
/// h / group. The heads of a group are cut into parts of `span`: a chain is all tasks of one part
/// and one KV tile. Without groups every head is a part of its own. The heads of a part have one
/// grid; other heads may have others, of as many tiles.
struct Problem {
  std::int32_t heads = 1;
  std::int32_t heads_kv = 1;        ///< divides heads
  std::int32_t span = 1;            ///< divides the group
  Combine combine = Combine::none;  ///< none if and only if the span is the group
  std::int32_t sms = 1;
  Mask mask;        ///< where the grids come from
  Lengths lengths;  ///< tokens
  TileShape shape;  ///< tokens a tile
  HeadGrids grids;  ///< == tile_heads(mask, lengths, shape, heads)

  [[nodiscard]] std::int64_t tasks() const { return grids.live_tiles(heads); }
  [[nodiscard]] std::int32_t kv_tiles() const { return grids.distinct().front().kv_tiles(); }
  [[nodiscard]] std::int32_t q_tiles() const { return grids.distinct().front().q_tiles(); }
  [[nodiscard]] const TileGrid& grid_of(Head head) const { return grids.of(head); }
  [[nodiscard]] const TileGrid& grid_of(Part part) const { return grids.of({part.value * span}); }
  /// What groups heads as they are grouped here, and combines parts by partials where there are
  /// none.
  [[nodiscard]] Grouping grouping() const {
    return {heads_kv, span, combine == Combine::none ? Combine::partials : combine};
  }
  /// The grid that all heads have. Throws Error{unsupported} if theirs differ.
  [[nodiscard]] const TileGrid& common_grid() const;
  /// Requires contains(task).
  [[nodiscard]] TileKind kind(const Task& task) const {
    return grid_of(task.head).kind(task.kv, task.q);
  }
  [[nodiscard]] bool live(const Task& task) const { return kind(task) != TileKind::empty; }
  /// Live KV tiles of a head's Q tile: the contributions to one dQ tile.
  [[nodiscard]] std::int32_t contributions(Head head, QTile q) const {
    return grid_of(head).contributions(q);
  }
  [[nodiscard]] std::int32_t contributions(const Task& task) const {
    return contributions(task.head, task.q);
  }
  /// Heads of a KV head.
  [[nodiscard]] std::int32_t group() const { return heads / heads_kv; }
  /// Parts of all KV heads, group by group.
  [[nodiscard]] std::int32_t parts() const { return heads / span; }
  /// Parts of a KV head.
  [[nodiscard]] std::int32_t group_parts() const { return group() / span; }
  [[nodiscard]] Part part_of(Head head) const { return {head.value / span}; }
  [[nodiscard]] KvHead kv_head_of(Head head) const { return {head.value / group()}; }
  [[nodiscard]] KvHead kv_head_of(Part part) const { return {part.value / group_parts()}; }
  /// Chains, with those of empty KV tiles, and a chain's place among them: by part, then KV tile.
  [[nodiscard]] std::int64_t chains() const { return std::int64_t{parts()} * kv_tiles(); }
  [[nodiscard]] std::int64_t chain_place(Part part, KvTile kv) const {
    return std::int64_t{part.value} * kv_tiles() + kv.value;
  }
  [[nodiscard]] std::int64_t chain_place(const Task& task) const {
    return chain_place(part_of(task.head), task.kv);
  }
  /// Tasks of a part's chain of a KV tile.
  [[nodiscard]] std::int64_t chain_length(Part part, KvTile kv) const {
    return std::int64_t{span} * grid_of(part).chain_length(kv);
  }
  /// Where the parts of a KV tile's dK and dV come together: by KV head, then KV tile.
  [[nodiscard]] std::int64_t dkv_place(KvHead kv_head, KvTile kv) const {
    return std::int64_t{kv_head.value} * kv_tiles() + kv.value;
  }
  [[nodiscard]] std::int64_t dkv_place(const Task& task) const {
    return dkv_place(kv_head_of(task.head), task.kv);
  }
  /// Parts that are added to a KV tile's dK and dV: those whose chains have tasks.
  [[nodiscard]] std::int32_t dkv_contributions(KvHead kv_head, KvTile kv) const {
    if (!grids.all_alike()) return parts_with_tasks(kv_head, group_parts(), kv);
    return chain_length(Part{0}, kv) > 0 ? group_parts() : 0;
  }
  /// A part's place among those, upwards. Requires its chain to have tasks.
  [[nodiscard]] std::int32_t place_among_parts(Part part, KvTile kv) const {
    const std::int32_t place = part.value % group_parts();
    return grids.all_alike() ? place : parts_with_tasks(kv_head_of(part), place, kv);
  }
  /// Whether two tasks are of one chain.
  [[nodiscard]] bool same_chain(const Task& task, const Task& other) const {
    return task.kv == other.kv &&
           (task.head == other.head || part_of(task.head) == part_of(other.head));
  }
  [[nodiscard]] bool contains(const Task& task) const {
    return task.head.value >= 0 && task.head.value < heads &&
           grids.distinct().front().contains(task.kv, task.q);
  }

 private:
  /// Of the first so many parts of a KV head, those whose chains of a KV tile have tasks.
  [[nodiscard]] std::int32_t parts_with_tasks(KvHead kv_head, std::int32_t parts, KvTile kv) const;
};

/// Tiles the mask and checks every size. `sms` = 0 means one SM per KV tile, the paper's
/// assumption. Throws Error{usage} if heads, SMs, KV heads or span are out of range, Error{limit}
/// above core/limits.hpp, Error{unsupported} if heads of a chain have different grids, and what
/// tile_heads() throws.
[[nodiscard]] Problem make_problem(Mask mask, const Lengths& lengths, const TileShape& shape,
                                   std::int64_t heads, std::int64_t sms,
                                   const Grouping& grouping = {});

/// The problem with chains of `span` heads. Throws Error{usage} if that does not divide the group,
/// Error{unsupported} if heads of a chain have different grids; `combine` counts where the span is
/// below the group, and cannot be `none` there.
[[nodiscard]] Problem with_span(Problem problem, std::int64_t span, Combine combine);

/// The problem with a head for every part: what is scheduled before the heads of a part are told
/// apart. Its chains are as many, each as long as for one head.
[[nodiscard]] Problem problem_of_parts(Problem problem);

/// Throws Error{unsupported} if heads have masks of their own; `what` cannot do that: `run`, `the
/// portable kernel`.
void expect_one_mask(const Problem& problem, const char* what);

/// One line: `causal, 8 KV x 8 Q tiles, 4 heads on 8 SMs: 144 tasks`; with groups, `8 heads of 2 KV
/// heads, 4 a chain`.
[[nodiscard]] std::string describe(const Problem& problem);

}  // namespace stagger
