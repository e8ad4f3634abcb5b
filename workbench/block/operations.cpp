// Bytes of an element, 2 of a tensor in bf16 and 4 in fp32, each operand read and each result
// written once. An RMS norm in fp32 is y = w bf16(x32 r), x32 = fp32(x), r = rsqrt(mean(x32^2)).

#include "workbench/block/operations.hpp"

#include "core/error.hpp"

#include <span>

namespace stagger::block {
namespace {

using enum Access;

struct Row {
  const char* name;
  Access access;
  std::int64_t bytes;   ///< of an element
  std::int64_t of = 1;  ///< one element in so many
};

constexpr Row kWideNorm[] = {{"widen", streamed, 6},  {"square", streamed, 8},
                             {"mean", streamed, 4},   {"scale", broadcast, 8},
                             {"narrow", streamed, 6}, {"weigh", broadcast, 4}};
constexpr Row kWideNormBackward[] = {{"weigh", broadcast, 4},
                                     {"weight's gradient", streamed, 6},
                                     {"its sum", streamed, 2},
                                     {"widen", streamed, 6},
                                     {"scale", broadcast, 8},
                                     {"scale's gradient", streamed, 12},
                                     {"its sum", streamed, 4},
                                     {"spread the mean", broadcast, 4},
                                     {"power", streamed, 8},
                                     {"twice", streamed, 8},
                                     {"square's gradient", streamed, 12},
                                     {"add", streamed, 12},
                                     {"narrow", streamed, 6}};
constexpr Row kNorm[] = {{"norm", fused, 4}};
constexpr Row kNormBackward[] = {{"norm", fused, 6}, {"weights' gradients", fused, 4}};
constexpr Row kResidual[] = {{"add the residual", streamed, 6}};

constexpr Row kRope[] = {{"times cosines", broadcast, 4},
                         {"negate a half", strided, 4, 2},
                         {"concatenate halves", strided, 4},
                         {"times sines", broadcast, 4},
                         {"add", streamed, 6}};
constexpr Row kPack[] = {{"concatenate q, k and v", streamed, 4}};

constexpr Row kSwiglu[] = {{"silu", strided, 4}, {"multiply", strided, 6}};
constexpr Row kSwigluBackward[] = {{"times silu", streamed, 6},
                                   {"times the other half", strided, 6},
                                   {"silu", strided, 6},
                                   {"concatenate halves", streamed, 8}};
constexpr Row kGelu[] = {{"gelu", fused, 4}};
constexpr Row kGeluBackward[] = {{"gelu", fused, 6}};

class Operations {
 public:
  void add(std::span<const Row> rows, std::int64_t elements, std::int64_t launches = 1) {
    for (const Row& row : rows) {
      const std::int64_t touched = elements / row.of;
      all_.push_back({.name = row.name,
                      .access = row.access,
                      .launches = launches,
                      .elements = touched,
                      .bytes = row.bytes * touched});
    }
  }

  [[nodiscard]] std::vector<Operation> all() && { return std::move(all_); }

 private:
  std::vector<Operation> all_;
};

/// What takes 2 norms and 2 residuals.
void add_norms(Operations& found, const Transformer& shard, std::int64_t tokens, bool forward,
               Norms norms) {
  const bool wide = shard.activation == Activation::swiglu && norms == Norms::fp32;
  const std::int64_t elements = tokens * shard.hidden;
  if (forward) {
    found.add(wide ? std::span<const Row>(kWideNorm) : kNorm, elements, 2);
  } else {
    found.add(wide ? std::span<const Row>(kWideNormBackward) : kNormBackward, elements, 2);
  }
  found.add(kResidual, elements, 2);
}

/// A launch for each expert; all of them together have the tokens as often as experts are active.
void add_activation(Operations& found, const Transformer& shard, std::int64_t tokens,
                    bool forward) {
  const std::int64_t elements = tokens * shard.experts_active * shard.ffn / shard.experts;
  if (shard.activation == Activation::swiglu) {
    found.add(forward ? std::span<const Row>(kSwiglu) : kSwigluBackward, elements, shard.experts);
  } else {
    found.add(forward ? kGelu : kGeluBackward, elements, shard.experts);
  }
}

}  // namespace

std::vector<Operation> operations_of(const Transformer& shard, const Kernel& kernel, Norms norms) {
  STAGGER_EXPECTS(kernel.work == Work::elementwise);
  const std::int64_t tokens = shard.batch * shard.seq;
  const bool forward = kernel.pass == Pass::forward;
  Operations found;
  if (kernel.name == "activation") {
    add_activation(found, shard, tokens, forward);
  } else if (kernel.name == "rope") {
    const std::int64_t q = tokens * shard.heads * shard.head_dim;
    const std::int64_t k = tokens * shard.heads_kv * shard.head_dim;
    found.add(kRope, q);
    found.add(kRope, k);
    if (!forward) found.add(kPack, q + 2 * k);
  } else {
    add_norms(found, shard, tokens, forward, norms);
  }
  return std::move(found).all();
}

}  // namespace stagger::block
