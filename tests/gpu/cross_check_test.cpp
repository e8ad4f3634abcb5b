#include "gpu/check/cross_check.hpp"

#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace stagger::gpu {
namespace {

struct FinishedRun {
  Table table;
  Attention attention;
  Backward run;
};

FinishedRun finished_run() {
  const Problem problem = make_problem(make_mask("causal"), {48, 48}, {8, 8}, 1, 0);
  const Table table = schedules::build(schedules::select("symmetric-shift"), problem);
  const AttentionShape shape = attention_shape(problem, 16);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 2));
  return {table, attention, backward_on_cpu(table, attention, {.keep_partials = true})};
}

TEST_CASE("FNV-1a has its published answers") {
  CHECK(digest({}) == "cbf29ce484222325");
  // The bytes 'a', 'b', 'c', 'd' as one little-endian element.
  CHECK(digest({1.6777999408082104e+22F}) == "fc179f83ee0724dd");
  CHECK(digest({0.0F}) != digest({-0.0F}));
}

TEST_CASE("one pair of tokens too many is far above the bound") {
  const Problem causal = make_problem(make_mask("causal"), {256, 256}, {32, 32}, 1, 0);
  // Query 100 does not see its own key.
  std::vector<std::int64_t> q_blocks(256);
  std::vector<std::int64_t> kv_blocks(256);
  for (std::size_t token = 0; token < 256; ++token)
    q_blocks[token] = kv_blocks[token] = static_cast<std::int64_t>(token);
  q_blocks[100] = 99;
  const Problem other =
      make_problem(make_mask("block-causal", {{"q_blocks", q_blocks}, {"kv_blocks", kv_blocks}}),
                   {256, 256}, {32, 32}, 1, 0);
  const AttentionShape shape = attention_shape(causal, 16);
  const Inputs inputs = random_inputs(shape, 4);
  const Table table = schedules::build(schedules::select("spt"), causal);
  const Gradients got = backward_on_cpu(table, make_attention(causal, shape, inputs), {}).gradients;
  const ReferenceGradients right = reference_gradients(make_attention(causal, shape, inputs));
  const ReferenceGradients wrong = reference_gradients(make_attention(other, shape, inputs));
  const double bound = error_bound(shape, Dtype::fp32);
  CHECK(deviation(got.dq, right.dq).frobenius < bound);
  CHECK(deviation(got.dq, right.dq).most < bound);
  CHECK(deviation(got.dq, wrong.dq).frobenius > 20 * bound);
  CHECK(deviation(got.dk, wrong.dk).frobenius > 20 * bound);
  CHECK(deviation(got.dv, wrong.dv).frobenius > 20 * bound);
}

/// Every query sees one key more than in a causal mask, or one less.
Problem off_by_one(std::int64_t tokens, int more) {
  std::vector<std::int64_t> q_blocks;
  std::vector<std::int64_t> kv_blocks;
  for (std::int64_t token = 0; token < tokens; ++token) {
    q_blocks.push_back(token + 1 + more);
    kv_blocks.push_back(token + 1);
  }
  return make_problem(make_mask("block-causal", {{"q_blocks", q_blocks}, {"kv_blocks", kv_blocks}}),
                      {tokens, tokens}, {32, 32}, 1, 0);
}

TEST_CASE("a diagonal that is off by one is far above the bound of every dtype") {
  for (const std::int64_t tokens : {64, 512}) {
    const Problem causal = make_problem(make_mask("causal"), {tokens, tokens}, {32, 32}, 1, 0);
    const AttentionShape shape = attention_shape(causal, 64);
    const Inputs inputs = random_inputs(shape, 4);
    const ReferenceGradients exact = reference_gradients(make_attention(causal, shape, inputs));
    for (const int more : {-1, 1}) {
      const Problem wrong = off_by_one(tokens, more);
      const Table table = schedules::build(schedules::select("spt"), wrong);
      const Attention attention = make_attention(wrong, shape, inputs);
      for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
        CAPTURE(tokens, more, dtype_name(dtype));
        const Gradients got = backward_on_cpu(table, attention, {.dtype = dtype}).gradients;
        const double bound = error_bound(shape, dtype);
        CHECK(deviation(got.dq, exact.dq).frobenius > 5 * bound);
        CHECK(deviation(got.dk, exact.dk).frobenius > 5 * bound);
        CHECK(deviation(got.dv, exact.dv).frobenius > 5 * bound);
      }
    }
  }
}

TEST_CASE("fp16's bound grows where probabilities are below its normal numbers") {
  // Every query sees 8,192 keys: P is about 2^-13, often less than 2^-14.
  const Problem problem = make_problem(make_mask("full"), {32, 8192}, {32, 128}, 1, 0);
  const AttentionShape shape = attention_shape(problem, 8);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 6));
  const ReferenceGradients exact = reference_gradients(attention);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Gradients got = backward_on_cpu(table, attention, {.dtype = Dtype::fp16}).gradients;
  const double error = deviation(got.dv, exact.dv).frobenius;
  CHECK(error <= error_bound(shape, Dtype::fp16) / 2);
  CHECK(error >= error_bound(shape, Dtype::fp16) / 20);
}

bool nearly(double got, double want) {
  return std::abs(got - want) <= 1e-12 * std::abs(want);
}

TEST_CASE("a deviation is relative to the larger of the gradient and its terms") {
  // The norm of (3, -4) is 5, the typical element of terms 50 over two elements 50 / sqrt(2).
  const std::vector<float> gradient{3, -4.5F};
  const Deviation plain = deviation(gradient, {.values = {3, -4}, .terms = 0.1});
  CHECK(nearly(plain.frobenius, 0.5 / 5));
  CHECK(nearly(plain.most, 0.5 / 4));
  const Deviation cancelled = deviation(gradient, {.values = {3, -4}, .terms = 50});
  CHECK(nearly(cancelled.frobenius, 0.5 / 50));
  CHECK(nearly(cancelled.most, 0.5 / (50 / std::sqrt(2))));
  // The worst element is the worst wherever it is, and whichever way it is off.
  CHECK(nearly(deviation({2.5F, -4.25F}, {.values = {3, -4}, .terms = 0}).most, 0.5 / 4));
  CHECK(nearly(deviation({3.25F, -3.5F}, {.values = {3, -4}, .terms = 0}).most, 0.5 / 4));
  CHECK(deviation({0, 0}, {.values = {0, 0}, .terms = 0}).frobenius == 0);
  CHECK(deviation({}, {.values = {}, .terms = 1}).most == 0);
}

TEST_CASE("the bound is the formula that the report states") {
  // 64 + 192 = 256 additions, whose square root is 16.
  const double sums = 8 * 16 / 16777216.0;
  for (const auto& [seq_q, seq_kv] : {std::pair{192, 5}, std::pair{5, 192}}) {
    CAPTURE(seq_q, seq_kv);
    const AttentionShape shape{
        .heads = 3, .heads_kv = 3, .seq_q = seq_q, .seq_kv = seq_kv, .head_dim = 64};
    CHECK(nearly(error_bound(shape, Dtype::fp32), sums));
    CHECK(nearly(error_bound(shape, Dtype::bf16), sums + 6 / 256.0));
    CHECK(nearly(error_bound(shape, Dtype::fp16), sums + 6 * (1 / 2048.0 + 192 / 33554432.0)));
  }
  CHECK(std::string(error_bound_formula(Dtype::fp32)) ==
        "8 * 2^-24 * sqrt(head_dim + max(group * seq_q, seq_kv))");
  CHECK(std::string(error_bound_formula(Dtype::bf16)).starts_with("6 * 2^-8 + 8 * 2^-24"));
  CHECK(std::string(error_bound_formula(Dtype::fp16))
            .starts_with("6 * (2^-11 + 2^-25 * max(group * seq_q, seq_kv)) + 8 * 2^-24"));
}

TEST_CASE("each gradient has its digest, and a difference is the largest either way") {
  const Digests of_each = digests({.dq = {1}, .dk = {2}, .dv = {3}});
  CHECK(of_each.dq == digest({1}));
  CHECK(of_each.dk == digest({2}));
  CHECK(of_each.dv == digest({3}));
  CHECK(largest_difference({1, 2, 3}, {1, 2, 3}) == 0);
  CHECK(largest_difference({1, 2, 3}, {0.5F, 2.25F, 3}) == 0.5);
  CHECK(largest_difference({1, 2, 3}, {1.25F, 1, 3}) == 1);
}

TEST_CASE("a gradient that is not a number is no small error") {
  Exact exact{.values = {1, 2}, .terms = 1};
  CHECK(deviation({1, 2}, exact).frobenius == 0);
  const Deviation error = deviation({1, std::numeric_limits<float>::quiet_NaN()}, exact);
  CHECK_FALSE(error.frobenius <= 1);
  CHECK_FALSE(error.most <= 1);
}

TEST_CASE("a planted order is noticed by the witness and by the bits") {
  FinishedRun done = finished_run();
  CHECK(order_faults(done.table, done.run).empty());
  const std::string bits = digest(done.run.gradients.dq);
  CHECK(digest(reaccumulate(done.table, done.attention.shape, done.run.partials).value()) == bits);

  // Two ranks of the last Q tile change places.
  Slot* first = nullptr;
  for (Slot& slot : done.table.slots) {
    if (slot.task.q.value != 5 || slot.rank > 3 || slot.rank < 2) continue;
    if (first == nullptr) {
      first = &slot;
    } else {
      std::swap(first->rank, slot.rank);
    }
  }
  const auto faults = order_faults(done.table, done.run);
  REQUIRE(faults.size() == 2);
  CHECK(faults.front().find("reduced after 2 others, but has rank 3") != std::string::npos);
  CHECK(digest(reaccumulate(done.table, done.attention.shape, done.run.partials).value()) != bits);
}

TEST_CASE("a turn before the end of the one before is an order fault") {
  FinishedRun done = finished_run();
  // Causal: 1 + 2 + 3 + 4 + 5 additions before Q tile 5's own; its second one is the 17th.
  done.run.times[static_cast<std::size_t>(done.run.witness[16])].turn = 0;
  const auto faults = order_faults(done.table, done.run);
  REQUIRE(faults.size() == 1);
  CHECK(faults.front().find("had its turn before") != std::string::npos);
}

TEST_CASE("an order fault is seen in every dQ tile of every head, up to the limit") {
  const Problem problem = make_problem(make_mask("causal"), {24, 24}, {4, 4}, 3, 0);
  const Table table = schedules::build(schedules::select("descending"), problem);
  const AttentionShape shape = attention_shape(problem, 2);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 2));
  const Backward run = backward_on_cpu(table, attention, {});
  REQUIRE(order_faults(table, run, 1000).empty());
  std::int64_t swaps = 0;
  for (std::size_t place = 1; place < run.witness.size(); ++place) {
    const Task& task = table.slots[static_cast<std::size_t>(run.witness[place])].task;
    const Task& before = table.slots[static_cast<std::size_t>(run.witness[place - 1])].task;
    if (task.head != before.head || task.q != before.q) continue;
    Backward swapped = run;
    std::swap(swapped.witness[place], swapped.witness[place - 1]);
    CAPTURE(place);
    CHECK(order_faults(table, swapped, 1000).size() >= 2);
    CHECK(order_faults(table, swapped, 1).size() == 1);
    // One task twice, and so another not at all.
    swapped.witness[place] = swapped.witness[place - 1];
    CHECK_FALSE(order_faults(table, swapped).empty());
    // The turn alone, of an order that is right.
    Backward early = run;
    TaskTimes& times = early.times[static_cast<std::size_t>(run.witness[place])];
    times.turn = early.times[static_cast<std::size_t>(run.witness[place - 1])].reduce_end - 1;
    CHECK(order_faults(table, early).size() == 1);
    ++swaps;
  }
  CHECK(swaps == 3 * (1 + 2 + 3 + 4 + 5));
}

TEST_CASE("partials are added again in every head and in ragged tiles, by rank alone") {
  // 3 Q tiles of 4, 4 and 2 queries.
  const Problem problem = make_problem(make_mask("full"), {10, 12}, {4, 4}, 2, 0);
  const Table table = schedules::build(schedules::select("descending"), problem);
  const AttentionShape shape = attention_shape(problem, 1);
  // A partial is 4 queries of one element; these sums depend on the order of three.
  std::vector<float> partials(table.slots.size() * 4);
  const float by_rank[] = {1e8F, 3, -1e8F};
  std::vector<float> want(shape.q_elements());
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {
    for (std::size_t query = 0; query < 4; ++query)
      partials[slot * 4 + query] = by_rank[table.slots[slot].rank] + static_cast<float>(query);
  }
  for (std::size_t element = 0; element < want.size(); ++element) {
    const auto query = static_cast<float>(element % 10 % 4);
    for (const float addend : by_rank)
      want[element] += addend + query;
  }
  CHECK(reaccumulate(table, shape, partials) == want);
  Table twice = table;
  twice.slots.front().rank = twice.slots.front().rank == 0 ? 1 : 0;
  CHECK_FALSE(reaccumulate(twice, shape, partials).has_value());
  twice.slots.front().rank = -1;
  CHECK_FALSE(reaccumulate(twice, shape, partials).has_value());
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot) {  // the last of all places too
    twice = table;
    twice.slots[slot].rank = 3;
    CHECK_FALSE(reaccumulate(twice, shape, partials).has_value());
  }
}

TEST_CASE("clocks that do not compare that well are no order fault") {
  FinishedRun done = finished_run();
  const TaskTimes& before = done.run.times[static_cast<std::size_t>(done.run.witness[15])];
  done.run.times[static_cast<std::size_t>(done.run.witness[16])].turn = before.reduce_end - 30;
  CHECK(order_faults(done.table, done.run).size() == 1);
  done.run.times_error_ns = 29;
  CHECK(order_faults(done.table, done.run).size() == 1);
  done.run.times_error_ns = 30;
  CHECK(order_faults(done.table, done.run).empty());
}

TEST_CASE("memory is estimated from the shape") {
  const Problem problem = make_problem(make_mask("full"), {1024, 1024}, {128, 128}, 4, 0);
  const Table table = schedules::build(schedules::select("shift"), problem);
  const AttentionShape shape = attention_shape(problem, 64);
  const std::int64_t partials = 4 * 64 * std::int64_t{4} * 128 * 64;
  CHECK(partial_bytes(table, shape) == partials);
  const std::int64_t kept = run_bytes(table, shape, {.keep_partials = true});
  CHECK(kept > partials);
  CHECK(kept < 5 * partials);
  CHECK(run_bytes(table, shape, {}) == kept - partials);
  const std::int64_t sums = 2 * 4 * std::int64_t{4} * 1024 * 64;
  CHECK(run_bytes(table, shape, {.dtype = Dtype::bf16, .keep_partials = true}) == kept + sums);
}

/// What a checked run keeps, vector by vector.
std::int64_t bytes_by_vector(const Table& table, const AttentionShape& shape,
                             const BackwardOptions& options) {
  const Problem& problem = table.problem;
  const std::int64_t q = shape.heads * shape.seq_q * shape.head_dim;
  const std::int64_t kv = shape.heads * shape.seq_kv * shape.head_dim;
  constexpr std::int64_t kFloat = 4;
  constexpr std::int64_t kDouble = 8;
  std::int64_t bytes = 0;
  bytes += (q + q + kv + kv) * kFloat;                       // Q, dO, K, V
  bytes += (q + q + kv + kv) * kDouble;                      // O, and the exact dQ, dK, dV
  bytes += shape.heads * shape.seq_q * (kDouble + kDouble);  // lse and delta
  bytes += 3 * (q + kv + kv) * kFloat;  // the gradients of two runs, and dQ and more added again
  if (options.dtype != Dtype::fp32) bytes += 2 * q * kFloat;  // the sums of two runs
  // Of two runs, by task: four times and who was the n-th to add.
  bytes += 2 * std::int64_t{problem.tasks()} * (4 * 8 + 8);
  // Of every lane that runs: K, V, dK and dV of its chain, and a dQ partial.
  const std::int64_t lanes =
      options.residency > 0 ? std::min(options.residency, problem.sms) : problem.sms;
  const std::int64_t tile_q = std::min(problem.shape.q, problem.lengths.q) * shape.head_dim;
  const std::int64_t tile_kv = std::min(problem.shape.kv, problem.lengths.kv) * shape.head_dim;
  bytes += lanes * (4 * tile_kv + tile_q) * kFloat;
  if (options.keep_partials) bytes += problem.tasks() * tile_q * kFloat;
  return bytes;
}

TEST_CASE("memory is estimated as its vectors are counted one by one") {
  for (const TileShape& tile : {TileShape{.q = 4, .kv = 8}, TileShape{.q = 16, .kv = 3}}) {
    for (const Lengths& lengths : {Lengths{.q = 6, .kv = 10}, Lengths{.q = 20, .kv = 2}}) {
      const Problem problem = make_problem(make_mask("full"), lengths, tile, 2, 3);
      const Table table = schedules::build(schedules::select("ascending"), problem);
      const AttentionShape shape = attention_shape(problem, 5);
      for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
        for (const std::int32_t residency : {0, 1, 2, 3, 9}) {
          for (const bool keep : {false, true}) {
            const BackwardOptions options{
                .dtype = dtype, .residency = residency, .keep_partials = keep};
            CAPTURE(tile.q, lengths.q, dtype_name(dtype), residency, keep);
            CHECK(run_bytes(table, shape, options) == bytes_by_vector(table, shape, options));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stagger::gpu
