#include "workbench/designs/sizes.hpp"

#include "core/error.hpp"

namespace stagger::designs {
namespace {

std::int64_t elements(Checked count) {
  constexpr std::int64_t kMost = std::int64_t{1} << 46;
  if (!count.within(kMost)) throw Error(ErrorKind::limit, "tensors of more than 2^46 elements");
  return count.value();
}

}  // namespace

std::int64_t counted_up(Checked number) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (!number.within(kMost)) {
    throw Error(ErrorKind::limit, "bytes or operations of a design are more than 2^62");
  }
  return number.value();
}

Sizes sizes_of(const Request& request) {
  const Problem& problem = request.problem;
  const Checked dim(request.head_dim);
  return {.x = elements(dim * problem.heads * problem.lengths.q),
          .y = elements(dim * problem.heads_kv * problem.lengths.kv),
          .yh = elements(dim * problem.heads * problem.lengths.kv),
          .rows = elements(Checked(problem.heads) * problem.lengths.q),
          .e = request.element_bytes};
}

std::int64_t least_bytes(const Sizes& sizes) {
  return sizes.e * (3 * sizes.x + 2 * sizes.y) + sizes.e * (sizes.x + 2 * sizes.y) +
         16 * sizes.rows;
}

std::int64_t flops_of(const Problem& problem, std::int64_t head_dim, std::int64_t gemms) {
  return counted_up(Checked(problem.tasks()) * gemms * 2 * problem.shape.q * problem.shape.kv *
                    head_dim);
}

Pass d_pass(const Sizes& sizes) {
  return {.name = "D", .bytes = 2 * sizes.e * sizes.x + 4 * sizes.rows};
}

void add_dq_sums(const Sizes& sizes, Plan& plan) {
  plan.workspace_bytes += 4 * sizes.x;
  plan.hbm_bytes += 8 * sizes.x;
  plan.passes.push_back({.name = "convert dQ", .bytes = (4 + sizes.e) * sizes.x});
}

void add_parts(const Problem& problem, const Sizes& sizes, Plan& plan) {
  const std::int64_t parts = problem.group_parts();
  if (problem.combine == Combine::ordered) {
    plan.workspace_bytes += 8 * sizes.y + 8 * std::int64_t{problem.heads_kv} * problem.kv_tiles();
    plan.hbm_bytes += 16 * sizes.y;
    plan.passes.push_back({.name = "clear dK, dV", .bytes = 8 * sizes.y, .launches = 2});
    plan.passes.push_back(
        {.name = "convert dK, dV", .bytes = (8 + 2 * sizes.e) * sizes.y, .launches = 2});
  } else if (problem.combine == Combine::partials) {
    plan.workspace_bytes += 8 * parts * sizes.y;
    plan.hbm_bytes += 16 * parts * sizes.y;
    plan.passes.push_back(
        {.name = "add parts of dK, dV", .bytes = (8 * parts + 2 * sizes.e) * sizes.y});
  }
}

}  // namespace stagger::designs
