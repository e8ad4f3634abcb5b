// Gradients of attention with dropout: what the executors make of bits that are stored and that are
// generated, and what the check makes of implementations that go wrong where such ones do.

#include "core/error.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace stagger::gpu {
namespace {

constexpr DropoutOptions kTenth{.probability = 0.1, .seed = 3, .offset = 4};

Attention dropped(const Problem& problem, std::int64_t head_dim, const DropoutOptions& options) {
  const AttentionShape shape = attention_shape(problem, head_dim);
  return make_attention(problem, shape, random_inputs(shape, 11),
                        make_dropout(options, shape.dropout_layout()));
}

DropoutOptions stored(DropoutOptions options) {
  options.mask_bits = MaskBits::stored;
  return options;
}

/// Whether all three gradients are within a bound.
bool holds(const Gradients& got, const ReferenceGradients& want, double bound) {
  const auto is_near = [bound](const std::vector<float>& gradient, const Exact& exact) {
    const Deviation error = deviation(gradient, exact);
    return error.frobenius <= bound && error.most <= bound;
  };
  return is_near(got.dq, want.dq) && is_near(got.dk, want.dk) && is_near(got.dv, want.dv);
}

TEST_CASE("a rule keeps the multiple of 2^-bits that is nearest, and not nothing") {
  const auto threshold = [](double probability, int bits) {
    return dropout_rule({.probability = probability, .bits = bits}).threshold;
  };
  CHECK(threshold(0, 8) == 256);
  CHECK(threshold(0.1, 8) == 230);
  CHECK(threshold(0.1, 16) == 58982);
  CHECK(threshold(0.1, 32) == 3865470566);
  CHECK(threshold(0, 32) == std::uint64_t{1} << 32);
  CHECK(threshold(0.9999, 8) == 1);
  CHECK(kept_part(dropout_rule(kTenth)) == 230.0 / 256);
  CHECK(keep_scale(dropout_rule(kTenth)) == 256.0 / 230);
  for (const double wrong : {-0.1, 1.0, 2.0, std::nan("")})
    CHECK_THROWS_AS(threshold(wrong, 8), Error);
}

TEST_CASE("stored and generated bits leave right gradients and the same bits, by every schedule") {
  constexpr Dtype kDtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};
  std::int64_t runs = 0;
  std::uint64_t seed = test::seed(0);  // every table in one of the dtypes, in another one next time
  for (const Problem& problem : test::every_small_mask()) {
    const Attention generates = dropped(problem, 5, kTenth);
    const Attention reads = dropped(problem, 5, stored(kTenth));
    const ReferenceGradients exact = reference_gradients(generates);
    for (const schedules::Schedule* schedule : schedules::all()) {
      const schedules::Selection selection = schedules::select(schedule->name);
      if (schedules::why_unsupported(selection, problem)) continue;
      CAPTURE(schedule->name, problem.mask.family->name, problem.lengths.q, problem.lengths.kv);
      const Table table = schedules::build(selection, problem);
      const Dtype dtype = kDtypes[++seed % std::size(kDtypes)];
      const Backward one = backward_on_cpu(table, generates, {.dtype = dtype});
      const Backward other = backward_on_cpu(table, reads, {.dtype = dtype});
      REQUIRE(holds(one.gradients, exact, error_bound(generates.shape, dtype)));
      REQUIRE(digests(one.gradients) == digests(other.gradients));
      REQUIRE(digest(one.dq_sums) == digest(other.dq_sums));
      ++runs;
    }
  }
  CHECK(runs > 150);
}

TEST_CASE("which elements are dropped does not depend on tiles, SMs or threads") {
  const auto problem_of = [](TileShape shape, std::int64_t sms) {
    return make_problem(make_mask("causal"), {96, 96}, shape, 4, sms);
  };
  const ReferenceGradients exact = reference_gradients(dropped(problem_of({8, 8}, 1), 6, kTenth));
  for (const TileShape shape : {TileShape{1, 1}, TileShape{8, 8}, TileShape{5, 7},
                                TileShape{32, 16}, TileShape{48, 33}, TileShape{96, 96}}) {
    std::string bits;  // of every run of these tiles
    for (const std::int32_t threads : {1, 3}) {
      for (const std::int64_t sms : {1, 3, 7}) {
        const Problem problem = problem_of(shape, sms);
        const Table table = schedules::build(schedules::select("ascending"), problem);
        for (const DropoutOptions& options : {kTenth, stored(kTenth)}) {
          CAPTURE(shape.q, shape.kv, sms, threads);
          const Attention attention = dropped(problem, 6, options);
          const Backward run = backward_on_cpu(table, attention, {.threads = threads});
          REQUIRE(holds(run.gradients, exact, error_bound(attention.shape, Dtype::fp32)));
          // Whose chain a tile is in changes nothing of dK and dV.
          const std::string dkv = digest(run.gradients.dk) + digest(run.gradients.dv);
          if (bits.empty()) bits = dkv;
          REQUIRE(dkv == bits);
        }
      }
    }
  }
}

TEST_CASE("heads that share K and V have dropout of their own") {
  for (const std::int64_t span : {1, 3}) {
    for (const Combine combine : {Combine::partials, Combine::ordered}) {
      if (span == 3 && combine == Combine::ordered) continue;  // nothing to combine
      const Problem problem = make_problem(make_mask("causal"), {40, 56}, {8, 8}, 6, 0,
                                           {.heads_kv = 2, .span = span, .combine = combine});
      const Table table = schedules::build(schedules::select("descending"), problem);
      const Attention attention = dropped(problem, 6, stored(kTenth));
      const ReferenceGradients exact = reference_gradients(attention);
      const CheckedRuns runs =
          check_runs(table, attention, &exact, {.perturb = 5}, 3, backward_on_cpu);
      CHECK(runs.verdict == RunVerdict::ok);
      CHECK(runs.reaccumulated == true);
    }
  }
}

TEST_CASE("dropping nothing leaves the bits of a pass without dropout") {
  const Problem problem = make_problem(make_mask("causal"), {70, 90}, {16, 24}, 2, 0);
  const Table table = schedules::build(schedules::select("descending"), problem);
  const AttentionShape shape = attention_shape(problem, 8);
  const Attention without = make_attention(problem, shape, random_inputs(shape, 11));
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const Backward want = backward_on_cpu(table, without, {.dtype = dtype});
    for (const MaskBits mask_bits : {MaskBits::generated, MaskBits::stored}) {
      const Attention all = dropped(problem, 8, {.probability = 0, .mask_bits = mask_bits});
      CHECK(all.forward.out == without.forward.out);
      CHECK(digests(backward_on_cpu(table, all, {.dtype = dtype}).gradients) ==
            digests(want.gradients));
    }
  }
}

TEST_CASE("seed, offset, rounds, bits and probability are each another pass") {
  const Problem problem = make_problem(make_mask("full"), {40, 40}, {8, 8}, 2, 0);
  const Table table = schedules::build(schedules::select("shift"), problem);
  std::vector<std::string> bits;
  for (const DropoutOptions& options :
       {kTenth, DropoutOptions{.probability = 0.1, .seed = 4, .offset = 4},
        DropoutOptions{.probability = 0.1, .seed = 3, .offset = 5},
        DropoutOptions{.probability = 0.1, .seed = 3, .offset = 4, .rounds = 10},
        DropoutOptions{.probability = 0.1, .seed = 3, .offset = 4, .bits = 16},
        DropoutOptions{.probability = 0.1, .seed = 3, .offset = 4, .bits = 32},
        DropoutOptions{.probability = 0.11, .seed = 3, .offset = 4}}) {
    const Attention attention = dropped(problem, 8, options);
    const ReferenceGradients exact = reference_gradients(attention);
    const CheckedRuns runs =
        check_runs(table, attention, &exact, {.perturb = 5}, 3, backward_on_cpu);
    CHECK(runs.verdict == RunVerdict::ok);
    CHECK(runs.reaccumulated == true);
    bits.push_back(runs.digests.dv);
  }
  std::sort(bits.begin(), bits.end());
  CHECK(std::unique(bits.begin(), bits.end()) == bits.end());
}

// ---- what goes wrong --------------------------------------------------------------------------

/// How a backward pass can have dropout wrong.
enum class Mistake {
  none,
  no_scale_of_dp,  ///< kept elements of dP are not scaled
  no_mask_of_dp,   ///< dropped elements of dP are not dropped
  no_scale_of_p,
  no_mask_of_p,
  ds_dropped,        ///< dS instead of dP
  delta_of_all,      ///< D of the O that nothing was dropped of
  scale_of_p_asked,  ///< scaled by 1 / (1 - 0.1), where 26 of 256 are dropped
};

/// The gradients as a kernel with a mistake would make them, in double precision.
class Mistaken {
 public:
  Mistaken(const Attention& attention, Mistake mistake)
      : attention_(attention), shape_(attention.shape), mistake_(mistake) {
    gradients_.dq.resize(shape_.q_elements());
    gradients_.dk.resize(shape_.kv_elements());
    gradients_.dv.resize(shape_.kv_elements());
  }

  Gradients run() {
    for (Head head{0}; head.value < shape_.heads; ++head) {
      for (std::int64_t query = 0; query < shape_.seq_q; ++query)
        add_query(head, query);
    }
    return std::move(gradients_);
  }

 private:
  void add_query(Head head, std::int64_t query) {
    const std::size_t row = shape_.q_row(head, query);
    double delta = attention_.forward.delta[row];
    if (mistake_ == Mistake::delta_of_all) {
      delta = 0;
      each_key(head, query, [&](std::size_t key, double p, double) {
        delta += p * dot(attention_.inputs.d_out, row, attention_.inputs.v, key);
      });
    }
    each_key(head, query, [&](std::size_t key, double p, double keep) {
      const double scale = keep_scale(attention_.dropout->rule);
      const double dp = dot(attention_.inputs.d_out, row, attention_.inputs.v, key);
      double weight = keep;  // of dP
      if (mistake_ == Mistake::no_scale_of_dp) weight = keep / scale;
      if (mistake_ == Mistake::no_mask_of_dp) weight = scale;
      double ds = shape_.scale() * p * (dp * weight - delta);
      if (mistake_ == Mistake::ds_dropped) ds = shape_.scale() * p * (dp - delta) * keep;
      weight = keep;  // of P
      if (mistake_ == Mistake::no_scale_of_p) weight = keep / scale;
      if (mistake_ == Mistake::no_mask_of_p) weight = scale;
      if (mistake_ == Mistake::scale_of_p_asked) weight = keep / scale / 0.9;
      add(p * weight, attention_.inputs.d_out, row, gradients_.dv, key);
      add(ds, attention_.inputs.k, key, gradients_.dq, row);
      add(ds, attention_.inputs.q, row, gradients_.dk, key);
    });
  }

  template <class Use>
  void each_key(Head head, std::int64_t query, Use use) const {
    const std::size_t row = shape_.q_row(head, query);
    for (std::int64_t key = 0; key < shape_.seq_kv; ++key) {
      if (!attention_.masks.of(head).sees(query, key)) continue;
      const std::size_t column = shape_.kv_row(head, key);
      use(column,
          std::exp(shape_.scale() * dot(attention_.inputs.q, row, attention_.inputs.k, column) -
                   attention_.forward.lse[row]),
          pair_weight(*attention_.dropout, head.value, query, key));
    }
  }

  [[nodiscard]] double dot(const std::vector<float>& left, std::size_t left_row,
                           const std::vector<float>& right, std::size_t right_row) const {
    double sum = 0;
    for (std::size_t column = 0; column < shape_.dim(); ++column)
      sum += double{left[left_row * shape_.dim() + column]} *
             double{right[right_row * shape_.dim() + column]};
    return sum;
  }
  void add(double factor, const std::vector<float>& from, std::size_t from_row,
           std::vector<float>& to, std::size_t to_row) const {
    for (std::size_t column = 0; column < shape_.dim(); ++column) {
      float& sum = to[to_row * shape_.dim() + column];
      sum =
          static_cast<float>(double{sum} + factor * double{from[from_row * shape_.dim() + column]});
    }
  }

  const Attention& attention_;
  const AttentionShape& shape_;
  Mistake mistake_;
  Gradients gradients_;
};

TEST_CASE("every way to have dropout wrong is above the bound of every dtype but one") {
  const Problem problem = make_problem(make_mask("causal"), {128, 128}, {16, 16}, 2, 0);
  const Attention attention = dropped(problem, 16, kTenth);
  const ReferenceGradients exact = reference_gradients(attention);
  const double fp32 = error_bound(attention.shape, Dtype::fp32);
  const double bf16 = error_bound(attention.shape, Dtype::bf16);
  CHECK(holds(Mistaken(attention, Mistake::none).run(), exact, fp32));
  for (const Mistake mistake :
       {Mistake::no_scale_of_dp, Mistake::no_mask_of_dp, Mistake::no_scale_of_p,
        Mistake::no_mask_of_p, Mistake::ds_dropped, Mistake::delta_of_all}) {
    CAPTURE(static_cast<int>(mistake));
    const Gradients wrong = Mistaken(attention, mistake).run();
    CHECK_FALSE(holds(wrong, exact, 1000 * fp32));
    CHECK_FALSE(holds(wrong, exact, bf16));
  }
  // 0.2 % too much is lost in bf16.
  const Gradients biased = Mistaken(attention, Mistake::scale_of_p_asked).run();
  CHECK_FALSE(holds(biased, exact, 100 * fp32));
  CHECK(holds(biased, exact, bf16));
}

TEST_CASE("bits that were stored elsewhere than they are read are noticed") {
  const Problem problem = make_problem(make_mask("causal"), {128, 128}, {16, 16}, 2, 0);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const Attention right = dropped(problem, 16, stored(kTenth));
  const ReferenceGradients exact = reference_gradients(right);
  const auto verdict = [&](const Attention& attention, Dtype dtype) {
    return check_runs(table, attention, &exact, {.dtype = dtype}, 1, backward_on_cpu).verdict;
  };
  constexpr std::ptrdiff_t kRow = 128 / 32;  // words
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    CAPTURE(dtype_name(dtype));
    CHECK(verdict(right, dtype) == RunVerdict::ok);
    // By the word, the query and the head.
    for (const std::ptrdiff_t places : {std::ptrdiff_t{1}, kRow, 128 * kRow}) {
      Attention wrong = right;
      std::vector<std::uint32_t>& words = wrong.dropout->stored;
      std::rotate(words.begin(), words.begin() + places, words.end());
      CHECK(verdict(wrong, dtype) == RunVerdict::mismatch);
    }
    Attention wrong = right;
    for (std::uint32_t& word : wrong.dropout->stored)
      word = word << 1 | word >> 31;
    CHECK(verdict(wrong, dtype) == RunVerdict::mismatch);
  }
  // One bit of one word is seen in fp32.
  Attention wrong = right;
  wrong.dropout->stored[static_cast<std::size_t>(100 * kRow + 1)] ^= 1U << 7;
  CHECK(verdict(wrong, Dtype::fp32) == RunVerdict::mismatch);
}

}  // namespace
}  // namespace stagger::gpu
