#include "gpu/check/checked_runs.hpp"
#include "tests/gpu/checked_case.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stagger::gpu {
namespace {

/// The options that each run was given.
std::vector<BackwardOptions> given_to_runs;

TEST_CASE("every run but the first has delays of its own, and the first alone keeps partials") {
  const Case causal = causal_case();
  const auto device = [](const Table& table, const Attention& attention,
                         const BackwardOptions& options) {
    given_to_runs.push_back(options);
    Backward run = backward_on_cpu(table, attention, options);
    run.elapsed_ns = options.perturb ? 1'000'000 : 7;
    return run;
  };
  for (const Mode mode : {Mode::deterministic, Mode::atomic}) {
    given_to_runs.clear();
    const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact,
                                        {.mode = mode, .perturb = 9}, 4, device);
    REQUIRE(given_to_runs.size() == 4);
    CHECK_FALSE(given_to_runs[0].perturb.has_value());
    for (std::size_t run = 1; run < 4; ++run)
      CHECK(given_to_runs[run].perturb == 8 + run);
    CHECK(given_to_runs[0].keep_partials == (mode == Mode::deterministic));
    CHECK_FALSE(given_to_runs[1].keep_partials);
    CHECK(runs.median_ns == 7);  // of the run without delays
  }
  given_to_runs.clear();
  static_cast<void>(check_runs(causal.table, causal.attention, &causal.exact, {}, 3, device));
  CHECK(std::none_of(given_to_runs.begin(), given_to_runs.end(),
                     [](const BackwardOptions& options) { return options.perturb.has_value(); }));
}

TEST_CASE("the median is of all runs without delays") {
  const Case causal = causal_case();
  const CheckedRuns runs = check_runs(causal.table, causal.attention, nullptr, {}, 5,
                                      spoiled_by([](Backward& run, std::int64_t number) {
                                        constexpr std::int64_t kNs[] = {900, 50, 30, 40, 10};
                                        run.elapsed_ns = kNs[number];
                                      }));
  CHECK(runs.median_ns == 40);
  CHECK_FALSE(runs.errors.has_value());
}

TEST_CASE("a later run that does not finish ends the checks and is the one that is kept") {
  const Case causal = causal_case();
  const auto stops = [](Backward& run, std::int64_t number) {
    if (number == 2) run.outcome = Outcome::timeout;
    run.elapsed_ns = number;
  };
  const CheckedRuns runs =
      check_runs(causal.table, causal.attention, &causal.exact, {}, 5, spoiled_by(stops));
  CHECK(runs.verdict == RunVerdict::timeout);
  CHECK(runs.repeats == 2);
  CHECK(runs.run.elapsed_ns == 2);
  CHECK(runs.errors.has_value());
}

TEST_CASE("runs end early when they are told to, and are checked as far as they went") {
  const Case causal = causal_case();
  std::vector<std::int64_t> asked;
  const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact, {}, 5,
                                      backward_on_cpu, true, [&](std::int64_t finished) {
                                        asked.push_back(finished);
                                        return finished < 2;
                                      });
  CHECK(runs.verdict == RunVerdict::ok);
  CHECK(runs.repeats == 2);
  CHECK(runs.identical);
  CHECK(runs.errors.has_value());
  CHECK(asked == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("a run that hangs ends the checks and is kept") {
  Case causal = causal_case();
  use_kv_index_ranks(causal.table);
  causal.table.slots.front().rank = 100;
  const CheckedRuns runs =
      check_runs(causal.table, causal.attention, &causal.exact, {}, 3, backward_on_cpu);
  CHECK(runs.verdict == RunVerdict::deadlock);
  CHECK(runs.repeats == 0);
  CHECK_FALSE(runs.errors.has_value());
  CHECK_FALSE(waits(causal.table, runs.run).empty());
}

}  // namespace
}  // namespace stagger::gpu
