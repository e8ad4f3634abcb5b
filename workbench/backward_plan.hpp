#pragma once

#include "core/machine.hpp"
#include "core/table.hpp"
#include "dag/verify.hpp"
#include "gpu/hopper/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace stagger::workbench {

/// Another number: one table may give other bits than before.
inline constexpr std::int32_t kNumerics = 1;

/// How the CTAs of a plan start.
enum class PlanLaunch { cooperative, elastic };

/// What the backward pass of somebody's tensors is to be planned for.
struct PlanRequest {
  Mask mask;
  Lengths lengths;
  std::int64_t batch = 1;
  std::int64_t heads_q = 1;   ///< of a batch entry
  std::int64_t heads_kv = 1;  ///< divides heads_q
  std::int64_t span = 0;      ///< heads of a chain; 0: the fastest, or the table's
  std::int64_t head_dim = 128;
  gpu::Dtype dtype = gpu::Dtype::bf16;
  std::int64_t sms = 132;
  std::int64_t tile_q = 0;   ///< 0: the fastest by the profile, 64 where it has none
  std::int64_t tile_kv = 0;  ///< 0: 128
  PlanLaunch launch = PlanLaunch::cooperative;
  bool verify = true;
  bool invariant = false;
  std::string schedule = "auto";        ///< `auto` is a pure function of the rest; `auto:search`
                                        ///< tries `windowed` too, which goes by the profile's times
  std::optional<Table> table = {};      ///< in the place of a schedule
  std::optional<Machine> machine = {};  ///< absent: an H200's profile
};

/// A table for somebody's tensors, verified, and what a device needs of it.
struct BackwardPlan {
  Table table;
  std::string schedule = {};  ///< as it was chosen, with its parameters; of a given table its name
  std::int32_t batch = 1;
  std::int64_t head_dim = 0;
  gpu::Dtype dtype = gpu::Dtype::bf16;
  PlanLaunch launch = PlanLaunch::cooperative;
  std::int32_t resident_needed = 0;
  bool invariant = false;
  std::uint64_t order_digest = 0;  ///< 0 of a table that was not verified
  std::uint64_t table_digest = 0;
  Ticks predicted_ns = 0;      ///< 0: the profile has no such entry
  Machine machine = {};        ///< what counts of the profile: its memory, and this kernel's times
  std::string host_only = {};  ///< why the kernel has no plan; empty if it has
  std::optional<gpu::hopper::Plan> device = {};

  /// Query heads of a batch entry, and KV heads.
  [[nodiscard]] std::int32_t heads_q() const { return table.problem.heads / batch; }
  [[nodiscard]] std::int32_t heads_kv() const { return table.problem.heads_kv / batch; }
  [[nodiscard]] std::int64_t host_bytes() const;
};

/// A table that cannot be played: what is wrong with it, as dag::verify() found it.
struct BrokenTable {
  dag::Verdict verdict = dag::Verdict::invalid;
  std::string message;
};
/// A table that needs more CTAs at once than there are, or than elastic launch promises.
struct TooFewCtas {
  std::string message;
};

/// Makes a plan, O(tasks) for every schedule that is tried. Throws Error{usage}, Error{limit},
/// Error{unsupported} with the reason.
[[nodiscard]] std::variant<BackwardPlan, BrokenTable, TooFewCtas> plan_backward(
    const PlanRequest& request);

/// The profile that plans go by unless another is given.
[[nodiscard]] const Machine& default_machine();

}  // namespace stagger::workbench
