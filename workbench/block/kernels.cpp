// Per token of a block: a GEMM of K x N is 2 K N FLOPs forward and 4 K N backward (dX and dW);
// norms with residuals move 9 h elements forward and 8 h backward, RoPE 2 (H + Hk) d each way, an
// activation what it reads and writes of the FFN: SwiGLU 3 and 5, GELU 2 and 3. Attention is 4 d
// FLOPs a live pair forward and 10 d backward (5 GEMMs of a tile).

#include "workbench/block/kernels.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <array>
#include <iterator>
#include <utility>

namespace stagger::block {
namespace {

constexpr std::int64_t kMostWork = std::int64_t{1} << 58;  ///< so that the sum over a block fits

std::int64_t work_within(Checked number, const Transformer& model) {
  if (!number.within(kMostWork)) {
    throw Error(ErrorKind::limit, model.name + ": more than 2^58 FLOPs or bytes in one kernel");
  }
  return number.value();
}

struct Gemm {
  const char* name;
  std::int64_t in = {};      ///< elements of a token that go in, K
  std::int64_t out = {};     ///< and come out, N
  std::int64_t experts = 1;  ///< whose weights are read
  std::int64_t active = 1;   ///< that a token goes through
};

class Block {
 public:
  Block(const Transformer& model)
      : model_(model),
        tokens_(work_within(Checked(model.batch) * model.seq, model)),
        inner_(model.heads * model.head_dim),
        inner_kv_(model.heads_kv * model.head_dim) {}

  [[nodiscard]] std::vector<Kernel> kernels() const {
    std::vector<Kernel> forward = pass(Pass::forward);
    std::vector<Kernel> backward = pass(Pass::backward);
    forward.insert(forward.end(), std::make_move_iterator(backward.rbegin()),
                   std::make_move_iterator(backward.rend()));
    return forward;
  }

 private:
  /// In the order of the forward pass.
  [[nodiscard]] std::vector<Kernel> pass(Pass pass) const {
    const bool forward = pass == Pass::forward;
    const bool gated = model_.activation == Activation::swiglu;
    const std::int64_t ffn = model_.experts_active * model_.ffn;
    const std::int64_t moved = gated ? (forward ? 3 : 5) : (forward ? 2 : 3);
    std::vector<Kernel> kernels = {
        elementwise("norms and residuals", pass, Checked(forward ? 9 : 8) * model_.hidden),
        gemm({"qkv", model_.hidden, inner_ + 2 * inner_kv_}, pass)};
    if (model_.rope) {
      kernels.push_back(elementwise("rope", pass, Checked(2) * (inner_ + inner_kv_)));
    }
    kernels.push_back(attention(pass));
    kernels.push_back(gemm({"o", inner_, model_.hidden}, pass));
    kernels.push_back(gemm({gated ? "gate+up" : "up", model_.hidden, (gated ? 2 : 1) * model_.ffn,
                            model_.experts, model_.experts_active},
                           pass));
    kernels.push_back(elementwise("activation", pass, Checked(moved) * ffn));
    kernels.push_back(
        gemm({"down", model_.ffn, model_.hidden, model_.experts, model_.experts_active}, pass));
    return kernels;
  }

  /// Each operand and result moves once; backward has two GEMMs, for dX and for dW.
  [[nodiscard]] Kernel gemm(const Gemm& gemm, Pass pass) const {
    const std::int64_t times = pass == Pass::forward ? 1 : 2;
    const Checked tokens = Checked(tokens_) * gemm.active;
    const Checked weights = Checked(gemm.in) * gemm.out;
    const Checked elements = tokens * gemm.in + tokens * gemm.out + weights * gemm.experts;
    return {.name = gemm.name,
            .pass = pass,
            .work = Work::gemm,
            .launches = times * gemm.experts,
            .flops = work_within(Checked(2 * times) * tokens * weights, model_),
            .bytes = work_within(Checked(2 * times) * elements, model_)};
  }

  [[nodiscard]] Kernel elementwise(const char* name, Pass pass, Checked elements) const {
    return {.name = name,
            .pass = pass,
            .work = Work::elementwise,
            .bytes = work_within(Checked(2) * tokens_ * elements, model_)};
  }

  /// Twice the live pairs of one head of one sequence.
  [[nodiscard]] Checked twice_pairs() const {
    const Checked seq = model_.seq;
    if (model_.attention == Attention::full) return Checked(2) * seq * seq;
    if (model_.attention == Attention::causal || model_.window >= model_.seq) return seq * seq;
    return Checked(model_.window) * (Checked(2) * seq - model_.window);
  }

  /// Reads Q, K, V and writes O; backward reads those and dO, and writes dQ, dK and dV. The
  /// logarithms of the softmax's sums and D are in fp32, written once and read once.
  [[nodiscard]] Kernel attention(Pass pass) const {
    const bool forward = pass == Pass::forward;
    const Checked heads = Checked(model_.batch) * model_.heads;
    const Checked q = Checked(tokens_) * inner_;
    const Checked kv = Checked(tokens_) * inner_kv_;
    const Checked sums = Checked(tokens_) * model_.heads;
    const Checked bytes =
        forward ? Checked(2) * (Checked(2) * q + Checked(2) * kv) + Checked(4) * sums
                : Checked(2) * (Checked(4) * q + Checked(4) * kv) + Checked(16) * sums;
    return {.name = "attention",
            .pass = pass,
            .work = Work::attention,
            .flops = work_within(Checked(forward ? 2 : 5) * heads * twice_pairs() * model_.head_dim,
                                 model_),
            .bytes = work_within(bytes, model_)};
  }

  const Transformer& model_;
  std::int64_t tokens_;
  std::int64_t inner_;     ///< elements of a token's queries
  std::int64_t inner_kv_;  ///< of its keys, and of its values
};

template <class Value>
std::int64_t sum(const std::vector<Kernel>& kernels, Work work, Value value) {
  std::int64_t total = 0;
  for (const Kernel& kernel : kernels) {
    if (kernel.work == work) total += kernel.*value;
  }
  return total;
}

}  // namespace

Transformer shard_of(Transformer model, std::int64_t tp) {
  const auto share = [&](const char* what, std::int64_t& number) {
    if (number % tp != 0) {
      throw Error(ErrorKind::usage, model.name + ": " + std::to_string(number) + " " + what +
                                        " cannot be shared by " + std::to_string(tp) + " devices");
    }
    number /= tp;
  };
  share("heads", model.heads);
  share("elements of the FFN", model.ffn);
  // Fewer KV heads than devices: each has a copy of the one that it needs.
  if (model.heads_kv >= tp || tp % model.heads_kv != 0) {
    share("KV heads", model.heads_kv);
  } else {
    model.heads_kv = 1;
  }
  return model;
}

std::vector<Kernel> kernels_of(const Transformer& model, std::int64_t tp) {
  const Transformer shard = shard_of(model, tp);
  return Block(shard).kernels();
}

std::int64_t reduced_bytes(const Transformer& model, std::int64_t tp) {
  if (tp == 1) return 0;
  constexpr std::int64_t kBytes = 8;  // 4 sums of 2 bytes an element
  return work_within(Checked(kBytes) * model.batch * model.seq * model.hidden, model);
}

std::int64_t flops_of(const std::vector<Kernel>& kernels, Work work) {
  return sum(kernels, work, &Kernel::flops);
}

std::int64_t bytes_of(const std::vector<Kernel>& kernels, Work work) {
  return sum(kernels, work, &Kernel::bytes);
}

double gflops_of(const std::vector<Kernel>& kernels) {
  return 1e-9 *
         static_cast<double>(flops_of(kernels, Work::gemm) + flops_of(kernels, Work::attention));
}

}  // namespace stagger::block
