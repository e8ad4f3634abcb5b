#include "gpu/check/cross_check.hpp"

#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

#include <limits>
#include <utility>

namespace stagger::gpu {
namespace {

struct Case {
  Table table;
  Attention attention;
  Backward run;
};

Case finished_run() {
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

TEST_CASE("a gradient that is not a number is no small error") {
  Exact exact{.values = {1, 2}, .terms = 1};
  CHECK(deviation({1, 2}, exact).frobenius == 0);
  const Deviation error = deviation({1, std::numeric_limits<float>::quiet_NaN()}, exact);
  CHECK_FALSE(error.frobenius <= 1);
  CHECK_FALSE(error.most <= 1);
}

TEST_CASE("a planted order is noticed by the witness and by the bits") {
  Case done = finished_run();
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
  Case done = finished_run();
  // Causal: 1 + 2 + 3 + 4 + 5 additions before Q tile 5's own; its second one is the 17th.
  done.run.times[static_cast<std::size_t>(done.run.witness[16])].turn = 0;
  const auto faults = order_faults(done.table, done.run);
  REQUIRE(faults.size() == 1);
  CHECK(faults.front().find("had its turn before") != std::string::npos);
}

TEST_CASE("clocks that do not compare that well are no order fault") {
  Case done = finished_run();
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

}  // namespace
}  // namespace stagger::gpu
