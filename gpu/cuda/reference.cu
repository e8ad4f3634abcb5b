// Attention and its gradients in double precision on the device. A CTA has 64 rows and 64 columns
// of one result, and walks over all 64-token blocks of the other side that its rows meet: scores,
// weights, product. What several results need is computed again for each of them, so that nothing
// of the size of queries x keys is ever in memory and no two CTAs add to one number:
//
//     lse   rows = queries    log of the sum of exp(score)
//     O     rows = queries    P V
//     dQ    rows = queries    dS K
//     dV    rows = keys       P^T dO
//     dK    rows = keys       dS^T Q         P = exp(score - lse)    dS = scale P (dP - D)
//
// With dropout dP, and P of O and dV, are multiplied by what keeps_pair() says of the pair.

#include "core/error.hpp"
#include "gpu/check/block_mask.hpp"
#include "gpu/check/pair_dropout.hpp"
#include "gpu/cuda/device_buffer.cuh"
#include "gpu/cuda/pair_tile.cuh"
#include "gpu/cuda/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace stagger::gpu {
namespace cuda {
namespace {

enum class Result { out, dq, dk, dv };

/// Whether a result's rows are queries; they are keys if not.
__host__ __device__ constexpr bool is_by_query(Result result) {
  return result == Result::out || result == Result::dq;
}
/// Whether its weights are dS; they are P if not.
__host__ __device__ constexpr bool has_derivative(Result result) {
  return result == Result::dq || result == Result::dk;
}

/// An attention problem in device memory, as AttentionShape lays it out.
struct Pairs {
  const float* q = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
  const float* d_out = nullptr;
  double* lse = nullptr;
  const double* delta = nullptr;
  const std::int32_t* kinds = nullptr;  ///< as BlockMask
  const std::uint64_t* seen = nullptr;
  std::int64_t q_blocks = 0;
  std::int64_t kv_blocks = 0;
  std::int64_t seq_q = 0;
  std::int64_t seq_kv = 0;
  std::int32_t group = 1;  ///< heads of a KV head
  std::int32_t head_dim = 0;
  double scale = 0;
  bool drops = false;
  DropoutRule dropout = {};
  double keep_scale = 1;

  /// What dropout multiplies P of a pair by, whose tokens are numbered within their head.
  __device__ double weight(std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (!drops) return 1;
    const DropoutRow row{.head = static_cast<std::uint32_t>(head),
                         .query = static_cast<std::uint32_t>(query)};
    return keeps_pair(dropout, row, static_cast<std::uint64_t>(key)) ? keep_scale : 0;
  }

  /// `head` is a head here and in keys(), which finds its KV head.
  __device__ PairRows queries(const float* tensor, std::int64_t head, std::int64_t block) const {
    return rows(tensor, seq_q, head, block);
  }
  __device__ PairRows keys(const float* tensor, std::int64_t head, std::int64_t block) const {
    return rows(tensor, seq_kv, head / group, block);
  }
  __device__ PairRows rows(const float* tensor, std::int64_t seq, std::int64_t head,
                           std::int64_t block) const {
    const std::int64_t first = block * kPairSide;
    return {.first = tensor + (head * seq + first) * head_dim,
            .rows = static_cast<std::int32_t>(min(seq - first, std::int64_t{kPairSide})),
            .columns = head_dim};
  }
};

/// A block of pairs, some of which attend.
struct PairBlock {
  std::int64_t head = 0;
  std::int64_t q = 0;
  std::int64_t kv = 0;
  std::int32_t kind = 0;

  __device__ bool sees(const Pairs& pairs, std::int32_t query, std::int32_t key) const {
    return kind == BlockMask::kFull ||
           (pairs.seen[std::int64_t{kind} * kPairSide + query] >> key & 1) != 0;
  }
};

/// A sum of exp(score)s relative to the largest of them: sum * exp(most).
struct ExpSum {
  double most = -INFINITY;
  double sum = 0;

  __device__ void raise(double to) {
    if (!(to > most)) return;
    sum *= exp(most - to);
    most = to;
  }
  __device__ void add(const ExpSum& other) {
    raise(other.most);
    if (other.sum > 0) sum = fma(other.sum, exp(other.most - most), sum);
  }
  __device__ double log_sum() const { return sum > 0 ? most + log(sum) : INFINITY; }
};

/// Adds the exps of a thread's 4 x 4 scores, by row.
__device__ void add_exps(ExpSum (&sums)[PairTile::kEach], const Pairs& pairs,
                         const PairBlock& block, const PairTile& scores) {
#pragma unroll
  for (std::int32_t r = 0; r < PairTile::kEach; ++r) {
#pragma unroll
    for (std::int32_t c = 0; c < PairTile::kEach; ++c) {
      if (block.sees(pairs, PairTile::row(r), PairTile::column(c)))
        sums[r].raise(pairs.scale * scores.at[r][c]);
    }
#pragma unroll
    for (std::int32_t c = 0; c < PairTile::kEach; ++c) {
      if (block.sees(pairs, PairTile::row(r), PairTile::column(c)))
        sums[r].sum += exp(pairs.scale * scores.at[r][c] - sums[r].most);
    }
  }
}

/// Computes lse of one head's block of queries.
__global__ void __launch_bounds__(kPairThreads) log_sum_exp(Pairs pairs, std::int64_t first_cta) {
  extern __shared__ PairShared shared[];
  const std::int64_t cta = first_cta + blockIdx.x;
  PairBlock block{.head = cta / pairs.q_blocks, .q = cta % pairs.q_blocks};
  const PairRows queries = pairs.queries(pairs.q, block.head, block.q);
  ExpSum sums[PairTile::kEach];
  for (; block.kv < pairs.kv_blocks; ++block.kv) {
    block.kind = pairs.kinds[block.q * pairs.kv_blocks + block.kv];
    if (block.kind == BlockMask::kEmpty) continue;
    PairTile scores;
    add_scores(scores, queries, pairs.keys(pairs.k, block.head, block.kv), *shared);
    add_exps(sums, pairs, block, scores);
  }
#pragma unroll
  for (std::int32_t r = 0; r < PairTile::kEach; ++r) {
    // The 16 threads of a row are neighbours in one warp.
    for (std::int32_t lane = PairTile::kApart / 2; lane > 0; lane /= 2) {
      sums[r].add({.most = __shfl_xor_sync(0xffffffff, sums[r].most, lane),
                   .sum = __shfl_xor_sync(0xffffffff, sums[r].sum, lane)});
    }
    const std::int32_t row = PairTile::row(r);
    if (PairTile::column(0) == 0 && row < queries.rows)
      pairs.lse[block.head * pairs.seq_q + block.q * kPairSide + row] = sums[r].log_sum();
  }
}

/// The operand that a result is a product with, and the places where it goes.
struct Product {
  const float* operand = nullptr;  ///< V, K, Q or dO: rows are the tokens that are summed over
  const double* norms = nullptr;   ///< of the operand's rows, squared; nullptr for O
  double* values = nullptr;
  double* terms = nullptr;  ///< by CTA: as Exact::terms, squared; nullptr for O
  std::int32_t column_blocks = 0;
};

/// Computes P of a block of pairs; 0 where a query does not see a key.
__device__ PairTile probabilities(const Pairs& pairs, const PairBlock& block, PairShared& shared) {
  PairTile p;
  add_scores(p, pairs.queries(pairs.q, block.head, block.q),
             pairs.keys(pairs.k, block.head, block.kv), shared);
  const double* lse = pairs.lse + block.head * pairs.seq_q + block.q * kPairSide;
  for (std::int32_t r = 0; r < PairTile::kEach; ++r) {
    for (std::int32_t c = 0; c < PairTile::kEach; ++c) {
      const bool sees = block.sees(pairs, PairTile::row(r), PairTile::column(c));
      p.at[r][c] = sees ? exp(pairs.scale * p.at[r][c] - lse[PairTile::row(r)]) : 0.0;
    }
  }
  return p;
}

struct Weight {
  double value = 0;
  double size = 0;  ///< squared, and as if nothing cancelled in it
};

/// `keep` is what dropout multiplies P by.
template <Result kResult>
__device__ Weight weight_of(const Pairs& pairs, double p, double dp, double delta, double keep) {
  if constexpr (!has_derivative(kResult)) {
    p *= keep;
    return {.value = p, .size = p * p};
  }
  dp *= keep;
  const double scaled = pairs.scale * p;
  return {.value = scaled * (dp - delta), .size = scaled * scaled * (dp * dp + delta * delta)};
}

/// Puts a block's weights into shared memory. Returns the sum of this thread's squared terms.
template <Result kResult>
__device__ double weigh(const Pairs& pairs, const Product& product, const PairBlock& block,
                        PairShared& shared) {
  const PairTile p = probabilities(pairs, block, shared);
  PairTile dp;
  if constexpr (has_derivative(kResult)) {
    add_scores(dp, pairs.queries(pairs.d_out, block.head, block.q),
               pairs.keys(pairs.v, block.head, block.kv), shared);
  }
  const std::int64_t first_query = block.head * pairs.seq_q + block.q * kPairSide;
  const std::int64_t first_key = block.head / pairs.group * pairs.seq_kv + block.kv * kPairSide;
  double terms = 0;
  for (std::int32_t r = 0; r < PairTile::kEach; ++r) {
    for (std::int32_t c = 0; c < PairTile::kEach; ++c) {
      const std::int32_t query = PairTile::row(r);
      const std::int32_t key = PairTile::column(c);
      Weight weight;
      if (p.at[r][c] != 0) {  // so there are both tokens
        weight = weight_of<kResult>(
            pairs, p.at[r][c], dp.at[r][c],
            has_derivative(kResult) ? pairs.delta[first_query + query] : 0,
            pairs.weight(block.head, block.q * kPairSide + query, block.kv * kPairSide + key));
      }
      const std::int32_t summed = is_by_query(kResult) ? key : query;
      const std::int32_t row = is_by_query(kResult) ? query : key;
      shared.weights[summed * PairShared::kWeightStride + row] = weight.value;
      if (kResult != Result::out && weight.size != 0) {
        terms +=
            weight.size * product.norms[(is_by_query(kResult) ? first_key : first_query) + summed];
      }
    }
  }
  return terms;
}

/// Adds the CTA's terms, always in the same order.
__device__ void store_terms(double terms, double* to, PairShared& shared) {
  __syncthreads();
  shared.weights[threadIdx.x] = terms;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double sum = 0;
  for (std::int32_t thread = 0; thread < kPairThreads; ++thread)
    sum += shared.weights[thread];
  *to = sum;
}

/// Computes 64 rows and 64 columns of one head's result; of a KV head's, whose rows are keys, over
/// all its heads.
template <Result kResult>
__global__ void __launch_bounds__(kPairThreads, 2)  // the one multiplies while the other loads
    multiply_pairs(Pairs pairs, Product product, std::int64_t first_cta) {
  extern __shared__ PairShared shared[];
  constexpr bool kByQuery = is_by_query(kResult);
  const std::int64_t cta = first_cta + blockIdx.x;
  const std::int64_t row_blocks = kByQuery ? pairs.q_blocks : pairs.kv_blocks;
  const std::int64_t summed_blocks = kByQuery ? pairs.kv_blocks : pairs.q_blocks;
  const std::int64_t row_block = cta / product.column_blocks % row_blocks;
  const auto first_column = static_cast<std::int32_t>(cta % product.column_blocks) * kPairSide;
  const std::int64_t head = cta / product.column_blocks / row_blocks;  // or KV head
  const std::int32_t members = kByQuery ? 1 : pairs.group;
  PairTile sum;
  double terms = 0;
  for (std::int64_t each = 0; each < members * summed_blocks; ++each) {
    const std::int64_t summed = each % summed_blocks;
    PairBlock block{.head = head * members + each / summed_blocks};
    block.q = kByQuery ? row_block : summed;
    block.kv = kByQuery ? summed : row_block;
    block.kind = pairs.kinds[block.q * pairs.kv_blocks + block.kv];
    if (block.kind == BlockMask::kEmpty) continue;
    terms += weigh<kResult>(pairs, product, block, *shared);
    add_weighted(sum,
                 kByQuery ? pairs.keys(product.operand, block.head, summed)
                          : pairs.queries(product.operand, block.head, summed),
                 first_column, *shared);
  }
  const std::int64_t seq = kByQuery ? pairs.seq_q : pairs.seq_kv;
  for (std::int32_t r = 0; r < PairTile::kEach; ++r) {
    for (std::int32_t c = 0; c < PairTile::kEach; ++c) {
      const std::int64_t row = row_block * kPairSide + PairTile::row(r);
      const std::int32_t column = first_column + PairTile::column(c);
      if (row < seq && column < pairs.head_dim)
        product.values[(head * seq + row) * pairs.head_dim + column] = sum.at[r][c];
    }
  }
  // Every block of columns has computed the same.
  if (kResult != Result::out) {
    store_terms(first_column == 0 ? terms : 0, product.terms + cta, *shared);
  }
}

// ---- host ---------------------------------------------------------------------------------------

/// Launches kernel(arguments…, first CTA) in pieces of about a tenth of a second, so that the
/// device never belongs to one launch for long. `summed` tokens are met by each CTA.
template <class Kernel, class... Arguments>
void launch(Kernel* kernel, std::int64_t ctas, std::int64_t summed, std::int32_t head_dim,
            const Arguments&... arguments) {
  constexpr std::int64_t kWork = std::int64_t{1} << 38;  // multiplications and additions
  const std::int64_t work = kPairSide * summed * (2 * std::int64_t{head_dim} + kPairSide);
  const std::int64_t piece = std::max<std::int64_t>(kWork / work, 512);
  STAGGER_CUDA_TRY(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(sizeof(PairShared))));
  for (std::int64_t first = 0; first < ctas; first += piece) {
    kernel<<<static_cast<unsigned>(std::min(piece, ctas - first)), kPairThreads,
             sizeof(PairShared)>>>(arguments..., first);
    STAGGER_CUDA_TRY(cudaGetLastError());
  }
}

/// An attention problem in device memory, and the results that are asked of it.
class CudaPairs {
 public:
  CudaPairs(const AttentionShape& shape, const TokenMask& mask, const Inputs& inputs,
            const std::optional<Dropout>& dropout)
      : shape_(shape),
        mask_(block_mask(mask, {.q = shape.seq_q, .kv = shape.seq_kv})),
        q_(inputs.q),
        k_(inputs.k),
        v_(inputs.v),
        d_out_(inputs.d_out),
        kinds_(mask_.kinds),
        seen_(mask_.seen),
        lse_(shape.q_rows()) {
    pairs_ = {.q = q_.data(),
              .k = k_.data(),
              .v = v_.data(),
              .d_out = d_out_.data(),
              .lse = lse_.data(),
              .kinds = kinds_.data(),
              .seen = seen_.data(),
              .q_blocks = mask_.q_blocks,
              .kv_blocks = mask_.kv_blocks,
              .seq_q = shape.seq_q,
              .seq_kv = shape.seq_kv,
              .group = shape.group(),
              .head_dim = shape.head_dim,
              .scale = shape.scale()};
    if (!dropout) return;
    pairs_.drops = true;
    pairs_.dropout = dropout->rule;
    pairs_.keep_scale = keep_scale(dropout->rule);
  }

  /// Leaves lse on the device too, for out().
  [[nodiscard]] std::vector<double> lse() {
    launch(log_sum_exp, shape_.heads * mask_.q_blocks, shape_.seq_kv, shape_.head_dim, pairs_);
    return lse_.download();
  }
  [[nodiscard]] std::vector<double> out() { return run<Result::out>(v_, {}).values; }

  /// Takes the forward pass instead of running it.
  void upload(const Forward& forward) {
    lse_ = DeviceBuffer<double>(forward.lse);
    delta_ = DeviceBuffer<double>(forward.delta);
    pairs_.lse = lse_.data();
    pairs_.delta = delta_.data();
  }
  [[nodiscard]] ReferenceGradients gradients(const Inputs& inputs) {
    return {.dq = run<Result::dq>(k_, inputs.k),
            .dk = run<Result::dk>(q_, inputs.q),
            .dv = run<Result::dv>(d_out_, inputs.d_out)};
  }

 private:
  /// Returns the squared norm of each row of a tensor.
  [[nodiscard]] std::vector<double> norms(const std::vector<float>& tensor) const {
    std::vector<double> norms(tensor.size() / shape_.dim());
    for (std::size_t index = 0; index < tensor.size(); ++index)
      norms[index / shape_.dim()] += double{tensor[index]} * double{tensor[index]};
    return norms;
  }

  /// Computes a result. `tensor` is the operand once more, on the host; empty where no terms are
  /// wanted.
  template <Result kResult>
  [[nodiscard]] Exact run(const DeviceBuffer<float>& operand, const std::vector<float>& tensor) {
    constexpr bool kByQuery = is_by_query(kResult);
    const std::int64_t columns = (shape_.head_dim + kPairSide - 1) / kPairSide;
    const std::int64_t ctas =
        (kByQuery ? shape_.heads * mask_.q_blocks : shape_.heads_kv * mask_.kv_blocks) * columns;
    const DeviceBuffer<double> of_rows(norms(tensor));
    const DeviceBuffer<double> values(kByQuery ? shape_.q_elements() : shape_.kv_elements());
    const DeviceBuffer<double> terms(tensor.empty() ? 0 : static_cast<std::size_t>(ctas));
    const Product product{.operand = operand.data(),
                          .norms = of_rows.data(),
                          .values = values.data(),
                          .terms = terms.data(),
                          .column_blocks = static_cast<std::int32_t>(columns)};
    launch(multiply_pairs<kResult>, ctas, kByQuery ? shape_.seq_kv : shape_.group() * shape_.seq_q,
           shape_.head_dim, pairs_, product);
    const std::vector<double> squares = terms.download();
    return {.values = values.download(),
            .terms = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0))};
  }

  const AttentionShape shape_;
  const BlockMask mask_;
  DeviceBuffer<float> q_;
  DeviceBuffer<float> k_;
  DeviceBuffer<float> v_;
  DeviceBuffer<float> d_out_;
  DeviceBuffer<std::int32_t> kinds_;
  DeviceBuffer<std::uint64_t> seen_;
  DeviceBuffer<double> lse_;
  DeviceBuffer<double> delta_;
  Pairs pairs_;
};

/// Returns D = rowsum(dO * O).
std::vector<double> delta(const std::vector<float>& d_out, const std::vector<double>& out,
                          std::size_t dim) {
  std::vector<double> sums(out.size() / dim);
  for (std::size_t index = 0; index < out.size(); ++index)
    sums[index / dim] += double{d_out[index]} * out[index];
  return sums;
}

}  // namespace
}  // namespace cuda

Attention make_attention_on_cuda(const Problem& problem, const AttentionShape& shape, Inputs inputs,
                                 std::optional<Dropout> dropout) {
  STAGGER_EXPECTS(fits(inputs, shape));
  Attention attention{.shape = shape,
                      .masks = HeadMasks(problem),
                      .inputs = std::move(inputs),
                      .forward = {},
                      .dropout = std::move(dropout)};
  cuda::CudaPairs pairs(shape, attention.masks.common(), attention.inputs, attention.dropout);
  attention.forward.lse = pairs.lse();
  attention.forward.out = pairs.out();
  attention.forward.delta = cuda::delta(attention.inputs.d_out, attention.forward.out, shape.dim());
  return attention;
}

ReferenceGradients reference_gradients_on_cuda(const Attention& attention) {
  cuda::CudaPairs pairs(attention.shape, attention.masks.common(), attention.inputs,
                        attention.dropout);
  pairs.upload(attention.forward);
  return pairs.gradients(attention.inputs);
}

}  // namespace stagger::gpu
