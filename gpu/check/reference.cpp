#include "gpu/check/reference.hpp"

#include <cmath>
#include <span>
#include <utility>

namespace stagger::gpu {
namespace {

using Row = std::span<const float>;

double dot(Row left, Row right) {
  double sum = 0;
  for (std::size_t column = 0; column < left.size(); ++column)
    sum += double{left[column]} * double{right[column]};
  return sum;
}

void add(double factor, Row row, std::span<double> sum) {
  for (std::size_t column = 0; column < row.size(); ++column)
    sum[column] += factor * double{row[column]};
}

class Reference {
 public:
  explicit Reference(const Attention& attention)
      : attention_(attention), shape_(attention.shape), scale_(shape_.scale()) {
    result_.dq.values.assign(shape_.q_elements(), 0);
    result_.dk.values.assign(shape_.kv_elements(), 0);
    result_.dv.values.assign(shape_.kv_elements(), 0);
  }

  ReferenceGradients run() {
    for (Head head{0}; head.value < shape_.heads; ++head) {
      const TokenMask& mask = attention_.masks.of(head);
      for (std::int64_t query = 0; query < shape_.seq_q; ++query) {
        for (std::int64_t key = 0; key < shape_.seq_kv; ++key) {
          if (mask.sees(query, key)) {
            add_pair(shape_.q_row(head, query), shape_.kv_row(head, key), weight(head, query, key));
          }
        }
      }
    }
    for (Exact* gradient : {&result_.dq, &result_.dk, &result_.dv})
      gradient->terms = std::sqrt(gradient->terms);
    return std::move(result_);
  }

 private:
  /// What dropout multiplies P of a pair by.
  [[nodiscard]] double weight(Head head, std::int64_t query, std::int64_t key) const {
    return attention_.dropout ? pair_weight(*attention_.dropout, head.value, query, key) : 1;
  }

  void add_pair(std::size_t query, std::size_t key, double weight) {
    const Row q = row(attention_.inputs.q, query);
    const Row k = row(attention_.inputs.k, key);
    const Row v = row(attention_.inputs.v, key);
    const Row d_out = row(attention_.inputs.d_out, query);
    const double delta = attention_.forward.delta[query];
    const double p = std::exp(scale_ * dot(q, k) - attention_.forward.lse[query]);
    const double dp = weight * dot(d_out, v);
    const double ds = scale_ * p * (dp - delta);
    add(weight * p, d_out, row(result_.dv, key));
    add(ds, k, row(result_.dq, query));
    add(ds, q, row(result_.dk, key));

    const double uncancelled = scale_ * scale_ * p * p * (dp * dp + delta * delta);
    result_.dv.terms += weight * weight * p * p * dot(d_out, d_out);
    result_.dq.terms += uncancelled * dot(k, k);
    result_.dk.terms += uncancelled * dot(q, q);
  }

  [[nodiscard]] Row row(const std::vector<float>& tensor, std::size_t place) const {
    return Row(tensor).subspan(place * shape_.dim(), shape_.dim());
  }
  [[nodiscard]] std::span<double> row(Exact& gradient, std::size_t place) const {
    return std::span(gradient.values).subspan(place * shape_.dim(), shape_.dim());
  }

  const Attention& attention_;
  const AttentionShape& shape_;
  double scale_;
  ReferenceGradients result_;
};

}  // namespace

ReferenceGradients reference_gradients(const Attention& attention) {
  return Reference(attention).run();
}

}  // namespace stagger::gpu
