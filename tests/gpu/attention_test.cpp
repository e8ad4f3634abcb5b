#include "gpu/check/attention.hpp"

#include "core/error.hpp"
#include "gpu/check/reference.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace stagger::gpu {
namespace {

constexpr std::int64_t kDim = 3;

bool is_near(double value, double expected) {
  return std::abs(value - expected) <= 1e-12 * std::abs(expected);
}

/// sum(dO * O): its derivatives are dQ, dK and dV.
double loss(const Problem& problem, const AttentionShape& shape, const Inputs& inputs,
            const std::optional<Dropout>& dropout) {
  const Attention attention = make_attention(problem, shape, inputs, dropout);
  double sum = 0;
  for (std::size_t index = 0; index < inputs.d_out.size(); ++index)
    sum += double{inputs.d_out[index]} * attention.forward.out[index];
  return sum;
}

/// The central difference of one input; 2^-9 is exact in every one of them.
double slope(const Problem& problem, const AttentionShape& shape, Inputs inputs,
             const std::optional<Dropout>& dropout, std::vector<float> Inputs::*tensor,
             std::size_t index) {
  constexpr float kStep = 0x1p-9F;
  (inputs.*tensor)[index] += kStep;
  const double above = loss(problem, shape, inputs, dropout);
  (inputs.*tensor)[index] -= 2 * kStep;
  return (above - loss(problem, shape, inputs, dropout)) / (2 * double{kStep});
}

/// Compares each gradient of a problem with its slope; returns how many there are.
std::int64_t check_slopes(const Problem& problem, const std::optional<DropoutOptions>& drops) {
  const AttentionShape shape = attention_shape(problem, kDim);
  const Inputs inputs = random_inputs(shape, 3);
  std::optional<Dropout> dropout;
  if (drops) dropout = make_dropout(*drops, shape.dropout_layout());
  const ReferenceGradients exact =
      reference_gradients(make_attention(problem, shape, inputs, dropout));
  std::int64_t slopes = 0;
  for (const auto& [tensor, gradient] :
       {std::pair{&Inputs::q, &exact.dq}, std::pair{&Inputs::k, &exact.dk},
        std::pair{&Inputs::v, &exact.dv}}) {
    CAPTURE(problem.mask.family->name, problem.lengths.q, problem.lengths.kv);
    REQUIRE(gradient->values.size() == (inputs.*tensor).size());
    for (std::size_t index = 0; index < gradient->values.size(); ++index) {
      const double expected = slope(problem, shape, inputs, dropout, tensor, index);
      REQUIRE(std::abs(gradient->values[index] - expected) <= 1e-4 * (1 + std::abs(expected)));
      ++slopes;
    }
  }
  return slopes;
}

TEST_CASE("the reference gradients are the finite differences of the forward pass") {
  std::int64_t slopes = 0;
  for (const Problem& problem : test::every_small_mask()) {
    if (problem.heads == 1) slopes += check_slopes(problem, std::nullopt);
  }
  for (const Problem& problem : test::small_masks_by_head())
    slopes += check_slopes(problem, std::nullopt);
  CHECK(slopes > 1000);
}

TEST_CASE("with dropout too, of any probability") {
  std::int64_t slopes = 0;
  for (const Problem& problem : test::every_small_mask()) {
    if (problem.heads > 1) continue;
    slopes += check_slopes(problem, DropoutOptions{.probability = 0.1});
    slopes += check_slopes(problem, DropoutOptions{.probability = 0.5, .rounds = 10, .bits = 32});
  }
  CHECK(slopes > 2000);
}

TEST_CASE("a query that sees nothing gives zeros and no NaN") {
  // Causal, more queries than keys: the first two of five see nothing.
  const Problem problem = make_problem(make_mask("causal"), {.q = 5, .kv = 3}, {}, 1, 0);
  const AttentionShape shape = attention_shape(problem, kDim);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 1));
  const ReferenceGradients exact = reference_gradients(attention);
  for (std::size_t query = 0; query < 2; ++query) {
    CHECK(attention.forward.lse[query] == std::numeric_limits<double>::infinity());
    CHECK(attention.forward.delta[query] == 0);
  }
  for (std::size_t element = 0; element < 2 * shape.dim(); ++element) {
    CHECK(attention.forward.out[element] == 0);
    CHECK(exact.dq.values[element] == 0);
  }
  for (const Exact* gradient : {&exact.dq, &exact.dk, &exact.dv}) {
    for (const double value : gradient->values)
      CHECK(std::isfinite(value));
  }
}

TEST_CASE("what a gradient is relative to is the norm of what is added up for it") {
  const Problem problem = make_problem(make_mask("causal"), {.q = 5, .kv = 7}, {}, 2, 0);
  const AttentionShape shape = attention_shape(problem, kDim);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 3));
  const ReferenceGradients exact = reference_gradients(attention);
  const auto dot = [&](const std::vector<float>& left, std::size_t left_row,
                       const std::vector<float>& right, std::size_t right_row) {
    double sum = 0;
    for (std::size_t column = 0; column < shape.dim(); ++column)
      sum += double{left[left_row * shape.dim() + column]} *
             double{right[right_row * shape.dim() + column]};
    return sum;
  };
  double dq = 0;
  double dk = 0;
  double dv = 0;
  const Inputs& in = attention.inputs;
  for (Head head{0}; head.value < 2; ++head) {
    for (std::int64_t query = 0; query < 5; ++query) {
      for (std::int64_t key = 0; key < 7; ++key) {
        if (key > query + 2) continue;  // aligned at the bottom right
        const std::size_t row = shape.q_row(head, query);
        const std::size_t column = shape.kv_row(head, key);
        const double p =
            std::exp(shape.scale() * dot(in.q, row, in.k, column) - attention.forward.lse[row]);
        const double dp = dot(in.d_out, row, in.v, column);
        const double delta = attention.forward.delta[row];
        const double parts = shape.scale() * p * std::sqrt(dp * dp + delta * delta);
        dv += p * p * dot(in.d_out, row, in.d_out, row);
        dq += parts * parts * dot(in.k, column, in.k, column);
        dk += parts * parts * dot(in.q, row, in.q, row);
      }
    }
  }
  CHECK(is_near(exact.dq.terms, std::sqrt(dq)));
  CHECK(is_near(exact.dk.terms, std::sqrt(dk)));
  CHECK(is_near(exact.dv.terms, std::sqrt(dv)));
}

TEST_CASE("inputs fit a shape if each tensor has its elements") {
  const Problem problem = make_problem(make_mask("full"), {.q = 2, .kv = 3}, {}, 2, 0);
  const AttentionShape shape = attention_shape(problem, kDim);
  CHECK(fits(random_inputs(shape, 1), shape));
  for (const auto tensor : {&Inputs::q, &Inputs::k, &Inputs::v, &Inputs::d_out}) {
    Inputs shorter = random_inputs(shape, 1);
    (shorter.*tensor).pop_back();
    CHECK_FALSE(fits(shorter, shape));
  }
}

TEST_CASE("the output is a mean of the values that are seen") {
  // Two equal keys: the mean of their values, whatever the query is.
  const Problem problem = make_problem(make_mask("full"), {.q = 1, .kv = 2}, {}, 1, 0);
  const AttentionShape shape = attention_shape(problem, 2);
  const Inputs inputs{.q = {1, 2}, .k = {3, -1, 3, -1}, .v = {1, 10, 3, 30}, .d_out = {1, 1}};
  const Forward forward = make_attention(problem, shape, inputs).forward;
  CHECK(is_near(forward.out[0], 2));
  CHECK(is_near(forward.out[1], 20));
  CHECK(is_near(forward.lse[0], (1 * 3 + 2 * -1) / std::sqrt(2.0) + std::log(2.0)));
  CHECK(is_near(forward.delta[0], 22));
}

TEST_CASE("inputs depend on the seed and the element alone") {
  const Problem small = make_problem(make_mask("full"), {.q = 2, .kv = 2}, {}, 1, 0);
  const Problem large = make_problem(make_mask("causal"), {.q = 9, .kv = 5}, {}, 2, 0);
  const Inputs few = random_inputs(attention_shape(small, kDim), 5);
  const Inputs many = random_inputs(attention_shape(large, kDim), 5);
  CHECK(std::equal(few.k.begin(), few.k.end(), many.k.begin()));
  CHECK(few.k != few.q);
  CHECK(few.q != random_inputs(attention_shape(small, kDim), 6).q);
}

TEST_CASE("head_dim has limits") {
  const Problem problem = make_problem(make_mask("full"), {.q = 2, .kv = 2}, {}, 1, 0);
  CHECK_THROWS_AS(attention_shape(problem, 0), Error);
  CHECK_THROWS_AS(attention_shape(problem, kMaxHeadDim + 1), Error);
  CHECK(attention_shape(problem, kMaxHeadDim).head_dim == kMaxHeadDim);
}

}  // namespace
}  // namespace stagger::gpu
