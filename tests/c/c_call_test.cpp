#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/c/c_plan.hpp"
#include "tests/support/catch.hpp"
#include "workbench/stagger.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace stagger {
namespace {

using test::info_of;
using test::plan_of;
using test::PlanPointer;
using test::problem_of;

TEST_CASE("c: the host's backward has the executor's bits, in any layout, and sums groups") {
  const stagger_problem problem = [] {
    stagger_problem each = problem_of("sliding:left=90,right=20", "spt");
    each.batch = 1;
    each.heads_q = each.heads_kv = 3;
    each.dtype = STAGGER_FP32;
    each.tile_q = each.tile_kv = 64;
    each.seq_q = 130;
    each.seq_kv = 100;
    return each;
  }();
  const PlanPointer plan = plan_of(problem);
  const Problem grid = make_problem(parse_mask(problem.mask), {130, 100}, {64, 64}, 3, 8);
  const gpu::AttentionShape shape = gpu::attention_shape(grid, 64);
  const gpu::Attention attention = gpu::make_attention(grid, shape, gpu::random_inputs(shape, 3));
  const Table table = schedules::build(schedules::select("spt"), grid);
  // The same numbers as (row, head, dim), as rows of a packed tensor of three.
  const auto packed = [](const auto& from, std::int64_t rows, std::int64_t dim) {
    std::vector<float> to(static_cast<std::size_t>(9 * rows * dim), 77);
    for (std::int64_t head = 0; head < 3; ++head) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < dim; ++column) {
          to[static_cast<std::size_t>((row * 9 + head) * dim + column)] = static_cast<float>(
              from[static_cast<std::size_t>((head * rows + row) * dim + column)]);
        }
      }
    }
    return to;
  };
  const auto tensor = [](std::vector<float>& data, std::int64_t dim) {
    return stagger_tensor{data.data(), {0, 9 * dim, dim}};
  };
  std::vector<float> q = packed(attention.inputs.q, 130, 64);
  std::vector<float> k = packed(attention.inputs.k, 100, 64);
  std::vector<float> v = packed(attention.inputs.v, 100, 64);
  std::vector<float> out = packed(attention.forward.out, 130, 64);
  std::vector<float> d_out = packed(attention.inputs.d_out, 130, 64);
  std::vector<float> lse = packed(attention.forward.lse, 130, 1);
  std::vector<float> dq(q.size());
  std::vector<float> dk(k.size());
  std::vector<float> dv(v.size());
  stagger_call call{};
  call.size = sizeof call;
  call.q = tensor(q, 64);
  call.k = tensor(k, 64);
  call.v = tensor(v, 64);
  call.out = tensor(out, 64);
  call.d_out = tensor(d_out, 64);
  call.lse = tensor(lse, 1);
  call.dq = tensor(dq, 64);
  call.dk = tensor(dk, 64);
  call.dv = tensor(dv, 64);
  REQUIRE(stagger_backward_host(plan.get(), &call, 2, STAGGER_FP32) == STAGGER_OK);
  // D is worked out of O in fp32, so bits are compared with a forward pass that has it so.
  gpu::Attention rounded = attention;
  for (std::size_t row = 0; row < rounded.forward.delta.size(); ++row) {
    rounded.forward.lse[row] = static_cast<float>(rounded.forward.lse[row]);
    double sum = 0;
    for (std::size_t column = row * 64; column < (row + 1) * 64; ++column)
      sum += double{rounded.inputs.d_out[column]} * static_cast<float>(rounded.forward.out[column]);
    rounded.forward.delta[row] = sum;
  }
  const gpu::Backward run = gpu::backward_on_cpu(table, rounded, {.threads = 2});
  CHECK(packed(run.gradients.dq, 130, 64)[3] == dq[3]);
  std::int64_t compared = 0;
  for (std::int64_t head = 0; head < 3; ++head) {
    for (std::int64_t row = 0; row < 130; ++row) {
      for (std::int64_t column = 0; column < 64; ++column, ++compared) {
        REQUIRE(dq[static_cast<std::size_t>((row * 9 + head) * 64 + column)] ==
                run.gradients.dq[static_cast<std::size_t>((head * 130 + row) * 64 + column)]);
      }
    }
  }
  CHECK(compared == 3 * 130 * 64);
  // With one KV head for all three, dK and dV are the sums over them, of the same K and V.
  stagger_problem shared = problem;
  shared.heads_kv = 1;
  const PlanPointer grouped = plan_of(shared);
  std::vector<float> group_dk(k.size());
  std::vector<float> group_dv(v.size());
  call.dk = tensor(group_dk, 64);
  call.dv = tensor(group_dv, 64);
  REQUIRE(stagger_backward_host(grouped.get(), &call, 2, STAGGER_FP32) == STAGGER_OK);
  std::vector<float> alone_dk(k.size());
  std::vector<float> alone_dv(v.size());
  call.dk = tensor(alone_dk, 64);
  call.dv = tensor(alone_dv, 64);
  call.k.stride[2] = call.v.stride[2] = 0;
  CHECK(stagger_backward_host(plan.get(), &call, 2, STAGGER_FP32) == STAGGER_E_ALIGNMENT);
  std::vector<float> repeated_k = k;
  std::vector<float> repeated_v = v;
  for (std::size_t row = 0; row < 100; ++row) {
    for (std::size_t head = 1; head < 3; ++head) {
      for (std::size_t column = 0; column < 64; ++column) {
        repeated_k[(row * 9 + head) * 64 + column] = k[row * 9 * 64 + column];
        repeated_v[(row * 9 + head) * 64 + column] = v[row * 9 * 64 + column];
      }
    }
  }
  call.k = tensor(repeated_k, 64);
  call.v = tensor(repeated_v, 64);
  REQUIRE(stagger_backward_host(plan.get(), &call, 1, STAGGER_FP32) == STAGGER_OK);
  for (std::size_t row = 0; row < 100; ++row) {
    for (std::size_t column = 0; column < 64; ++column) {
      const std::size_t first = row * 9 * 64 + column;
      REQUIRE(group_dk[first] == alone_dk[first] + alone_dk[first + 64] + alone_dk[first + 128]);
      REQUIRE(group_dv[first] == alone_dv[first] + alone_dv[first + 64] + alone_dv[first + 128]);
    }
  }
}

TEST_CASE("c: tensors that the kernels could not take are refused by name") {
  const PlanPointer plan = plan_of(problem_of("causal", "spt"));
  stagger_call call{};
  call.size = sizeof call;
  std::int64_t offset = 0;
  for (stagger_tensor* tensor : {&call.q, &call.out, &call.d_out, &call.dq, &call.k, &call.v,
                                 &call.dk, &call.dv, &call.lse}) {
    // Addresses that nobody reads: checks come first.
    tensor->data = reinterpret_cast<void*>(0x10000000 + 0x1000000 * ++offset);
    const bool queries = offset <= 4;
    const std::int64_t heads = queries ? 4 : 2;
    tensor->stride[0] = 300 * heads * 64;
    tensor->stride[1] = heads * 64;
    tensor->stride[2] = 64;
  }
  call.lse.stride[0] = 4 * 300;
  call.lse.stride[1] = 1;
  call.lse.stride[2] = 300;
  call.workspace = reinterpret_cast<void*>(0x20000000);
  call.device_plan = reinterpret_cast<void*>(0x30000000);
  call.workspace_bytes = info_of(plan).workspace_bytes;
  const auto code_of = [&](auto change) {
    stagger_call changed = call;
    change(changed);
    return stagger_backward(plan.get(), &changed);
  };
  const auto says = [](const char* words) {
    INFO(stagger_last_error());
    CHECK(std::string(stagger_last_error()).find(words) != std::string::npos);
  };
  CHECK(code_of([](stagger_call& each) { each.q.data = nullptr; }) == STAGGER_E_USAGE);
  says("q is NULL");
  CHECK(code_of([](stagger_call& each) { each.dv.data = static_cast<char*>(each.dv.data) + 8; }) ==
        STAGGER_E_ALIGNMENT);
  says("dv");
  CHECK(code_of([](stagger_call& each) { each.k.stride[1] = 130; }) == STAGGER_E_ALIGNMENT);
  says("k: the row stride is 130");
  CHECK(code_of([](stagger_call& each) { each.out.stride[2] = 0; }) == STAGGER_E_ALIGNMENT);
  says("out: the head stride is 0");
  CHECK(code_of([](stagger_call& each) { each.dq.data = each.q.data; }) == STAGGER_E_USAGE);
  says("dq overlaps q");
  CHECK(code_of([](stagger_call& each) { each.dq.stride[1] = 64; }) == STAGGER_E_USAGE);
  says("dq: its strides do not nest");
  CHECK(code_of([](stagger_call& each) { each.dk.stride[2] = 8; }) == STAGGER_E_USAGE);
  says("dk: its strides do not nest");
  CHECK(code_of([](stagger_call& each) { each.v.stride[1] = (std::int64_t{1} << 39) - 8; }) ==
        STAGGER_E_ALIGNMENT);
  says("farther than addresses do");
  CHECK(code_of([](stagger_call& each) { each.workspace_bytes -= 1; }) == STAGGER_E_WORKSPACE);
  CHECK(code_of([](stagger_call& each) { each.device_plan = nullptr; }) == STAGGER_E_WORKSPACE);
  CHECK(code_of([](stagger_call& each) { each.mode = 3; }) == STAGGER_E_USAGE);
  CHECK(code_of([](stagger_call& each) { each.scale = -1; }) == STAGGER_E_USAGE);
  CHECK(code_of([](stagger_call& each) { each.scale = NAN; }) == STAGGER_E_USAGE);
  CHECK(code_of([&](stagger_call& each) { each.workspace = call.q.data; }) == STAGGER_E_USAGE);
  says("workspace overlaps q");
  CHECK(code_of([&](stagger_call& each) { each.device_plan = call.dq.data; }) == STAGGER_E_USAGE);
  says("dq overlaps device_plan");
  // Slices of one packed gradient do not overlap, though their extents do.
  const auto pack = [](stagger_call& each) {
    each.q.stride[1] = 8 * 64;  // (batch, row, 4 + 2 + 2 heads, dim)
    for (stagger_tensor* tensor : {&each.dq, &each.dk, &each.dv}) {
      tensor->stride[0] = 300 * 8 * 64;
      tensor->stride[1] = 8 * 64;
      tensor->data = reinterpret_cast<void*>(0x70000000);
    }
    each.dk.data = static_cast<char*>(each.dk.data) + 2 * 4 * 64;
    each.dv.data = static_cast<char*>(each.dv.data) + 2 * 6 * 64;
  };
  const auto is_of_device = [](std::int32_t code) {  // tensors are all right
    return code == STAGGER_E_NO_DEVICE || code == STAGGER_E_DEVICE || code == STAGGER_E_RESIDENCY;
  };
  CHECK(is_of_device(code_of(pack)));
  CHECK(code_of([&](stagger_call& each) {
          pack(each);
          each.dv.data = static_cast<char*>(each.dv.data) - 2 * 64;
        }) == STAGGER_E_USAGE);
  says("overlaps");
  CHECK(is_of_device(code_of([](stagger_call&) {})));
}

}  // namespace
}  // namespace stagger
