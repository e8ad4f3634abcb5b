// What runs a problem: its memory, its kernels' launches on two streams, and the checks of what
// they leave.

#include "core/error.hpp"
#include "gpu/cuda/device_buffer.cuh"
#include "gpu/cuda/device_state.hpp"
#include "gpu/numerics/rounding.hpp"
#include "gpu/overlap/attention.cuh"
#include "gpu/overlap/bits.cuh"
#include "gpu/overlap/dispatch.cuh"
#include "gpu/overlap/gemm.cuh"
#include "gpu/overlap/inputs.cuh"
#include "gpu/overlap/overlap.hpp"
#include "gpu/overlap/streams.cuh"
#include "gpu/overlap/tensor_map.cuh"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

namespace stagger::gpu::overlap {
namespace {

using cuda::DeviceBuffer;

constexpr std::uint64_t kSampleSeed = 7;  ///< of the places that the host looks at
constexpr int kSamples = 64;              ///< of a GEMM's elements
constexpr int kWordSamples = 4096;
constexpr int kRowSamples = 2;  ///< of attention's output
constexpr std::int64_t kPatienceNs = 2'000'000'000;
constexpr int kFillThreads = 256;

using BitsKernel = void (*)(BitsWork);
using AttentionKernel = void (*)(AttentionWork);
using GemmKernel = void (*)(GemmWork, BitsBeside);

BitsKernel bits_kernel(const DropoutRule& rule) {
  return with_rule(rule, []<int kBits, int kRounds>(RuleOf<kBits, kRounds>) -> BitsKernel {
    return make_all_bits<kBits, kRounds>;
  });
}

GemmKernel gemm_kernel(Room room, const DropoutRule& rule) {
  if (room == Room::none) return multiply<Room::none, 8, 7>;
  if (room == Room::streams) return multiply<Room::streams, 8, 7>;
  return with_rule(rule, [room]<int kBits, int kRounds>(RuleOf<kBits, kRounds>) -> GemmKernel {
    return room == Room::warps ? multiply<Room::warps, kBits, kRounds>
                               : multiply<Room::warpgroup, kBits, kRounds>;
  });
}

AttentionKernel attention_kernel(Dropping dropping) {
  constexpr AttentionKernel kKernels[] = {attend<Dropping::no, 8, 7>, attend<Dropping::makes, 8, 7>,
                                          attend<Dropping::reads, 8, 7>};
  return kKernels[static_cast<int>(dropping)];
}

int registers_at_launch(const void* kernel) {
  cudaFuncAttributes attributes{};
  STAGGER_CUDA_TRY(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.numRegs;
}

std::int64_t largest(const std::vector<GemmShape>& gemms, std::int64_t (*size)(const GemmShape&)) {
  std::int64_t most = 0;
  for (const GemmShape& gemm : gemms)
    most = std::max(most, size(gemm));
  return most;
}

}  // namespace

std::string overlap_refusal() {
  const DeviceState state = device_state();
  if (state.device < 0) return state.why_not;
  if (state.major == 9 && state.minor == 0) return "";
  return "the GEMM is for devices of compute capability 9.0, and this has " +
         std::to_string(state.major) + "." + std::to_string(state.minor);
}

GemmCta gemm_cta(Room room) {
  const auto kernel = reinterpret_cast<const void*>(gemm_kernel(room, {}));
  return {threads_of(room), registers_at_launch(kernel),
          static_cast<std::int32_t>(sizeof(GemmShared))};
}

GemmCta bits_cta(const DropoutRule& rule) {
  return {kBitsThreads, registers_at_launch(reinterpret_cast<const void*>(bits_kernel(rule))), 0};
}

Residents bits_residents(const DropoutRule& rule) {
  int ctas = 0;
  STAGGER_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &ctas, reinterpret_cast<const void*>(bits_kernel(rule)), kBitsThreads, 0));
  return {device_state().sms, ctas};
}

class OverlapRuns::State {
 public:
  explicit State(const OverlapProblem& problem)
      : problem_(problem),
        sms_(device_state().sms),
        a_(static_cast<std::size_t>(
            largest(problem.gemms, [](const GemmShape& gemm) { return gemm.m * gemm.k; }))),
        b_(static_cast<std::size_t>(
            largest(problem.gemms, [](const GemmShape& gemm) { return gemm.n * gemm.k; }))),
        stamps_(problem.gemms.size()),
        taken_(1),
        count_(1),
        given_up_(1) {
    given_up_.fill(0);
    products_.resize(problem.gemms.size());
    make_bits_memory();
    fill(a_, largest(problem.gemms, [](const GemmShape& gemm) { return gemm.m * gemm.k; }),
         Input::a);
    fill(b_, largest(problem.gemms, [](const GemmShape& gemm) { return gemm.n * gemm.k; }),
         Input::b);
    for (const GemmShape& gemm : problem.gemms)
      add_gemm(gemm);
    if (problem.attention) add_attention();
    for (const Room room : {Room::none, Room::streams, Room::warps, Room::warpgroup}) {
      STAGGER_CUDA_TRY(cudaFuncSetAttribute(
          reinterpret_cast<const void*>(gemm_kernel(room, problem.rule)),
          cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(GemmShared))));
    }
    // Beside a GEMM an SM's memory is divided as the GEMM has it.
    STAGGER_CUDA_TRY(cudaFuncSetAttribute(reinterpret_cast<const void*>(bits_kernel(problem.rule)),
                                          cudaFuncAttributePreferredSharedMemoryCarveout, 100));
    STAGGER_CUDA_TRY(cudaDeviceSynchronize());
  }

  WayTimes run(const Way& way) {
    stamps_.upload(std::vector<GemmStamps>(problem_.gemms.size()));
    taken_.fill(0);
    STAGGER_CUDA_TRY(cudaDeviceSynchronize());
    begin_.record(first_);
    begin_.precede(second_);
    const bool second = way.bits == BitsPlace::beside || way.bits == BitsPlace::behind;
    if (way.bits == BitsPlace::before) launch_bits(way, first_);
    if (way.bits == BitsPlace::beside) launch_bits(way, second_);
    for (std::size_t index = 0; way.gemms && index < works_.size(); ++index) {
      launch_gemm(way, index);
      if (way.bits == BitsPlace::behind && index == 0) launch_bits(way, second_);
    }
    if (second) bits_end_.precede(first_);
    attention_begin_.record(first_);
    if (way.attention) launch_attention(*way.attention);
    end_.record(first_);
    STAGGER_CUDA_TRY(cudaStreamSynchronize(first_.get()));
    return times(way);
  }

  WayCheck check(const Way& way) {
    words_.fill(0);
    for (DeviceBuffer<__nv_bfloat16>& c : c_)
      c.fill(0xff);
    out_.fill(0xff);
    run(way);
    WayCheck check;
    if (way.bits != BitsPlace::nowhere) check_words(check);
    if (way.attention) check_attention(*way.attention != Dropping::no, check);
    for (std::size_t index = 0; way.gemms && index < c_.size(); ++index)
      check_gemm(index, check);
    for (const GemmStamps& stamps : stamps_.download())
      check.given_up = check.given_up || stamps.given_up != 0;
    return check;
  }

 private:
  void make_bits_memory() {
    const DropoutLayout layout{
        .heads = problem_.heads, .seq_q = problem_.seq, .seq_kv = problem_.seq};
    const std::int64_t words = layout.words(problem_.batch);
    if (words >= std::int64_t{1} << 31) throw Error(ErrorKind::limit, "2^31 words of bits or more");
    words_ = DeviceBuffer<std::uint32_t>(static_cast<std::size_t>(words));
    bits_ = bits_work(problem_.rule, problem_.batch, problem_.heads, problem_.seq, words_.data());
  }

  static void fill(DeviceBuffer<__nv_bfloat16>& values, std::int64_t size, Input which) {
    if (size == 0) return;
    fill_input<<<4096, kFillThreads>>>(values.data(), size, which);
    STAGGER_CUDA_TRY(cudaGetLastError());
  }

  void add_gemm(const GemmShape& gemm) {
    if (!runs(gemm)) {
      throw Error(ErrorKind::unsupported,
                  "a GEMM of " + std::to_string(gemm.m) + " x " + std::to_string(gemm.n) + " x " +
                      std::to_string(gemm.k) + ": it runs multiples of 256, 256 and 64");
    }
    c_.emplace_back(static_cast<std::size_t>(gemm.m * gemm.n));
    works_.push_back({.a = matrix_map(a_.data(), gemm.m, gemm.k, kTileM),
                      .b = matrix_map(b_.data(), gemm.n, gemm.k, kTileN / kCluster),
                      .c = matrix_map(c_.back().data(), gemm.m, gemm.n, kWarpRows),
                      .order = {static_cast<std::int32_t>(gemm.m / (kTileM * kCluster)),
                                static_cast<std::int32_t>(gemm.n / kTileN)},
                      .steps = static_cast<std::int32_t>(gemm.k / kTileK),
                      .patience_ns = kPatienceNs,
                      .stamps = stamps_.data() + works_.size()});
  }

  void add_attention() {
    const std::int64_t rows = problem_.batch * problem_.heads * problem_.seq;
    if (problem_.seq % kKeys != 0 || rows >= std::int64_t{1} << 31 || problem_.rule.bits != 8 ||
        problem_.rule.rounds != 7) {
      throw Error(ErrorKind::unsupported,
                  "attention is for multiples of 128 tokens, 8 random bits and 7 rounds");
    }
    const auto size = static_cast<std::size_t>(rows * kAttentionDim);
    for (const auto& [tensor, which] :
         {std::pair{&q_, Input::q}, std::pair{&k_, Input::k}, std::pair{&v_, Input::v}}) {
      *tensor = DeviceBuffer<__nv_bfloat16>(size);
      fill(*tensor, rows * kAttentionDim, which);
    }
    out_ = DeviceBuffer<__nv_bfloat16>(size);
    const double kept = static_cast<double>(problem_.rule.threshold) / 256;
    attention_ = {
        .q = matrix_map(q_.data(), rows, kAttentionDim, kQueries),
        .k = matrix_map(k_.data(), rows, kAttentionDim, kKeys),
        .v = matrix_map(v_.data(), rows, kAttentionDim, kKeys),
        .out = out_.data(),
        .rule = problem_.rule,
        .words = words_.data(),
        .seq = static_cast<std::int32_t>(problem_.seq),
        .heads = static_cast<std::int32_t>(problem_.heads),
        .log2_scale = static_cast<float>(1 / (std::sqrt(double{kAttentionDim}) * std::log(2.0))),
        .keep_scale = static_cast<float>(1 / kept),
        .patience_ns = kPatienceNs,
        .given_up = given_up_.data()};
    for (const Dropping dropping : {Dropping::no, Dropping::makes, Dropping::reads}) {
      STAGGER_CUDA_TRY(cudaFuncSetAttribute(
          reinterpret_cast<const void*>(attention_kernel(dropping)),
          cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(AttentionShared))));
    }
  }

  void launch_attention(Dropping dropping) {
    AttentionWork work = attention_;
    if (dropping == Dropping::no) work.keep_scale = 1;
    const dim3 grid(static_cast<unsigned>(problem_.seq / kQueries),
                    static_cast<unsigned>(problem_.batch * problem_.heads));
    attention_kernel(dropping)<<<grid, kAttentionThreads, sizeof(AttentionShared), first_.get()>>>(
        work);
    STAGGER_CUDA_TRY(cudaGetLastError());
  }

  void launch_bits(const Way& way, const Stream& stream) {
    constexpr std::int32_t kWarps = kBitsThreads / 32;
    const std::int32_t enough = (bits_.chunks() + kWarps - 1) / kWarps;
    const auto ctas = static_cast<unsigned>(way.bits_ctas == 0 ? enough : way.bits_ctas);
    bits_kernel(problem_.rule)<<<ctas, kBitsThreads, 0, stream.get()>>>(bits_);
    STAGGER_CUDA_TRY(cudaGetLastError());
    bits_end_.record(stream);
  }

  void launch_gemm(const Way& way, std::size_t index) {
    const auto ctas = static_cast<unsigned>(sms_ / kCluster * kCluster);
    BitsBeside beside{
        .work = bits_, .taken = taken_.data(), .finishes = index + 1 == works_.size()};
    if (way.bits != BitsPlace::inside) beside.work.words = 0;
    gemm_kernel(way.room, problem_.rule)<<<ctas, static_cast<unsigned>(threads_of(way.room)),
                                           sizeof(GemmShared), first_.get()>>>(works_[index],
                                                                               beside);
    STAGGER_CUDA_TRY(cudaGetLastError());
  }

  [[nodiscard]] WayTimes times(const Way& way) const {
    WayTimes times{.ms = end_.ms_since(begin_)};
    if (way.gemms) {
      const std::vector<GemmStamps> stamps = stamps_.download();
      unsigned long long bits_end = 0;
      double cycles = 0;
      double ns = 0;
      for (const GemmStamps& each : stamps) {
        bits_end = std::max(bits_end, each.bits_end);
        cycles += static_cast<double>(each.cycles);
        ns += static_cast<double>(each.ns);
        if (each.given_up != 0) throw Error(ErrorKind::device, "a wait in a GEMM had no end");
      }
      const unsigned long long begin = stamps.front().begin;
      times.clock_ghz = cycles / ns;
      times.gemms_ms = 1e-6 * static_cast<double>(stamps.back().products_end - begin);
      if (way.bits == BitsPlace::inside && bits_end > begin) {
        times.bits_ms = 1e-6 * static_cast<double>(bits_end - begin);
      }
    }
    if (way.bits != BitsPlace::nowhere && way.bits != BitsPlace::inside) {
      times.bits_ms = bits_end_.ms_since(begin_);
    }
    if (way.attention) {
      times.attention_ms = end_.ms_since(attention_begin_);
      if (given_up_.download().front() != 0) {
        throw Error(ErrorKind::device, "a wait in attention had no end");
      }
    }
    return times;
  }

  void check_words(WayCheck& check) {
    check.words = bits_.words;
    count_.fill(0);
    compare_bits<<<4096, kFillThreads>>>(bits_, count_.data());
    STAGGER_CUDA_TRY(cudaGetLastError());
    check.words_wrong = static_cast<std::int64_t>(count_.download().front());
    const int samples = std::min(kWordSamples, bits_.words);
    check.samples += samples;
    for (int sample = 0; sample < samples; ++sample) {
      const std::int64_t word =
          sample == 0 ? bits_.words - 1 : sample_below(bits_.words, sample, 0);
      std::uint32_t found = 0;
      STAGGER_CUDA_TRY(
          cudaMemcpy(&found, words_.data() + word, sizeof(found), cudaMemcpyDeviceToHost));
      const std::uint32_t wanted = stored_word(problem_.heads, problem_.seq, problem_.rule, word);
      if (found != wanted) ++check.words_off;
    }
  }

  /// Returns a number of 0 … below − 1, of a sample's several `which`.
  static std::int64_t sample_below(std::int64_t below, int sample, int which) {
    const std::uint64_t random =
        random_words(kSampleSeed, 0, static_cast<std::uint64_t>(sample)).word[which];
    return static_cast<std::int64_t>(random * static_cast<std::uint64_t>(below) >> 32);
  }

  /// Returns a number that depends on every element.
  std::uint64_t digest_of(const DeviceBuffer<__nv_bfloat16>& values, std::int64_t size) {
    count_.fill(0);
    add_digest<<<4096, kFillThreads>>>(reinterpret_cast<const std::uint16_t*>(values.data()), size,
                                       count_.data());
    STAGGER_CUDA_TRY(cudaGetLastError());
    return count_.download().front();
  }

  /// Counts what is further off than it may be.
  static void compare(const Element& wanted, __nv_bfloat16 found, WayCheck& check) {
    const double error = std::abs(double{__bfloat162float(found)} - wanted.value) / wanted.bound;
    if (!(error <= 1)) ++check.elements_off;
    check.worst_error = std::max(check.worst_error, error);
    ++check.samples;
  }

  static std::int64_t sampled_row(const GemmShape& gemm, int sample) {
    return sample == 0 ? gemm.m - 1 : sample_below(gemm.m, sample, 1);
  }
  static std::int64_t sampled_column(const GemmShape& gemm, int sample) {
    return sample == 0 ? gemm.n - 1 : sample_below(gemm.n, sample, 2);
  }

  void check_gemm(std::size_t index, WayCheck& check) {
    const GemmShape& gemm = problem_.gemms[index];
    const DeviceBuffer<__nv_bfloat16>& c = c_[index];
    check.gemm_digest = check.gemm_digest * 31 + digest_of(c, gemm.m * gemm.n);
    std::vector<Element>& wanted = products_[index];
    for (int sample = 0; sample < kSamples; ++sample) {
      const std::int64_t row = sampled_row(gemm, sample);
      const std::int64_t column = sampled_column(gemm, sample);
      if (std::ssize(wanted) == sample) wanted.push_back(product_element(gemm, row, column));
      __nv_bfloat16 found;
      STAGGER_CUDA_TRY(cudaMemcpy(&found, c.data() + row * gemm.n + column, sizeof(found),
                                  cudaMemcpyDeviceToHost));
      compare(wanted[static_cast<std::size_t>(sample)], found, check);
    }
  }

  void check_attention(bool drops, WayCheck& check) {
    const std::int64_t rows = problem_.batch * problem_.heads * problem_.seq;
    check.out_digest = digest_of(out_, rows * kAttentionDim);
    std::vector<std::vector<Element>>& wanted = attended_[drops ? 1 : 0];
    for (int sample = 0; sample < kRowSamples; ++sample) {
      const std::int64_t row = sample == 0 ? rows - 1 : sample_below(rows, sample, 0);
      if (std::ssize(wanted) == sample) {
        wanted.push_back(
            attention_row(problem_.heads, problem_.seq, drops ? &problem_.rule : nullptr, row));
      }
      std::vector<__nv_bfloat16> found(kAttentionDim);
      STAGGER_CUDA_TRY(cudaMemcpy(found.data(), out_.data() + row * kAttentionDim,
                                  found.size() * sizeof(__nv_bfloat16), cudaMemcpyDeviceToHost));
      for (std::size_t dim = 0; dim < found.size(); ++dim)
        compare(wanted[static_cast<std::size_t>(sample)][dim], found[dim], check);
    }
  }

  OverlapProblem problem_;
  std::int32_t sms_;
  DeviceBuffer<__nv_bfloat16> a_;
  DeviceBuffer<__nv_bfloat16> b_;
  std::vector<DeviceBuffer<__nv_bfloat16>> c_;
  DeviceBuffer<std::uint32_t> words_;
  BitsWork bits_;
  DeviceBuffer<GemmStamps> stamps_;
  DeviceBuffer<std::int32_t> taken_;
  DeviceBuffer<unsigned long long> count_;
  DeviceBuffer<std::int32_t> given_up_;
  DeviceBuffer<__nv_bfloat16> q_;
  DeviceBuffer<__nv_bfloat16> k_;
  DeviceBuffer<__nv_bfloat16> v_;
  DeviceBuffer<__nv_bfloat16> out_;
  AttentionWork attention_ = {};
  // What the host finds where it looks, once for all ways.
  std::vector<std::vector<Element>> products_;     ///< by GEMM
  std::vector<std::vector<Element>> attended_[2];  ///< rows, without dropout and with it
  std::vector<GemmWork> works_;
  Stream first_;
  Stream second_;
  Event begin_;
  Event bits_end_;
  Event attention_begin_;
  Event end_;
};

OverlapRuns::OverlapRuns(const OverlapProblem& problem)
    : state_(std::make_unique<State>(problem)) {}
OverlapRuns::OverlapRuns(OverlapRuns&&) noexcept = default;
OverlapRuns& OverlapRuns::operator=(OverlapRuns&&) noexcept = default;
OverlapRuns::~OverlapRuns() = default;

WayTimes OverlapRuns::run(const Way& way) {
  return state_->run(way);
}

WayCheck OverlapRuns::check(const Way& way) {
  return state_->check(way);
}

}  // namespace stagger::gpu::overlap
