// A plan's table on CPU threads, from tensors in any layout, against the executor on tensors of its
// own: two batch entries, two query heads for each KV head, strides with room between.

#include "workbench/host_backward.hpp"

#include "core/error.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace stagger::workbench {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHeads = 4;  ///< of queries, in a batch entry
constexpr std::int64_t kShared = 2;
constexpr std::int64_t kQueries = 10;
constexpr std::int64_t kKeys = 7;
constexpr std::int64_t kDim = 4;

/// A tensor by (batch, row, head) with gaps between rows and entries.
struct Strided {
  std::int64_t rows, heads, dim;
  std::vector<float> data = std::vector<float>(at(kBatch * stride_of_batch()), 99.0F);

  [[nodiscard]] std::int64_t stride_of_row() const { return heads * dim + 3; }
  [[nodiscard]] std::int64_t stride_of_batch() const { return rows * stride_of_row() + 5; }
  float& operator()(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t column) {
    return data[at(batch * stride_of_batch() + row * stride_of_row() + head * dim + column)];
  }
  HostTensor tensor() { return {data.data(), {stride_of_batch(), stride_of_row(), dim}}; }
};

/// Fills a tensor from (batch, head, row, column), every `group`-th head of it.
template <class Values>
void fill(Strided& to, const Values& from, std::int64_t group) {
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    for (std::int64_t head = 0; head < to.heads; ++head) {
      for (std::int64_t row = 0; row < to.rows; ++row) {
        for (std::int64_t column = 0; column < to.dim; ++column) {
          const std::int64_t first = (batch * to.heads + head) * group;
          to(batch, head, row, column) =
              static_cast<float>(from[at((first * to.rows + row) * to.dim + column)]);
        }
      }
    }
  }
}

TEST_CASE("a plan's table on threads gives the executor's gradients, summed over groups") {
  PlanRequest request{.mask = make_mask("causal"), .lengths = {kQueries, kKeys}};
  request.batch = kBatch;
  request.heads_q = kHeads;
  request.heads_kv = kShared;
  request.head_dim = kDim;
  request.dtype = gpu::Dtype::fp32;
  request.sms = 3;
  request.span = GENERATE(1, 2);
  request.tile_q = request.tile_kv = 4;
  request.schedule = "spt";
  const auto plan = std::get<BackwardPlan>(plan_backward(request));

  const Problem alone =
      make_problem(make_mask("causal"), {kQueries, kKeys}, {4, 4}, kBatch * kHeads, 3);
  const gpu::AttentionShape shape = gpu::attention_shape(alone, kDim);
  gpu::Inputs inputs = gpu::random_inputs(shape, 9);
  constexpr std::int64_t kGroup = kHeads / kShared;
  const std::size_t of_head = at(kKeys * kDim);
  for (std::size_t head = 0; head < at(kBatch * kHeads); ++head) {
    const std::size_t first = head / at(kGroup) * at(kGroup);
    for (std::size_t index = 0; index < of_head; ++index) {
      inputs.k[head * of_head + index] = inputs.k[first * of_head + index];
      inputs.v[head * of_head + index] = inputs.v[first * of_head + index];
    }
  }
  const gpu::Attention attention = gpu::make_attention(alone, shape, inputs);
  const Table table = schedules::build(schedules::select("spt"), alone);
  const gpu::Gradients wanted = gpu::backward_on_cpu(table, attention, {.threads = 1}).gradients;

  Strided q{kQueries, kHeads, kDim}, out = q, d_out = q, dq = q, lse{kQueries, kHeads, 1};
  Strided k{kKeys, kShared, kDim}, v = k, dk = k, dv = k;
  fill(q, inputs.q, 1);
  fill(k, inputs.k, kGroup);
  fill(v, inputs.v, kGroup);
  fill(d_out, inputs.d_out, 1);
  fill(out, attention.forward.out, 1);
  fill(lse, attention.forward.lse, 1);
  for (float& value : lse.data)  // either infinity will do
    value = std::isinf(value) ? -value : value;
  const auto run = [&](gpu::Dtype arithmetic) {
    return run_on_host(plan, {.q = q.tensor(),
                              .k = k.tensor(),
                              .v = v.tensor(),
                              .out = out.tensor(),
                              .d_out = d_out.tensor(),
                              .lse = lse.tensor(),
                              .dq = dq.tensor(),
                              .dk = dk.tensor(),
                              .dv = dv.tensor(),
                              .arithmetic = arithmetic,
                              .threads = 2});
  };
  REQUIRE(run(gpu::Dtype::fp32) == gpu::Outcome::finished);
  const auto near = [](float got, float want) { return std::abs(got - want) < 1e-4F; };
  std::int64_t compared = 0;
  for (std::int64_t batch = 0; batch < kBatch; ++batch) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      for (std::int64_t row = 0; row < kQueries; ++row) {
        for (std::int64_t column = 0; column < kDim; ++column, ++compared) {
          const std::int64_t index = ((batch * kHeads + head) * kQueries + row) * kDim + column;
          REQUIRE(near(dq(batch, head, row, column), wanted.dq[at(index)]));
        }
      }
    }
    for (std::int64_t head = 0; head < kShared; ++head) {
      for (std::int64_t row = 0; row < kKeys; ++row) {
        for (std::int64_t column = 0; column < kDim; ++column, ++compared) {
          float sum_dk = 0;
          float sum_dv = 0;
          for (std::int64_t member = 0; member < kGroup; ++member) {
            const std::int64_t q_head = batch * kHeads + head * kGroup + member;
            sum_dk += wanted.dk[at((q_head * kKeys + row) * kDim + column)];
            sum_dv += wanted.dv[at((q_head * kKeys + row) * kDim + column)];
          }
          REQUIRE(near(dk(batch, head, row, column), sum_dk));
          REQUIRE(near(dv(batch, head, row, column), sum_dv));
        }
      }
    }
  }
  CHECK(compared == kBatch * (kHeads * kQueries + kShared * kKeys) * kDim);
  // What is between the elements is nobody's.
  CHECK(dq.data.back() == 99.0F);
  CHECK(dk.data[at(kShared * kDim)] == 99.0F);
  q(1, 2, 3, 1) = 1.0F + 0x1p-20F;
  CHECK_THROWS_WITH(static_cast<void>(run(gpu::Dtype::bf16)),
                    "q, k, v or d_out is not exact in bf16");
}

/// Numbers of a problem without batches, (head, row, dim) each, and what became of them.
struct Dense {
  explicit Dense(const gpu::Attention& attention)
      : shape(attention.shape),
        inputs(attention.inputs),
        out(attention.forward.out.begin(), attention.forward.out.end()),
        lse(attention.forward.lse.begin(), attention.forward.lse.end()),
        dq(shape.q_elements()),
        dk(shape.kv_elements()),
        dv(shape.kv_elements()) {}

  HostCall call() {
    const auto tensor = [](std::vector<float>& data, std::int64_t rows, std::int64_t dim) {
      return HostTensor{data.data(), {0, dim, rows * dim}};
    };
    const std::int64_t dim = shape.head_dim;
    return {.q = tensor(inputs.q, shape.seq_q, dim),
            .k = tensor(inputs.k, shape.seq_kv, dim),
            .v = tensor(inputs.v, shape.seq_kv, dim),
            .out = tensor(out, shape.seq_q, dim),
            .d_out = tensor(inputs.d_out, shape.seq_q, dim),
            .lse = tensor(lse, shape.seq_q, 1),
            .dq = tensor(dq, shape.seq_q, dim),
            .dk = tensor(dk, shape.seq_kv, dim),
            .dv = tensor(dv, shape.seq_kv, dim)};
  }

  gpu::AttentionShape shape;
  gpu::Inputs inputs;
  std::vector<float> out, lse, dq, dk, dv;
};

/// A plan of four heads that share K and V, a chain each on an SM of its own, whose dK and dV are
/// added in turn.
PlanRequest in_turn() {
  PlanRequest request{.mask = make_mask("causal"), .lengths = {32, 32}};
  request.heads_q = 4;
  request.head_dim = 16;
  request.dtype = gpu::Dtype::fp32;
  request.sms = 8;
  request.tile_q = request.tile_kv = 16;
  const Problem problem = make_problem(request.mask, request.lengths, {16, 16}, 4, 8,
                                       {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  request.table = schedules::build(schedules::select("spt"), problem);
  return request;
}

TEST_CASE("dK and dV of parts are added on threads in the table's order") {
  PlanRequest request = in_turn();
  const Problem& problem = request.table->problem;
  const gpu::AttentionShape shape = gpu::attention_shape(problem, 16);
  Dense dense(gpu::make_attention(problem, shape, gpu::random_inputs(shape, 5)));
  const auto dk_by = [&](const Table& table) {
    request.table = table;
    const auto plan = std::get<BackwardPlan>(plan_backward(request));
    REQUIRE(run_on_host(plan, dense.call()) == gpu::Outcome::finished);
    return dense.dk;
  };
  const Table upwards = *request.table;
  Table downwards = upwards;
  downwards.dkv_ranks = {};
  for (Part part{0}; part.value < 4; ++part.value) {
    for (KvTile kv{0}; kv.value < 2; ++kv.value)
      downwards.dkv_ranks.push_back(3 - upwards.dkv_rank(part, kv));
  }
  const std::vector<float> up = dk_by(upwards);
  const std::vector<float> down = dk_by(downwards);
  CHECK(up != down);
  CHECK(dk_by(upwards) == up);
  const auto near = [](float left, float right) { return std::abs(left - right) < 1e-4F; };
  CHECK(std::ranges::equal(up, down, near));
}

TEST_CASE("a table that hangs on threads leaves NaN and says so") {
  PlanRequest request = in_turn();
  // Chains wait for each other's dQ: rank 0 of a Q tile is behind rank 1 of another on its SM.
  Table& table = *request.table;
  for (Slot& slot : table.slots)
    slot.rank = table.problem.contributions(slot.task) - slot.rank;  // from 1 on: nobody begins
  request.verify = false;
  const auto plan = std::get<BackwardPlan>(plan_backward(request));
  const gpu::AttentionShape shape = gpu::attention_shape(table.problem, 16);
  Dense dense(gpu::make_attention(table.problem, shape, gpu::random_inputs(shape, 5)));
  CHECK(run_on_host(plan, dense.call()) == gpu::Outcome::deadlock);
  for (const std::vector<float>* gradient : {&dense.dq, &dense.dk, &dense.dv})
    CHECK(std::ranges::all_of(*gradient, [](float value) { return std::isnan(value); }));
}

}  // namespace
}  // namespace stagger::workbench
