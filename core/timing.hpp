#pragma once

#include "core/memory.hpp"
#include "core/problem.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace stagger {

struct Table;
enum class Dispatch;

/// Model time. Integer, so that equality is exact. Wall time is never a Ticks.
using Ticks = std::int64_t;

/// How an SM's two halves of a task overlap (README, "The model").
enum class Model {
  chain,    ///< the paper's: compute k+1 starts when reduce k ends
  overlap,  ///< real kernels: a separate dQ writer with one shared-memory slot
};

inline constexpr const char* kModelNames[] = {"chain", "overlap"};
[[nodiscard]] constexpr const char* model_name(Model model) {
  return kModelNames[static_cast<int>(model)];
}

/// When the lock of a finished reduction shows the next rank.
enum class Release {
  immediate,  ///< at the reduction's end
  delayed,    ///< reduce/2 ticks (rounded down) into the same chain's next reduction, as in
              ///< FlashAttention-4 on sm100; a chain's last task releases at its end
};

inline constexpr const char* kReleaseNames[] = {"immediate", "delayed"};
[[nodiscard]] constexpr const char* release_name(Release release) {
  return kReleaseNames[static_cast<int>(release)];
}

/// Durations of the timing model, in ticks, all >= 0, each compute + reduce >= 1.
struct Timing {
  Model model = Model::chain;
  Ticks compute = 5;  ///< c: one tile's compute phase
  /// A partial tile's compute phase, whose pairs a kernel masks one by one; absent: `compute`.
  std::optional<Ticks> compute_partial = std::nullopt;
  Ticks reduce = 1;    ///< r: one tile's reduction into dQ
  Ticks latency = 0;   ///< from a lock's release until the next rank may start (ranks above 0)
  Ticks launch = 0;    ///< before each KV tile's chain
  Ticks epilogue = 0;  ///< after each KV tile's chain (dK and dV are written)
  /// A chain's reduction into the dK and dV of its KV tile, after its last one into dQ and before
  /// its epilogue: where parts are combined in order (Combine::ordered), each in its turn.
  Ticks reduce_kv = 0;
  bool reduce_kv_async = false;  ///< a writer's: the SM goes on meanwhile, to its next reduction
  /// In the overlap model with dispatch in order: from the end of a lane's last reduction until its
  /// SM can launch the next lane, beside the chain's epilogue. Absent: no chain's epilogue begins
  /// before its last reduction has ended, and the next lane comes behind it, as in the chain model.
  std::optional<Ticks> next_lane = std::nullopt;
  Release release = Release::immediate;
  std::int32_t residency = 0;  ///< SMs that are really there; 0 = as many as the problem says
  /// Equal parts that a kernel takes a task in (core/as_played.hpp), one after the other, each with
  /// a dQ tile and a turn of its own; phases are of all of them. 1 to kMaxSteps.
  std::int32_t steps = 1;
  /// Whether a KV tile that the sequence ends within computes as a partial one, whose pairs are
  /// masked as well, though all that it has attend.
  bool cut_partial = false;
  /// The memory that can make a table slower than its phases; absent: none is modelled, as in the
  /// paper.
  std::optional<Memory> memory = std::nullopt;

  /// The least time from one reduction of an SM to its next, of full tiles.
  [[nodiscard]] Ticks cycle() const {
    return model == Model::chain ? compute + reduce : std::max(compute, reduce);
  }
  /// From a lock's release until the next rank may start, as long as a list of tasks plans for: on
  /// a busy device, and where chance adds twice its mean, no less than to seven of eight
  /// hand-overs.
  [[nodiscard]] Ticks planned_hand_over() const {
    return latency + (memory ? memory->congestion + 2 * memory->spread : 0);
  }
  /// From a reduction's start until that of the next rank, as a list of tasks plans: where both are
  /// in steps, each step follows the one of the rank before.
  [[nodiscard]] Ticks planned_turn() const {
    return (reduce + steps - 1) / steps + planned_hand_over();
  }
  /// Whether an SM goes on after a chain's last hand-over, while its writer drains, where it does
  /// not stay to combine.
  [[nodiscard]] bool drains(Dispatch dispatch) const;
  /// From the end of a lane's last reduction until its SM can launch another, which it never does
  /// before the lane has ended.
  [[nodiscard]] Ticks lane_gap(Dispatch dispatch) const;
  /// Whether partial tiles compute as long as full ones.
  [[nodiscard]] bool uniform() const { return !compute_partial || *compute_partial == compute; }
  /// A live tile's compute phase.
  [[nodiscard]] Ticks compute_of(TileKind kind) const {
    return kind == TileKind::partial && compute_partial ? *compute_partial : compute;
  }
  [[nodiscard]] Ticks compute_of(const Problem& problem, const Task& task) const {
    return compute_partial ? compute_of(problem.kind(task)) : compute;
  }
  [[nodiscard]] Ticks shortest_compute() const {
    return std::min(compute, compute_partial.value_or(compute));
  }
  [[nodiscard]] Ticks longest_compute() const {
    return std::max(compute, compute_partial.value_or(compute));
  }
};

/// Throws Error{usage} if a duration is negative or some compute + reduce is 0, and Error{limit} if
/// all of the problem's tasks one after the other, on every SM at once, could exceed 2^60 ticks:
/// whatever adds up makespans, idle SMs or a formula's halves after that fits Ticks. So does what a
/// memory could take for all bytes touched, at most 2^56.
void check_timing(const Timing& timing, const Problem& problem);

/// Throws what check_timing() of its problem does, and Error{limit} if the table is wrong and has
/// so many tasks or chains more that playing it could exceed 2^60 ticks. O(tasks).
void check_timing(const Timing& timing, const Table& table);

}  // namespace stagger
