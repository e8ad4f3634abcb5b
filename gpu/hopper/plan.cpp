#include "gpu/hopper/plan.hpp"

#include "core/error.hpp"
#include "gpu/cuda/table.cuh"

#include <algorithm>
#include <cstring>

namespace stagger::gpu::hopper {
namespace {

/// Lists the queries that see a key, by masked tile in ranges, step and key of the tile.
std::vector<SeenQueries> seen_queries(const Problem& problem, const TokenMask& mask,
                                      const cuda::MaskedTiles& masked, const Shape& shape) {
  std::vector<SeenQueries> seen;
  seen.reserve(masked.ranges().size() * at(shape.steps() * kTileKv));
  for (const auto& [kv, q] : masked.ranges()) {
    std::vector<cuda::SeenQueries> queries = cuda::queries_by_key(problem, mask, kv, q).value();
    queries.resize(kTileKv);
    for (std::int32_t first = 0; first < shape.tile_q; first += shape.step_q) {
      const auto in_step = [&](std::int32_t query) {
        return static_cast<std::uint8_t>(std::clamp(query - first, 0, shape.step_q));
      };
      for (const cuda::SeenQueries& range : queries)
        seen.push_back({.begin = in_step(range.begin), .end = in_step(range.end)});
    }
  }
  return seen;
}

/// Sets the bits of the other masked tiles, which are 0 before.
void set_bits(const Problem& problem, const TokenMask& mask, const cuda::MaskedTiles& masked,
              const SeenBits& seen, std::byte* bits) {
  for (const auto& tile : masked.bits()) {
    const auto set = [&](std::int64_t query, const KeyRange& keys) {
      const auto of_step = static_cast<std::int32_t>(query % seen.step_q);
      std::byte* const step = bits + query / seen.step_q * seen.bytes();
      for (auto key = static_cast<std::int32_t>(keys.begin); key < keys.end; ++key) {
        const SeenBits::Place place = seen.place(score_place(of_step, key));
        step[place.byte] |= std::byte{1} << place.bit;
      }
    };
    cuda::each_range(problem, mask, tile.first, tile.second, set);
    bits += problem.shape.q / seen.step_q * seen.bytes();
  }
}

std::vector<std::int32_t> contributions(const TileGrid& grid) {
  std::vector<std::int32_t> counts;
  counts.reserve(at(grid.q_tiles()));
  for (QTile q{0}; q.value < grid.q_tiles(); ++q)
    counts.push_back(grid.contributions(q));
  return counts;
}

std::vector<std::uint8_t> seen_tiles(const TileGrid& grid) {
  std::vector<std::uint8_t> seen;
  seen.reserve(at(grid.kv_tiles()));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
    seen.push_back(grid.chain_length(kv) > 0 ? 1 : 0);
  return seen;
}

Sizes sizes_of(const Problem& problem, const Shape& shape, std::int32_t batch) {
  return {.batch = batch,
          .heads = problem.heads / batch,
          .heads_kv = problem.heads_kv / batch,
          .span = problem.span,
          .head_dim = shape.head_dim,
          .q_tiles = problem.q_tiles(),
          .kv_tiles = problem.kv_tiles(),
          .step_q = shape.step_q,
          .steps = shape.steps(),
          .seq_q = problem.lengths.q,
          .seq_kv = problem.lengths.kv};
}

/// Counts the bytes of dK where KV heads have several parts.
std::int64_t part_bytes(const Plan& plan) {
  const Sizes& sizes = plan.sizes;
  if (plan.in_order) {
    return std::int64_t{sizeof(float)} * sizes.all_kv_tiles() * kTileKv * sizes.head_dim;
  }
  return plan.has_parts() ? std::int64_t{2} * sizes.part_elements() : 0;
}

WorkspaceLayout workspace_of(const Plan& plan) {
  const Sizes& sizes = plan.sizes;
  const std::int64_t rows = sizes.all_steps() * sizes.step_q;
  WorkspaceLayout layout;
  std::int64_t end = 0;
  const auto take = [&end](std::int64_t bytes) {
    const std::int64_t begin = end;
    end += aligned(bytes);
    return begin;
  };
  layout.dq_sums = take(std::int64_t{sizeof(float)} * rows * sizes.head_dim);
  layout.stats = take(2 * std::int64_t{sizeof(float)} * rows);
  layout.locks = take(std::int64_t{sizeof(std::int32_t)} * sizes.all_steps());
  layout.flags = take(2 * std::int64_t{sizeof(std::int32_t)});
  layout.dk = take(part_bytes(plan));
  layout.dv = take(part_bytes(plan));
  layout.dkv_locks = take(
      plan.in_order ? std::int64_t{sizeof(std::int32_t)} * sizes.all_kv_tiles() * kDkvWarps : 0);
  layout.bytes = end;
  return layout;
}

/// Makes room behind what is in the image, of zeros, and returns where.
std::int64_t append(std::vector<std::byte>& image, std::int64_t bytes) {
  const auto begin = std::ssize(image);
  image.resize(at(begin + aligned(bytes)));
  return begin;
}

/// Puts an array behind what is in the image, and returns where.
template <class T>
std::int64_t append(std::vector<std::byte>& image, const std::vector<T>& array) {
  const auto bytes = static_cast<std::int64_t>(array.size() * sizeof(T));
  const std::int64_t begin = append(image, bytes);
  if (bytes > 0) std::memcpy(image.data() + begin, array.data(), at(bytes));
  return begin;
}

}  // namespace

std::string plan_refusal(const Problem& problem, std::int64_t head_dim, Dtype dtype) {
  if (dtype == Dtype::fp32) return "the hopper kernel is for bf16 and fp16";
  if (find_shape(head_dim, problem.shape.q, problem.shape.kv) == nullptr) {
    return "the hopper kernel is for head_dim 64 and 128, KV tiles of 128 tokens and Q tiles of "
           "64, 80 or 128";
  }
  if (mask_heads(problem.mask) > 0) {
    return "the hopper kernel does not know heads with masks of their own yet";
  }
  return cuda::bits_refusal(problem);
}

Plan make_plan(const Table& table, const TokenMask& mask, std::int32_t batch, std::int32_t head_dim,
               Dtype dtype) {
  const Problem& problem = table.problem;
  STAGGER_EXPECTS(plan_refusal(problem, head_dim, dtype).empty());
  STAGGER_EXPECTS(batch > 0 && problem.heads_kv % batch == 0);
  Plan plan;
  plan.shape = *find_shape(head_dim, problem.shape.q, problem.shape.kv);
  plan.dtype = dtype;
  plan.sizes = sizes_of(problem, plan.shape, batch);
  plan.lanes = table.lanes();
  plan.ctas = std::min(resident_lanes(problem, 0), table.lanes());
  plan.in_order = problem.combine == Combine::ordered;
  plan.workspace = workspace_of(plan);
  const std::vector<std::uint8_t> seen = seen_tiles(problem.common_grid());
  plan.has_unseen = std::ranges::count(seen, 0) > 0;
  const cuda::MaskedTiles masked = cuda::masked_tiles(problem, mask);
  plan.in_ranges = static_cast<std::int32_t>(masked.in_ranges);
  plan.layout.slots = append(plan.image, cuda::device_slots(table, masked));
  const std::vector<std::int64_t> lane_begin(table.lane_begin.begin(), table.lane_begin.end());
  plan.layout.lane_begin = append(plan.image, lane_begin);
  plan.layout.queries = append(plan.image, seen_queries(problem, mask, masked, plan.shape));
  plan.has_bits = !masked.bits().empty();
  const SeenBits bits{plan.shape.step_q};
  plan.layout.bits =
      append(plan.image, std::ssize(masked.bits()) * plan.shape.steps() * bits.bytes());
  set_bits(problem, mask, masked, bits, plan.image.data() + plan.layout.bits);
  plan.layout.contributions = append(plan.image, contributions(problem.common_grid()));
  plan.layout.seen = append(plan.image, seen);
  plan.layout.dkv_ranks =
      append(plan.image, plan.in_order ? cuda::dkv_ranks(table) : std::vector<std::int32_t>{});
  plan.layout.bytes = std::ssize(plan.image);
  return plan;
}

}  // namespace stagger::gpu::hopper
