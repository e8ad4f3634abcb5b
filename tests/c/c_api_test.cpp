#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"
#include "gpu/cpu/executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "workbench/stagger.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace stagger {
namespace {

struct Destroy {
  void operator()(stagger_plan* plan) const { stagger_plan_destroy(plan); }
};
using PlanPointer = std::unique_ptr<stagger_plan, Destroy>;

stagger_problem problem_of(const char* mask, const char* schedule) {
  stagger_problem problem{};
  problem.size = sizeof problem;
  problem.batch = 2;
  problem.heads_q = 4;
  problem.heads_kv = 2;
  problem.head_dim = 64;
  problem.dtype = STAGGER_BF16;
  problem.sms = 8;
  problem.seq_q = problem.seq_kv = 300;
  problem.mask = mask;
  problem.schedule = schedule;
  return problem;
}

PlanPointer plan_of(const stagger_problem& problem) {
  stagger_plan* plan = nullptr;
  const std::int32_t code = stagger_plan_create(&problem, &plan);
  INFO(stagger_last_error());
  REQUIRE(code == STAGGER_OK);
  return PlanPointer(plan);
}

stagger_plan_info info_of(const PlanPointer& plan) {
  stagger_plan_info info{};
  info.size = sizeof info;
  REQUIRE(stagger_plan_describe(plan.get(), &info) == STAGGER_OK);
  return info;
}

/// The code that a changed problem is refused with.
template <class Change>
std::int32_t refusal(Change change) {
  stagger_problem problem = problem_of("causal", "spt");
  change(problem);
  stagger_plan* plan = nullptr;
  const std::int32_t code = stagger_plan_create(&problem, &plan);
  REQUIRE(plan == nullptr);
  return code;
}

TEST_CASE("c: the bytes of a plan and of its workspace are those of the interface's page") {
  stagger_problem problem = problem_of("causal", "spt");
  problem.batch = 4;
  problem.heads_q = problem.heads_kv = 32;
  problem.head_dim = 128;
  problem.sms = 132;
  problem.tile_q = 64;
  problem.seq_q = problem.seq_kv = 4096;
  const stagger_plan_info info = info_of(plan_of(problem));
  CHECK(info.tasks == 135'168);
  CHECK(info.tile_kv == 128);
  const std::uint64_t lanes = static_cast<std::uint64_t>(info.lanes);
  const std::uint64_t masked = 2 * 32;  // tiles of one head on the diagonal
  const auto aligned = [](std::uint64_t bytes) { return (bytes + 255) / 256 * 256; };
  CHECK(info.device_bytes == aligned(24 * 135'168) + aligned(8 * (lanes + 1)) +
                                 aligned(2 * masked * 64) + aligned(4 * 64) + aligned(32));
  CHECK(info.workspace_bytes == 4ULL * 128 * 4096 * 128 + 8ULL * 128 * 4096 + 4 * 128 * 64 + 256);
  problem.heads_kv = 8;
  for (const std::int32_t span : {1, 2, 4}) {
    CAPTURE(span);
    problem.span = span;
    const stagger_plan_info shared = info_of(plan_of(problem));
    CHECK(shared.span == span);
    // dK and dV of every part, in 16 bits; a KV head's only part needs none.
    const std::uint64_t parts = span == 4 ? 0 : 128 / static_cast<std::uint64_t>(span);
    CHECK(shared.workspace_bytes == info.workspace_bytes + 2 * 2ULL * parts * 4096 * 128);
    CHECK(shared.tasks == info.tasks);
  }
}

TEST_CASE("c: a machine is a built-in name, JSON or a file, and a name that is none lists those") {
  const auto predicted = [](const char* machine) {
    stagger_problem problem = problem_of("causal", "spt");
    problem.head_dim = 128;
    problem.machine = machine;
    return info_of(plan_of(problem)).predicted_ns;
  };
  CHECK(predicted(nullptr) > 0);
  CHECK(predicted("h200") == predicted(nullptr));
  CHECK(predicted("h100") != predicted("h200"));
  CHECK(predicted("@" STAGGER_SOURCE_DIR "/configs/machines/h100.json") == predicted("h100"));
  const auto refused = [](const char* machine) {
    return refusal([&](stagger_problem& each) { each.machine = machine; });
  };
  for (const char* name : {"h20", "", " ", "h200.json", "./h200"}) {
    CAPTURE(name);
    CHECK(refused(name) == STAGGER_E_USAGE);
    CHECK(std::string(stagger_last_error()).find("known: h100, h200, h800") != std::string::npos);
  }
  for (const char* text : {"{", " {\"schema\": \"stagger.machine/1\"}", "{}"}) {
    CAPTURE(text);
    CHECK(refused(text) == STAGGER_E_INPUT);
  }
  CHECK(refused("@/nowhere.json") == STAGGER_E_IO);
  CHECK(refused("@h200") == STAGGER_E_IO);
}

TEST_CASE("c: the span is chosen, or the caller's, and changes the order") {
  stagger_problem problem = problem_of("causal", "descending");
  problem.heads_q = 8;
  problem.heads_kv = 2;
  std::vector<std::uint64_t> digests;
  for (const std::int32_t span : {1, 2, 4}) {
    problem.span = span;
    digests.push_back(info_of(plan_of(problem)).order_digest);
  }
  std::sort(digests.begin(), digests.end());
  CHECK(std::unique(digests.begin(), digests.end()) == digests.end());
  problem.span = 0;
  const stagger_plan_info chosen = info_of(plan_of(problem));
  const Problem same =
      make_problem(make_mask("causal"), {300, 300}, {chosen.tile_q, chosen.tile_kv}, 16, 8,
                   {.heads_kv = 4, .span = chosen.span});
  CHECK(chosen.order_digest == order_digest(schedules::build(schedules::select("descending"), same),
                                            STAGGER_NUMERICS, 64));
  for (const std::int32_t span : {-1, 3, 8})
    CHECK(refusal([&](stagger_problem& each) {
            each.heads_q = 8;
            each.span = span;
          }) == STAGGER_E_USAGE);
  CHECK(std::string(stagger_last_error()) ==
        "span must divide the 4 heads of a KV head; 8 does not");
}

TEST_CASE("c: a plan's table is the schedule's, and its digests say so") {
  const PlanPointer plan = plan_of(problem_of("causal", "spt"));
  const stagger_plan_info info = info_of(plan);
  CHECK(std::string(info.schedule) == "spt");
  CHECK(std::string(info.mask) == "causal");
  CHECK(info.resident_needed == 1);
  CHECK(info.invariant == 1);
  CHECK(info.predicted_ns > 0);
  const Problem problem = make_problem(make_mask("causal"), {300, 300}, {info.tile_q, info.tile_kv},
                                       8, 8, {.heads_kv = 4, .span = info.span});
  const Table table = schedules::build(schedules::select("spt"), problem);
  CHECK(info.order_digest == order_digest(table, STAGGER_NUMERICS, 64));
  std::vector<std::int32_t> slots(4 * static_cast<std::size_t>(info.tasks));
  std::vector<std::int64_t> lane_begin(static_cast<std::size_t>(info.lanes) + 1);
  REQUIRE(stagger_plan_table(plan.get(), slots.data(), lane_begin.data()) == STAGGER_OK);
  REQUIRE(std::ssize(table.slots) == info.tasks);
  for (std::int64_t index = 0; index < info.tasks; ++index) {
    const Slot& slot = table.slots[index];
    const std::int32_t* const found = &slots[4 * static_cast<std::size_t>(index)];
    REQUIRE(slot.task == Task{Head{found[0]}, KvTile{found[1]}, QTile{found[2]}});
    REQUIRE(slot.rank == found[3]);
  }
  CHECK(std::equal(lane_begin.begin(), lane_begin.end(), table.lane_begin.begin()));
}

TEST_CASE("c: a table goes through its text, and a broken one is refused by what is wrong") {
  const PlanPointer plan = plan_of(problem_of("sliding:left=100,right=0", "lpt-descending"));
  char* text = nullptr;
  REQUIRE(stagger_plan_json(plan.get(), &text) == STAGGER_OK);
  std::string table(text);
  stagger_free(text);
  stagger_problem again = problem_of("sliding:left=100,right=0", nullptr);
  again.table = table.c_str();
  again.tile_q = 0;
  CHECK(info_of(plan_of(again)).order_digest == info_of(plan).order_digest);
  again.seq_kv = 301;
  stagger_plan* none = nullptr;
  CHECK(stagger_plan_create(&again, &none) == STAGGER_E_USAGE);
  CHECK(std::string(stagger_last_error()).find("the table is for") == 0);
  // One lane has the second of a tile's additions before the first.
  Table hangs = schedules::build(schedules::select("ascending"),
                                 make_problem(make_mask("full"), {64, 256}, {64, 128}, 1, 1));
  std::swap(hangs.slots[0].rank, hangs.slots[1].rank);
  const std::string hanging = write_table_json(hangs);
  stagger_problem small = problem_of("full", nullptr);
  small.batch = small.heads_q = small.heads_kv = 1;
  small.seq_q = 64;
  small.seq_kv = 256;
  small.table = hanging.c_str();
  CHECK(stagger_plan_create(&small, &none) == STAGGER_E_DEADLOCK);
  small.flags = STAGGER_NO_VERIFY;  // the caller knows, and it ends by its timeout
  CHECK(info_of(plan_of(small)).order_digest == 0);
  small.flags = 0;
  hangs.slots[1].rank = 7;
  const std::string beyond = write_table_json(hangs);
  small.table = beyond.c_str();
  CHECK(stagger_plan_create(&small, &none) != STAGGER_OK);
}

TEST_CASE("c: what makes no sense has a code and a sentence") {
  CHECK(refusal([](stagger_problem& each) { each.size = 0; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.heads_kv = 3; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.batch = 0; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.dtype = 9; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.flags = 64; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.schedule = "none"; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.launch = 7; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) { each.mask = "causal:x=1"; }) == STAGGER_E_INPUT);
  CHECK(refusal([](stagger_problem& each) { each.mask = "{"; }) == STAGGER_E_INPUT);
  CHECK(refusal([](stagger_problem& each) { each.mask = "@/none/such"; }) == STAGGER_E_IO);
  CHECK(refusal([](stagger_problem& each) { each.table = "{}"; }) == STAGGER_E_USAGE);
  CHECK(refusal([](stagger_problem& each) {
          each.schedule = "shift";  // of full masks
        }) == STAGGER_E_UNSUPPORTED);
  CHECK(refusal([](stagger_problem& each) { each.heads_q = each.heads_kv = 1 << 24; }) ==
        STAGGER_E_LIMIT);
  CHECK(std::strlen(stagger_last_error()) > 10);
  CHECK(stagger_plan_create(nullptr, nullptr) == STAGGER_E_USAGE);
  stagger_problem of_device = problem_of("causal", "spt");
  of_device.sms = 0;
  stagger_info info{};
  info.size = sizeof info;
  REQUIRE(stagger_query(&info) == STAGGER_OK);
  if (info.device < 0) {
    stagger_plan* none = nullptr;
    CHECK(stagger_plan_create(&of_device, &none) == STAGGER_E_NO_DEVICE);
    CHECK(std::strlen(info.why_not) > 5);
    CHECK(info.usable == 0);
  }
}

TEST_CASE("c: files that are none, and numbers that no problem has, are refused in words") {
  const auto says = [](const char* words) {
    CAPTURE(stagger_last_error());
    CHECK(std::string(stagger_last_error()).find(words) != std::string::npos);
  };
  const auto of_mask = [](const char* mask) {
    return refusal([&](stagger_problem& each) { each.mask = mask; });
  };
  CHECK(of_mask("@") == STAGGER_E_USAGE);
  says("behind an @");
  CHECK(of_mask("@/") == STAGGER_E_IO);
  says("is a directory");
  CHECK(of_mask("@/dev/zero") == STAGGER_E_LIMIT);  // no end, and no size
  says("larger than 256 MiB");
  CHECK(of_mask("@/dev/null") == STAGGER_E_INPUT);
  for (const std::int32_t number : {-1, -64}) {
    CAPTURE(number);
    CHECK(refusal([&](stagger_problem& each) { each.tile_q = number; }) == STAGGER_E_USAGE);
    says("negative");
    CHECK(refusal([&](stagger_problem& each) { each.tile_kv = number; }) == STAGGER_E_USAGE);
    CHECK(refusal([&](stagger_problem& each) { each.head_dim = number + 1; }) == STAGGER_E_USAGE);
    says("head_dim must be at least 1");
  }
}

TEST_CASE("c: nothing is no plan, call or place for an answer") {
  const PlanPointer plan = plan_of(problem_of("causal", "spt"));
  stagger_call call{};
  call.size = sizeof call;
  CHECK(stagger_query(nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_create(nullptr, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_describe(nullptr, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_describe(plan.get(), nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_table(nullptr, nullptr, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_table(plan.get(), nullptr, nullptr) == STAGGER_OK);
  CHECK(stagger_plan_json(plan.get(), nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_upload(nullptr, nullptr, 0, nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_plan_upload(plan.get(), nullptr, 1 << 30, nullptr) == STAGGER_E_WORKSPACE);
  CHECK(std::string(stagger_last_error()) == "device_memory is NULL");
  CHECK(stagger_backward(nullptr, &call) == STAGGER_E_USAGE);
  CHECK(stagger_backward(plan.get(), nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_backward_host(nullptr, &call, 1, STAGGER_FP32) == STAGGER_E_USAGE);
  CHECK(stagger_backward_host(plan.get(), nullptr, 1, STAGGER_FP32) == STAGGER_E_USAGE);
  call.mode = 2;
  CHECK(stagger_backward_host(plan.get(), &call, 1, STAGGER_FP32) == STAGGER_E_USAGE);
  call.mode = STAGGER_ATOMIC;
  CHECK(stagger_backward_host(plan.get(), &call, 1, STAGGER_FP32) == STAGGER_E_UNSUPPORTED);
  CHECK(stagger_status_new(nullptr) == STAGGER_E_USAGE);
  CHECK(stagger_json("{}", nullptr) == STAGGER_E_USAGE);
  stagger_plan_destroy(nullptr);
  stagger_status_free(nullptr);
  stagger_free(nullptr);
}

TEST_CASE("c: an older program's shorter structs are read as far as they go") {
  stagger_info info{};
  info.size = 12;
  info.has_cuda = 77;
  REQUIRE(stagger_query(&info) == STAGGER_OK);
  CHECK(info.abi == STAGGER_ABI);
  CHECK(info.has_cuda == 77);
  CHECK(info.size == 12);
  stagger_problem problem = problem_of("full", "shift");
  problem.size = offsetof(stagger_problem, mask);  // a mask that is not there is causal
  stagger_plan* plan = nullptr;
  REQUIRE(stagger_plan_create(&problem, &plan) == STAGGER_OK);
  const PlanPointer owner(plan);
  CHECK(std::string(info_of(owner).mask) == "causal");
}

TEST_CASE("c: auto is a pure function, meets what is asked for, and says what it chose") {
  stagger_problem problem = problem_of("causal", "auto");
  problem.sms = 132;
  problem.seq_q = problem.seq_kv = 2048;
  const stagger_plan_info first = info_of(plan_of(problem));
  const stagger_plan_info second = info_of(plan_of(problem));
  CHECK(first.order_digest == second.order_digest);
  CHECK(std::string(first.schedule) == second.schedule);
  CHECK(first.predicted_ns > 0);
  // No span that one could name is predicted to be more than 1 % faster.
  for (const std::int32_t span : {1, 2}) {
    stagger_problem named = problem;
    named.span = span;
    CHECK(100 * info_of(plan_of(named)).predicted_ns >= 99 * first.predicted_ns);
  }
  problem.schedule = nullptr;
  CHECK(info_of(plan_of(problem)).order_digest == first.order_digest);
  problem.launch = STAGGER_LAUNCH_ELASTIC;
  const stagger_plan_info elastic = info_of(plan_of(problem));
  CHECK(elastic.resident_needed == 1);
  CHECK(elastic.launch == STAGGER_LAUNCH_ELASTIC);
  problem.schedule = "symmetric-shift";
  stagger_plan* none = nullptr;
  CHECK(stagger_plan_create(&problem, &none) == STAGGER_E_UNSUPPORTED);
  problem.launch = STAGGER_LAUNCH_AUTO;
  problem.flags = STAGGER_INVARIANT;
  const stagger_plan_info invariant = info_of(plan_of(problem));
  CHECK(invariant.invariant == 1);
  CHECK(invariant.ctas <= 132);
}

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
  alignas(256) static unsigned char memory[1 << 16];
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
  call.workspace = memory;
  call.device_plan = memory;
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

TEST_CASE("c: malformed requests are refused, whatever bytes they are") {
  char* text = nullptr;
  for (const char* request :
       {"", "{", "[]", "{}", "{\"command\": 3}", "{\"command\": \"completion\"}",
        "{\"command\": \"compare\", \"options\": 3}",
        "{\"command\": \"compare\", \"options\": {\"jsn\": 1}}",
        "{\"command\": \"verify\", \"options\": {\"file\": \"-\"}}",
        "{\"command\": \"compare\", \"more\": 1}"}) {
    CAPTURE(request);
    CHECK(stagger_json(request, &text) == STAGGER_E_INPUT);
  }
  CHECK(stagger_json(nullptr, &text) == STAGGER_E_USAGE);
  test::Random random(5);
  for (int round = 0; round < 100'000; ++round) {
    std::string request = R"({"command": "analyze", "options": {"mask": "causal", "n": 4}})";
    const bool of_any_bytes = round % 2 == 0;
    if (of_any_bytes) request.resize(static_cast<std::size_t>(random.between(1, 60)));
    for (char& byte : request) {
      if (of_any_bytes) byte = static_cast<char>(random.between(1, 255));
    }
    for (int change = 0; change < 3; ++change) {
      request[static_cast<std::size_t>(
          random.between(0, static_cast<std::int32_t>(request.size()) - 1))] =
          static_cast<char>(random.between(1, 126));
    }
    if (stagger_json(request.c_str(), &text) == STAGGER_OK) stagger_free(text);
  }
  REQUIRE(stagger_json(R"({"command": "analyze", "options": {"mask": "causal", "n": 4}})", &text) ==
          STAGGER_OK);
  const std::string response(text);
  stagger_free(text);
  CHECK(response.find("{\"exit_code\": 2, \"error\": ") == 0);  // no schedule
}

}  // namespace
}  // namespace stagger
