#pragma once

#include "core/block_rates.hpp"
#include "core/memory.hpp"
#include "core/timing.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger {

/// A duration as it was measured, in ns.
struct MeasuredNs {
  Ticks value = 0;
  Ticks low = 0;             ///< lower quartile of the samples
  Ticks high = 0;            ///< upper quartile
  std::int64_t samples = 0;  ///< 0: not measured, the value is a guess

  friend bool operator==(const MeasuredNs&, const MeasuredNs&) = default;
};

/// What a profile's values hold for. A kernel that does no arithmetic has no dtype and zeros.
struct KernelKey {
  std::string kernel;
  std::string dtype = {};     ///< "fp32", "bf16", "fp16"; empty: none
  std::int64_t head_dim = 0;  ///< elements
  TileShape tile{0, 0};       ///< tokens

  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};
/// `portable, fp32, head_dim 64, tiles of 64 x 128 tokens` (KV x Q); `replay`.
[[nodiscard]] std::string describe(const KernelKey& key);

/// How well a fit predicts the runs that it was made from: |predicted / measured - 1|, in
/// millionths.
struct FitErrors {
  std::int64_t median_ppm = 0;
  std::int64_t worst_ppm = 0;
  std::int64_t runs = 0;

  friend bool operator==(const FitErrors&, const FitErrors&) = default;
};

/// What one kernel's phases take on a machine. Of a kernel that only spins (no dtype), what each
/// phase takes beyond the time that it spins.
struct KernelTimes {
  KernelKey key = {};
  Model model = Model::chain;
  Release release = Release::immediate;
  std::int32_t steps = 1;    ///< Timing::steps
  bool cut_partial = false;  ///< Timing::cut_partial
  MeasuredNs compute = {};
  std::optional<MeasuredNs> compute_partial = std::nullopt;  ///< absent: as `compute`
  MeasuredNs reduce = {};
  MeasuredNs latency = {};
  /// What a hand-over takes longer while every SM of the device reduces as often as it can; absent:
  /// not measured, `latency` is that of a busy device.
  std::optional<MeasuredNs> congestion = std::nullopt;
  /// What a hand-over takes longer by chance, in the mean; absent: not measured, `latency` is that
  /// of a typical one.
  std::optional<MeasuredNs> spread = std::nullopt;
  /// How long after its begin the clock dips of a kernel that makes all SMs of the device reduce as
  /// often as they can; absent: not measured.
  std::optional<MeasuredNs> dip = std::nullopt;
  /// What of that those SMs lose, at most half; absent: not measured.
  std::optional<MeasuredNs> dip_loss = std::nullopt;
  MeasuredNs launch = {};
  MeasuredNs epilogue = {};
  /// A chain's reduction into dK and dV, where parts are combined in order; absent: not measured.
  std::optional<MeasuredNs> reduce_kv = std::nullopt;
  /// From the end of a lane's last reduction until its SM can launch the next one, where dispatch
  /// is in order; absent: not measured, and Timing::next_lane neither.
  std::optional<MeasuredNs> next_lane = std::nullopt;
  MeasuredNs start = {};  ///< what a whole run takes beyond its makespan and the passes
  /// Passes over whole tensors before and after the kernel, in ns per 2^20 elements of Q (heads *
  /// seq_q * head_dim); absent: there are none, or they are in `start`.
  std::optional<MeasuredNs> passes_per_mi = std::nullopt;
  FitErrors fit = {};
  std::string date = {};     ///< when it was measured
  std::string command = {};  ///< what measured it

  /// The timing model, 1 tick = 1 ns, all SMs resident, with no memory: hand-overs take as long as
  /// in the mean where the device is idle.
  [[nodiscard]] Timing timing() const;
  /// The timing model with a memory, which gets the kernel's congestion, spread and dip.
  [[nodiscard]] Timing timing(const Memory& memory) const;
  /// What the passes take of so many elements of Q, >= 0: ns, rounded down; 0 without passes.
  /// Throws Error{limit} above 2^61 ns.
  [[nodiscard]] Ticks passes_ns(std::int64_t q_elements) const;
  friend bool operator==(const KernelTimes&, const KernelTimes&) = default;
};

/// The memory of a device as kernels meet it (core/memory.hpp), fitted to measured runs.
struct DeviceMemory {
  std::int64_t l2_bytes = 0;             ///< that stay in L2, > 0
  std::int64_t bytes_per_ns = 0;         ///< of device memory, read and written, > 0
  std::int64_t stream_bytes_per_ns = 0;  ///< where nothing is added; 0: as bytes_per_ns
  std::int64_t add_permille = 0;  ///< of its bytes, what an addition takes of the channels, >= 0
  std::int64_t latency_ns = 0;    ///< of device memory beyond that of L2, >= 0
  FitErrors fit = {};
  std::string date = {};     ///< of the measurement
  std::string command = {};  ///< that made it

  friend bool operator==(const DeviceMemory&, const DeviceMemory&) = default;
};

/// A machine profile: what kernels' phases take on one device.
struct Machine {
  std::string name = {};
  std::string device = {};
  std::string driver = {};
  std::int32_t sms = 0;  ///< CTAs that the device holds at once: one an SM
  std::vector<KernelTimes> kernels = {};
  std::optional<DeviceMemory> memory = std::nullopt;  ///< absent: not measured
  std::vector<BlockRates> blocks = {};                ///< each of another load; empty: not measured

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Bytes that a kernel's tasks touch: inputs and gradients of its dtype, dQ's sums, lse and D in
/// fp32. Requires a key with a dtype.
[[nodiscard]] TileBytes tile_bytes(const KernelKey& key);

/// A device's memory as a kernel's tasks meet it, without congestion, spread and dip. Requires a
/// key with a dtype.
[[nodiscard]] Memory memory_of(const DeviceMemory& memory, const KernelKey& key);

/// The times of a kernel. Throws Error{usage}, which lists what the profile has, if it has none.
[[nodiscard]] const KernelTimes& times_of(const Machine& machine, const KernelKey& key);

/// Adds a kernel's times, in the place of those of the same key if there are any.
void put(Machine& machine, KernelTimes times);

/// The rates of blocks under a load; absent: the first. Throws Error{usage}, which says what the
/// profile has, if it has none.
[[nodiscard]] const BlockRates& block_rates_of(const Machine& machine, std::optional<Load> load);

/// Adds rates of blocks, in the place of those of the same load if there are any, else of those
/// that do not say theirs.
void put(Machine& machine, BlockRates rates);

}  // namespace stagger
