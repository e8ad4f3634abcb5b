#include "workbench/block/overlap_fit.hpp"

#include "tests/support/catch.hpp"
#include "workbench/block/transformer.hpp"
#include "workbench/calibration/overlap_runs.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace stagger::block {
namespace {

Calibration named_calibration(const std::string& name) {
  const char* text = find_builtin(builtin_calibrations(), name);
  REQUIRE(text != nullptr);
  return read_calibration(text, name);
}

/// GEMMs beside bits, played in small steps of time: neither knows an equation.
MeasuredOverlap played_beside(MeasuredOverlap times, const Slowdown& slowdown) {
  constexpr int kSteps = 400'000;
  const double step = (times.with_room + times.bits) / kSteps;
  double gemms_left = times.with_room;
  double bits_left = times.bits;
  for (double time = step; gemms_left > 0 || bits_left > 0; time += step) {
    const bool both = gemms_left > 0 && bits_left > 0;
    // A GEMM beside bits loses (gemm − 1) of the time in which both run.
    if (gemms_left > 0) {
      gemms_left -= both ? step * (2 - slowdown.gemm) : step;
      if (gemms_left <= 0) times.beside_gemms = time;
    }
    if (bits_left > 0) {
      bits_left -= both ? step / slowdown.rng : step;
      if (bits_left <= 0) times.beside_bits = time;
    }
  }
  return times;
}

/// A shape as a device of these constants would run it.
MeasuredOverlap as_of(const Calibration& calibration, const DropoutShape& shape) {
  const Overlap predicted = overlap_of(shape, {}, calibration, false);
  MeasuredOverlap times{.shape = shape,
                        .rng = {},
                        .gemms = predicted.gemm.ms,
                        .bits = predicted.rng_alone.ms,
                        .attention = predicted.attention.ms,
                        .attention_makes = predicted.fused_ms,
                        .attention_reads = calibration.slowdown.dropping * predicted.attention.ms,
                        .with_room = calibration.slowdown.room * predicted.gemm.ms};
  times.beside_gemms = predicted.ways.gemm_slowed;
  times.beside_bits = predicted.ways.rng_slowed;
  times.baseline = predicted.baseline_ms;
  times.serial = times.gemms + times.bits + times.attention_reads;
  times.overlap = predicted.overlap_ms;
  return times;
}

TEST_CASE("constants come back from times that were played with them") {
  for (const double rng : {1.0, 1.5, 3.0}) {
    for (const double bits : {0.1, 1.0, 20.0}) {
      const Slowdown slowdown{.gemm = 1.04, .rng = rng, .room = 1.1, .dropping = 1.2};
      const MeasuredOverlap times = played_beside(
          {.gemms = 10, .bits = bits, .attention = 5, .attention_reads = 6, .with_room = 11},
          slowdown);
      CAPTURE(rng, bits, times.beside_gemms, times.beside_bits);
      const Slowdown found = slowdown_of(times);
      CHECK(found.room == Approx(1.1));
      CHECK(found.dropping == Approx(1.2));
      CHECK(found.rng == Approx(rng).epsilon(2e-3));
      // Played, GEMMs beside bits go at 2 - g of their speed; by the model they lose g - 1 of it:
      // the same to (g - 1)^2.
      CHECK(found.gemm == Approx(1.04).epsilon(2.5e-3));
    }
  }
}

TEST_CASE("bits that are made behind GEMMs alone are no division by nothing") {
  const Slowdown found = slowdown_of({.gemms = 10,
                                      .bits = 3,
                                      .attention = 1,
                                      .attention_reads = 0.9,
                                      .with_room = 9.9,
                                      .beside_gemms = 10,
                                      .beside_bits = 13.5});
  CHECK(found.room == 1);
  CHECK(found.dropping == 1);
  CHECK(found.rng > 1e5);
}

TEST_CASE("a calibration comes back from the shapes that it predicts") {
  for (const char* name : {"paper", "h200-cudnn", "h200-fa2"}) {
    Calibration truth = named_calibration(name);
    truth.slowdown = {.gemm = 1.05, .rng = 2, .room = 1.02, .dropping = 1.3};
    std::vector<MeasuredOverlap> shapes;
    for (const std::int64_t seq : {2048, 4096, 8192, 16384, 65536})
      shapes.push_back(as_of(truth, {.heads = 64, .seq = seq}));
    std::vector<MeasuredRng> rng;
    for (const RngRate& rate : truth.rng) {
      rng.push_back({.rng = {.rounds = rate.rounds, .bits = rate.bits.value_or(8)},
                     .ps = rate.limiters.front().rate});
    }
    const Calibration found = fitted(truth, shapes, rng);
    CAPTURE(name);
    CHECK(found.slowdown.gemm == Approx(1.05));
    CHECK(found.slowdown.rng == Approx(2));
    CHECK(found.slowdown.room == Approx(1.02));
    CHECK(found.slowdown.dropping == Approx(1.3));
    for (const MeasuredOverlap& shape : shapes) {
      CHECK(error_of(found, shape).baseline == Approx(0).margin(1e-6));
      CHECK(error_of(found, shape).overlap == Approx(0).margin(1e-6));
    }
    MeasuredOverlap longer = shapes.front();
    longer.baseline *= 2;
    CHECK(error_of(found, longer).baseline == Approx(-0.5));
    // Whatever rates there were before.
    Calibration slow = truth;
    for (auto* limiters : {&slow.gemm, &slow.attention}) {
      for (Limiter& limiter : *limiters)
        limiter.rate *= limiter.unit == LimitUnit::flops ? 0.5 : 1;
    }
    slow.forward = {.ps = 17};
    slow.slowdown = {.gemm = 3, .rng = 3, .room = 3, .dropping = 3};
    CHECK(std::abs(error_of(slow, shapes.front()).baseline) > 0.1);
    const Calibration again = fitted(slow, shapes, rng);
    for (const MeasuredOverlap& shape : shapes) {
      CHECK(error_of(again, shape).baseline == Approx(0).margin(1e-6));
      CHECK(error_of(again, shape).overlap == Approx(0).margin(1e-6));
    }
    // What is not measured stays.
    CHECK(found.attention_backward.front().rate == truth.attention_backward.front().rate);
  }
}

TEST_CASE("what attention's rows take comes back, and none where there is none") {
  Calibration truth = named_calibration("h200-cudnn");
  const auto fitted_from = [&](std::initializer_list<std::int64_t> seqs) {
    std::vector<MeasuredOverlap> shapes;
    for (const std::int64_t seq : seqs)
      shapes.push_back(as_of(truth, {.batch = 2, .heads = 48, .seq = seq}));
    const std::vector<MeasuredRng> rng = {{.rng = {}, .ps = 1}};
    return fitted(truth, shapes, rng).attention.front();
  };
  truth.attention = {{.name = "RF", .unit = LimitUnit::flops, .rate = 500, .row_ns = 0.4}};
  CHECK(fitted_from({2048, 4096, 16384}).rate == Approx(500));
  CHECK(fitted_from({2048, 4096, 16384}).row_ns == Approx(0.4));
  // Of one length a rate says all.
  CHECK(fitted_from({4096, 4096}).row_ns == Approx(0).margin(1e-6));
  truth.attention.front().row_ns = 0;
  CHECK(fitted_from({2048, 4096}).row_ns == Approx(0).margin(1e-9));
  // Rows would take less than nothing where short sequences are the fast ones: no rows then.
  std::vector<MeasuredOverlap> shapes = {as_of(truth, {.heads = 48, .seq = 2048}),
                                         as_of(truth, {.heads = 48, .seq = 8192})};
  shapes.back().attention *= 1.2;
  const Limiter found =
      fitted(truth, shapes, std::vector<MeasuredRng>{{.rng = {}, .ps = 1}}).attention.front();
  CHECK(found.row_ns == 0);
  CHECK(found.rate < 500);
  CHECK(found.rate > 500 / 1.2);
}

TEST_CASE("a row takes what it takes beside its work") {
  Calibration calibration = named_calibration("h200-cudnn");
  const DropoutShape shape{.batch = 3, .heads = 5, .seq = 777};
  const auto of = [&] { return overlap_of(shape, {}, calibration, true); };
  const Overlap before = of();
  for (std::vector<Limiter>* limiters : {&calibration.attention, &calibration.attention_backward})
    limiters->front().row_ns = 2;
  const Overlap after = of();
  const double rows_ms = 2e-6 * 3 * 5 * 777;
  CHECK(after.attention.ms - before.attention.ms == Approx(rows_ms));
  CHECK(after.backward->attention_ms - before.backward->attention_ms == Approx(rows_ms));
  CHECK(after.gemm.ms == before.gemm.ms);
  // By x alone there are no rows.
  CHECK(ratios_of(calibration, {}, 128).alpha ==
        ratios_of(named_calibration("h200-cudnn"), {}, 128).alpha);
}

TEST_CASE("a calibration is read as it was written") {
  int calibrations = 0;
  for (const BuiltinFile& file : builtin_calibrations()) {
    const Calibration calibration = read_calibration(file.text, file.name);
    const std::string text = calibration_json(calibration).text();
    const Calibration again = read_calibration(text, "written");
    CHECK(calibration_json(again).text() == text);
    const DropoutShape shape{.heads = 48, .seq = 16384};
    CHECK(overlap_of(shape, {}, again, true).speedup() ==
          overlap_of(shape, {}, calibration, true).speedup());
    CHECK(again.gemms.size() == calibration.gemms.size());
    CHECK(again.source == calibration.source);
    ++calibrations;
  }
  CHECK(calibrations >= 3);
}

TEST_CASE("the GEMMs that are run have the model's FLOPs") {
  for (const DropoutShape& shape : workbench::usual_overlap_request().shapes) {
    std::int64_t flops = 0;
    for (const gpu::overlap::GemmShape& gemm : workbench::gemms_of(shape)) {
      flops += gemm.flops();
      CHECK(gpu::overlap::runs(gemm));
    }
    const std::int64_t hidden = shape.heads * shape.head_dim;
    CHECK(flops == 24 * shape.batch * shape.seq * hidden * hidden);
  }
}

TEST_CASE("the best way is the one that takes least over all shapes") {
  workbench::OverlapRuns runs;
  const std::size_t ways = workbench::beside_ways().size();
  REQUIRE(ways == 3);
  for (const std::vector<double>& times :
       std::vector<std::vector<double>>{{5, 4, 9}, {1, 3, 1}, {7, 4, 4}}) {
    workbench::OverlapRun run;
    for (const double each : times)
      run.ways.push_back({.overlap = each});
    runs.shapes.push_back(run);
  }
  CHECK(workbench::best_way(runs) == 1);
}

TEST_CASE("a calibration's file is what was read, and says only what there is") {
  std::int64_t with_gemms = 0;
  for (const BuiltinFile& file : builtin_calibrations()) {
    CAPTURE(file.name);
    Calibration calibration = read_calibration(file.text, file.name);
    const std::string text = calibration_json(calibration).text();
    CHECK(calibration_json(read_calibration(text, "again")).text() == text);
    CHECK((text.find("\"gemms\"") != std::string::npos) == !calibration.gemms.empty());
    CHECK((text.find("\"rng_kernel\"") != std::string::npos) == calibration.rng_kernel.has_value());
    with_gemms += calibration.gemms.empty() ? 0 : 1;
    calibration.gemms.clear();
    calibration.rng_kernel.reset();
    const std::string less = calibration_json(calibration).text();
    CHECK(less.find("\"gemms\"") == std::string::npos);
    CHECK(less.find("\"rng_kernel\"") == std::string::npos);
    CHECK(calibration_json(read_calibration(less, "less")).text() == less);
  }
  CHECK(with_gemms > 0);
}

}  // namespace
}  // namespace stagger::block
