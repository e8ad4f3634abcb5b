#include "gpu/check/checked_runs.hpp"
#include "tests/gpu/checked_case.hpp"
#include "tests/support/catch.hpp"

#include <cmath>
#include <utility>
#include <vector>

namespace stagger::gpu {
namespace {

/// The options that each run was given.
std::vector<BackwardOptions> given;

/// A replay that a CPU run stands for: its witness and times.
Backward replay_by_cpu(const Table& table, const ReplayTimes&, const BackwardOptions& options) {
  given.push_back(options);
  const AttentionShape shape = attention_shape(table.problem, 1);
  Backward run = backward_on_cpu(
      table, make_attention(table.problem, shape, random_inputs(shape, 1)), options);
  run.gradients = {};
  return run;
}

TEST_CASE("replays are judged by their order alone, with delays of their own each") {
  const Case causal = causal_case();
  given.clear();
  const CheckedRuns runs =
      check_replays(causal.table, {.perturb = 5}, 3, {.device = replay_by_cpu, .times = {}});
  CHECK(runs.verdict == RunVerdict::ok);
  CHECK(runs.repeats == 3);
  CHECK(runs.digests.dq.empty());
  CHECK_FALSE(runs.errors.has_value());
  REQUIRE(given.size() == 3);
  CHECK_FALSE(given[0].perturb.has_value());
  CHECK(given[1].perturb == 5U);
  CHECK(given[2].perturb == 6U);

  const auto disordered = [](const Table& table, const ReplayTimes& times,
                             const BackwardOptions& options) {
    Backward run = replay_by_cpu(table, times, options);
    std::swap(run.witness[39], run.witness[41]);
    return run;
  };
  const CheckedRuns wrong = check_replays(causal.table, {}, 2, {.device = disordered, .times = {}});
  CHECK(wrong.verdict == RunVerdict::mismatch);
  CHECK(has_fault(wrong, "order"));
  CHECK_FALSE(has_fault(wrong, "bits"));

  CheckedRuns checked = runs;
  given.clear();
  check_untimed_runs(
      untimed_replays(causal.table, {.perturb = 5}, 3, {.device = replay_by_cpu, .times = {}}),
      Mode::deterministic, checked);
  CHECK(checked.untimed_median_ns.value_or(0) > 0);
  REQUIRE(given.size() == 3);
  CHECK_FALSE(given[1].stamped);
  CHECK_FALSE(given[1].perturb.has_value());
}

/// What a right device's untimed runs are, and checked runs to compare them with.
struct Untimed {
  CheckedRuns checked;
  UntimedRuns runs;
};
Untimed untimed_case(Mode mode, Dtype dtype = Dtype::bf16) {
  const Case causal = causal_case();
  const BackwardOptions options{.mode = mode, .dtype = dtype, .perturb = 1};
  return {check_runs(causal.table, causal.attention, &causal.exact, options, 1, backward_on_cpu),
          untimed_runs(causal.table, causal.attention, options, 3, backward_on_cpu)};
}

TEST_CASE("untimed runs that keep their promises have a median") {
  for (const Mode mode : {Mode::deterministic, Mode::atomic, Mode::no_reduce}) {
    CAPTURE(mode_name(mode));
    Untimed untimed = untimed_case(mode);
    REQUIRE(untimed.runs.elapsed_ns.size() == 3);
    untimed.runs.elapsed_ns = {30, 10, 20};
    CheckedRuns rested = untimed.checked;
    check_untimed_runs(untimed.runs, mode, untimed.checked);
    CHECK(untimed.checked.verdict == RunVerdict::ok);
    CHECK(untimed.checked.untimed_median_ns == 20);
    CHECK_FALSE(untimed.checked.rested_median_ns.has_value());
    untimed.runs.rested_ns = {7, 9, 8};
    untimed.runs.elapsed_ns.clear();
    check_untimed_runs(untimed.runs, mode, rested);
    CHECK(rested.rested_median_ns == 8);
    CHECK_FALSE(rested.untimed_median_ns.has_value());
  }
}

TEST_CASE("untimed runs are asked for without stamps and without delays") {
  const Case causal = causal_case();
  const auto device = [](const Table& table, const Attention& attention,
                         const BackwardOptions& options) {
    Backward run = backward_on_cpu(table, attention, options);
    run.elapsed_ns = options.stamped || options.perturb ? 1 : 2;
    return run;
  };
  CHECK(untimed_runs(causal.table, causal.attention, {.perturb = 7}, 2, device).elapsed_ns ==
        std::vector<std::int64_t>{2, 2});
}

TEST_CASE(
    "untimed runs with other bits, in any gradient or dQ's sums, are a fault and have no time") {
  const auto flip = [](std::vector<float>& values) {
    values.at(7) = std::nextafter(values.at(7), 100.0F);
  };
  for (int which = 0; which < 4; ++which) {
    CAPTURE(which);
    Untimed untimed = untimed_case(Mode::deterministic);
    Gradients& left = untimed.runs.last.gradients;
    flip(which == 0   ? left.dq
         : which == 1 ? left.dk
         : which == 2 ? left.dv
                      : untimed.runs.last.dq_sums);
    check_untimed_runs(untimed.runs, Mode::deterministic, untimed.checked);
    CHECK(untimed.checked.verdict == RunVerdict::mismatch);
    CHECK(has_fault(untimed.checked, "bits"));
    CHECK_FALSE(untimed.checked.identical);
    CHECK_FALSE(untimed.checked.untimed_median_ns.has_value());
  }
}

TEST_CASE("untimed runs of atomic mode may have any bits, and have a time") {
  Untimed untimed = untimed_case(Mode::atomic);
  untimed.runs.last.dq_sums.at(7) += 1;
  check_untimed_runs(untimed.runs, Mode::atomic, untimed.checked);
  CHECK(untimed.checked.verdict == RunVerdict::ok);
  CHECK(untimed.checked.untimed_median_ns.has_value());
}

TEST_CASE("an untimed run that is stopped is a fault, and no time is kept of those before it") {
  const Case causal = causal_case();
  const auto stops = [](const Table& table, const Attention& attention,
                        const BackwardOptions& options) {
    static int run = 0;
    Backward result = backward_on_cpu(table, attention, options);
    if (++run == 3) result.outcome = Outcome::timeout;
    return result;
  };
  CheckedRuns checked =
      check_runs(causal.table, causal.attention, &causal.exact, {}, 1, backward_on_cpu);
  const UntimedRuns untimed = untimed_runs(causal.table, causal.attention, {}, 5, stops);
  CHECK(untimed.elapsed_ns.size() == 2);
  check_untimed_runs(untimed, Mode::deterministic, checked);
  CHECK(checked.verdict == RunVerdict::mismatch);
  CHECK(has_fault(checked, "stopped"));
  CHECK_FALSE(checked.untimed_median_ns.has_value());
}

}  // namespace
}  // namespace stagger::gpu
