#include "workbench/prediction.hpp"

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

namespace stagger::workbench {
namespace {

MeasuredRun run_of(const char* schedule, Ticks measured, Ticks predicted) {
  MeasuredRun run{.source = schedule,
                  .problem = make_problem(make_mask("causal"), {6, 6}, {}, 2, 6),
                  .schedule = schedule,
                  .kernel = {.kernel = "portable", .dtype = "fp32", .head_dim = 64, .tile = {1, 1}},
                  .measured = measured,
                  .predicted = predicted};
  return run;
}

TEST_CASE("what runs say of themselves is judged, whole runs where both times are known") {
  MeasuredRuns measured;
  measured.runs = {run_of("spt", 1'000, 900), run_of("descending", 800, 880),
                   run_of("ascending", 1'200, 1'200)};
  measured.runs[1].elapsed = 2'000;
  measured.runs[1].predicted_elapsed = 1'500;
  measured.runs[2].elapsed = 2'500;  // of which nothing is predicted
  const PredictedRuns judged = predict_runs(measured, std::nullopt);
  REQUIRE(judged.spans.runs == std::vector<std::size_t>{0, 1, 2});
  CHECK(judged.spans.find(0)->predicted == 900);
  CHECK(judged.spans.find(1)->measured == 800);
  CHECK(judged.spans.find(2)->error() == 0.0);
  CHECK(judged.spans.find(3) == nullptr);
  REQUIRE(judged.wholes.runs == std::vector<std::size_t>{1});
  CHECK(judged.wholes.find(0) == nullptr);
  CHECK(judged.wholes.find(1)->measured == 2'000);
  CHECK(judged.wholes.find(1)->predicted == 1'500);
  CHECK(judged.wholes.find(2) == nullptr);
}

TEST_CASE("runs that no timing model tells apart are of one likeness") {
  MeasuredRuns measured;
  measured.runs = {run_of("descending", 1'000, 900), run_of("descending", 990, 900),
                   run_of("ascending", 1'000, 900),  run_of("descending", 1'000, 900),
                   run_of("descending", 1'000, 900), run_of("optimal:effort=0", 1'000, 900)};
  measured.runs[3].timing.residency = 5;
  measured.runs[4].timing.release = Release::delayed;
  const PredictedRuns judged = predict_runs(measured, std::nullopt);
  const auto table = [&](std::size_t run) { return judged.spans.find(run)->table; };
  CHECK(table(0) != 0);
  CHECK(table(0) == table(1));
  CHECK(table(0) != table(2));
  CHECK(table(0) != table(3));
  CHECK(table(0) != table(4));
  CHECK(table(3) != table(4));
  CHECK(table(5) == 0);  // it would have to be searched again
  // A file's table is known if it was given.
  MeasuredRuns files;
  files.runs = {run_of("mine", 1'000, 900), run_of("mine", 1'000, 900)};
  files.runs[0].from_file = files.runs[1].from_file = true;
  files.runs[1].table =
      schedules::build(schedules::select("descending"), files.runs[1].problem, {});
  const PredictedRuns given = predict_runs(files, std::nullopt);
  CHECK(given.spans.find(0)->table == 0);
  CHECK(given.spans.find(1)->table == table(0));
}

TEST_CASE("where nothing is predicted that is said, and why runs were skipped") {
  MeasuredRuns none;
  none.skipped = {"a.json: mode atomic", "b.json: a verdict"};
  CHECK_THROWS_WITH(predict_runs(none, std::nullopt), Catch::Contains("there is no run") &&
                                                          Catch::Contains("a.json: mode atomic") &&
                                                          Catch::Contains("b.json"));
  MeasuredRuns silent;
  silent.runs = {run_of("spt", 1'000, 900)};
  silent.runs[0].predicted.reset();
  CHECK_THROWS_WITH(predict_runs(silent, std::nullopt), Catch::Contains("--machine"));
}

}  // namespace
}  // namespace stagger::workbench
