#pragma once

// A persistent GEMM in bf16, and beside it in the same CTAs a warpgroup that makes random bits.
//
//   load       one thread: asks for the next stage of A and of B as places become free
//   products   two warpgroups, 64 x 256 of the tile each
//   bits       with Room::warps the loading thread's three neighbours, with Room::warpgroup four
//              warps more: take chunks of bits until the products are done
//
// Two CTAs are a cluster. Each loads its own 128 rows of A and half of the 256 rows of B, that half
// for both. A tile's sums are rounded, staged in shared memory and stored by bulk copies while the
// next tile's first stages come.

#include "gpu/cuda/semaphore.cuh"
#include "gpu/hopper/wgmma.cuh"
#include "gpu/overlap/cluster.cuh"
#include "gpu/overlap/overlap.hpp"
#include "gpu/overlap/work.hpp"

#include <cstdint>

namespace stagger::gpu::overlap {

inline constexpr int kStages = 4;
inline constexpr int kProducts = 2;  ///< warpgroups
inline constexpr int kWarpRows = kTileM / kProducts;
inline constexpr int kStagedColumns = 128;  ///< of a warpgroup's sums, at a time
inline constexpr std::uint32_t kStageBytes = (kTileM + kTileN) * kTileK * 2;

/// When a GEMM and what is beside it were there, ns of the clock that all SMs share.
struct GemmStamps {
  unsigned long long begin = ~0ULL;
  unsigned long long products_end = 0;
  unsigned long long bits_end = 0;
  long long cycles = 0;       ///< of one SM's clock, that its products took
  long long ns = 0;           ///< likewise
  std::int32_t given_up = 0;  ///< a wait had no end
};

/// What one GEMM is told.
struct GemmWork {
  CUtensorMap a;  ///< by boxes of 128 x 64, b too
  CUtensorMap b;
  CUtensorMap c;  ///< by boxes of 64 x 64
  TileOrder order;
  std::int32_t steps = 0;        ///< of the sum
  std::int64_t patience_ns = 0;  ///< after which a wait inside a CTA is given up
  GemmStamps* stamps = nullptr;
};

/// What its bits are, and how far they are.
struct BitsBeside {
  BitsWork work;
  std::int32_t* taken = nullptr;  ///< chunks; by all GEMMs of a run one after the other
  bool finishes = false;          ///< makes what is left when its products are done
};

/// How a CTA's registers are divided, and by which instruction it multiplies.
struct Division {
  int at_launch;  ///< registers of each thread, a multiple of 8
  int few;        ///< of the warpgroup that loads
  int many;       ///< of those that multiply
  int bits;       ///< of one that only makes bits
  /// Columns of an instruction: ptxas wants to have the registers of one with 256, 154, at launch.
  int columns;
};
__host__ __device__ constexpr Division division_of(Room room) {
  switch (room) {
    case Room::none:
      return {168, 40, 232, 0, 256};
    case Room::streams:  // a quarter of an SM's registers is left for others
      return {128, 24, 176, 0, 128};
    case Room::warps:
      return {168, 72, 216, 0, 256};
    case Room::warpgroup:
      break;
  }
  return {128, 24, 208, 72, 128};
}
__host__ __device__ constexpr int warpgroups_of(Room room) {
  return 1 + kProducts + (room == Room::warpgroup ? 1 : 0);
}
__host__ __device__ constexpr int threads_of(Room room) {
  return warpgroups_of(room) * hopper::kWarpgroup;
}
/// Whether nobody waits for ever for registers that nobody gives.
constexpr bool suffices(Room room) {
  const Division division = division_of(room);
  return division.few + kProducts * division.many + division.bits <=
         warpgroups_of(room) * division.at_launch;
}
static_assert(suffices(Room::none) && suffices(Room::streams) && suffices(Room::warps) &&
              suffices(Room::warpgroup));

struct GemmShared {
  struct alignas(hopper::kSwizzleBytes) Stage {
    __nv_bfloat16 a[kTileM * kTileK];
    __nv_bfloat16 b[kTileN * kTileK];
  };
  struct alignas(hopper::kSwizzleBytes) Staged {
    __nv_bfloat16 c[kWarpRows * kStagedColumns];
  };

  Stage stages[kStages];
  Staged staged[kProducts];
  hopper::Mbarrier full[kStages];
  hopper::Mbarrier empty[kStages];
  std::int32_t products_done;  ///< warps

  __device__ void init() {
    for (int stage = 0; stage < kStages; ++stage) {
      full[stage].init(1);
      empty[stage].init(kCluster * kProducts * (hopper::kWarpgroup / 32));
    }
    products_done = 0;
    hopper::fence_mbarrier_init();
  }
};
static_assert(sizeof(GemmShared) <= 227 << 10);

/// One CTA's GEMM: the tiles that its cluster has.
template <int kColumns>
class Gemm {
 public:
  __device__ Gemm(const GemmWork& work, GemmShared& shared)
      : work_(work),
        shared_(shared),
        rank_(static_cast<std::int32_t>(rank_in_cluster())),
        deadline_(cuda::global_time() + work.patience_ns) {}

  /// The loading thread.
  __device__ void load() {
    for (std::int32_t tile = first_tile(); tile < work_.order.tiles(); tile += clusters()) {
      const TileOrder::Place place = work_.order.place(tile);
      for (std::int32_t step = 0; step < work_.steps; ++step) {
        load_stage({place.row * kCluster + rank_, place.column}, step);
        ++use_;
      }
    }
  }

  /// A warpgroup that multiplies; `part` is which.
  __device__ void multiply(int part) {
    for (std::int32_t tile = first_tile(); tile < work_.order.tiles(); tile += clusters()) {
      Sums sums;
      add_up(part, sums);
      const TileOrder::Place place = work_.order.place(tile);
      store(part, sums, {place.row * kCluster + rank_, place.column});
    }
  }

 private:
  /// A thread's sums of 64 rows, an instruction's after another's: each has kColumns of the
  /// columns.
  using Sums = float[kTileN / kColumns][kColumns / 2];

  [[nodiscard]] __device__ static std::int32_t first_tile() {
    return static_cast<std::int32_t>(blockIdx.x / kCluster);
  }
  [[nodiscard]] __device__ static std::int32_t clusters() {
    return static_cast<std::int32_t>(gridDim.x / kCluster);
  }

  /// Waits for a barrier's phase, but not beyond the deadline: from there on it does not wait at
  /// all, and the stamps say so.
  __device__ void wait(hopper::Mbarrier& barrier, std::uint32_t parity) {
    while (!barrier.has_ended(parity)) {
      if (cuda::global_time() < deadline_) continue;
      work_.stamps->given_up = 1;
      return;
    }
  }

  __device__ void load_stage(TileOrder::Place tile, std::int32_t step) {
    constexpr int kRows = kTileN / kCluster;  // of B, for all
    const std::uint32_t number = hopper::buffer_of<kStages>(use_);
    GemmShared::Stage& stage = shared_.stages[number];
    hopper::Mbarrier& full = shared_.full[number];
    wait(shared_.empty[number], hopper::parity_of<kStages>(use_) ^ 1);
    full.arrive_expecting(kStageBytes);
    hopper::load_box(stage.a, &work_.a, step * kTileK, {tile.row * kTileM, 0, 0}, full);
    load_box_for(stage.b + rank_ * kRows * kTileK, &work_.b, step * kTileK,
                 tile.column * kTileN + rank_ * kRows, full, (1 << kCluster) - 1);
  }

  /// Computes the sums of 64 rows of a tile.
  __device__ void add_up(int part, Sums& sums) {
    constexpr std::uint32_t kDepthBytes = 32;  // of 16 elements along the sum
    for (std::int32_t step = 0; step < work_.steps; ++step) {
      const std::uint32_t number = hopper::buffer_of<kStages>(use_);
      const GemmShared::Stage& stage = shared_.stages[number];
      wait(shared_.full[number], hopper::parity_of<kStages>(use_));
      const std::uint64_t left =
          hopper::matrix_descriptor(hopper::shared_address(stage.a + part * kWarpRows * kTileK), 0);
      const std::uint64_t right = hopper::matrix_descriptor(hopper::shared_address(stage.b), 0);
      pin_all(sums);
      hopper::wgmma_fence();
#pragma unroll
      for (int depth = 0; depth < kTileK / 16; ++depth) {
#pragma unroll
        for (int columns = 0; columns < kTileN / kColumns; ++columns) {
          hopper::Wgmma<kColumns, __nv_bfloat16>::template shared<hopper::Major::depth,
                                                                  hopper::Major::depth>(
              sums[columns], hopper::advanced(left, depth * kDepthBytes),
              hopper::advanced(right,
                               depth * kDepthBytes + columns * kColumns * hopper::kPanelBytes),
              step > 0 || depth > 0);
        }
      }
      hopper::wgmma_commit();
      pin_all(sums);
      hopper::wgmma_wait<1>();  // the step before has been read
      if (step > 0) leave(use_ - 1);
      ++use_;
    }
    hopper::wgmma_wait<0>();
    pin_all(sums);
    leave(use_ - 1);
  }

  __device__ static void pin_all(Sums& sums) {
#pragma unroll
    for (auto& of_columns : sums)
      hopper::pin(of_columns);
  }

  /// Gives a stage back, in every CTA whose loader writes to this one.
  __device__ void leave(std::uint32_t use) {
    const std::uint32_t lane = threadIdx.x % 32;
    if (lane < kCluster) arrive_at(shared_.empty[hopper::buffer_of<kStages>(use)], lane);
  }

  /// Stores a warpgroup's sums, rounded, by halves of its columns.
  __device__ void store(int part, const Sums& sums, TileOrder::Place tile) {
    __nv_bfloat16* staged = shared_.staged[part].c;
#pragma unroll
    for (int half = 0; half < kTileN / kStagedColumns; ++half) {
      const bool asks = threadIdx.x % hopper::kWarpgroup == 0;
      if (asks) hopper::wait_until_read<0>();
      sync_part(part);
      stage_half(staged, sums, half);
      hopper::fence_async_shared();
      sync_part(part);
      if (!asks) continue;
      for (int panel = 0; panel < kStagedColumns / hopper::kPanelColumns; ++panel) {
        const std::int32_t column =
            tile.column * kTileN + half * kStagedColumns + panel * hopper::kPanelColumns;
        hopper::store_box(&work_.c, staged + panel * kWarpRows * hopper::kPanelColumns, column,
                          {tile.row * kTileM + part * kWarpRows, 0, 0});
      }
      hopper::commit_copies();
    }
  }

  /// Waits for the threads of one warpgroup.
  __device__ static void sync_part(int part) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + part), "n"(hopper::kWarpgroup) : "memory");
  }

  __device__ static void stage_half(__nv_bfloat16* staged, const Sums& all, int half) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const auto warp = static_cast<int>(threadIdx.x / 32 % 4);
    const std::uint32_t base = hopper::shared_address(staged);
#pragma unroll
    for (int pair = 0; pair < kStagedColumns / 16; ++pair) {  // of groups of eight columns
      const int column = half * kStagedColumns + pair * 16;
      const auto& sums = all[column / kColumns];
      const int first = column % kColumns / 2;
      const std::uint32_t registers[4] = {
          hopper::packed(sums[first], sums[first + 1], __nv_bfloat16{}),
          hopper::packed(sums[first + 2], sums[first + 3], __nv_bfloat16{}),
          hopper::packed(sums[first + 4], sums[first + 5], __nv_bfloat16{}),
          hopper::packed(sums[first + 6], sums[first + 7], __nv_bfloat16{})};
      const int matrix = lane / 8;
      const int row = warp * 16 + matrix % 2 * 8 + lane % 8;
      const int group = pair * 2 + matrix / 2;
      const int panel = group / 8;
      hopper::store_matrices(base + panel * kWarpRows * hopper::kPanelBytes +
                                 row * hopper::kPanelBytes + ((group ^ row) % 8) * 16,
                             registers);
    }
  }

  const GemmWork& work_;
  GemmShared& shared_;
  std::int32_t rank_;
  std::int64_t deadline_;
  std::uint32_t use_ = 0;  ///< of stages, by this role
};

__device__ inline unsigned long long now() {
  return static_cast<unsigned long long>(cuda::global_time());
}

/// Makes chunks of bits, until there are none or the products of this CTA are done. What is taken
/// is made.
template <int kBits, int kRounds>
__device__ void make_bits_beside(const BitsBeside& bits, const GemmShared& shared,
                                 GemmStamps* stamps) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const auto* done = static_cast<const volatile std::int32_t*>(&shared.products_done);
  const std::int32_t chunks = bits.work.chunks();
  const auto take = [&] {
    std::int32_t chunk = chunks;
    const bool goes_on = bits.finishes || *done == 0;
    if (lane == 0 && goes_on) chunk = atomicAdd(bits.taken, 1);
    return __shfl_sync(0xffffffff, chunk, 0);
  };
  std::int32_t chunk = take();
  if (chunk >= chunks) return;
  while (chunk < chunks) {
    const std::int32_t next = take();  // asked for before it is needed
    make_bits<kBits, kRounds>(bits.work, chunk, lane);
    chunk = next;
  }
  if (lane == 0) atomicMax(&stamps->bits_end, now());
}

template <Room kRoom, int kBits, int kRounds>
__global__ void __cluster_dims__(kCluster, 1, 1)
    __launch_bounds__(65536 / division_of(kRoom).at_launch / 32 * 32, 1)
        multiply(const __grid_constant__ GemmWork work, const __grid_constant__ BitsBeside bits) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr Division kDivision = division_of(kRoom);
  using CtaGemm = Gemm<kDivision.columns>;
  extern __shared__ __align__(hopper::kSwizzleBytes) unsigned char bytes[];
  GemmShared& shared = *reinterpret_cast<GemmShared*>(bytes);
  if (threadIdx.x == 0) {
    shared.init();
    atomicMin(&work.stamps->begin, now());
  }
  sync_cluster();
  const auto warpgroup =
      __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / hopper::kWarpgroup, 0);
  if (warpgroup == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kDivision.few));
    if (threadIdx.x == 0) {
      CtaGemm(work, shared).load();
    } else if (kRoom == Room::warps && threadIdx.x >= 32) {
      make_bits_beside<kBits, kRounds>(bits, shared, work.stamps);
    }
  } else if (warpgroup <= kProducts) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kDivision.many));
    const std::int64_t cycles = cuda::sm_cycles();
    const std::int64_t ns = cuda::global_time();
    CtaGemm(work, shared).multiply(warpgroup - 1);
    if (blockIdx.x == 0 && threadIdx.x == hopper::kWarpgroup) {
      work.stamps->cycles = cuda::sm_cycles() - cycles;
      work.stamps->ns = cuda::global_time() - ns;
    }
    if (threadIdx.x % 32 == 0) {
      hopper::wait_until_performed();
      atomicMax(&work.stamps->products_end, now());
      *static_cast<volatile std::int32_t*>(&shared.products_done) = 1;
    }
    __syncwarp();
    if constexpr (kRoom == Room::warps || kRoom == Room::warpgroup) {
      if (bits.finishes) make_bits_beside<kBits, kRounds>(bits, shared, work.stamps);
    }
  } else if constexpr (kRoom == Room::warpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kDivision.bits));
    make_bits_beside<kBits, kRounds>(bits, shared, work.stamps);
  }
  sync_cluster();
#endif
}

}  // namespace stagger::gpu::overlap
