#include "gpu/overlap/reference.hpp"

#include <cmath>

namespace stagger::gpu::overlap {
namespace {

double input_of_head(Input which, std::int64_t row, int dim) {
  return double{input(which, row * kAttentionDim + dim)};
}

double score_of(const std::vector<double>& query, std::int64_t key) {
  double score = 0;
  for (int dim = 0; dim < kAttentionDim; ++dim)
    score += query[static_cast<std::size_t>(dim)] * input_of_head(Input::k, key, dim);
  return score / std::sqrt(double{kAttentionDim});
}

}  // namespace

Element product_element(const GemmShape& shape, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t at = 0; at < shape.k; ++at) {
    sum += double{input(Input::a, row * shape.k + at)} *
           double{input(Input::b, column * shape.k + at)};
  }
  const auto k = static_cast<double>(shape.k);
  return {sum, std::abs(sum) / 256 + k / 16 * std::sqrt(k) / (1 << 22)};
}

std::vector<Element> attention_row(std::int64_t heads, std::int64_t seq, const DropoutRule* rule,
                                   std::int64_t row) {
  const std::int64_t first = row / seq * seq;  // of the head
  std::vector<double> query(kAttentionDim);
  for (int dim = 0; dim < kAttentionDim; ++dim)
    query[static_cast<std::size_t>(dim)] = input_of_head(Input::q, row, dim);
  double sum = 0;
  std::vector<Element> out(kAttentionDim);
  for (std::int64_t key = 0; key < seq; ++key) {
    const double power = std::exp(score_of(query, first + key));
    sum += power;
    const std::int64_t word = row * ((seq + 31) / 32) + key / 32;
    if (rule != nullptr && (stored_word(heads, seq, *rule, word) >> key % 32 & 1) == 0) continue;
    for (int dim = 0; dim < kAttentionDim; ++dim) {
      Element& element = out[static_cast<std::size_t>(dim)];
      const double term = power * input_of_head(Input::v, first + key, dim);
      element.value += term;
      element.bound += term * term;
    }
  }
  const double kept =
      rule == nullptr ? 1 : std::ldexp(static_cast<double>(rule->threshold), -rule->bits);
  for (Element& element : out) {
    element.value /= kept * sum;
    element.bound = std::abs(element.value) / 256 + std::sqrt(element.bound) / (kept * sum) / 64;
  }
  return out;
}

std::uint32_t stored_word(std::int64_t heads, std::int64_t seq, const DropoutRule& rule,
                          std::int64_t word) {
  const std::int64_t of_row = (seq + 31) / 32;
  const std::int64_t row = word / of_row;
  return keep_word(
      rule,
      {static_cast<std::uint32_t>(row / seq / heads), static_cast<std::uint32_t>(row / seq % heads),
       static_cast<std::uint32_t>(row % seq)},
      static_cast<std::uint32_t>(word % of_row));
}

}  // namespace stagger::gpu::overlap
