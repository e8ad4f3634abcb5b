#include "gpu/cuda/reference.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace stagger::gpu {
namespace {

constexpr double kSmall = 1e-12;

/// The largest difference, relative to the largest element; infinities must be the same.
double difference(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double most = 0;
  double worst = 0;
  for (std::size_t index = 0; index < got.size(); ++index) {
    if (got[index] == want[index]) continue;
    worst = std::isfinite(got[index] - want[index])
                ? std::max(worst, std::abs(got[index] - want[index]))
                : 1e300;
  }
  for (const double value : want)
    most = std::isfinite(value) ? std::max(most, std::abs(value)) : most;
  return worst == 0 ? 0 : worst / most;
}

/// Compares relative to the terms: where everything cancels, what is left is rounding.
void check_gradient(const Exact& got, const Exact& want) {
  REQUIRE(std::abs(got.terms - want.terms) <= kSmall * want.terms);
  REQUIRE(got.values.size() == want.values.size());
  double worst = 0;
  for (std::size_t index = 0; index < got.values.size(); ++index) {
    const double off = std::abs(got.values[index] - want.values[index]);
    if (!(off <= worst)) worst = off;
  }
  REQUIRE(worst <= kSmall * want.terms / std::sqrt(static_cast<double>(want.values.size())));
}

void check(const Problem& problem, std::int64_t head_dim,
           const std::optional<Dropout>& dropout = std::nullopt) {
  CAPTURE(problem.mask.family->name, problem.lengths.q, problem.lengths.kv, problem.heads, head_dim,
          dropout.has_value());
  const AttentionShape shape = attention_shape(problem, head_dim);
  const Inputs inputs = random_inputs(shape, 21);
  const Attention host = make_attention(problem, shape, inputs, dropout);
  const Attention device = make_attention_on_cuda(problem, shape, inputs, dropout);
  REQUIRE(difference(device.forward.lse, host.forward.lse) <= kSmall);
  REQUIRE(difference(device.forward.out, host.forward.out) <= kSmall);
  REQUIRE(difference(device.forward.delta, host.forward.delta) <= kSmall);
  const ReferenceGradients want = reference_gradients(host);
  const ReferenceGradients got = reference_gradients_on_cuda(host);
  check_gradient(got.dq, want.dq);
  check_gradient(got.dk, want.dk);
  check_gradient(got.dv, want.dv);
}

TEST_CASE("the device's reference is the host's, for every mask") {
  std::set<const MaskFamily*> families;
  for (const Problem& problem : test::every_small_mask()) {
    check(problem, 3);
    families.insert(problem.mask.family);
  }
  CHECK(std::ssize(families) == test::kinds_of_masks());
}

TEST_CASE("the device's reference is the host's over several blocks, for every head_dim") {
  for (const Problem& problem :
       test::every_mask({.q = 220, .kv = 220}, {.q = 48, .kv = 32}, 2, 5)) {
    for (const std::int64_t head_dim : {1, 31, 64, 65, 128})
      check(problem, head_dim);
  }
  check(make_problem(make_mask("causal"), {.q = 65, .kv = 190}, {.q = 48, .kv = 32}, 3, 0), 33);
  check(make_problem(make_mask("causal"), {.q = 190, .kv = 65}, {.q = 48, .kv = 32}, 3, 0), 33);
  check(make_problem(make_mask("full"), {.q = 64, .kv = 64}, {.q = 64, .kv = 64}, 1, 0), 512);
}

TEST_CASE("the device's reference is the host's with dropout") {
  for (const int bits : {8, 16, 32}) {
    const Dropout dropout{
        .rule = dropout_rule({.probability = 0.3, .seed = 5, .rounds = 10, .bits = bits}),
        .stored = {}};
    for (const Problem& problem : test::every_small_mask())
      check(problem, 3, dropout);
    check(make_problem(make_mask("causal"), {.q = 190, .kv = 165}, {.q = 48, .kv = 32}, 3, 0), 65,
          dropout);
  }
}

TEST_CASE("two references of one problem are the same bits") {
  const Problem problem = make_problem(make_mask("causal"), {1000, 1000}, {64, 64}, 4, 0);
  const AttentionShape shape = attention_shape(problem, 64);
  const Attention first = make_attention_on_cuda(problem, shape, random_inputs(shape, 1));
  const Attention second = make_attention_on_cuda(problem, shape, random_inputs(shape, 1));
  CHECK(first.forward.lse == second.forward.lse);
  CHECK(first.forward.out == second.forward.out);
  const ReferenceGradients one = reference_gradients_on_cuda(first);
  const ReferenceGradients other = reference_gradients_on_cuda(first);
  CHECK(one.dq.values == other.dq.values);
  CHECK(one.dk.values == other.dk.values);
  CHECK(one.dv.values == other.dv.values);
  CHECK(one.dq.terms == other.dq.terms);
}

}  // namespace
}  // namespace stagger::gpu
