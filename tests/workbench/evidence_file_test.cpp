#include "workbench/calibration/evidence_file.hpp"

#include "core/files.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/toy_device.hpp"
#include "workbench/calibration/runs.hpp"
#include "workbench/calibration/set.hpp"

#include <string>
#include <vector>

namespace stagger::workbench {
namespace {

const Machine kDevice{.name = "toy", .device = "a toy", .driver = "1.0", .sms = 4};

/// What the portable kernel would be measured to do on a toy device of 4 SMs; `changed` is told of
/// each run.
template <class Changed>
Evidence toy_evidence(Changed changed) {
  const Timing timing{.compute = 900, .compute_partial = 700, .reduce = 130, .latency = 60};
  test::Random random(11);
  std::vector<CalibrationRun> runs;
  for (const Table& table : calibration_set({4, 4}, kDevice.sms)) {
    runs.push_back({.table = table,
                    .run = test::run_on_toy({.timing = timing, .start = 50}, table,
                                            gpu::Mode::deterministic, random)});
    CalibrationRun& run = runs.back();
    run.q_elements = run.table.problem.heads * run.table.problem.lengths.q * 64;
    changed(run);
  }
  Evidence evidence =
      evidence_of({.kernel = &workbench::kernel_of("portable"), .tile = {4, 4}}, runs);
  evidence.shown.date = "2026-11-30";
  return evidence;
}
Evidence toy_evidence() {
  return toy_evidence([](const CalibrationRun& /*run*/) {});
}

std::string written(const Evidence& evidence) {
  return write_calibration(kDevice, evidence, calibrate(evidence));
}

TEST_CASE("what a kernel was measured to do is read back, and its phases are found again") {
  Evidence evidence = toy_evidence([count = 0](CalibrationRun& run) mutable {
    run.tells = ++count % 2 == 0;
    run.run.passes_ns = 3 + run.q_elements / 1'000;
    run.run.untimed_ns = run.run.elapsed_ns - count;
  });
  evidence.parts = {.value = 1'700, .low = 1'600, .high = 1'800, .samples = 7};
  evidence.parts_load = 250;
  const std::string text = written(evidence);
  const std::vector<MeasuredKernel> read = read_calibrations(text + text, "two.json");
  REQUIRE(read.size() == 2);
  CHECK(read[0].device == kDevice);
  const Evidence& again = read[1].evidence;
  CHECK(again.shown == evidence.shown);
  CHECK(again.parts == evidence.parts);
  CHECK(again.parts_load == evidence.parts_load);
  REQUIRE(again.tables.size() == evidence.tables.size());
  for (std::size_t index = 0; index < again.tables.size(); ++index) {
    const TimedTable& one = again.tables[index];
    const TimedTable& other = evidence.tables[index];
    CAPTURE(index);
    CHECK(write_table_json(one.table) == write_table_json(other.table));
    CHECK(one.span == other.span);
    CHECK(one.whole == other.whole);
    CHECK(one.passes == other.passes);
    CHECK(one.q_elements == other.q_elements);
    CHECK(one.tells == other.tells);
  }
  CHECK(calibrate(again).times == calibrate(evidence).times);
  CHECK(written(again) == text);
}

TEST_CASE("a part's reduction is what hand-overs leave of the time between two parts' ends") {
  Evidence evidence = toy_evidence();
  // One table leaves congestion above zero.
  evidence.tables.resize(1);
  evidence.shown.congestion = MeasuredNs{.value = 400, .low = 400, .high = 400, .samples = 9};
  CHECK_FALSE(calibrate(evidence).times.reduce_kv.has_value());
  evidence.parts = {.value = 1'700, .low = 1'600, .high = 1'800, .samples = 7};
  for (const std::int64_t load : {0, 500}) {
    evidence.parts_load = load;
    const KernelTimes times = calibrate(evidence).times;
    REQUIRE(times.congestion.has_value());
    REQUIRE(times.congestion->value > 0);
    const Ticks hand_over = times.latency.value + times.spread.value_or(MeasuredNs{}).value +
                            times.congestion->value * load / 1'000;
    REQUIRE(times.reduce_kv.has_value());
    CHECK(times.reduce_kv->value == 1'700 - hand_over);
    CHECK(times.reduce_kv->samples == 7);
  }
}

TEST_CASE("what cannot be fitted again is refused with its place") {
  const std::string text = written(toy_evidence());
  const auto message = [&](const std::string& from, const std::string& to) {
    return test::message_of(
        [&] { (void)read_calibrations(test::replaced(text, from, to), "mine.json"); },
        ErrorKind::invalid_input);
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(message("\"shown\":", "\"was\":"), Contains("unknown key 'was'"));
  CHECK_THAT(message("stagger.calibration/1", "stagger.calibration/2"),
             Contains("stagger.calibration/2"));
  CHECK_THAT(message("\"sms\": 4,", "\"sms\": 40000,"), Contains("/machine/sms"));
  CHECK_THAT(message("\"sms\": 4,", "\"sms\": 5,"), Contains("is of another table than"));
  CHECK_THAT(message("\"orders\": \"", "\"orders\": \"0"),
             Contains("/runs/0") && Contains("`ascending` on"));
  CHECK_THAT(message("\"whole_ns\": ", "\"whole_ns\": -"), Contains("/runs/0/whole_ns"));
  CHECK_THAT(message("\"load\": 0", "\"load\": 1001"), Contains("/parts/load"));
  CHECK_THAT(message("\"quartiles\": [\n", "\"quartiles\": [\n 0,\n"),
             Contains("/parts/quartiles"));
  CHECK_THAT(
      test::message_of([&] { (void)read_calibrations("", "mine.json"); }, ErrorKind::invalid_input),
      Contains("mine.json"));
  const std::string old = R"({"schema": "stagger.calibration/1", "version": "0.1.0",
      "machine": {}, "runs": []})";
  CHECK_THAT(test::message_of([&] { (void)read_calibrations(old, "mine.json"); },
                              ErrorKind::invalid_input),
             Contains("it has no `shown`"));
  Evidence spins = toy_evidence();
  spins.shown.key = {.kernel = "replay"};
  CHECK_THAT(test::message_of(
                 [&] {
                   (void)read_calibrations(write_calibration(kDevice, spins, calibrate(spins)),
                                           "mine.json");
                 },
                 ErrorKind::invalid_input),
             Contains("/shown") && Contains("spinning"));
  Evidence fewer = toy_evidence();
  fewer.tables.pop_back();
  CHECK_THAT(test::message_of([&] { (void)read_calibrations(written(fewer), "mine.json"); },
                              ErrorKind::invalid_input),
             Contains("/runs") && Contains("is calibrated on"));
}

TEST_CASE("a calibration is written as kept") {
  CHECK(test::golden_difference("calibration.json", written(toy_evidence())) == "");
}

}  // namespace
}  // namespace stagger::workbench
