#pragma once

#include "core/table.hpp"
#include "core/token_mask.hpp"
#include "gpu/hopper/shape.hpp"
#include "gpu/numerics/dtype.hpp"
#include "gpu/numerics/host_device.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stagger::gpu::hopper {

inline constexpr std::int64_t kAlignment = 256;  ///< of every part of device memory, in bytes

/// Rounds bytes up to a multiple of kAlignment.
[[nodiscard]] constexpr std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Sizes of a problem for the kernels.
struct Sizes {
  std::int32_t batch = 1;
  std::int32_t heads = 1;     ///< of a batch entry: of Q, dO, O and dQ
  std::int32_t heads_kv = 1;  ///< of a batch entry: of K, V, dK and dV; divides heads
  std::int32_t span = 1;      ///< heads of a chain; divides the heads of a KV head
  std::int32_t head_dim = 64;
  std::int32_t q_tiles = 0;
  std::int32_t kv_tiles = 0;
  std::int32_t step_q = 64;  ///< queries of a step
  std::int32_t steps = 1;    ///< of a Q tile
  std::int64_t seq_q = 0;
  std::int64_t seq_kv = 0;

  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t group() const {
    return heads / heads_kv;
  }
  /// Counts the parts of a batch entry's heads, whose dK and dV are chains' own, and those that are
  /// added to dK and dV of a KV head.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t parts() const { return heads / span; }
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t group_parts() const {
    return group() / span;
  }
  /// Counts the heads of the whole batch.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t all_heads() const {
    return batch * heads;
  }
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t all_heads_kv() const {
    return batch * heads_kv;
  }
  /// Counts the steps that a head has, and those of all heads.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int32_t q_steps() const {
    return q_tiles * steps;
  }
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t all_steps() const {
    return std::int64_t{all_heads()} * q_steps();
  }
  /// Counts the elements of Q, and those of K.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t q_elements() const {
    return all_heads() * seq_q * head_dim;
  }
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t kv_elements() const {
    return all_heads_kv() * seq_kv * head_dim;
  }
  /// Counts the KV tiles of all KV heads.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t all_kv_tiles() const {
    return std::int64_t{all_heads_kv()} * kv_tiles;
  }
  /// Counts the elements of all parts of dK.
  [[nodiscard]] STAGGER_HOST_DEVICE constexpr std::int64_t part_elements() const {
    return group_parts() * kv_elements();
  }
};

/// Where the parts of a plan lie in its image, in bytes.
struct PlanLayout {
  std::int64_t slots = 0;       ///< cuda::DeviceSlot
  std::int64_t lane_begin = 0;  ///< int64, lanes + 1
  std::int64_t queries = 0;     ///< SeenQueries by (masked tile in ranges, step, key in the tile)
  std::int64_t bits = 0;        ///< SeenBits by (other masked tile, step)
  std::int64_t contributions = 0;  ///< int32 by Q tile: partials of its dQ
  std::int64_t seen = 0;           ///< uint8 by KV tile: whether anybody sees it
  std::int64_t dkv_ranks = 0;  ///< int32 by Problem::chain_place; where parts are added in order
  std::int64_t bytes = 0;
};

/// Where the parts of a call's workspace lie, in bytes. None needs to be initialised, and none
/// carries anything from one call to the next.
struct WorkspaceLayout {
  std::int64_t dq_sums = 0;  ///< fp32 by (head, Q tile, step), in the order of dq_place
  std::int64_t stats = 0;    ///< QueryStats by (head, Q tile, step)
  std::int64_t locks = 0;    ///< int32 by (head, Q tile, step)
  std::int64_t flags = 0;    ///< int32: lanes taken, stop
  /// Where KV heads have several parts: theirs by (batch, part, key, dim), or, where they are added
  /// in order, fp32 sums by (KV head, KV tile), in the order of dkv_place.
  std::int64_t dk = 0;
  std::int64_t dv = 0;
  std::int64_t dkv_locks =
      0;  ///< int32 by (KV head, KV tile, warp); where parts are added in order
  std::int64_t bytes = 0;
};

/// What the kernels need of a table beside tensors. It is made on the host, does not change, and
/// its image is put into device memory once.
struct Plan {
  Shape shape = {};
  Dtype dtype = Dtype::bf16;
  Sizes sizes = {};
  std::int32_t lanes = 0;
  std::int32_t ctas = 0;       ///< that play them
  std::int32_t in_ranges = 0;  ///< masked tiles, as cuda::MaskedTiles has them
  bool has_bits = false;       ///< whether masked tiles are told bit by bit
  bool has_unseen = false;     ///< whether there are KV tiles that nobody sees
  bool in_order = false;       ///< whether the parts of KV heads are added by rank, not in a pass
  PlanLayout layout = {};
  WorkspaceLayout workspace = {};
  std::vector<std::byte> image = {};

  /// Whether parts are left in the workspace, for a pass that adds them.
  [[nodiscard]] bool has_parts() const { return sizes.group_parts() > 1 && !in_order; }
};

/// Says why the kernels have no plan for a problem, wherever they would run; empty if they have
/// one. They run bf16 and fp16, head_dim 64 and 128, KV tiles of 128 tokens and Q tiles of 64, 80
/// or 128, and chains of any number of heads, whose parts are added in a pass or in order; any mask
/// whose bits are within kMaxBitBytes.
[[nodiscard]] std::string plan_refusal(const Problem& problem, std::int64_t head_dim, Dtype dtype);

/// Makes the plan of a table whose heads are those of `batch` entries, one after the other.
/// Requires is_complete(table), no plan_refusal, and a batch that divides KV heads.
[[nodiscard]] Plan make_plan(const Table& table, const TokenMask& mask, std::int32_t batch,
                             std::int32_t head_dim, Dtype dtype);

}  // namespace stagger::gpu::hopper
