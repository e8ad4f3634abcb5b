// The model's constants from measured times, each by the model's own equation:
//
//     bits end first:  G' = room G + (g - 1) R'      R' = r R
//     bits end last:   G' = g room G                 R' - G' = R - G' / r

#include "workbench/block/overlap_fit.hpp"

#include "core/error.hpp"
#include "core/least_squares.hpp"
#include "core/median.hpp"

#include <algorithm>
#include <array>

namespace stagger::block {
namespace {

template <class Item, class Value>
double median_by(std::span<const Item> items, const Value& value) {
  std::vector<double> values;
  for (const Item& item : items)
    values.push_back(value(item));
  return median(std::move(values));
}

double gemm_flops(const DropoutShape& shape) {
  const double hidden = static_cast<double>(shape.heads) * static_cast<double>(shape.head_dim);
  return 24 * static_cast<double>(shape.batch) * static_cast<double>(shape.seq) * hidden * hidden;
}

double attention_flops(const DropoutShape& shape) {
  return 4 * static_cast<double>(elements_of(shape)) * static_cast<double>(shape.head_dim);
}

/// The least squares of what attention takes: ms a GFLOP, and ms a million rows if those count.
std::array<double, 2> attention_takes(std::span<const MeasuredOverlap> shapes, bool rows_count) {
  LeastSquares<2> squares;
  for (const MeasuredOverlap& measured : shapes) {
    const double rows = static_cast<double>(measured.shape.batch * measured.shape.heads) *
                        static_cast<double>(measured.shape.seq);
    squares.add({1e-9 * attention_flops(measured.shape) / measured.attention,
                 rows_count ? 1e-6 * rows / measured.attention : 0},
                1);
  }
  return squares.solution();
}

Limiter attention_limiter(std::span<const MeasuredOverlap> shapes) {
  std::array<double, 2> takes = attention_takes(shapes, true);
  if (takes[0] <= 0 || takes[1] < 0) takes = attention_takes(shapes, false);
  return {.name = "RF, issue",
          .unit = LimitUnit::flops,
          .rate = 1 / takes[0],  // 1 GFLOP a ms is 1 TFLOP/s
          .row_ns = takes[1]};
}

/// Replaces what is not of device memory by one limiter.
void put_limiter(std::vector<Limiter>& limiters, const Limiter& limiter) {
  std::erase_if(limiters, [](const Limiter& each) { return each.unit != LimitUnit::bytes; });
  limiters.insert(limiters.begin(), limiter);
}

Json limiters_json(const std::vector<Limiter>& limiters) {
  constexpr const char* kKeys[] = {"tflops", "ps", "tbs"};
  Json json = Json::array();
  for (const Limiter& limiter : limiters) {
    json.push_back(
        {{"limiter", limiter.name}, {kKeys[static_cast<int>(limiter.unit)], limiter.rate}});
    if (limiter.row_ns > 0) json.back()["row_ns"] = limiter.row_ns;
  }
  return json;
}

Json rng_json(const std::vector<RngRate>& rates) {
  Json json = Json::array();
  for (const RngRate& rate : rates) {
    Json row = {{"rounds", rate.rounds}};
    if (rate.bits) row["bits"] = *rate.bits;
    row["limiters"] = limiters_json(rate.limiters);
    json.push_back(std::move(row));
  }
  return json;
}

Json exposed_json(const Exposed& exposed) {
  if (exposed.ps) return {{"ps", *exposed.ps}};
  return {{"exposed", exposed.part.value_or(0)}};
}

Json gemms_json(const std::vector<CtaSize>& gemms) {
  Json json = Json::array();
  for (const CtaSize& gemm : gemms) {
    json.push_back({{"name", gemm.name},
                    {"threads", gemm.threads},
                    {"registers", gemm.registers},
                    {"shared_bytes", gemm.shared_bytes},
                    {"ctas_per_sm", gemm.ctas_per_sm},
                    {"tflops", gemm.tflops}});
  }
  return json;
}

}  // namespace

Slowdown slowdown_of(const MeasuredOverlap& measured) {
  Slowdown found{.room = measured.with_room / measured.gemms,
                 .dropping = measured.attention_reads / measured.attention};
  if (measured.beside_bits <= measured.beside_gemms) {
    found.rng = measured.beside_bits / measured.bits;
    found.gemm = 1 + (measured.beside_gemms - measured.with_room) / measured.beside_bits;
  } else {
    const double beside = measured.bits - (measured.beside_bits - measured.beside_gemms);
    found.gemm = measured.beside_gemms / measured.with_room;
    // All of it behind the GEMMs, and more: nothing was made beside them.
    found.rng = measured.beside_gemms / std::max(beside, 1e-6 * measured.bits);
  }
  for (double* each : {&found.room, &found.gemm, &found.rng, &found.dropping})
    *each = std::max(*each, 1.0);
  return found;
}

Calibration fitted(Calibration base, std::span<const MeasuredOverlap> shapes,
                   std::span<const MeasuredRng> rng) {
  const double gemm = median_by(shapes, [](const MeasuredOverlap& measured) {
    return 1e-9 * gemm_flops(measured.shape) / measured.gemms;
  });
  put_limiter(base.gemm, {.name = "MMA", .unit = LimitUnit::flops, .rate = gemm});
  put_limiter(base.attention, attention_limiter(shapes));
  base.forward = {.ps = median_by(shapes, [](const MeasuredOverlap& measured) {
                    return std::max(0.0, 1e9 * (measured.attention_makes - measured.attention) /
                                             static_cast<double>(elements_of(measured.shape)));
                  })};
  const auto slowdown = [&](double Slowdown::*which) {
    return median_by(shapes, [&](const MeasuredOverlap& each) { return slowdown_of(each).*which; });
  };
  base.slowdown = {.gemm = slowdown(&Slowdown::gemm),
                   .rng = slowdown(&Slowdown::rng),
                   .room = slowdown(&Slowdown::room),
                   .dropping = slowdown(&Slowdown::dropping)};
  STAGGER_EXPECTS(!rng.empty());
  base.rng.clear();
  for (const MeasuredRng& measured : rng) {
    base.rng.push_back(
        {.rounds = measured.rng.rounds,
         .bits = measured.rng.bits,
         .limiters = {{.name = "ALU", .unit = LimitUnit::elements, .rate = measured.ps}}});
  }
  return base;
}

FitError error_of(const Calibration& calibration, const MeasuredOverlap& measured) {
  const Overlap predicted = overlap_of(measured.shape, measured.rng, calibration, false);
  return {.baseline = predicted.baseline_ms / measured.baseline - 1,
          .overlap = predicted.overlap_ms / measured.overlap - 1};
}

Json calibration_json(const Calibration& calibration) {
  Json json = {{"schema", "stagger.overlap-calibration/1"},
               {"name", calibration.name},
               {"device", calibration.device},
               {"gemm", limiters_json(calibration.gemm)},
               {"attention", limiters_json(calibration.attention)},
               {"attention_backward", limiters_json(calibration.attention_backward)},
               {"rng", rng_json(calibration.rng)},
               {"fused", Json({{"forward", exposed_json(calibration.forward)},
                               {"backward", exposed_json(calibration.backward)}})},
               {"slowdown", Json({{"gemm", calibration.slowdown.gemm},
                                  {"rng", calibration.slowdown.rng},
                                  {"room", calibration.slowdown.room},
                                  {"dropping", calibration.slowdown.dropping}})},
               {"sm", Json({{"count", calibration.sm.count},
                            {"registers", calibration.sm.registers},
                            {"shared_bytes", calibration.sm.shared_bytes}})}};
  if (calibration.rng_kernel) {
    json["rng_kernel"] = Json({{"threads", calibration.rng_kernel->threads},
                               {"registers", calibration.rng_kernel->registers}});
  }
  if (!calibration.gemms.empty()) json["gemms"] = gemms_json(calibration.gemms);
  json["source"] = calibration.source;
  return json;
}

}  // namespace stagger::block
