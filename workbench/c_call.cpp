#include "workbench/c_call.hpp"

#include "workbench/c_guard.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace stagger::workbench::c {
namespace {

constexpr std::uint64_t kDataAlignment = 16;  // bytes, of the copy engine
constexpr std::int64_t kStrideElements = 8;   // 16 bytes of 16-bit elements
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostReach = std::int64_t{1} << 48;
constexpr std::uint64_t kMemoryAlignment = 256;
constexpr const char* kDimensions[] = {"batch", "row", "head"};

[[noreturn]] void refuse(const std::string& what) {
  throw Failure(STAGGER_E_ALIGNMENT, what);
}

/// A tensor of a call with its name and sizes.
struct Named {
  const char* name;
  const stagger_tensor* tensor;
  std::int64_t sizes[3];  ///< batch, row, head
  std::int64_t dim;
  std::int64_t bytes;  ///< of an element
  bool written;
};

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

/// Whether a tensor has no elements: then its strides reach nothing.
bool is_empty(const Named& named) {
  return std::ranges::any_of(named.sizes, [](std::int64_t size) { return size == 0; });
}

void check_strides(const Named& named, bool aligned) {
  if (is_empty(named)) return;
  for (int dimension = 0; dimension < 3; ++dimension) {
    if (named.sizes[dimension] <= 1) continue;
    const std::int64_t stride = named.tensor->stride[dimension];
    const std::string what = std::string(named.name) + ": the " + kDimensions[dimension] +
                             " stride is " + std::to_string(stride);
    if (stride <= 0) refuse(what + "; strides along dimensions above 1 are positive");
    if (aligned && stride % kStrideElements != 0) {
      refuse(what + " elements, which is no multiple of 8 (16 bytes)");
    }
    if (stride >= kMostBytes / named.bytes) refuse(what + "; the limit is 2^40 bytes");
    if (named.sizes[dimension] > kMostReach / (stride * named.bytes))
      refuse(what + ", by which it reaches farther than addresses do");
  }
}

/// Elements from the first to behind the last of one row's heads.
std::int64_t row_extent(const Named& named) {
  return (named.sizes[2] - 1) * named.tensor->stride[2] + named.dim;
}

Extent extent_of(const Named& named) {
  Extent extent{.begin = address_of(named.tensor->data), .end = 0};
  std::int64_t last = named.dim;
  for (int dimension = 0; dimension < 3; ++dimension) {
    if (named.sizes[dimension] > 1)
      last += (named.sizes[dimension] - 1) * named.tensor->stride[dimension];
  }
  extent.end = extent.begin + static_cast<std::uint64_t>(last * named.bytes);
  return extent;
}

bool meet(const Extent& left, const Extent& right) {
  return left.begin < right.end && right.begin < left.end;
}

[[noreturn]] void refuse_overlap(const char* written, const char* other) {
  throw Failure(STAGGER_E_USAGE, std::string(written) + " overlaps " + other);
}

/// Whether two tensors are slices of one packed tensor (batch, row, 3, head, dim): their extents
/// meet, their elements do not.
bool interleaved(const Named& left, const Named& right) {
  const Named& first = left.tensor->data < right.tensor->data ? left : right;
  const Named& second = left.tensor->data < right.tensor->data ? right : left;
  const std::int64_t row = first.tensor->stride[1];
  if (row <= 0 || second.tensor->stride[1] != row || first.bytes != second.bytes) return false;
  const std::int64_t batch = first.tensor->stride[0];
  if (first.sizes[0] > 1 && (batch % row != 0 || second.tensor->stride[0] != batch)) return false;
  const std::uint64_t bytes = address_of(second.tensor->data) - address_of(first.tensor->data);
  const std::int64_t distance = static_cast<std::int64_t>(bytes) / first.bytes % row;
  return distance >= row_extent(first) && distance + row_extent(second) <= row;
}

/// Whether each dimension of a tensor steps over all that is within it, from the one of the
/// smallest stride on: then no element is another one too.
bool nests(const Named& named) {
  std::array<int, 3> by_stride = {0, 1, 2};
  std::ranges::sort(by_stride, {}, [&](int each) { return named.tensor->stride[each]; });
  std::int64_t within = named.dim;
  for (const int dimension : by_stride) {
    if (named.sizes[dimension] <= 1) continue;
    const std::int64_t stride = named.tensor->stride[dimension];
    if (stride < within) return false;
    within += (named.sizes[dimension] - 1) * stride;
  }
  return true;
}

void check_overlaps(const std::vector<Named>& tensors) {
  for (const Named& written : tensors) {
    if (!written.written || is_empty(written)) continue;
    if (!nests(written)) {
      throw Failure(
          STAGGER_E_USAGE,
          std::string(written.name) + ": its strides do not nest, so that it may overlap itself");
    }
    const Extent own = extent_of(written);
    for (const Named& other : tensors) {
      if (&other == &written || is_empty(other)) continue;
      const Extent extent = extent_of(other);
      if (meet(own, extent) && !interleaved(written, other))
        refuse_overlap(written.name, other.name);
    }
  }
}

/// The tensors of a call; the logsumexp is the last.
std::vector<Named> tensors_of(const BackwardPlan& plan, const stagger_call& call,
                              std::int64_t element_bytes) {
  const Lengths& lengths = plan.table.problem.lengths;
  const auto named = [&](const char* name, const stagger_tensor& tensor, bool of_queries,
                         bool written) {
    return Named{name,
                 &tensor,
                 {plan.batch, of_queries ? lengths.q : lengths.kv,
                  of_queries ? plan.heads_q() : plan.heads_kv()},
                 plan.head_dim,
                 element_bytes,
                 written};
  };
  std::vector<Named> tensors = {
      named("q", call.q, true, false),         named("k", call.k, false, false),
      named("v", call.v, false, false),        named("out", call.out, true, false),
      named("d_out", call.d_out, true, false), named("dq", call.dq, true, true),
      named("dk", call.dk, false, true),       named("dv", call.dv, false, true),
      named("lse", call.lse, true, false)};
  tensors.back().dim = 1;
  tensors.back().bytes = sizeof(float);
  return tensors;
}

/// Memory of a call beside its tensors.
struct Block {
  const char* name;
  const void* data;
  std::int64_t bytes;
};

Extent extent_of(const Block& block) {
  const std::uint64_t begin = address_of(block.data);
  return {.begin = begin, .end = begin + static_cast<std::uint64_t>(block.bytes)};
}

}  // namespace

void check_tensors(const BackwardPlan& plan, const stagger_call& call, std::int64_t element_bytes) {
  const std::vector<Named> tensors = tensors_of(plan, call, element_bytes);
  const bool on_host = element_bytes == sizeof(float);
  for (const Named& each : tensors) {
    expect(each.tensor->data, each.name);
    const bool is_lse = &each == &tensors.back();
    const std::uint64_t alignment = on_host || is_lse ? sizeof(float) : kDataAlignment;
    if (address_of(each.tensor->data) % alignment != 0) {
      refuse(std::string(each.name) + ": the address is no multiple of " +
             std::to_string(alignment) + " bytes");
    }
    check_strides(each, !on_host && !is_lse);
  }
  check_overlaps(tensors);
}

void check_memory(const BackwardPlan& plan, const stagger_call& call) {
  const std::int64_t needed = plan.device->workspace.bytes;
  expect(call.workspace, "workspace", STAGGER_E_WORKSPACE);
  if (call.workspace_bytes < static_cast<std::uint64_t>(needed)) {
    throw Failure(STAGGER_E_WORKSPACE, "the workspace has " + std::to_string(call.workspace_bytes) +
                                           " bytes; this plan needs " + std::to_string(needed));
  }
  if (call.device_plan == nullptr) {
    throw Failure(STAGGER_E_WORKSPACE, "device_plan is NULL: stagger_plan_upload() fills it");
  }
  const Block workspace = {"workspace", call.workspace, needed};
  const Block image = {"device_plan", call.device_plan, plan.device->layout.bytes};
  for (const Block& each : {workspace, image}) {
    if (address_of(each.data) % kMemoryAlignment != 0) {
      refuse(std::string(each.name) + ": the address is no multiple of 256 bytes");
    }
  }
  if (meet(extent_of(workspace), extent_of(image))) {
    refuse_overlap(workspace.name, image.name);
  }
  // The extent of a tensor has what lies between its rows too; no other's memory is there.
  for (const Named& tensor : tensors_of(plan, call, sizeof(std::uint16_t))) {
    const Extent extent = extent_of(tensor);
    if (meet(extent, extent_of(workspace))) refuse_overlap(workspace.name, tensor.name);
    if (tensor.written && meet(extent, extent_of(image))) refuse_overlap(tensor.name, image.name);
  }
}

void check_mode(const stagger_call& call) {
  if (call.mode == STAGGER_DETERMINISTIC || call.mode == STAGGER_ATOMIC) return;
  throw Failure(STAGGER_E_USAGE, "mode is " + std::to_string(call.mode) +
                                     "; it is STAGGER_DETERMINISTIC or STAGGER_ATOMIC");
}

float scale_of(const BackwardPlan& plan, const stagger_call& call) {
  if (call.scale == 0) return static_cast<float>(1 / std::sqrt(static_cast<double>(plan.head_dim)));
  if (std::isfinite(call.scale) && call.scale > 0) return call.scale;
  throw Failure(STAGGER_E_USAGE, "scale is " + std::to_string(call.scale) +
                                     "; it is positive and finite, or 0 for 1 / sqrt(head_dim)");
}

}  // namespace stagger::workbench::c
