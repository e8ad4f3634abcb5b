#pragma once

#include "core/table.hpp"
#include "core/timeline.hpp"
#include "core/timing.hpp"
#include "core/wait.hpp"
#include "gpu/check/clock_dip.hpp"
#include "gpu/numerics/dtype.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::gpu {

/// What a run does with the dQ partials.
enum class Mode {
  deterministic,  ///< added in the order of the table's ranks
  atomic,         ///< added as they come: the baseline that is not deterministic
  no_reduce,      ///< not added: compute alone, dQ stays 0
};
inline constexpr const char* kModeNames[] = {"deterministic", "atomic", "no-reduce"};
[[nodiscard]] constexpr const char* mode_name(Mode mode) {
  return kModeNames[static_cast<int>(mode)];
}

struct BackwardOptions {
  Mode mode = Mode::deterministic;
  Dtype dtype = Dtype::fp32;  ///< requires that it has each input: is_exact(inputs, dtype)
  Release release = Release::immediate;
  std::int32_t residency = 0;            ///< lanes that run at once; 0 = the problem's SMs
  std::chrono::milliseconds timeout{0};  ///< the longest any task may wait for its turn; 0 = ever
  std::optional<std::uint64_t> perturb = std::nullopt;  ///< seed of random delays
  bool keep_partials = false;
  bool stamped = true;       ///< CUDA: false is an untimed run, which leaves `times` empty
  std::int32_t threads = 0;  ///< CPU workers; 0 = default_threads()
};

/// How a run ended.
enum class Outcome {
  finished,
  deadlock,  ///< nothing could move any more
  timeout,   ///< a task waited for longer than `timeout`
};

/// When a task's phases were, in ns since the run's start; -1 if it did not come to that.
struct TaskTimes {
  std::int64_t compute_start = -1;
  std::int64_t compute_end = -1;
  std::int64_t turn = -1;  ///< its rank's turn was granted
  std::int64_t reduce_end = -1;
};

/// When a chain was reduced into dK and dV in its turn, in ns since the run's start; -1 if it did
/// not come to that.
struct ChainTimes {
  std::int64_t ready = -1;  ///< its last task had reduced; the hopper kernel: was handed over
  std::int64_t turn = -1;   ///< its rank's turn was granted
  std::int64_t end = -1;
};

/// Numbers that the run's dtype has.
struct Gradients {
  std::vector<float> dq;
  std::vector<float> dk;
  std::vector<float> dv;
};

/// What a table's backward pass left behind, on whichever device.
struct Backward {
  Outcome outcome = Outcome::finished;
  Gradients gradients;
  /// What the additions under the semaphores left of dQ in a 16-bit format, in fp32 and before
  /// scale and rounding; empty in fp32, where that is gradients.dq.
  std::vector<float> dq_sums;
  /// The dQ partial of every slot, (slot, query in the tile, head_dim), rows beyond a ragged tile
  /// 0; empty unless kept. With the scale in fp32, else without.
  std::vector<float> partials;
  /// What the additions of a KV head's parts left of dK and dV, in fp32 and before scale and
  /// rounding; empty where a KV head has one part, or where parts are scaled and rounded before
  /// they are added, so that their sum, rounded, is the gradient.
  std::vector<float> dk_sums;
  std::vector<float> dv_sums;
  /// Each part's own dK and dV as they are added, (part, key, head_dim); empty unless kept, or
  /// where a KV head has one part.
  std::vector<float> dk_partials;
  std::vector<float> dv_partials;
  /// The slot that was the n-th to reduce into (head, q), -1 = none; by (head, q, n), as RankPlaces
  /// numbers them.
  std::vector<std::int64_t> witness;
  /// Where dK and dV are combined in order: the part that was the n-th to reduce into a KV tile's,
  /// -1 = none, by Problem::dkv_place, n; when, by Problem::chain_place; what the semaphores show
  /// at the end, by Problem::dkv_place. Else empty.
  std::vector<std::int32_t> dkv_witness;
  std::vector<ChainTimes> chain_times;
  std::vector<std::int32_t> dkv_lock_values;
  std::vector<TaskTimes> times;           ///< by slot
  std::int64_t times_error_ns = 0;        ///< times of two SMs compare to this; CPU: one clock, 0
  ClockDip dip;                           ///< CUDA, stamped runs: how the clock dipped
  std::vector<std::int32_t> lock_values;  ///< by (head, q): what the semaphore shows at the end
  std::vector<Sm> lane_sms;               ///< by lane; -1 if it was never launched
  std::vector<std::int32_t> smids;        ///< CUDA: by SM, the number that the hardware gives it
  /// The next slot to reduce by lane, or the last slot of the chain that waits for its turn at dK
  /// and dV.
  std::vector<std::int64_t> next_slots;
  std::int64_t elapsed_ns = 0;  ///< of all its kernels
  /// What an untimed warm-up just before took, so that the difference is what stamps cost. CUDA; 0
  /// without one.
  std::int64_t untimed_ns = 0;
  /// What passes over whole tensors before and after the table's kernel take of an untimed run,
  /// with starting them. CUDA; 0 where a kernel has none. Measured in a warm-up of its own, so that
  /// the marks are no part of elapsed_ns; 0 without one.
  std::int64_t passes_ns = 0;

  /// Returns dQ as its partials add up to it.
  [[nodiscard]] const std::vector<float>& dq_added() const {
    return dq_sums.empty() ? gradients.dq : dq_sums;
  }
  /// Returns dK as its parts add up to it, and dV.
  [[nodiscard]] const std::vector<float>& dk_added() const {
    return dk_sums.empty() ? gradients.dk : dk_sums;
  }
  [[nodiscard]] const std::vector<float>& dv_added() const {
    return dv_sums.empty() ? gradients.dv : dv_sums;
  }
};

/// Ends a run in a 16-bit format whose gradients.dq are still sums: those go to dq_sums, and dQ is
/// they times the scale, rounded. fp32 has nothing to end.
void end_dq(Backward& run, float scale, Dtype dtype);

/// Ends a run whose KV heads have several parts: dK and dV are their sums, with the scale and
/// rounded. Without parts there is nothing to end.
void end_dkv(Backward& run, float scale, Dtype dtype);

/// Adds the parts of every KV head in their order, the first stored: by the ranks of their chains
/// where they are combined in order, else upwards. Requires partials of (part, key, head_dim), and
/// ranks that are an order.
[[nodiscard]] std::vector<float> sum_of_parts(const Table& table,
                                              const std::vector<float>& partials);

/// Whether every live task of a table is there exactly once and no chain is split.
[[nodiscard]] bool is_complete(const Table& table);

/// Says how a run ended whose lanes all left at their next wait, because one had waited for too
/// long on `sms` SMs: a deadlock if none of them could have gone on, else a timeout. Requires its
/// times.
[[nodiscard]] Outcome outcome_when_stopped(const Table& table, const Backward& backward,
                                           std::int32_t sms);

/// Lists who waits for whom when a run has stopped: every task whose turn has not come, by lane,
/// then the lanes that they wait for and that were never launched.
[[nodiscard]] std::vector<Wait> waits(const Table& table, const Backward& backward);

/// Returns how long a hand-over took, from a reduction's end until the next rank had its turn: the
/// median, in ns, of those that were waited for (its task had computed before). 0 if none was.
[[nodiscard]] std::int64_t median_hand_over_ns(const Table& table, const Backward& backward);

/// Returns the measured timeline in ns. The makespan is the end of the last phase.
[[nodiscard]] Timeline measured_timeline(const Table& table, const Backward& backward,
                                         const std::string& device);

}  // namespace stagger::gpu
