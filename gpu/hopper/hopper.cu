#include "core/error.hpp"
#include "gpu/cuda/runner.cuh"
#include "gpu/hopper/hopper.hpp"
#include "gpu/hopper/pass.cuh"
#include "gpu/hopper/passes.cuh"

#include <cstddef>

namespace stagger::gpu {
namespace hopper {
namespace {

unsigned blocks(std::int64_t threads) {
  return static_cast<unsigned>((threads + kPassThreads - 1) / kPassThreads);
}

template <class T>
cuda::DeviceBuffer<T> rounded(const std::vector<float>& values) {
  const cuda::DeviceBuffer<float> wide(values);
  cuda::DeviceBuffer<T> narrow(values.size());
  const auto size = static_cast<std::int64_t>(values.size());
  round_to<<<blocks(size), kPassThreads>>>(wide.data(), narrow.data(), size);
  STAGGER_CUDA_TRY(cudaGetLastError());
  STAGGER_CUDA_TRY(cudaDeviceSynchronize());
  return narrow;
}

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <class T>
std::vector<float> downloaded(const T* narrow, std::size_t elements) {
  const cuda::DeviceBuffer<float> wide(elements);
  const auto size = static_cast<std::int64_t>(elements);
  widen<<<blocks(size), kPassThreads>>>(narrow, wide.data(), size);
  STAGGER_CUDA_TRY(cudaGetLastError());
  return wide.download();
}

/// Returns dropout with its stored bits, if it has some, on the device.
std::optional<DropoutWords> words_of(const Attention& attention,
                                     const cuda::DeviceBuffer<std::uint32_t>& stored) {
  if (!attention.dropout) return std::nullopt;
  DropoutWords words = dropout_words(*attention.dropout, attention.shape.dropout_layout());
  if (words.stored != nullptr) words.stored = stored.data();
  return words;
}

/// A tensor by heads, row-major.
template <class T>
Tensor by_heads(const cuda::DeviceBuffer<T>& buffer, std::int64_t rows, std::int64_t columns) {
  return {.data = buffer.data(), .row = columns, .head = rows * columns};
}

/// An attention problem in device memory, and its backward pass.
template <class T>
class DeviceProblem {
 public:
  DeviceProblem(const Table& table, const Attention& attention, const BackwardOptions& options)
      : table_(table),
        shape_(attention.shape),
        options_(options),
        plan_(make_plan(table, attention.masks.common(), 1, shape_.head_dim, options.dtype)),
        image_(plan_.image),
        workspace_(at(plan_.workspace.bytes)),
        q_(rounded<T>(attention.inputs.q)),
        k_(rounded<T>(attention.inputs.k)),
        v_(rounded<T>(attention.inputs.v)),
        d_out_(rounded<T>(attention.inputs.d_out)),
        out_(rounded<T>(as_floats(attention.forward.out))),
        lse_(as_floats(attention.forward.lse)),
        stored_(attention.dropout ? attention.dropout->stored : std::vector<std::uint32_t>{}),
        dropout_(words_of(attention, stored_)),
        partials_(options.keep_partials ? at(slots() * step_elements() * plan_.sizes.steps) : 0),
        dk_partials_(options.keep_partials ? at(padded_part_elements()) : 0),
        dv_partials_(options.keep_partials ? at(padded_part_elements()) : 0),
        dq_(shape_.q_elements()),
        dk_(shape_.kv_elements()),
        dv_(shape_.kv_elements()),
        pass_(plan_, call()) {
    // What a run of a mask without any tile leaves: no kernel runs.
    workspace_.fill(0);
    dq_.fill(0);
    dk_.fill(0);
    dv_.fill(0);
  }

  Backward run() {
    cuda::Runner runner(table_, options_, semaphores());
    Backward result = runner.play(pass_.kernel(), before(), after(), !options_.perturb);
    download(result);
    if (options_.keep_partials) keep_partials(result);
    return result;
  }

  UntimedRuns untimed_runs(int warmups, int runs) {
    cuda::Runner runner(table_, options_, semaphores());
    UntimedRuns result = runner.untimed_runs(pass_.kernel(), before(), after(), warmups, runs);
    download(result.last);
    return result;
  }

 private:
  [[nodiscard]] cuda::Semaphores semaphores() const {
    return {.of_q = plan_.sizes.steps, .of_kv = kDkvWarps};
  }
  [[nodiscard]] std::int64_t slots() const {
    return static_cast<std::int64_t>(table_.slots.size());
  }
  [[nodiscard]] std::int64_t step_elements() const {
    return std::int64_t{plan_.sizes.step_q} * plan_.sizes.head_dim;
  }

  /// Counts the elements of all chains' dK where those are kept as they are added in order.
  [[nodiscard]] std::int64_t padded_part_elements() const {
    return plan_.in_order ? plan_.sizes.all_kv_tiles() * plan_.sizes.group_parts() * kTileKv *
                                plan_.sizes.head_dim
                          : 0;
  }

  [[nodiscard]] Call call() const {
    const std::int64_t dim = shape_.head_dim;
    return {.tensors = {.q = by_heads(q_, shape_.seq_q, dim),
                        .k = by_heads(k_, shape_.seq_kv, dim),
                        .v = by_heads(v_, shape_.seq_kv, dim),
                        .out = by_heads(out_, shape_.seq_q, dim),
                        .d_out = by_heads(d_out_, shape_.seq_q, dim),
                        .lse = by_heads(lse_, shape_.seq_q, 1),
                        .dq = by_heads(dq_, shape_.seq_q, dim),
                        .dk = by_heads(dk_, shape_.seq_kv, dim),
                        .dv = by_heads(dv_, shape_.seq_kv, dim)},
            .scale = static_cast<float>(shape_.scale()),
            .plan = image_.data(),
            .workspace = workspace_.data(),
            .dropout = dropout_,
            .partials = options_.keep_partials ? partials_.data() : nullptr,
            .dk_partials = dk_partials_.data(),
            .dv_partials = dv_partials_.data()};
  }

  void keep_partials(Backward& result) const {
    result.partials = in_rows(partials_.download());
    if (plan_.in_order) {
      result.dk_partials = keys_in_rows(dk_partials_.download());
      result.dv_partials = keys_in_rows(dv_partials_.download());
    }
    if (!plan_.has_parts()) return;
    result.dk_partials = parts(plan_.workspace.dk);
    result.dv_partials = parts(plan_.workspace.dv);
  }

  /// Returns dK or dV of every part, rounded as the kernel leaves it in the workspace.
  [[nodiscard]] std::vector<float> parts(std::int64_t place) const {
    return downloaded(reinterpret_cast<const T*>(workspace_.data() + place),
                      at(plan_.sizes.part_elements()));
  }

  /// Takes what the last run left of the gradients.
  void download(Backward& result) const {
    if (plan_.in_order && options_.stamped) {
      result.dk_sums = keys_in_rows(sums(plan_.workspace.dk, plan_.sizes.all_kv_tiles() * kTileKv));
      result.dv_sums = keys_in_rows(sums(plan_.workspace.dv, plan_.sizes.all_kv_tiles() * kTileKv));
    }
    result.gradients = {.dq = downloaded(dq_.data(), shape_.q_elements()),
                        .dk = downloaded(dk_.data(), shape_.kv_elements()),
                        .dv = downloaded(dv_.data(), shape_.kv_elements())};
    result.dq_sums = of_sequences(
        in_rows(sums(plan_.workspace.dq_sums, plan_.sizes.all_steps() * plan_.sizes.step_q)));
  }

  /// Returns rows of fp32 sums from a place in the workspace.
  [[nodiscard]] std::vector<float> sums(std::int64_t place, std::int64_t rows) const {
    std::vector<float> sums(at(rows * plan_.sizes.head_dim));
    STAGGER_CUDA_TRY(cudaMemcpy(sums.data(), workspace_.data() + place, sums.size() * sizeof(float),
                                cudaMemcpyDeviceToHost));
    return sums;
  }

  [[nodiscard]] cuda::Runner::Enqueue before() {
    return [this](const cuda::DeviceRun& run) { pass_.before(run, nullptr); };
  }
  [[nodiscard]] cuda::Runner::Enqueue after() {
    return [this](const cuda::DeviceRun& run) { pass_.after(run, nullptr); };
  }

  /// Puts steps from the order of dq_place into that of (query, dim).
  [[nodiscard]] std::vector<float> in_rows(const std::vector<float>& steps) const {
    const std::int32_t head_dim = plan_.sizes.head_dim;
    const std::size_t elements = at(step_elements());
    std::vector<std::size_t> places;
    places.reserve(elements);
    for (std::int32_t element = 0; element < step_elements(); ++element) {
      const DqPlace place = dq_place(head_dim, plan_.sizes.step_q, element);
      places.push_back(at(place.query * head_dim + place.dim));
    }
    std::vector<float> rows(steps.size());
    for (std::size_t first = 0; first < steps.size(); first += elements) {
      for (std::size_t element = 0; element < elements; ++element)
        rows[first + places[element]] = steps[first + element];
    }
    return rows;
  }

  /// Puts tiles of dK or dV from the order of dkv_place into that of (head, key, dim), without the
  /// keys that the last one has beyond the sequence; a part in the place of a head.
  [[nodiscard]] std::vector<float> keys_in_rows(const std::vector<float>& tiles) const {
    const std::int64_t dim = plan_.sizes.head_dim;
    const std::int64_t of_tile = kTileKv * dim;
    std::vector<float> rows(tiles.size() / at(plan_.sizes.kv_tiles * of_tile) *
                            at(shape_.seq_kv * dim));
    for (std::int64_t index = 0; index < std::ssize(tiles); ++index) {
      const std::int64_t tile = index / of_tile;
      const DkvPlace place =
          dkv_place(static_cast<std::int32_t>(dim), static_cast<std::int32_t>(index % of_tile));
      const std::int64_t key = tile % plan_.sizes.kv_tiles * kTileKv + place.key;
      if (key >= shape_.seq_kv) continue;
      const std::int64_t head = tile / plan_.sizes.kv_tiles;
      rows[at((head * shape_.seq_kv + key) * dim + place.dim)] = tiles[at(index)];
    }
    return rows;
  }

  /// Leaves out of (head, Q tile, query, dim) the queries that the last tile has beyond the
  /// sequence.
  [[nodiscard]] std::vector<float> of_sequences(const std::vector<float>& tiles) const {
    const std::size_t padded = at(plan_.sizes.q_steps() * step_elements());
    const std::size_t elements = at(shape_.seq_q * shape_.head_dim);
    std::vector<float> rows;
    rows.reserve(shape_.q_elements());
    for (auto head = tiles.begin(); head != tiles.end();
         head += static_cast<std::ptrdiff_t>(padded)) {
      rows.insert(rows.end(), head, head + static_cast<std::ptrdiff_t>(elements));
    }
    return rows;
  }

  const Table& table_;
  AttentionShape shape_;
  BackwardOptions options_;
  Plan plan_;
  cuda::DeviceBuffer<std::byte> image_;
  cuda::DeviceBuffer<std::byte> workspace_;
  cuda::DeviceBuffer<T> q_;
  cuda::DeviceBuffer<T> k_;
  cuda::DeviceBuffer<T> v_;
  cuda::DeviceBuffer<T> d_out_;
  cuda::DeviceBuffer<T> out_;
  cuda::DeviceBuffer<float> lse_;
  cuda::DeviceBuffer<std::uint32_t> stored_;
  std::optional<DropoutWords> dropout_;
  cuda::DeviceBuffer<float> partials_;
  cuda::DeviceBuffer<float> dk_partials_;
  cuda::DeviceBuffer<float> dv_partials_;
  cuda::DeviceBuffer<T> dq_;
  cuda::DeviceBuffer<T> dk_;
  cuda::DeviceBuffer<T> dv_;
  Pass pass_;
};

/// Calls `use` with the DeviceProblem for this problem.
template <class Use>
auto with_problem(const Table& table, const Attention& attention, const BackwardOptions& options,
                  Use use) {
  STAGGER_EXPECTS(is_complete(table));
  STAGGER_EXPECTS(is_exact(attention.inputs, options.dtype));
  const std::string refusal = hopper_refusal(table.problem, attention.shape, options.dtype);
  if (!refusal.empty()) throw Error(ErrorKind::unsupported, refusal);
  if (options.dtype == Dtype::bf16) {
    return use(DeviceProblem<__nv_bfloat16>(table, attention, options));
  }
  return use(DeviceProblem<__half>(table, attention, options));
}

}  // namespace
}  // namespace hopper

std::string hopper_refusal(const Problem& problem, const AttentionShape& shape, Dtype dtype) {
  const std::string refusal = hopper::plan_refusal(problem, shape.head_dim, dtype);
  return refusal.empty() ? hopper::device_refusal() : refusal;
}

Backward backward_on_hopper(const Table& table, const Attention& attention,
                            const BackwardOptions& options) {
  return hopper::with_problem(table, attention, options,
                              [](auto&& problem) { return problem.run(); });
}

UntimedRuns untimed_runs_on_hopper(const Table& table, const Attention& attention,
                                   const BackwardOptions& options, int warmups, int runs) {
  BackwardOptions untimed = options;
  untimed.stamped = false;
  untimed.perturb = std::nullopt;
  return hopper::with_problem(table, attention, untimed,
                              [&](auto&& problem) { return problem.untimed_runs(warmups, runs); });
}

}  // namespace stagger::gpu
