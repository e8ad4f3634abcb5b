#pragma once

// wgmma: the product of two 16-bit matrices by a warpgroup of 128 threads, which runs beside it.
// The right operand is in shared memory, the left one there or in registers, the sums are fp32 in
// registers: element `index` of a thread's sums is at row sums_row(index) and column
// sums_column(index) of 64 x columns.
//
// A matrix in shared memory is made of panels, 64 elements (128 bytes) wide and any number of rows
// high, as a swizzled bulk tensor copy leaves them: rows of 128 bytes, the eight 16-byte pieces of
// row r in the order piece ^ (r % 8), a panel on a multiple of 1,024 bytes.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace stagger::gpu::hopper {

inline constexpr int kWarpgroup = 128;                 ///< threads
inline constexpr int kPanelBytes = 128;                ///< of a panel's row
inline constexpr int kPanelColumns = 64;               ///< 16-bit elements
inline constexpr int kSwizzleBytes = 8 * kPanelBytes;  ///< the pattern's period

/// The row and the column of a thread's sums. `thread` is its number in the warpgroup.
__host__ __device__ constexpr int sums_row(int thread, int index) {
  return thread / 32 * 16 + thread % 32 / 4 + index / 2 % 2 * 8;
}
__host__ __device__ constexpr int sums_column(int thread, int index) {
  return index / 4 * 8 + thread % 4 * 2 + index % 2;
}

/// Describes a matrix in panels as wgmma takes it. `next_panel`: bytes from a panel to the next
/// one, for an operand that is wider than one where the product runs along its rows (transposed).
__device__ inline std::uint64_t matrix_descriptor(std::uint32_t address, std::uint32_t next_panel) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kNextRows = std::uint64_t{kSwizzleBytes >> 4} << 32;
  return kSwizzle128 | kNextRows | std::uint64_t{next_panel >> 4} << 16 |
         std::uint64_t{(address & 0x3ffff) >> 4};
}
/// Returns the descriptor of a matrix from `bytes` further on. The address is in the low half,
/// where the sum stays.
__device__ inline std::uint64_t advanced(std::uint64_t descriptor, std::uint32_t bytes) {
  const std::uint64_t high = descriptor >> 32 << 32;
  return high | (static_cast<std::uint32_t>(descriptor) + (bytes >> 4));
}
/// Returns a value of which the compiler does not know where it is from: what follows from it is
/// then computed where it is used. It would else compute all descriptors of a loop before the loop,
/// and keep them where there are no registers for them.
__device__ inline std::uint32_t afresh(std::uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// Orders other instructions' writes to registers before the first product that uses them.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most the last `kPending` committed groups of products are under way.
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from moving what reads or writes these registers across this point: to it a
/// product that is under way looks finished.
template <int kSize>
__device__ inline void pin(float (&registers)[kSize]) {
#pragma unroll
  for (int index = 0; index < kSize; ++index)
    asm volatile("" : "+f"(registers[index])::"memory");
}

/// Says that what these registers hold is of no use any more: a product that does not add to them
/// would else seem to read them, and keep them from others until then.
template <int kSize>
__device__ inline void forget(float (&registers)[kSize]) {
#pragma unroll
  for (int index = 0; index < kSize; ++index)
    asm volatile("" : "=f"(registers[index]));
}

enum class Major {
  depth = 0,    ///< elements along the product's sum are neighbours in memory
  columns = 1,  ///< elements along the other dimension are
};

/// The instruction sums (64 x kColumns) = left (64 x 16) * right (16 x kColumns), plus themselves
/// if `add`.
template <int kColumns, class T>
struct Wgmma;

#define STAGGER_LIST_16              \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define STAGGER_LIST_20 \
  STAGGER_LIST_16       \
  ", %16, %17, %18, %19"
#define STAGGER_LIST_32                        \
  STAGGER_LIST_16                              \
  ", %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define STAGGER_LIST_40 \
  STAGGER_LIST_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define STAGGER_LIST_64                        \
  STAGGER_LIST_40                              \
  ", %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, "   \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define STAGGER_LIST_128                             \
  STAGGER_LIST_64                                    \
  ", %64, %65, %66, %67, %68, %69, %70, %71, "       \
  "%72, %73, %74, %75, %76, %77, %78, %79, "         \
  "%80, %81, %82, %83, %84, %85, %86, %87, "         \
  "%88, %89, %90, %91, %92, %93, %94, %95, "         \
  "%96, %97, %98, %99, %100, %101, %102, %103, "     \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define STAGGER_SUMS_8(i)                                                                    \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define STAGGER_SUMS_16 STAGGER_SUMS_8(0), STAGGER_SUMS_8(8)
#define STAGGER_SUMS_20 \
  STAGGER_SUMS_16, "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19])
#define STAGGER_SUMS_32 STAGGER_SUMS_16, STAGGER_SUMS_8(16), STAGGER_SUMS_8(24)
#define STAGGER_SUMS_40 STAGGER_SUMS_32, STAGGER_SUMS_8(32)
#define STAGGER_SUMS_64 STAGGER_SUMS_40, STAGGER_SUMS_8(40), STAGGER_SUMS_8(48), STAGGER_SUMS_8(56)
#define STAGGER_SUMS_96 \
  STAGGER_SUMS_64, STAGGER_SUMS_8(64), STAGGER_SUMS_8(72), STAGGER_SUMS_8(80), STAGGER_SUMS_8(88)
#define STAGGER_SUMS_128 \
  STAGGER_SUMS_96, STAGGER_SUMS_8(96), STAGGER_SUMS_8(104), STAGGER_SUMS_8(112), STAGGER_SUMS_8(120)

// The numbers are those of the operands after the sums: left, right, add, transpositions.
#define STAGGER_WGMMA(columns, T, type, size, o0, o1, o2, o3, o4, o5, o6)                        \
  template <>                                                                                    \
  struct Wgmma<columns, T> {                                                                     \
    template <Major kLeft, Major kRight>                                                         \
    __device__ static void shared(float (&sums)[size], std::uint64_t left, std::uint64_t right,  \
                                  bool add) {                                                    \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" o2                                       \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type   \
                   " {" STAGGER_LIST_##size "}, %" o0 ", %" o1 ", p, 1, 1, %" o3 ", %" o4 ";\n}" \
                   : STAGGER_SUMS_##size                                                         \
                   : "l"(left), "l"(right), "r"(static_cast<int>(add)),                          \
                     "n"(static_cast<int>(kLeft)), "n"(static_cast<int>(kRight)));               \
    }                                                                                            \
    template <Major kRight>                                                                      \
    __device__ static void registers(float (&sums)[size], const std::uint32_t (&left)[4],        \
                                     std::uint64_t right, bool add) {                            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" o5                                       \
                   ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type   \
                   " {" STAGGER_LIST_##size "}, {%" o0 ", %" o1 ", %" o2 ", %" o3 "}, %" o4      \
                                            ", p, 1, 1, %" o6 ";\n}"                             \
                   : STAGGER_SUMS_##size                                                         \
                   : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),         \
                     "r"(static_cast<int>(add)), "n"(static_cast<int>(kRight)));                 \
    }                                                                                            \
  }
STAGGER_WGMMA(32, __nv_bfloat16, "bf16", 16, "16", "17", "18", "19", "20", "21", "22");
STAGGER_WGMMA(32, __half, "f16", 16, "16", "17", "18", "19", "20", "21", "22");
STAGGER_WGMMA(40, __nv_bfloat16, "bf16", 20, "20", "21", "22", "23", "24", "25", "26");
STAGGER_WGMMA(40, __half, "f16", 20, "20", "21", "22", "23", "24", "25", "26");
STAGGER_WGMMA(64, __nv_bfloat16, "bf16", 32, "32", "33", "34", "35", "36", "37", "38");
STAGGER_WGMMA(64, __half, "f16", 32, "32", "33", "34", "35", "36", "37", "38");
STAGGER_WGMMA(80, __nv_bfloat16, "bf16", 40, "40", "41", "42", "43", "44", "45", "46");
STAGGER_WGMMA(80, __half, "f16", 40, "40", "41", "42", "43", "44", "45", "46");
STAGGER_WGMMA(128, __nv_bfloat16, "bf16", 64, "64", "65", "66", "67", "68", "69", "70");
STAGGER_WGMMA(128, __half, "f16", 64, "64", "65", "66", "67", "68", "69", "70");
STAGGER_WGMMA(256, __nv_bfloat16, "bf16", 128, "128", "129", "130", "131", "132", "133", "134");

#undef STAGGER_WGMMA
#undef STAGGER_SUMS_128
#undef STAGGER_SUMS_96
#undef STAGGER_SUMS_64
#undef STAGGER_SUMS_40
#undef STAGGER_SUMS_32
#undef STAGGER_SUMS_20
#undef STAGGER_SUMS_16
#undef STAGGER_SUMS_8
#undef STAGGER_LIST_128
#undef STAGGER_LIST_64
#undef STAGGER_LIST_40
#undef STAGGER_LIST_32
#undef STAGGER_LIST_20
#undef STAGGER_LIST_16

/// Packs two sums into one register of a left operand. What a thread holds of 64 x 16 sums is what
/// it must hold of a 64 x 16 left operand, in the same order.
__device__ inline std::uint32_t packed(float first, float second, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
__device__ inline std::uint32_t packed(float first, float second, __half) {
  const __half2 pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

/// Stores four 8 x 8 matrices of 16-bit elements; lane i names the address of row i % 8 of matrix
/// i / 8 as it is to be in memory, 16 bytes.
__device__ inline void store_matrices(std::uint32_t address, const std::uint32_t (&registers)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
      : "memory");
}

/// Stores four matrices as store_matrices() does, transposed.
__device__ inline void store_transposed(std::uint32_t address,
                                        const std::uint32_t (&registers)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
      : "memory");
}

}  // namespace stagger::gpu::hopper
