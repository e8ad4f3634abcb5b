// The functions of stagger.h but stagger_json. A struct of the caller's is read as far as it says
// it goes; what this library knows beyond that is 0.

#include "core/files.hpp"
#include "core/version.hpp"
#include "gpu/cuda/device_state.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/hopper/call.hpp"
#include "workbench/backward_plan.hpp"
#include "workbench/c_call.hpp"
#include "workbench/c_guard.hpp"
#include "workbench/c_request.hpp"
#include "workbench/commit.hpp"
#include "workbench/host_backward.hpp"
#include "workbench/stagger.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace stagger;  // NOLINT: what is defined here is C's
using workbench::BackwardPlan;
using workbench::PlanLaunch;
using workbench::c::copied;
using workbench::c::dtype_of;
using workbench::c::expect;
using workbench::c::Failure;
using workbench::c::guarded;

struct stagger_plan {
  BackwardPlan plan;
};

namespace {

static_assert(workbench::kNumerics == STAGGER_NUMERICS);
static_assert(sizeof(stagger_status) == sizeof(gpu::hopper::StopNote));
static_assert(gpu::hopper::kStopped == STAGGER_E_TIMEOUT);

constexpr std::uint32_t kDefaultTimeoutMs = 60'000;

/// A struct as the caller knows it, with 0 behind.
template <class Struct>
Struct taken(const Struct* from, const char* name) {
  expect(from, name);
  if (from->size < sizeof(from->size) || from->size > 16 * sizeof(Struct)) {
    throw Failure(STAGGER_E_USAGE, std::string(name) + ": size is " + std::to_string(from->size) +
                                       "; set it to sizeof, " + std::to_string(sizeof(Struct)) +
                                       " in this version");
  }
  Struct known{};
  std::memcpy(&known, from, std::min<std::size_t>(from->size, sizeof(Struct)));
  return known;
}

/// Fills as much of a struct as the caller knows.
template <class Struct>
void give(Struct filled, Struct* to) {
  const std::uint32_t size = to->size;
  filled.size = size;
  std::memcpy(to, &filled, std::min<std::size_t>(size, sizeof(Struct)));
}

template <std::size_t kSize>
void put_text(const std::string& text, char (&to)[kSize]) {
  std::size_t length = std::min(text.size(), kSize - 1);
  // A character of UTF-8 is whole or not there.
  while (length < text.size() && length > 0 && (text[length] & 0xc0) == 0x80)
    --length;
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

const gpu::hopper::Plan& device_plan_of(const BackwardPlan& plan) {
  if (!plan.device) throw Failure(STAGGER_E_UNSUPPORTED, plan.host_only);
  return *plan.device;
}

/// Throws unless the current device runs this plan.
void expect_device(const BackwardPlan& plan) {
  const gpu::DeviceState state = gpu::device_state();
  if (state.device < 0) throw Failure(STAGGER_E_NO_DEVICE, state.why_not);
  const std::string refusal = gpu::hopper::device_refusal();
  if (!refusal.empty()) throw Failure(STAGGER_E_NO_DEVICE, refusal);
  const std::int32_t needed = plan.launch == PlanLaunch::elastic ? 1 : plan.device->ctas;
  if (needed > state.sms) {
    throw Failure(STAGGER_E_RESIDENCY, "the plan has " + std::to_string(needed) +
                                           " CTAs at once; this device holds " +
                                           std::to_string(state.sms) + ", one an SM");
  }
}

/// Throws unless memory is the current device's.
void expect_current(const void* memory, const char* name) {
  const std::int32_t current = gpu::device_state().device;
  const std::int32_t owner = gpu::device_of(memory);
  if (owner == current) return;
  throw Failure(STAGGER_E_DEVICE,
                std::string(name) + " is " +
                    (owner < 0 ? "no device's memory" : "on device " + std::to_string(owner)) +
                    "; the current device is " + std::to_string(current));
}

gpu::hopper::Tensor device_tensor(const stagger_tensor& tensor) {
  return {.data = tensor.data,
          .batch = tensor.stride[0],
          .row = tensor.stride[1],
          .head = tensor.stride[2]};
}

workbench::HostTensor host_tensor(const stagger_tensor& tensor) {
  return {.data = static_cast<float*>(tensor.data),
          .stride = {tensor.stride[0], tensor.stride[1], tensor.stride[2]}};
}

gpu::hopper::Call device_call(const BackwardPlan& plan, const stagger_call& call) {
  const std::uint32_t timeout_ms = call.timeout_ms == 0 ? kDefaultTimeoutMs : call.timeout_ms;
  return {.tensors = {.q = device_tensor(call.q),
                      .k = device_tensor(call.k),
                      .v = device_tensor(call.v),
                      .out = device_tensor(call.out),
                      .d_out = device_tensor(call.d_out),
                      .lse = device_tensor(call.lse),
                      .dq = device_tensor(call.dq),
                      .dk = device_tensor(call.dk),
                      .dv = device_tensor(call.dv)},
          .scale = workbench::c::scale_of(plan, call),
          .mode = call.mode == STAGGER_ATOMIC ? gpu::Mode::atomic : gpu::Mode::deterministic,
          .plan = call.device_plan,
          .workspace = call.workspace,
          .stream = call.stream,
          .timeout_ns = std::int64_t{1'000'000} * timeout_ms,
          .late = plan.launch == PlanLaunch::elastic,
          .note = reinterpret_cast<gpu::hopper::StopNote*>(call.status),
          .call_id = call.call_id,
          .order_digest = plan.order_digest};
}

stagger_plan_info info_of(const BackwardPlan& plan) {
  stagger_plan_info info{};
  const Table& table = plan.table;
  info.tile_q = static_cast<std::int32_t>(table.problem.shape.q);
  info.tile_kv = static_cast<std::int32_t>(table.problem.shape.kv);
  info.lanes = table.lanes();
  info.ctas = std::min(table.problem.sms, table.lanes());
  info.launch =
      plan.launch == PlanLaunch::elastic ? STAGGER_LAUNCH_ELASTIC : STAGGER_LAUNCH_COOPERATIVE;
  info.resident_needed = plan.resident_needed;
  info.invariant = plan.invariant ? 1 : 0;
  info.tasks = std::ssize(table.slots);
  info.order_digest = plan.order_digest;
  info.table_digest = plan.table_digest;
  info.predicted_ns = plan.predicted_ns;
  put_text(plan.schedule, info.schedule);
  put_text(mask_words(table.problem.mask), info.mask);
  if (plan.device) {
    info.device_bytes = static_cast<std::uint64_t>(plan.device->layout.bytes);
    info.workspace_bytes = static_cast<std::uint64_t>(plan.device->workspace.bytes);
  }
  info.host_bytes = static_cast<std::uint64_t>(plan.host_bytes());
  info.span = table.problem.span;
  return info;
}

stagger_info library_info() {
  stagger_info info{};
  info.abi = STAGGER_ABI;
  info.numerics = STAGGER_NUMERICS;
  put_text(version(), info.version);
  put_text(workbench::commit(), info.commit);
  info.has_cuda = gpu::has_cuda() ? 1 : 0;
  const gpu::DeviceState state = gpu::device_state();
  info.device = state.device;
  info.sms = state.sms;
  info.cc_major = state.major;
  info.cc_minor = state.minor;
  info.driver = state.driver;
  const std::string why = state.device < 0 ? state.why_not : gpu::hopper::device_refusal();
  info.usable = why.empty() ? 1 : 0;
  put_text(why, info.why_not);
  return info;
}

}  // namespace

int32_t stagger_query(stagger_info* info) {
  return guarded([&] {
    static_cast<void>(taken(info, "info"));
    give(library_info(), info);
  });
}

int32_t stagger_plan_create(const stagger_problem* problem, stagger_plan** plan) {
  return guarded([&] {
    expect(plan, "plan");
    *plan = new stagger_plan{workbench::c::plan_of(taken(problem, "problem"))};
  });
}

int32_t stagger_plan_describe(const stagger_plan* plan, stagger_plan_info* info) {
  return guarded([&] {
    expect(plan, "plan");
    static_cast<void>(taken(info, "info"));
    give(info_of(plan->plan), info);
  });
}

int32_t stagger_plan_table(const stagger_plan* plan, int32_t* slots, int64_t* lane_begin) {
  return guarded([&] {
    expect(plan, "plan");
    const Table& table = plan->plan.table;
    if (slots != nullptr) {
      for (const auto& [task, rank] : table.slots) {
        for (const std::int32_t number : {task.head.value, task.kv.value, task.q.value, rank})
          *slots++ = number;
      }
    }
    if (lane_begin != nullptr) std::ranges::copy(table.lane_begin, lane_begin);
  });
}

int32_t stagger_plan_json(const stagger_plan* plan, char** text) {
  return guarded([&] {
    expect(plan, "plan");
    expect(text, "text");
    *text = copied(write_table_json(plan->plan.table));
  });
}

int32_t stagger_plan_machine(const stagger_plan* plan, char** text) {
  return guarded([&] {
    expect(plan, "plan");
    expect(text, "text");
    *text = copied(write_machine_json(plan->plan.machine));
  });
}

void stagger_plan_destroy(stagger_plan* plan) {
  delete plan;
}

int32_t stagger_plan_upload(const stagger_plan* plan, void* device_memory, uint64_t bytes,
                            void* stream) {
  return guarded([&] {
    expect(plan, "plan");
    const gpu::hopper::Plan& device = device_plan_of(plan->plan);
    const auto needed = static_cast<std::uint64_t>(device.layout.bytes);
    expect(device_memory, "device_memory", STAGGER_E_WORKSPACE);
    if (bytes < needed) {
      throw Failure(STAGGER_E_WORKSPACE, "the image takes " + std::to_string(needed) +
                                             " bytes; there are " + std::to_string(bytes));
    }
    expect_device(plan->plan);
    expect_current(device_memory, "device_memory");
    if (gpu::is_captured(stream)) {
      throw Failure(STAGGER_E_CAPTURE, "a plan is uploaded before its stream is captured");
    }
    gpu::hopper::upload(device, device_memory, stream);
  });
}

int32_t stagger_backward(const stagger_plan* plan, const stagger_call* call) {
  return guarded([&] {
    expect(plan, "plan");
    const stagger_call known = taken(call, "call");
    const gpu::hopper::Plan& device = device_plan_of(plan->plan);
    workbench::c::check_mode(known);
    workbench::c::check_tensors(plan->plan, known, 2);
    workbench::c::check_memory(plan->plan, known);
    const gpu::hopper::Call enqueued = device_call(plan->plan, known);
    expect_device(plan->plan);
    expect_current(known.workspace, "workspace");
    gpu::enter_context();  // for tensor maps, which the driver makes
    gpu::hopper::enqueue(device, enqueued);
  });
}

int32_t stagger_backward_host(const stagger_plan* plan, const stagger_call* call, int32_t threads,
                              int32_t arithmetic) {
  return guarded([&] {
    expect(plan, "plan");
    const stagger_call known = taken(call, "call");
    workbench::c::check_mode(known);
    if (known.mode != STAGGER_DETERMINISTIC) {
      throw Failure(STAGGER_E_UNSUPPORTED, "on the host dQ is added in the order of the table");
    }
    workbench::c::check_tensors(plan->plan, known, sizeof(float));
    if (threads < 0 || threads > 1024) throw Failure(STAGGER_E_USAGE, "threads is 0 to 1024");
    const float scale = workbench::c::scale_of(plan->plan, known);
    stagger_call unscaled = known;
    unscaled.scale = 0;
    if (std::abs(scale / workbench::c::scale_of(plan->plan, unscaled) - 1) > 0x1p-20F) {
      throw Failure(STAGGER_E_UNSUPPORTED, "on the host the scale is 1 / sqrt(head_dim)");
    }
    const std::uint32_t timeout_ms = known.timeout_ms == 0 ? kDefaultTimeoutMs : known.timeout_ms;
    const gpu::Outcome outcome =
        workbench::run_on_host(plan->plan, {.q = host_tensor(known.q),
                                            .k = host_tensor(known.k),
                                            .v = host_tensor(known.v),
                                            .out = host_tensor(known.out),
                                            .d_out = host_tensor(known.d_out),
                                            .lse = host_tensor(known.lse),
                                            .dq = host_tensor(known.dq),
                                            .dk = host_tensor(known.dk),
                                            .dv = host_tensor(known.dv),
                                            .arithmetic = dtype_of(arithmetic, "arithmetic"),
                                            .threads = threads,
                                            .timeout = std::chrono::milliseconds(timeout_ms)});
    if (outcome == gpu::Outcome::timeout) {
      throw Failure(STAGGER_E_TIMEOUT,
                    "a wait took more than " + std::to_string(timeout_ms) + " ms");
    }
    if (outcome == gpu::Outcome::deadlock) throw Failure(STAGGER_E_DEADLOCK, "the table hangs");
  });
}

int32_t stagger_status_new(stagger_status** status) {
  return guarded([&] {
    expect(status, "status");
    const gpu::DeviceState state = gpu::device_state();
    if (state.device < 0) throw Failure(STAGGER_E_NO_DEVICE, state.why_not);
    *status = static_cast<stagger_status*>(gpu::new_mapped_memory(sizeof(stagger_status)));
  });
}

void stagger_status_free(stagger_status* status) {
  gpu::delete_mapped_memory(status);
}

void stagger_free(void* text) {
  std::free(text);
}

const char* stagger_last_error(void) {
  return workbench::c::last_error();
}
