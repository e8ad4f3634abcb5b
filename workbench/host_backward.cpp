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
template <class Use>
void for_rows(const HostTensor& tensor, const Extent& extent, Use use) {
  std::int64_t place = 0;
  for (std::int64_t batch = 0; batch < extent.batch; ++batch) {
    for (std::int64_t head = 0; head < extent.heads; ++head) {
      float* const first = tensor.data + batch * tensor.stride[0] + head * tensor.stride[2];
      for (std::int64_t row = 0; row < extent.rows; ++row, place += extent.dim)
        use(first + row * tensor.stride[1], place);
    }
  }
}

template <class To>
std::vector<To> gathered(const HostTensor& tensor, const Extent& extent) {
  std::vector<To> values(at(extent.batch * extent.heads * extent.rows * extent.dim));
  for_rows(tensor, extent, [&](const float* row, std::int64_t place) {
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

void put(const std::vector<float>& gradient, const Extent& extent, const HostTensor& to) {
  for_rows(to, extent, [&](float* row, std::int64_t place) {
    std::copy_n(gradient.begin() + place, extent.dim, row);
  });
}

void put_nan(const Extent& extent, const HostTensor& to) {
  for_rows(to, extent, [&](float* row, std::int64_t) {
    std::fill_n(row, extent.dim, std::numeric_limits<float>::quiet_NaN());
  });
}

}  // namespace

gpu::Outcome run_on_host(const BackwardPlan& plan, const HostCall& call) {
  const Table& table = plan.table;
  const Problem& problem = table.problem;
  const Extent queries{plan.batch, plan.heads_q(), problem.lengths.q, plan.head_dim};
  const Extent keys{plan.batch, plan.heads_kv(), problem.lengths.kv, plan.head_dim};
  gpu::BackwardOptions options{
      .dtype = call.arithmetic, .timeout = call.timeout, .threads = call.threads};
  const gpu::AttentionShape shape = gpu::attention_shape(problem, plan.head_dim);
  if (gpu::run_bytes(table, shape, options) > kMaxRunBytes) {
    throw Error(ErrorKind::limit, describe(problem) + ": a run on the CPU takes at most " +
                                      std::to_string(kMaxRunBytes >> 30) + " GiB");
  }
  gpu::Inputs inputs{.q = gathered<float>(call.q, queries),
                     .k = gathered<float>(call.k, keys),
                     .v = gathered<float>(call.v, keys),
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
    put_nan(queries, call.dq);
    put_nan(keys, call.dk);
    put_nan(keys, call.dv);
    return run.outcome;
  }
  put(run.gradients.dq, queries, call.dq);
  put(run.gradients.dk, keys, call.dk);
  put(run.gradients.dv, keys, call.dv);
  return run.outcome;
}

}  // namespace stagger::workbench
