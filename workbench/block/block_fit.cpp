#include "workbench/block/block_fit.hpp"

#include "core/error.hpp"
#include "core/least_squares.hpp"
#include "core/median.hpp"
#include "workbench/block/cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

namespace stagger::block {
namespace {

constexpr std::array kAccesses = {Access::broadcast, Access::strided, Access::fused};
constexpr std::array kRates = {&OperationRates::broadcast, &OperationRates::strided,
                               &OperationRates::fused};

/// A digit more than times are reproduced to.
double rounded(double value) {
  return std::round(10 * value) / 10;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::invalid_input, "the measured blocks: " + what);
}

/// ms that a kernel took within a block; absent: not known.
std::optional<double> within(const MeasuredBlock& block, const Kernel& kernel) {
  const auto found = block.within.find({kernel.name, kernel.pass});
  if (found == block.within.end() || found->second <= 0) return std::nullopt;
  return found->second;
}

/// Calls `take(block, kernel, ms)` with every kernel of a kind that is known within eager blocks.
template <class Take>
void for_each_kernel(const MeasuredBlocks& measured, Work work, const Take& take) {
  for (const MeasuredBlock& block : measured.blocks) {
    if (block.ops != Ops::eager) continue;
    for (const Kernel& kernel : kernels_of(block.model)) {
      const std::optional<double> ms = within(block, kernel);
      if (kernel.work == work && ms) take(block, kernel, *ms);
    }
  }
}

/// TFLOP/s of tensor cores over a block as a whole.
double tflops_of(const MeasuredBlock& block) {
  return gflops_of(kernels_of(block.model)) / block.total_ms;
}

/// A GEMM within a block, by what its time is made of.
struct GemmTime {
  std::array<double, 3> parts = {};  ///< of it: GFLOPs, launches, ms that copies of its bytes take
  double tflops = 0;                 ///< of the block
};

/// The parts that count, FLOPs at the block's clock.
std::array<double, 3> parts_of(const GemmTime& gemm, const Throttle& throttle,
                               const std::array<bool, 3>& counts) {
  std::array<double, 3> parts = gemm.parts;
  parts[0] /= throttle.clock(gemm.tflops);
  for (std::size_t index = 0; index < parts.size(); ++index)
    if (!counts.at(index)) parts.at(index) = 0;
  return parts;
}

/// What GEMMs take under one throttle: ms a GFLOP, a launch, and a part of their bytes' time.
struct GemmFit {
  std::array<double, 3> takes = {};
  double squares = 0;  ///< the sum of relative errors, squared
};

/// The least squares without what would be negative, the most so first.
GemmFit gemm_fit(const std::vector<GemmTime>& gemms, const Throttle& throttle) {
  std::array<bool, 3> counts = {true, true, true};
  GemmFit fit;
  do {
    LeastSquares<3> squares;
    for (const GemmTime& gemm : gemms)
      squares.add(parts_of(gemm, throttle, counts), 1);
    fit.takes = squares.solution();
    const auto* least = std::ranges::min_element(fit.takes);
    if (*least >= 0) break;
    counts.at(static_cast<std::size_t>(least - fit.takes.begin())) = false;
  } while (counts.front());
  for (const GemmTime& gemm : gemms) {
    const std::array<double, 3> parts = parts_of(gemm, throttle, counts);
    const double took = std::inner_product(parts.begin(), parts.end(), fit.takes.begin(), 0.0);
    fit.squares += (took - 1) * (took - 1);
  }
  return fit;
}

/// GEMMs and the throttle that suits them best, of all by steps of 10 TFLOP/s and 10 ppm.
void fit_gemms(const MeasuredBlocks& measured, BlockRates& rates) {
  std::vector<GemmTime> gemms;
  for_each_kernel(measured, Work::gemm,
                  [&](const MeasuredBlock& block, const Kernel& kernel, double ms) {
                    gemms.push_back({.parts = {1e-9 * static_cast<double>(kernel.flops) / ms,
                                               static_cast<double>(kernel.launches) / ms,
                                               rates.copied_ms(kernel.bytes) / ms},
                                     .tflops = tflops_of(block)});
                  });
  GemmFit best = gemm_fit(gemms, {});
  constexpr std::int64_t kStep = 10;
  constexpr std::int64_t kMostTflops = 800;
  constexpr std::int64_t kMostPpm = 2000;
  for (std::int64_t above = 0; above <= kMostTflops; above += kStep) {
    for (std::int64_t ppm = kStep; ppm <= kMostPpm; ppm += kStep) {
      const Throttle throttle{.above_tflops = above, .ppm = ppm};
      const GemmFit fit = gemm_fit(gemms, throttle);
      if (fit.squares >= best.squares) continue;
      best = fit;
      rates.throttle = throttle;
    }
  }
  const auto [ms_per_gflop, t0_ms, exposed] = best.takes;
  if (ms_per_gflop <= 0) refuse("the times of GEMMs within them are not known");
  rates.gemm_tflops = rounded(1 / ms_per_gflop);
  rates.gemm_t0_ns = std::llround(1e6 * t0_ms);
  rates.gemm_exposed_permille = std::llround(1e3 * exposed);
}

void fit_operations(const MeasuredBlocks& measured, BlockRates& rates) {
  LeastSquares<3> squares;
  for_each_kernel(measured, Work::elementwise,
                  [&](const MeasuredBlock& block, const Kernel& kernel, double ms) {
                    double streamed = 0;
                    std::array<double, 3> elements = {};  // millions, by kAccesses
                    for (const Operation& each : operations_of(block.model, kernel, Norms::fp32)) {
                      const auto launches = static_cast<double>(each.launches);
                      if (each.access == Access::streamed) {
                        streamed += launches * rates.copied_ms(each.bytes);
                        continue;
                      }
                      const auto* place = std::ranges::find(kAccesses, each.access);
                      elements.at(static_cast<std::size_t>(place - kAccesses.begin())) +=
                          1e-6 * launches * static_cast<double>(each.elements);
                    }
                    for (double& each : elements)
                      each /= ms;
                    squares.add(elements, 1 - streamed / ms);
                  });
  const std::array<double, 3> found = squares.solution();
  for (std::size_t index = 0; index < found.size(); ++index) {
    if (found[index] < 0) refuse("their operations take less than the copies of their bytes");
    if (found[index] > 0) rates.operations.*kRates[index] = rounded(1 / found[index]);
  }
}

/// How many times the least time of its bytes a block's elementwise kernels took; absent: not
/// known.
std::optional<double> kappa_in(const MeasuredBlock& block, const BlockRates& rates) {
  double least = 0;
  double took = 0;
  for (const Kernel& kernel : kernels_of(block.model)) {
    if (kernel.work != Work::elementwise) continue;
    least += rates.copied_ms(kernel.bytes);
    const std::optional<double> ms = within(block, kernel);
    if (block.ops == Ops::eager && !ms) return std::nullopt;
    took += ms.value_or(0);
  }
  if (block.ops == Ops::compiled) {
    if (!block.elementwise_ms) return std::nullopt;
    took = *block.elementwise_ms;
  }
  return took / least;
}

void fit_kappas(const MeasuredBlocks& measured, BlockRates& rates) {
  for (const Ops ops : {Ops::eager, Ops::compiled}) {
    for (const char* layers : kLayersNames) {
      std::vector<double> kappas;
      for (const MeasuredBlock& block : measured.blocks) {
        if (block.ops != ops || std::string(layers_of(block.model)) != layers) continue;
        if (const auto kappa = kappa_in(block, rates)) kappas.push_back(*kappa);
      }
      if (kappas.empty()) continue;
      rates.kappas.push_back(
          {.ops = ops, .layers = layers, .permille = std::llround(1e3 * median(kappas))});
    }
  }
}

/// The shape that rates of attention are of: kernels run heads in whole waves.
AttentionRate shape_of(const MeasuredBlock& block) {
  return {.name = block.attention,
          .head_dim = block.model.head_dim,
          .causal = block.model.attention != Attention::full,
          .seq = block.model.seq,
          .heads = block.model.batch * block.model.heads};
}

void fit_attention(const MeasuredBlocks& measured, BlockRates& rates) {
  std::vector<std::array<std::vector<double>, 2>> reached;  // TFLOP/s of a shape, by passes
  for_each_kernel(
      measured, Work::attention, [&](const MeasuredBlock& block, const Kernel& kernel, double ms) {
        const AttentionRate shape = shape_of(block);
        auto place = std::ranges::find_if(
            rates.attention, [&](const AttentionRate& each) { return each.same_shape(shape); });
        if (place == rates.attention.end()) {
          place = rates.attention.insert(place, shape);
          reached.emplace_back();
        }
        const auto index = static_cast<std::size_t>(place - rates.attention.begin());
        reached[index]
            .at(static_cast<std::size_t>(kernel.pass))
            .push_back(1e-9 * static_cast<double>(kernel.flops) / ms /
                       rates.throttle.clock(tflops_of(block)));
      });
  for (std::size_t index = 0; index < reached.size(); ++index) {
    const auto& [forward, backward] = reached[index];
    if (forward.empty() || backward.empty()) refuse("attention is known in one pass alone");
    rates.attention[index].forward_tflops = rounded(median(forward));
    rates.attention[index].backward_tflops = rounded(median(backward));
  }
}

/// How much lower the full clock is than that of our kernels alone and rested, by which profiles
/// know their phases.
void fit_rested(const MeasuredBlocks& measured, BlockRates& rates) {
  std::vector<double> parts;
  for_each_kernel(measured, Work::attention,
                  [&](const MeasuredBlock& block, const Kernel& kernel, double ms) {
                    const bool ours = block.attention.starts_with("stagger:");
                    if (!ours || kernel.pass != Pass::backward || !block.rested_ms) return;
                    const double clock = rates.throttle.clock(tflops_of(block));
                    parts.push_back(1e3 * *block.rested_ms / (ms * clock));
                  });
  if (parts.empty()) return;
  rates.throttle.rested_permille =
      std::clamp<std::int64_t>(std::llround(median(parts)), Throttle::kLeastRestedPermille, 1000);
}

/// What rates say of a block; absent: they lack one that it needs.
std::optional<double> predicted(const MeasuredBlock& block, const BlockRates& rates,
                                bool attention_measured) {
  CostRequest request{
      .machine = {.name = "fit", .device = "", .driver = "", .sms = 1, .blocks = {rates}},
      .ops = block.ops,
      .attention = block.attention};
  if (block.ops == Ops::eager) request.norms = Norms::fp32;
  if (attention_measured) {
    const auto forward = block.within.find({"attention", Pass::forward});
    const auto backward = block.within.find({"attention", Pass::backward});
    if (forward == block.within.end() || backward == block.within.end()) return std::nullopt;
    request.attention_forward_ms = forward->second;
    request.attention_backward_ms = backward->second;
  }
  try {
    return cost_of(block.model, request).total_ms;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return std::nullopt;
  }
}

bool has_shape(const BlockRates& rates, const MeasuredBlock& block) {
  return std::ranges::any_of(
      rates.attention, [&](const AttentionRate& each) { return each.same_shape(shape_of(block)); });
}

}  // namespace

BlockRates fitted_rates(const MeasuredBlocks& measured) {
  BlockRates rates;
  rates.load = measured.load;
  rates.copy = measured.copy;
  fit_gemms(measured, rates);
  fit_operations(measured, rates);
  fit_kappas(measured, rates);
  fit_attention(measured, rates);
  fit_rested(measured, rates);
  rates.date = measured.date;
  return rates;
}

std::vector<FittedBlock> judge_fit(const MeasuredBlocks& measured, const BlockRates& rates) {
  std::map<std::string, std::optional<BlockRates>> without;  // by the model that is held out
  std::vector<FittedBlock> found;
  for (const MeasuredBlock& block : measured.blocks) {
    if (without.count(block.model.name) == 0) {
      MeasuredBlocks others = measured;
      std::erase_if(others.blocks,
                    [&](const MeasuredBlock& each) { return each.model.name == block.model.name; });
      const bool tells = std::ranges::any_of(others.blocks, [](const MeasuredBlock& each) {
        return each.ops == Ops::eager && !each.within.empty();
      });
      without[block.model.name] = tells ? std::optional(fitted_rates(others)) : std::nullopt;
    }
    FittedBlock& judged = found.emplace_back();
    judged.fitted_ms = predicted(block, rates, false);
    const std::optional<BlockRates>& others = without[block.model.name];
    if (!others) continue;
    judged.attention_measured = !has_shape(*others, block);
    judged.held_out_ms = predicted(block, *others, judged.attention_measured);
  }
  return found;
}

}  // namespace stagger::block
