#include "core/error.hpp"
#include "gpu/cuda/runner.cuh"
#include "gpu/hopper/hopper.hpp"
#include "gpu/hopper/kernel.cuh"
#include "gpu/hopper/passes.cuh"

#include <algorithm>
#include <bit>
#include <type_traits>

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
std::vector<float> downloaded(const cuda::DeviceBuffer<T>& narrow, std::size_t elements) {
  const cuda::DeviceBuffer<float> wide(elements);
  const auto size = static_cast<std::int64_t>(elements);
  widen<<<blocks(size), kPassThreads>>>(narrow.data(), wide.data(), size);
  STAGGER_CUDA_TRY(cudaGetLastError());
  return wide.download();
}

/// Describes a tensor (head, row, head_dim) to the copy engine, by boxes of `rows` rows and a
/// panel's columns, swizzled as wgmma reads them.
template <class T>
CUtensorMap tensor_map(const cuda::DeviceBuffer<T>& tensor, std::int32_t heads, std::int64_t seq,
                       std::int32_t head_dim, std::int32_t rows) {
  // The driver's own function, asked for at run time, so that nothing links to the driver.
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    STAGGER_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                      cudaEnableDefault, &found));
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  if (encode == nullptr) throw Error(ErrorKind::device, "the driver has no bulk tensor copies");
  constexpr bool kBf16 = std::is_same_v<T, __nv_bfloat16>;
  const auto dim = static_cast<cuuint64_t>(head_dim);
  const cuuint64_t sizes[] = {dim, static_cast<cuuint64_t>(seq), static_cast<cuuint64_t>(heads)};
  const cuuint64_t strides[] = {dim * sizeof(T), dim * sizeof(T) * sizes[1]};
  const cuuint32_t box[] = {kPanelColumns, static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode(&map, kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
             tensor.data(), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorKind::device,
                "CUDA: no tensor map, error " + std::to_string(static_cast<int>(result)));
  }
  return map;
}

/// Lists the keys that a query sees, by masked tile and query of the tile.
std::vector<SeenKeys> seen_keys(const Table& table, const TokenMask& mask) {
  const Problem& problem = table.problem;
  std::vector<SeenKeys> keys;
  for (const auto& [kv, q] : cuda::masked_tiles(problem)) {
    const std::int64_t first = kv.value * problem.shape.kv;
    for (std::int64_t place = 0; place < problem.shape.q; ++place) {
      const std::int64_t query = q.value * problem.shape.q + place;
      KeyRange seen;
      if (query < problem.lengths.q) seen = mask.keys(query, kv);
      if (seen.begin == seen.end) {
        keys.emplace_back();
      } else {
        keys.push_back({.begin = static_cast<std::uint8_t>(seen.begin - first),
                        .end = static_cast<std::uint8_t>(seen.end - first)});
      }
    }
  }
  return keys;
}

std::vector<std::int32_t> contributions(const Problem& problem) {
  std::vector<std::int32_t> counts;
  for (QTile q{0}; q.value < problem.grid.q_tiles(); ++q)
    counts.push_back(problem.grid.contributions(q));
  return counts;
}

/// An attention problem in device memory, and the three kernels of its backward pass.
template <class T, int kHeadDim, int kStepQ>
class DeviceProblem {
 public:
  DeviceProblem(const Table& table, const Attention& attention, const BackwardOptions& options)
      : table_(table),
        shape_(attention.shape),
        options_(options),
        sizes_{.heads = shape_.heads,
               .q_tiles = table.problem.grid.q_tiles(),
               .steps = static_cast<std::int32_t>(table.problem.shape.q / kStepQ),
               .seq_q = shape_.seq_q},
        q_(rounded<T>(attention.inputs.q)),
        k_(rounded<T>(attention.inputs.k)),
        v_(rounded<T>(attention.inputs.v)),
        d_out_(rounded<T>(attention.inputs.d_out)),
        out_(rounded<T>(as_floats(attention.forward.out))),
        lse_(as_floats(attention.forward.lse)),
        contributions_(contributions(table.problem)),
        keys_(seen_keys(table, attention.mask)),
        stats_(at(steps()) * 2 * kStepQ),
        dq_sums_(at(steps() * kStepQ * kHeadDim)),
        partials_(options.keep_partials ? at(slots() * sizes_.steps * kStepQ * kHeadDim) : 0),
        dq_(shape_.q_elements()),
        dk_(shape_.kv_elements()),
        dv_(shape_.kv_elements()) {
    dq_sums_.fill(0);
    dq_.fill(0);  // of a mask without any tile
    dk_.fill(0);  // of KV tiles that nobody sees
    dv_.fill(0);
    const auto map = [&](const cuda::DeviceBuffer<T>& tensor, std::int64_t seq, std::int32_t rows) {
      return tensor_map(tensor, shape_.heads, seq, kHeadDim, rows);
    };
    parameters_ = {.q = map(q_, shape_.seq_q, kStepQ),
                   .d_out = map(d_out_, shape_.seq_q, kStepQ),
                   .k = map(k_, shape_.seq_kv, kTileKv),
                   .v = map(v_, shape_.seq_kv, kTileKv),
                   .dk = map(dk_, shape_.seq_kv, kWarpKeys),
                   .dv = map(dv_, shape_.seq_kv, kWarpKeys),
                   .stats = stats_.data(),
                   .keys = keys_.data(),
                   .dq_sums = dq_sums_.data(),
                   .partials = options.keep_partials ? partials_.data() : nullptr,
                   .log2_steps = std::countr_zero(static_cast<std::uint32_t>(sizes_.steps)),
                   .scale = scale()};
  }

  Backward run() {
    cuda::Runner runner(table_, options_, sizes_.steps);
    Backward result = runner.play(kernel(), before(), after(), !options_.perturb);
    download(result);
    if (options_.keep_partials) result.partials = in_rows(partials_.download());
    return result;
  }

  BareRuns bare_runs(int warmups, int runs) {
    cuda::Runner runner(table_, options_, sizes_.steps);
    BareRuns result = runner.bare_runs(kernel(), before(), after(), warmups, runs);
    download(result.last);
    return result;
  }

 private:
  static constexpr std::int32_t kWarpKeys = Tile<T, kHeadDim, kStepQ>::kWarpKeys;

  /// Counts the steps of all heads' Q tiles.
  [[nodiscard]] std::int64_t steps() const { return std::int64_t{sizes_.heads} * sizes_.q_steps(); }
  [[nodiscard]] std::int64_t slots() const {
    return static_cast<std::int64_t>(table_.slots.size());
  }
  [[nodiscard]] float scale() const { return static_cast<float>(shape_.scale()); }

  /// Takes what the last run left of the gradients.
  void download(Backward& result) const {
    result.gradients = {.dq = downloaded(dq_, shape_.q_elements()),
                        .dk = downloaded(dk_, shape_.kv_elements()),
                        .dv = downloaded(dv_, shape_.kv_elements())};
    result.dq_sums = of_sequences(in_rows(dq_sums_.download()));
  }

  [[nodiscard]] cuda::Kernel kernel() const {
    return {backward<T, kHeadDim, kStepQ>, parameters_,
            cuda::Runner::shared_bytes(sizeof(SharedMemory<T, kHeadDim, kStepQ>)), kThreads};
  }

  [[nodiscard]] cuda::Runner::Enqueue before() {
    return [this](const cuda::DeviceRun& run) {
      if (run.mode != Mode::deterministic) dq_sums_.fill(0);  // where rank 0 would have stored
      preprocess<T, kHeadDim, kStepQ><<<blocks(steps() * kStepQ * (kHeadDim / 8)), kPassThreads>>>(
          sizes_, run, d_out_.data(), out_.data(), lse_.data(), stats_.data());
      STAGGER_CUDA_TRY(cudaGetLastError());
    };
  }
  [[nodiscard]] cuda::Runner::Enqueue after() {
    return [this](const cuda::DeviceRun&) {
      convert<T, kHeadDim, kStepQ><<<static_cast<unsigned>(steps()), kPassThreads>>>(
          sizes_, dq_sums_.data(), contributions_.data(), scale(), dq_.data());
      STAGGER_CUDA_TRY(cudaGetLastError());
    };
  }

  /// Puts steps from the order of dq_place into that of (query, dim).
  static std::vector<float> in_rows(const std::vector<float>& steps) {
    constexpr std::int32_t kElements = kStepQ * kHeadDim;
    std::vector<std::size_t> places;
    for (std::int32_t element = 0; element < kElements; ++element) {
      const DqPlace place = dq_place(kHeadDim, kStepQ, element);
      places.push_back(at(place.query * kHeadDim + place.dim));
    }
    std::vector<float> rows(steps.size());
    for (std::size_t first = 0; first < steps.size(); first += kElements) {
      for (std::size_t element = 0; element < kElements; ++element)
        rows[first + places[element]] = steps[first + element];
    }
    return rows;
  }

  /// Leaves out of (head, Q tile, query, dim) the queries that the last tile has beyond the
  /// sequence.
  [[nodiscard]] std::vector<float> of_sequences(const std::vector<float>& tiles) const {
    const std::size_t padded = at(sizes_.q_steps()) * kStepQ * kHeadDim;
    const std::size_t elements = at(shape_.seq_q) * kHeadDim;
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
  Sizes sizes_;
  cuda::DeviceBuffer<T> q_;
  cuda::DeviceBuffer<T> k_;
  cuda::DeviceBuffer<T> v_;
  cuda::DeviceBuffer<T> d_out_;
  cuda::DeviceBuffer<T> out_;
  cuda::DeviceBuffer<float> lse_;
  cuda::DeviceBuffer<std::int32_t> contributions_;
  cuda::DeviceBuffer<SeenKeys> keys_;
  cuda::DeviceBuffer<float> stats_;
  cuda::DeviceBuffer<float> dq_sums_;
  cuda::DeviceBuffer<float> partials_;
  cuda::DeviceBuffer<T> dq_;
  cuda::DeviceBuffer<T> dk_;
  cuda::DeviceBuffer<T> dv_;
  Parameters parameters_;
};

// Marks::step is one bit, and log2_steps exact.
static_assert(std::ranges::all_of(kShapes, [](const Shape& shape) {
  return shape.tile_q == shape.step_q || shape.tile_q == 2 * shape.step_q;
}));

/// Finds the kernel's shape; nullptr if it has none for this problem's head_dim and tiles.
const Shape* shape_of(const Problem& problem, const AttentionShape& shape) {
  if (problem.shape.kv != kTileKv) return nullptr;
  for (const Shape& each : kShapes) {
    if (each.head_dim == shape.head_dim && each.tile_q == problem.shape.q) return &each;
  }
  return nullptr;
}

/// Calls `use` with the DeviceProblem for this problem.
template <class Use>
auto with_problem(const Table& table, const Attention& attention, const BackwardOptions& options,
                  Use use) {
  STAGGER_EXPECTS(is_complete(table));
  STAGGER_EXPECTS(is_exact(attention.inputs, options.dtype));
  const std::string refusal = hopper_refusal(table.problem, attention.shape, options.dtype);
  if (!refusal.empty()) throw Error(ErrorKind::unsupported, refusal);
  const auto of_type = [&](auto type) {
    using T = decltype(type);
    const std::int32_t step_q = shape_of(table.problem, attention.shape)->step_q;
    if (attention.shape.head_dim == 64) {
      if (step_q == 64) return use(DeviceProblem<T, 64, 64>(table, attention, options));
      if (step_q == 80) return use(DeviceProblem<T, 64, 80>(table, attention, options));
      return use(DeviceProblem<T, 64, 128>(table, attention, options));
    }
    if (step_q == 64) return use(DeviceProblem<T, 128, 64>(table, attention, options));
    return use(DeviceProblem<T, 128, 80>(table, attention, options));
  };
  return options.dtype == Dtype::bf16 ? of_type(__nv_bfloat16{}) : of_type(__half{});
}

}  // namespace
}  // namespace hopper

std::string hopper_refusal(const Problem& problem, const AttentionShape& shape, Dtype dtype) {
  if (dtype == Dtype::fp32) return "the hopper kernel is for bf16 and fp16";
  if (hopper::shape_of(problem, shape) == nullptr) {
    return "the hopper kernel is for head_dim 64 and 128, KV tiles of 128 tokens and Q tiles of "
           "64, "
           "80 or 128";
  }
  int device = 0;
  int major = 0;
  STAGGER_CUDA_TRY(cudaGetDevice(&device));
  STAGGER_CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9 ? "" : "the hopper kernel is for devices of compute capability 9.0";
}

Backward backward_on_hopper(const Table& table, const Attention& attention,
                            const BackwardOptions& options) {
  return hopper::with_problem(table, attention, options,
                              [](auto problem) { return problem.run(); });
}

BareRuns bare_runs_on_hopper(const Table& table, const Attention& attention,
                             const BackwardOptions& options, int warmups, int runs) {
  BackwardOptions bare = options;
  bare.stamped = false;
  bare.perturb = std::nullopt;
  return hopper::with_problem(table, attention, bare,
                              [&](auto problem) { return problem.bare_runs(warmups, runs); });
}

}  // namespace stagger::gpu
