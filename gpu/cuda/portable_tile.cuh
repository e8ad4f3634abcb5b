#pragma once

// The backward pass of one tile by the threads of a CTA, in plain fp32 operations, for any GPU:
// what cpu::Tile does, sum by sum in the same order, and compiled without fused multiply-adds, so
// that the bits are the host's too. It is the yardstick, not a fast kernel. Q, K, V and dO are in
// memory as the run's dtype has them, and are converted as they are loaded.
//
// P and dS of the tile lie in shared memory, (query, key). dK and dV are summed in registers during
// a task and in their place in global memory between the tasks of a chain: nobody else touches
// them, as the whole chain is this CTA's. A task's dQ partial goes to memory of the CTA's own until
// its turn comes.

#include "gpu/check/program.hpp"
#include "gpu/cuda/table.cuh"
#include "gpu/numerics/dropout.hpp"
#include "gpu/numerics/exponential.hpp"
#include "gpu/numerics/rounding.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace stagger::gpu::cuda {

/// The Dtype whose storage a type is.
template <class Storage>
constexpr Dtype kDtypeOf = Dtype::fp32;
template <>
constexpr Dtype kDtypeOf<__nv_bfloat16> = Dtype::bf16;
template <>
constexpr Dtype kDtypeOf<__half> = Dtype::fp16;

/// Tensors are laid out as AttentionShape says.
template <class Storage>
struct PortableParameters {
  const Storage* q = nullptr;
  const Storage* k = nullptr;
  const Storage* v = nullptr;
  const Storage* d_out = nullptr;
  const float* lse = nullptr;
  const float* delta = nullptr;
  const SeenQueries* queries = nullptr;  ///< of masked tiles in ranges, as PortableMask has them
  float* dq = nullptr;                   ///< sums: end_dq() makes gradients of them
  float* dk = nullptr;  ///< by part and key: a chain's sums; gradients where it is a KV head's only
  float* dv = nullptr;
  float* dk_sums = nullptr;  ///< by KV head and key: of several parts
  float* dv_sums = nullptr;
  std::int32_t span = 1;      ///< heads of a part
  std::int32_t parts = 1;     ///< of a KV head
  float* partials = nullptr;  ///< (slot or else CTA, query in the tile, head_dim)
  bool keep_partials = false;
  std::int64_t seq_q = 0;
  std::int64_t seq_kv = 0;
  std::int32_t head_dim = 0;
  std::int32_t tile_q = 0;  ///< tokens of the largest Q tile
  std::int32_t tile_kv = 0;
  float scale = 0;
  float dq_scale = 0;                   ///< what a dQ partial has of it
  std::int32_t in_ranges = 0;           ///< masked tiles
  std::int32_t words = 0;               ///< of a row of bits
  const std::uint32_t* bits = nullptr;  ///< of the other masked tiles
  DropoutWords dropout = {};            ///< of a PortableTile that drops

  /// Returns the bytes of P and dS.
  [[nodiscard]] std::size_t shared_bytes() const {
    return 2 * sizeof(float) * static_cast<std::size_t>(tile_q) * static_cast<std::size_t>(tile_kv);
  }
};

/// Calls out(row, column, sum over `depth` of left(row, k) * right(k, column)) for every row and
/// column of a matrix, by all threads of the CTA. A sum begins with start(row, column) and goes
/// upwards.
template <class Left, class Right, class Start, class Out>
__device__ void multiply(std::int32_t rows, std::int32_t columns, std::int32_t depth, Left left,
                         Right right, Start start, Out out) {
  constexpr std::int32_t kSide = 16;  // threads are kSide x kSide,
  constexpr std::int32_t kBlock = 4;  // and each has kBlock x kBlock elements, kSide apart:
  const std::int32_t first_row = threadIdx.x / kSide;  // neighbours read neighbouring columns
  const std::int32_t first_column = threadIdx.x % kSide;
  for (std::int32_t top = first_row; top < rows; top += kSide * kBlock) {
    for (std::int32_t side = first_column; side < columns; side += kSide * kBlock) {
      std::int32_t row[kBlock];
      std::int32_t column[kBlock];
      float sum[kBlock][kBlock];
      // What lies beyond the matrix is computed from its last row and column, and dropped.
#pragma unroll
      for (std::int32_t each = 0; each < kBlock; ++each) {
        row[each] = min(top + each * kSide, rows - 1);
        column[each] = min(side + each * kSide, columns - 1);
      }
#pragma unroll
      for (std::int32_t r = 0; r < kBlock; ++r) {
#pragma unroll
        for (std::int32_t c = 0; c < kBlock; ++c)
          sum[r][c] = start(row[r], column[c]);
      }
      for (std::int32_t k = 0; k < depth; ++k) {
        float of_row[kBlock];
        float of_column[kBlock];
#pragma unroll
        for (std::int32_t each = 0; each < kBlock; ++each) {
          of_row[each] = left(row[each], k);
          of_column[each] = right(k, column[each]);
        }
#pragma unroll
        for (std::int32_t r = 0; r < kBlock; ++r) {
#pragma unroll
          for (std::int32_t c = 0; c < kBlock; ++c)
            sum[r][c] += of_row[r] * of_column[c];
        }
      }
#pragma unroll
      for (std::int32_t r = 0; r < kBlock; ++r) {
#pragma unroll
        for (std::int32_t c = 0; c < kBlock; ++c) {
          if (top + r * kSide < rows && side + c * kSide < columns)
            out(row[r], column[c], sum[r][c]);
        }
      }
    }
  }
}

/// What a task does, as lanes.cuh asks it of a Work, with dropout if it `kDrops`.
template <class Storage, bool kDrops = false>
class PortableTile {
 public:
  __device__ PortableTile(const PortableParameters<Storage>& all, Mode mode, float* shared)
      : all_(all), mode_(mode), p_(shared), ds_(shared + all.tile_q * all.tile_kv) {}

  __device__ void begin_chain(const DeviceSlot& slot) {
    locate(slot);
    for (std::int32_t index = thread(); index < keys_ * all_.head_dim; index += kThreads) {
      all_.dk[chain_first_ + index] = 0;
      all_.dv[chain_first_ + index] = 0;
    }
    __syncthreads();  // multiply() gives the elements to other threads
  }

  __device__ void compute(std::int64_t index, const DeviceSlot& slot) {
    weigh(slot);
    add_dk_dv();
    float* const dq = partial(index);
    partial_dq([=](std::int32_t place, float sum) { dq[place] = sum; });
    // The caller's barrier comes before the next task overwrites P and dS.
  }

  /// What compute() and reduce() do where nobody waits: a task adds what it makes at once, of dQ to
  /// `dq`, whose rows are the query heads'. The partial is kept too unless `kept` is nullptr.
  __device__ void make(const DeviceSlot& slot, Makes makes, float* dq, float* kept) {
    weigh(slot);
    if (makes != Makes::dq) add_dk_dv();
    if (makes == Makes::dkv) return;
    float* const sums = dq + q_first_;
    partial_dq([=](std::int32_t place, float sum) {
      sums[place] += sum;
      if (kept != nullptr) kept[place] = sum;
    });
  }

  __device__ void reduce(std::int64_t index, const DeviceSlot&) {
    const float* addends = partial(index);
    float* dq = all_.dq + q_first_;
    for (std::int32_t place = thread(); place < queries_ * all_.head_dim; place += kThreads) {
      if (mode_ == Mode::atomic) {
        atomicAdd(dq + place, addends[place]);
      } else {
        dq[place] += addends[place];
      }
    }
  }

  /// Makes gradients of the chain's sums, unless others are to be added.
  __device__ void end_chain(const DeviceSlot&) {
    if (all_.parts == 1) {
      for (std::int32_t index = thread(); index < keys_ * all_.head_dim; index += kThreads) {
        all_.dk[chain_first_ + index] = nearest(all_.dk[chain_first_ + index] * all_.scale);
        all_.dv[chain_first_ + index] = nearest(all_.dv[chain_first_ + index]);
      }
    }
    __syncthreads();
  }

  __device__ void add_dkv(std::int32_t rank, const DeviceSlot&) {
    for (std::int32_t index = thread(); index < keys_ * all_.head_dim; index += kThreads) {
      add(rank, all_.dk[chain_first_ + index], all_.dk_sums + kv_first_ + index);
      add(rank, all_.dv[chain_first_ + index], all_.dv_sums + kv_first_ + index);
    }
  }

 private:
  __device__ static std::int32_t thread() { return static_cast<std::int32_t>(threadIdx.x); }
  __device__ static float nearest(float value) { return rounded(value, kDtypeOf<Storage>); }

  /// Adds to a sum, which rank 0 begins.
  __device__ void add(std::int32_t rank, float addend, float* sum) const {
    if (mode_ == Mode::atomic) {
      atomicAdd(sum, addend);
    } else {
      *sum = rank == 0 ? addend : *sum + addend;
    }
  }

  /// Finds where a task's tiles are.
  __device__ void locate(const DeviceSlot& slot) {
    const std::int64_t query = std::int64_t{slot.q} * all_.tile_q;
    const std::int64_t key = std::int64_t{slot.kv} * all_.tile_kv;
    queries_ = static_cast<std::int32_t>(min(std::int64_t{all_.tile_q}, all_.seq_q - query));
    keys_ = static_cast<std::int32_t>(min(std::int64_t{all_.tile_kv}, all_.seq_kv - key));
    q_row_ = slot.head * all_.seq_q + query;
    q_first_ = q_row_ * all_.head_dim;
    const std::int32_t part = slot.head / all_.span;
    kv_first_ = (part / all_.parts * all_.seq_kv + key) * all_.head_dim;
    chain_first_ = (part * all_.seq_kv + key) * all_.head_dim;
  }

  __device__ float* partial(std::int64_t slot) const {
    const std::int64_t place = all_.keep_partials ? slot : std::int64_t{blockIdx.x};
    return all_.partials + place * all_.tile_q * all_.head_dim;
  }

  /// Leaves P and dS of a task in shared memory.
  __device__ void weigh(const DeviceSlot& slot) {
    locate(slot);
    scores();
    probabilities(slot);
    __syncthreads();
  }

  /// Leaves Q K^T where P will be and dO V^T where dS will be.
  __device__ void scores() {
    product(all_.q + q_first_, all_.k + kv_first_, p_);
    product(all_.d_out + q_first_, all_.v + kv_first_, ds_);
  }
  __device__ void product(const Storage* left, const Storage* right, float* result) {
    const std::int32_t dim = all_.head_dim;
    multiply(
        queries_, keys_, dim,
        [=](std::int32_t query, std::int32_t k) { return float{left[query * dim + k]}; },
        [=](std::int32_t k, std::int32_t key) { return float{right[key * dim + k]}; },
        [](std::int32_t, std::int32_t) { return 0.0F; },
        [=, this](std::int32_t query, std::int32_t key, float sum) {
          result[query * all_.tile_kv + key] = sum;
        });
  }

  /// Whether a query of a tile sees a key of it.
  __device__ bool sees(const DeviceSlot& slot, std::int32_t query, std::int32_t key) const {
    if (slot.partial < 0) return true;
    if (slot.partial < all_.in_ranges) {
      const SeenQueries seen = all_.queries[std::int64_t{slot.partial} * all_.tile_kv + key];
      return seen.begin <= query && query < seen.end;
    }
    const std::int64_t row = std::int64_t{slot.partial - all_.in_ranges} * all_.tile_q + query;
    return (all_.bits[row * all_.words + key / 32] >> key % 32 & 1) != 0;
  }

  /// What dropout multiplies P and dP by. The bits are asked for pair by pair.
  __device__ float weight(const DeviceSlot& slot, std::int32_t query, std::int32_t key) const {
    if constexpr (!kDrops) return 1;
    const DropoutRow row{
        .head = static_cast<std::uint32_t>(slot.head),
        .query = static_cast<std::uint32_t>(std::int64_t{slot.q} * all_.tile_q + query)};
    const std::int64_t column = std::int64_t{slot.kv} * all_.tile_kv + key;
    const std::uint32_t half = all_.dropout.half(row, static_cast<std::uint32_t>(column / 16));
    return (half >> column % 16 & 1) != 0 ? all_.dropout.scale : 0.0F;
  }

  /// Makes P = exp(scale P - lse) and dS = P (dP - D), dP being weighed by dropout and, after that,
  /// P too; both are rounded at their end. 0 where the query does not see the key, which adds
  /// nothing and changes no bit of a sum that began with 0.
  __device__ void probabilities(const DeviceSlot& slot) {
    __syncthreads();
    for (std::int32_t index = thread(); index < queries_ * keys_; index += kThreads) {
      const std::int32_t query = index / keys_;
      const std::int32_t key = index % keys_;
      const std::int32_t place = query * all_.tile_kv + key;
      const bool seen = sees(slot, query, key);
      const float p = seen ? exponential(p_[place] * all_.scale - all_.lse[q_row_ + query]) : 0.0F;
      const float keep = weight(slot, query, key);
      ds_[place] = seen ? nearest(p * (ds_[place] * keep - all_.delta[q_row_ + query])) : 0.0F;
      p_[place] = nearest(p * keep);
    }
  }

  /// Adds P^T dO to dV and dS^T Q to dK, queries upwards.
  __device__ void add_dk_dv() {
    add_columns(p_, all_.d_out + q_first_, all_.dv + chain_first_);
    add_columns(ds_, all_.q + q_first_, all_.dk + chain_first_);
  }
  __device__ void add_columns(const float* weights, const Storage* rows, float* sums) {
    const std::int32_t dim = all_.head_dim;
    const std::int32_t stride = all_.tile_kv;
    multiply(
        keys_, dim, queries_,
        [=](std::int32_t key, std::int32_t query) { return weights[query * stride + key]; },
        [=](std::int32_t query, std::int32_t column) { return float{rows[query * dim + column]}; },
        [=](std::int32_t key, std::int32_t column) { return sums[key * dim + column]; },
        [=](std::int32_t key, std::int32_t column, float sum) { sums[key * dim + column] = sum; });
  }

  /// Calls out(place in the tile's dQ, sum) for the task's dQ = dS K, keys upwards; in fp32 with
  /// the scale. A place is always the same thread's.
  template <class Out>
  __device__ void partial_dq(Out out) {
    const std::int32_t dim = all_.head_dim;
    const Storage* k = all_.k + kv_first_;
    multiply(
        queries_, dim, keys_,
        [=, this](std::int32_t query, std::int32_t key) {
          return ds_[query * all_.tile_kv + key] * all_.dq_scale;
        },
        [=](std::int32_t key, std::int32_t column) { return float{k[key * dim + column]}; },
        [](std::int32_t, std::int32_t) { return 0.0F; },
        [=](std::int32_t query, std::int32_t column, float sum) {
          out(query * dim + column, sum);
        });
  }

  const PortableParameters<Storage>& all_;
  Mode mode_;
  float* p_;
  float* ds_;
  std::int32_t queries_ = 0;
  std::int32_t keys_ = 0;
  std::int64_t q_row_ = 0;        ///< of the tile's first query among all heads' queries
  std::int64_t q_first_ = 0;      ///< element of the tile's first query
  std::int64_t kv_first_ = 0;     ///< element of the tile's first key in K, V and their gradients
  std::int64_t chain_first_ = 0;  ///< likewise in the part's own dK and dV
};

}  // namespace stagger::gpu::cuda
