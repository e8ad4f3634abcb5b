#pragma once

#include "workbench/block/transformer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::block {

enum class Pass { forward, backward };
inline constexpr const char* kPassNames[] = {"forward", "backward"};

enum class Work { gemm, elementwise, attention };

/// What one kernel of a block does on one device, 2 bytes an element.
struct Kernel {
  std::string name;  ///< "qkv", "attention", …: that of both passes
  Pass pass = Pass::forward;
  Work work = Work::gemm;
  std::int64_t launches = 1;  ///< of GEMMs, one for each expert
  std::int64_t flops = 0;     ///< of tensor cores; elementwise: 0
  std::int64_t bytes = 0;     ///< the least that device memory reads and writes

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// Returns the kernels of one block, forward then backward, each in the order in which they run;
/// `tp` devices share heads and FFN (tensor parallel), and each has what is left of both and all of
/// the norms. Throws Error{usage} if `tp` does not divide them, Error{limit} beyond 2^58 FLOPs or
/// bytes.
///
/// A causal mask counts half of the pairs, a window w the w·s − w²/2 of a causal one.
[[nodiscard]] std::vector<Kernel> kernels_of(const Transformer& model, std::int64_t tp = 1);

/// Returns the model that each of `tp` devices has. Throws Error{usage} as kernels_of does.
[[nodiscard]] Transformer shard_of(Transformer model, std::int64_t tp);

/// Returns the bytes of what `tp` devices sum over all of them, a tensor each time: 4 in a block.
[[nodiscard]] std::int64_t reduced_bytes(const Transformer& model, std::int64_t tp);

/// Returns the sum over the kernels of one kind of work.
[[nodiscard]] std::int64_t flops_of(const std::vector<Kernel>& kernels, Work work);
[[nodiscard]] std::int64_t bytes_of(const std::vector<Kernel>& kernels, Work work);
/// Returns GFLOPs of tensor cores: of GEMMs and attention.
[[nodiscard]] double gflops_of(const std::vector<Kernel>& kernels);

}  // namespace stagger::block
