#pragma once

#include "core/problem.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/numerics/dtype.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::gpu {

/// What a stint makes of its tasks.
enum class Makes {
  all,  ///< dQ's partials, added to a buffer, and dK and dV of its KV tile
  dkv,  ///< dK and dV of its KV tile alone
  dq,   ///< dQ of its Q tile alone
};

/// Tasks of one tile, one after the other on one SM.
struct Stint {
  Makes makes = Makes::all;
  std::int32_t buffer = 0;  ///< of dQ's sums
  std::vector<Task> tasks;  ///< of one KV tile (all, dkv) or one Q tile (dq); not empty
};

/// Where dK and dV of heads that share K and V come together.
enum class HeadSums {
  none,     ///< in registers: a chain has all of them
  rounded,  ///< each head's is rounded to the dtype, then they are added upwards
  fp32,     ///< as they are, upwards
};

/// A backward pass in which nobody waits: kernels one after the other, of lanes that share nothing.
/// dQ is summed in buffers, which are added upwards at the end.
struct Program {
  using ProgramLane = std::vector<Stint>;
  struct Kernel {
    std::vector<ProgramLane> lanes;
  };
  Problem problem;  ///< a chain's heads are its span
  std::vector<Kernel> kernels;
  std::int32_t buffers = 1;
  HeadSums head_sums = HeadSums::none;
};

/// Says why a program makes no right gradients: a task whose dQ or whose dK and dV are made twice
/// or never, two lanes of a kernel that add to one place. nullopt if it does. O(tasks log tasks).
[[nodiscard]] std::optional<std::string> fault_of(const Program& program);

/// A run on a GPU is stopped after this if nothing else is said: nobody else has it meanwhile.
inline constexpr std::chrono::milliseconds kLongestProgram{60'000};

struct ProgramOptions {
  Dtype dtype = Dtype::fp32;                            ///< requires that it has each input
  std::int32_t threads = 1;                             ///< CPU: >= 1
  std::optional<std::uint64_t> perturb = std::nullopt;  ///< seed of random delays and lane orders
  bool keep_partials = false;
  bool witnessed = true;                 ///< CUDA: false leaves the witness empty
  std::chrono::milliseconds timeout{0};  ///< of a run; 0: CPU: ever, CUDA: kLongestProgram
};

/// What a run of a program left behind; of one that was too slow only its outcome counts.
struct ProgramRun {
  Outcome outcome = Outcome::finished;
  Gradients gradients;
  std::vector<float> dq_sums;   ///< of a 16-bit format: before scale and rounding; else empty
  std::vector<float> partials;  ///< by order_of()'s contributions; empty unless kept
  std::vector<float> dk_heads;  ///< (head, key, head_dim), without the scale; empty: none
  std::vector<float> dv_heads;
  /// The KV tiles as they were added, by (buffer, head, q).
  std::vector<std::vector<KvTile>> witness;
  std::int64_t elapsed_ns = 0;

  [[nodiscard]] const std::vector<float>& dq_added() const {
    return dq_sums.empty() ? gradients.dq : dq_sums;
  }
};

/// What runs programs.
using ProgramDevice = ProgramRun (*)(const Program&, const Attention&, const ProgramOptions&);

/// The order in which a program adds into dQ, told from its text alone: by (buffer, head, q) the KV
/// tiles, and the place of each live tile's partial.
struct ProgramOrder {
  std::vector<std::vector<KvTile>> added;
  std::vector<std::int64_t> place;  ///< by kv * q_tiles + q within a head; -1: not live
  std::int64_t head_tasks = 0;

  [[nodiscard]] std::int64_t place_of(const Task& task, std::int32_t q_tiles) const {
    return task.head.value * head_tasks +
           place[at(std::int64_t{task.kv.value} * q_tiles + task.q.value)];
  }
};
[[nodiscard]] ProgramOrder order_of(const Program& program);

/// Adds a run's own partials on the host in the program's order, buffer by buffer: dQ. Compare it
/// with dq_added().
[[nodiscard]] std::vector<float> reaccumulate(const Program& program, const AttentionShape& shape,
                                              const std::vector<float>& partials);

/// Adds heads' dK or dV upwards, rounded before or not, and ends them: with the scale, rounded.
[[nodiscard]] std::vector<float> sum_of_heads(const Program& program, const AttentionShape& shape,
                                              const std::vector<float>& heads, float scale,
                                              Dtype dtype);

/// The bytes of the dQ partials of a run that keeps them.
[[nodiscard]] std::int64_t partial_bytes(const Program& program, const AttentionShape& shape);

/// The bytes of a checked run on the host, its partials among them if they are kept.
[[nodiscard]] std::int64_t run_bytes(const Program& program, const AttentionShape& shape,
                                     bool partials);

}  // namespace stagger::gpu
