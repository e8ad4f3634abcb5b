#include "gpu/checked_runs.hpp"

#include "gpu/cpu_executor.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>

namespace stagger::gpu {
namespace {

struct Case {
  Table table;
  Attention attention;
  ReferenceGradients exact;
};

Case causal_case() {
  const Problem problem = make_problem(make_mask("causal"), {24, 24}, {4, 4}, 2, 0);
  const AttentionShape shape = attention_shape(problem, 8);
  const Attention attention = make_attention(problem, shape, random_inputs(shape, 1));
  return {schedules::build(schedules::select("descending"), problem), attention,
          reference_gradients(attention)};
}

bool has_fault(const CheckedRuns& runs, const std::string& kind) {
  return std::any_of(runs.faults.begin(), runs.faults.end(),
                     [&](const RunFault& fault) { return fault.kind == kind; });
}

// Devices with one thing wrong.

Backward wrong_gradient(const Table& table, const Attention& attention,
                        const BackwardOptions& options) {
  Backward run = backward_on_cpu(table, attention, options);
  run.gradients.dk[5] *= 1.01F;
  return run;
}

/// Adds two ranks of one dQ tile the wrong way round. Not ranks 0 and 1, whose sum is the same.
Backward wrong_order(const Table& table, const Attention& attention,
                     const BackwardOptions& options) {
  Table other = table;
  for (Slot& slot : other.slots) {
    if (slot.task.head.value == 1 && slot.task.q.value == 5 && (slot.rank == 2 || slot.rank == 3))
      slot.rank ^= 1;
  }
  return backward_on_cpu(other, attention, options);
}

/// Forgets the order in every second run.
Backward changing_bits(const Table& table, const Attention& attention,
                       const BackwardOptions& options) {
  static int run = 0;
  return ++run % 2 == 0 ? wrong_order(table, attention, options)
                        : backward_on_cpu(table, attention, options);
}

TEST_CASE("runs of a right device are ok, perturbed or not, in every mode") {
  const Case causal = causal_case();
  for (const Mode mode : {Mode::deterministic, Mode::atomic, Mode::no_reduce}) {
    const CheckedRuns runs = check_runs(causal.table, causal.attention, causal.exact,
                                        {.mode = mode, .perturb = 9}, 4, backward_on_cpu);
    CAPTURE(mode_name(mode));
    CHECK(runs.verdict == RunVerdict::ok);
    CHECK(runs.faults.empty());
    CHECK(runs.repeats == 4);
    CHECK(runs.median_ns > 0);
    REQUIRE(runs.errors.has_value());
    CHECK(runs.errors->dq.has_value() == (mode != Mode::no_reduce));
    CHECK(runs.reaccumulated.has_value() == (mode == Mode::deterministic));
    if (mode == Mode::deterministic) {
      CHECK(runs.identical);
      CHECK(runs.order_matches);
      CHECK(runs.dq_difference == 0);
    }
  }
}

TEST_CASE("a wrong gradient, a wrong order and changing bits are each noticed") {
  const Case causal = causal_case();
  const auto check = [&](Device device) {
    return check_runs(causal.table, causal.attention, causal.exact, {}, 3, device);
  };
  const CheckedRuns gradient = check(wrong_gradient);
  CHECK(gradient.verdict == RunVerdict::mismatch);
  CHECK(has_fault(gradient, "gradient"));
  CHECK_FALSE(has_fault(gradient, "order"));

  const CheckedRuns order = check(wrong_order);
  CHECK(order.verdict == RunVerdict::mismatch);
  CHECK(has_fault(order, "order"));
  CHECK_FALSE(order.order_matches);
  CHECK(order.identical);
  CHECK_FALSE(has_fault(order, "gradient"));  // it is right to rounding: only the order shows it

  const CheckedRuns bits = check(changing_bits);
  CHECK(bits.verdict == RunVerdict::mismatch);
  CHECK(has_fault(bits, "bits"));
  CHECK_FALSE(bits.identical);
  CHECK(bits.dq_difference > 0);
}

TEST_CASE("a run that hangs ends the checks and is kept") {
  Case causal = causal_case();
  use_kv_index_ranks(causal.table);
  causal.table.slots.front().rank = 100;
  const CheckedRuns runs =
      check_runs(causal.table, causal.attention, causal.exact, {}, 3, backward_on_cpu);
  CHECK(runs.verdict == RunVerdict::deadlock);
  CHECK(runs.repeats == 0);
  CHECK_FALSE(runs.errors.has_value());
  CHECK_FALSE(waits(causal.table, runs.run).empty());
}

}  // namespace
}  // namespace stagger::gpu
