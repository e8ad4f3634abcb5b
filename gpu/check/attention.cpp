#include "gpu/check/attention.hpp"

#include "core/error.hpp"
#include "gpu/check/pieces.hpp"
#include "gpu/numerics/philox.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace stagger::gpu {
namespace {

std::vector<float> random_tensor(std::size_t elements, std::uint64_t seed, std::uint32_t tensor) {
  std::vector<float> values(elements);
  in_pieces(elements, [&](std::size_t begin, std::size_t end) {
    for (std::size_t index = begin; index < end; ++index)
      values[index] = random_normal(seed, tensor, index);
  });
  return values;
}

double dot(const float* left, const float* right, std::size_t count) {
  double sum = 0;
  for (std::size_t index = 0; index < count; ++index)
    sum += double{left[index]} * double{right[index]};
  return sum;
}

/// A query of a head and the keys that it sees.
class QueryScores {
 public:
  QueryScores(const Attention& attention, Head head, std::int64_t query)
      : shape_(attention.shape),
        inputs_(attention.inputs),
        dropout_(attention.dropout),
        head_(head),
        query_(query) {
    for (std::int64_t key = 0; key < shape_.seq_kv; ++key) {
      if (attention.masks.of(head).sees(query, key)) keys_.push_back(key);
    }
    const float* q = &inputs_.q[shape_.q_row(head, query) * shape_.dim()];
    scores_.reserve(keys_.size());
    for (const std::int64_t key : keys_) {
      const float* k = &inputs_.k[shape_.kv_row(head, key) * shape_.dim()];
      scores_.push_back(shape_.scale() * dot(q, k, shape_.dim()));
    }
  }

  /// Returns log(sum of exp(score)). The greatest score is taken out first: no exp overflows.
  [[nodiscard]] double lse() const {
    if (scores_.empty()) return std::numeric_limits<double>::infinity();
    const double most = *std::max_element(scores_.begin(), scores_.end());
    double sum = 0;
    for (const double score : scores_)
      sum += std::exp(score - most);
    return most + std::log(sum);
  }

  /// Adds softmax(scores) V to `out`, less what is dropped.
  void add_out(double lse, double* out) const {
    for (std::size_t seen = 0; seen < keys_.size(); ++seen) {
      double weight = std::exp(scores_[seen] - lse);
      if (dropout_) weight *= pair_weight(*dropout_, head_.value, query_, keys_[seen]);
      const float* v = &inputs_.v[shape_.kv_row(head_, keys_[seen]) * shape_.dim()];
      for (std::size_t column = 0; column < shape_.dim(); ++column)
        out[column] += weight * double{v[column]};
    }
  }

 private:
  const AttentionShape& shape_;
  const Inputs& inputs_;
  const std::optional<Dropout>& dropout_;
  Head head_;
  std::int64_t query_;
  std::vector<std::int64_t> keys_;  ///< that the query sees
  std::vector<double> scores_;      ///< by seen key
};

void run_forward(Attention& attention) {
  const AttentionShape& shape = attention.shape;
  Forward& forward = attention.forward;
  forward.out.assign(shape.q_elements(), 0);
  forward.lse.assign(shape.q_rows(), 0);
  forward.delta.assign(shape.q_rows(), 0);
  for (Head head{0}; head.value < shape.heads; ++head) {
    for (std::int64_t query = 0; query < shape.seq_q; ++query) {
      const QueryScores row(attention, head, query);
      const std::size_t place = shape.q_row(head, query);
      double* out = &forward.out[place * shape.dim()];
      const float* d_out = &attention.inputs.d_out[place * shape.dim()];
      forward.lse[place] = row.lse();
      row.add_out(forward.lse[place], out);
      for (std::size_t column = 0; column < shape.dim(); ++column)
        forward.delta[place] += double{d_out[column]} * out[column];
    }
  }
}

}  // namespace

double AttentionShape::scale() const {
  return 1 / std::sqrt(static_cast<double>(head_dim));
}

AttentionShape attention_shape(const Problem& problem, std::int64_t head_dim) {
  if (head_dim < 1 || head_dim > kMaxHeadDim) {
    throw Error(ErrorKind::usage, "head_dim must be 1 to " + std::to_string(kMaxHeadDim) +
                                      ", not " + std::to_string(head_dim));
  }
  return {.heads = problem.heads,
          .heads_kv = problem.heads_kv,
          .seq_q = problem.lengths.q,
          .seq_kv = problem.lengths.kv,
          .head_dim = static_cast<std::int32_t>(head_dim)};
}

bool fits(const Inputs& inputs, const AttentionShape& shape) {
  return inputs.q.size() == shape.q_elements() && inputs.d_out.size() == shape.q_elements() &&
         inputs.k.size() == shape.kv_elements() && inputs.v.size() == shape.kv_elements();
}

bool is_exact(const Inputs& inputs, Dtype dtype) {
  if (dtype == Dtype::fp32) return true;
  std::atomic<bool> exact = true;
  for (const auto* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_out}) {
    const float* const values = tensor->data();
    in_pieces(tensor->size(), [&exact, values, dtype](std::size_t begin, std::size_t end) {
      const auto has = [dtype](float value) { return rounded(value, dtype) == value; };
      if (!std::all_of(values + begin, values + end, has)) exact = false;
    });
  }
  return exact;
}

Inputs random_inputs(const AttentionShape& shape, std::uint64_t seed) {
  return {.q = random_tensor(shape.q_elements(), seed, 0),
          .k = random_tensor(shape.kv_elements(), seed, 1),
          .v = random_tensor(shape.kv_elements(), seed, 2),
          .d_out = random_tensor(shape.q_elements(), seed, 3)};
}

Attention make_attention(const Problem& problem, const AttentionShape& shape, Inputs inputs,
                         std::optional<Dropout> dropout) {
  STAGGER_EXPECTS(fits(inputs, shape));
  Attention attention{.shape = shape,
                      .masks = HeadMasks(problem),
                      .inputs = std::move(inputs),
                      .forward = {},
                      .dropout = std::move(dropout)};
  run_forward(attention);
  return attention;
}

Attention unjudged_attention(const Problem& problem, const AttentionShape& shape, Inputs inputs,
                             std::optional<Dropout> dropout) {
  Attention attention{.shape = shape,
                      .masks = HeadMasks(problem),
                      .inputs = std::move(inputs),
                      .forward = {},
                      .dropout = std::move(dropout)};
  attention.forward.out.assign(shape.q_elements(), 0);
  attention.forward.lse.assign(shape.q_rows(), 1 + std::log(static_cast<double>(shape.seq_kv)));
  attention.forward.delta.assign(shape.q_rows(), 0);
  return attention;
}

double backward_flops(const Attention& attention) {
  return 10.0 * attention.shape.head_dim *
         static_cast<double>(attention.masks.pairs(attention.shape.heads));
}

}  // namespace stagger::gpu
