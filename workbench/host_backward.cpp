#include "workbench/host_backward.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

/// A tensor's sizes; `dim` is 1 for lse.
struct Extent {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t rows;
  std::int64_t dim;
};

/// Calls use(row of the tensor, row of a contiguous (batch, head, row, dim) array) for every row.
/// `share` heads in a row of the array have one head of the tensor.
template <class Use>
void for_rows(const HostTensor& tensor, const Extent& extent, std::int64_t share, Use use) {
  std::int64_t place = 0;
  for (std::int64_t batch = 0; batch < extent.batch; ++batch) {
    for (std::int64_t head = 0; head < extent.heads; ++head) {
      float* const first = tensor.data + batch * tensor.stride[0] + head / share * tensor.stride[2];
      for (std::int64_t row = 0; row < extent.rows; ++row, place += extent.dim)
        use(first + row * tensor.stride[1], place);
    }
  }
}

template <class To>
std::vector<To> gathered(const HostTensor& tensor, const Extent& extent, std::int64_t share = 1) {
  std::vector<To> values(at(extent.batch * extent.heads * extent.rows * extent.dim));
  for_rows(tensor, extent, share, [&](const float* row, std::int64_t place) {
    std::copy_n(row, extent.dim, values.begin() + place);
  });
  return values;
}

gpu::Forward forward_of(const HostCall& call, const Extent& queries,
                        const std::vector<float>& d_out) {
  gpu::Forward forward{
      .out = gathered<double>(call.out, queries),
      .lse = gathered<double>(call.lse, {queries.batch, queries.heads, queries.rows, 1}),
      .delta = {}};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::ranges::replace(forward.lse, -kInfinity, kInfinity);
  forward.delta.reserve(forward.lse.size());
  const std::size_t dim = at(queries.dim);
  for (std::size_t row = 0; row < forward.lse.size(); ++row) {
    double sum = 0;
    for (std::size_t column = row * dim; column < (row + 1) * dim; ++column)
      sum += double{d_out[column]} * forward.out[column];
    forward.delta.push_back(sum);
  }
  return forward;
}

/// The executor knows no groups: each head has K and V of its own.
Table without_groups(const Table& table) {
  Table alone = table;
  alone.problem.heads_kv = alone.problem.heads;
  alone.problem.span = 1;
  alone.problem.combine = Combine::none;
  return alone;
}

/// Adds dK or dV of the heads of each group, in their order.
void put_sums(const std::vector<float>& of_heads, const Extent& keys, std::int64_t group,
              gpu::Dtype dtype, const HostTensor& to) {
  const std::int64_t of_head = keys.rows * keys.dim;
  for_rows(to, keys, 1, [&](float* row, std::int64_t place) {
    const std::int64_t first = place / of_head * group * of_head + place % of_head;
    for (std::int64_t column = 0; column < keys.dim; ++column) {
      float sum = of_heads[at(first + column)];
      for (std::int64_t member = 1; member < group; ++member)
        sum += of_heads[at(first + member * of_head + column)];
      row[column] = gpu::rounded(sum, dtype);
    }
  });
}

}  // namespace

void run_on_host(const BackwardPlan& plan, const HostCall& call) {
  const Table table = without_groups(plan.table);
  const Problem& problem = table.problem;
  const std::int64_t group = plan.heads_q() / plan.heads_kv();
  const Extent queries{plan.batch, plan.heads_q(), problem.lengths.q, plan.head_dim};
  const Extent keys{plan.batch, plan.heads_kv(), problem.lengths.kv, plan.head_dim};
  Extent keys_of_heads = keys;
  keys_of_heads.heads = queries.heads;
  gpu::BackwardOptions options{
      .dtype = call.arithmetic, .timeout = call.timeout, .threads = call.threads};
  const gpu::AttentionShape shape = gpu::attention_shape(problem, plan.head_dim);
  if (gpu::run_bytes(table, shape, options) > kMaxRunBytes) {
    throw Error(ErrorKind::limit, describe(problem) + ": a run on the CPU takes at most " +
                                      std::to_string(kMaxRunBytes >> 30) + " GiB");
  }
  gpu::Inputs inputs{.q = gathered<float>(call.q, queries),
                     .k = gathered<float>(call.k, keys_of_heads, group),
                     .v = gathered<float>(call.v, keys_of_heads, group),
                     .d_out = gathered<float>(call.d_out, queries)};
  if (!gpu::is_exact(inputs, call.arithmetic)) {
    throw Error(ErrorKind::invalid_input, std::string("q, k, v or d_out is not exact in ") +
                                              gpu::dtype_name(call.arithmetic));
  }
  gpu::Forward forward = forward_of(call, queries, inputs.d_out);
  const gpu::Attention attention{.shape = shape,
                                 .masks = HeadMasks(problem),
                                 .inputs = std::move(inputs),
                                 .forward = std::move(forward)};
  const gpu::Backward run = gpu::backward_on_cpu(table, attention, options);
  if (run.outcome != gpu::Outcome::finished) {
    throw Error(ErrorKind::device, "the run on the CPU did not end");
  }
  for_rows(call.dq, queries, 1, [&](float* row, std::int64_t place) {
    std::copy_n(run.gradients.dq.begin() + place, queries.dim, row);
  });
  put_sums(run.gradients.dk, keys, group, call.arithmetic, call.dk);
  put_sums(run.gradients.dv, keys, group, call.arithmetic, call.dv);
}

}  // namespace stagger::workbench
