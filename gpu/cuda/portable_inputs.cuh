#pragma once

#include "gpu/check/attention.hpp"
#include "gpu/cuda/device_buffer.cuh"
#include "gpu/cuda/portable_tile.cuh"

#include <algorithm>
#include <vector>

namespace stagger::gpu::cuda {

template <class To, class From>
std::vector<To> converted(const std::vector<From>& values) {
  std::vector<To> results(values.size());
  std::transform(values.begin(), values.end(), results.begin(),
                 [](From value) { return static_cast<To>(value); });
  return results;
}

/// What any backward pass by portable tiles reads, in device memory.
template <class Storage>
class PortableInputs {
 public:
  PortableInputs(const Problem& problem, const Attention& attention)
      : PortableInputs(problem, attention, portable_mask(problem, attention.masks.common())) {}

  PortableInputs(const Problem& problem, const Attention& attention, const PortableMask& mask)
      : tile_q_(static_cast<std::int32_t>(std::min(problem.shape.q, problem.lengths.q))),
        q_(converted<Storage>(attention.inputs.q)),
        k_(converted<Storage>(attention.inputs.k)),
        v_(converted<Storage>(attention.inputs.v)),
        d_out_(converted<Storage>(attention.inputs.d_out)),
        lse_(converted<float>(attention.forward.lse)),
        delta_(converted<float>(attention.forward.delta)),
        queries_(mask.queries),
        bits_(mask.bits),
        stored_(attention.dropout ? attention.dropout->stored : std::vector<std::uint32_t>{}) {
    const auto scale = static_cast<float>(attention.shape.scale());
    // All members, as nvcc loses which ones are named in a template.
    parameters_ = {
        .q = q_.data(),
        .k = k_.data(),
        .v = v_.data(),
        .d_out = d_out_.data(),
        .lse = lse_.data(),
        .delta = delta_.data(),
        .queries = queries_.data(),
        .dq = nullptr,
        .dk = nullptr,
        .dv = nullptr,
        .dk_sums = nullptr,
        .dv_sums = nullptr,
        .span = problem.span,
        .parts = problem.group_parts(),
        .partials = nullptr,
        .keep_partials = false,
        .seq_q = attention.shape.seq_q,
        .seq_kv = attention.shape.seq_kv,
        .head_dim = attention.shape.head_dim,
        .tile_q = tile_q_,
        .tile_kv = static_cast<std::int32_t>(std::min(problem.shape.kv, problem.lengths.kv)),
        .scale = scale,
        .dq_scale = kDtypeOf<Storage> == Dtype::fp32 ? scale : 1,
        .in_ranges = mask.in_ranges,
        .words = mask.words,
        .bits = bits_.data()};
    if (!attention.dropout) return;
    parameters_.dropout = dropout_words(*attention.dropout, attention.shape.dropout_layout());
    if (parameters_.dropout.stored != nullptr) parameters_.dropout.stored = stored_.data();
  }

  /// Returns them without a place for what is made of them.
  [[nodiscard]] const PortableParameters<Storage>& parameters() const { return parameters_; }

 private:
  std::int32_t tile_q_;
  DeviceBuffer<Storage> q_;
  DeviceBuffer<Storage> k_;
  DeviceBuffer<Storage> v_;
  DeviceBuffer<Storage> d_out_;
  DeviceBuffer<float> lse_;
  DeviceBuffer<float> delta_;
  DeviceBuffer<SeenQueries> queries_;
  DeviceBuffer<std::uint32_t> bits_;
  DeviceBuffer<std::uint32_t> stored_;
  PortableParameters<Storage> parameters_;
};

}  // namespace stagger::gpu::cuda
