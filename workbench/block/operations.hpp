#pragma once

#include "workbench/block/kernels.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::block {

/// How RMS norms are run eagerly: as one kernel, or as most models write them, in fp32 and
/// operation by operation. A layer norm is one kernel either way.
enum class Norms { fused, fp32 };
inline constexpr const char* kNormsNames[] = {"fused", "fp32"};

/// What limits an operation: the rate of copies; an operand that is repeated; one that is a part of
/// wider rows, which is not read 16 bytes at a time; or the mathematics of a fused kernel.
enum class Access { streamed, broadcast, strided, fused };
inline constexpr const char* kAccessNames[] = {"streamed", "broadcast", "strided", "fused"};

/// A kernel that PyTorch launches for one eager operation.
struct Operation {
  const char* name = "";
  Access access = Access::streamed;
  std::int64_t launches = 1;  ///< of such a kernel
  std::int64_t elements = 0;  ///< that one works on
  std::int64_t bytes = 0;     ///< that one reads and writes

  friend bool operator==(const Operation&, const Operation&) = default;
};

/// Returns the operations of one elementwise kernel of kernels_of(shard), as PyTorch runs them
/// eagerly: forward those that models write, backward those of autograd. Operations on a number a
/// row are left out. Requires an elementwise kernel.
[[nodiscard]] std::vector<Operation> operations_of(const Transformer& shard, const Kernel& kernel,
                                                   Norms norms);

}  // namespace stagger::block
