#include "gpu/check/checked_runs.hpp"

#include "tests/gpu/checked_case.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stagger::gpu {
namespace {

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

/// Loses the last bit of one of dQ's sums, which the 16-bit dQ does not show.
Backward lost_bit(const Table& table, const Attention& attention, const BackwardOptions& options) {
  Backward run = backward_on_cpu(table, attention, options);
  run.dq_sums[57] = std::nextafter(run.dq_sums[57], 100.0F);
  return run;
}

/// Loses that bit in every second run.
Backward changing_sums(const Table& table, const Attention& attention,
                       const BackwardOptions& options) {
  static int run = 0;
  return ++run % 2 == 0 ? lost_bit(table, attention, options)
                        : backward_on_cpu(table, attention, options);
}

/// Forgets the order in every second run.
Backward changing_bits(const Table& table, const Attention& attention,
                       const BackwardOptions& options) {
  static int run = 0;
  return ++run % 2 == 0 ? wrong_order(table, attention, options)
                        : backward_on_cpu(table, attention, options);
}

using Tensor = std::vector<float> Gradients::*;
constexpr std::pair<const char*, Tensor> kTensors[] = {
    {"dQ", &Gradients::dq}, {"dK", &Gradients::dk}, {"dV", &Gradients::dv}};

/// Which tensor the next device spoils: devices are plain functions.
Tensor spoiled = nullptr;
double spoiled_by_much = 0;

const Exact& exact_of(const ReferenceGradients& exact, Tensor tensor) {
  if (tensor == &Gradients::dq) return exact.dq;
  return tensor == &Gradients::dk ? exact.dk : exact.dv;
}
double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values)
    most = std::max(most, std::abs(value));
  return most;
}

TEST_CASE("one element that is off is noticed where the norm is not, in every gradient") {
  const Case causal = causal_case();
  const double bound = error_bound(causal.attention.shape, Dtype::fp32);
  for (const auto& [name, tensor] : kTensors) {
    CAPTURE(name);
    spoiled = tensor;
    spoiled_by_much = 3 * bound * largest(exact_of(causal.exact, tensor).values);
    const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact, {}, 1,
                                        spoiled_by([](Backward& run, std::int64_t) {
                                          (run.gradients.*spoiled)[40] +=
                                              static_cast<float>(spoiled_by_much);
                                        }),
                                        false);
    CHECK(runs.verdict == RunVerdict::mismatch);
    REQUIRE(runs.faults.size() == 1);
    CHECK(runs.faults.front().kind == std::string("gradient"));
    CHECK(runs.faults.front().message.starts_with(name));
    const Deviation error = tensor == &Gradients::dq   ? *runs.errors->dq
                            : tensor == &Gradients::dk ? runs.errors->dk
                                                       : runs.errors->dv;
    CHECK(error.frobenius < bound);
    CHECK(error.most > bound);
  }
}

TEST_CASE("a norm that is off is noticed where no element is, in every gradient") {
  const Case causal = causal_case();
  const double bound = error_bound(causal.attention.shape, Dtype::fp32);
  for (const auto& [name, tensor] : kTensors) {
    CAPTURE(name);
    spoiled = tensor;
    spoiled_by_much = 0.7 * bound * largest(exact_of(causal.exact, tensor).values);
    const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact, {}, 1,
                                        spoiled_by([](Backward& run, std::int64_t) {
                                          for (float& element : run.gradients.*spoiled)
                                            element += static_cast<float>(spoiled_by_much);
                                        }),
                                        false);
    REQUIRE(runs.faults.size() == 1);
    CHECK(runs.faults.front().kind == std::string("gradient"));
    const Deviation error = tensor == &Gradients::dq   ? *runs.errors->dq
                            : tensor == &Gradients::dk ? runs.errors->dk
                                                       : runs.errors->dv;
    CHECK(error.frobenius > bound);
    CHECK(error.most < bound);
  }
}

TEST_CASE("an element that is no number is a wrong gradient") {
  const Case causal = causal_case();
  for (const auto& [name, tensor] : kTensors) {
    CAPTURE(name);
    spoiled = tensor;
    const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact, {}, 1,
                                        spoiled_by([](Backward& run, std::int64_t) {
                                          (run.gradients.*spoiled)[3] = std::nanf("");
                                        }),
                                        false);
    CHECK(has_fault(runs, "gradient"));
  }
}

TEST_CASE("one bit of one run is noticed in every gradient, and the run is named") {
  const Case causal = causal_case();
  for (const Mode mode : {Mode::deterministic, Mode::no_reduce, Mode::atomic}) {
    for (const auto& [name, tensor] : kTensors) {
      CAPTURE(mode_name(mode), name);
      spoiled = tensor;
      const CheckedRuns runs =
          check_runs(causal.table, causal.attention, &causal.exact, {.mode = mode, .threads = 1}, 4,
                     spoiled_by([](Backward& run, std::int64_t number) {
                       float& element = (run.gradients.*spoiled)[11];
                       if (number >= 2) element = std::nextafter(element, 100.0F);
                     }));
      CHECK_FALSE(runs.identical);
      if (mode == Mode::atomic) {  // which promises no bits
        CHECK(runs.verdict == RunVerdict::ok);
        continue;
      }
      REQUIRE(runs.faults.size() == 1);
      CHECK(runs.faults.front().kind == std::string("bits"));
      CHECK(runs.faults.front().message == "run 3 gives other bits than the first");
      CHECK((runs.dq_difference > 0) == (tensor == &Gradients::dq));
    }
  }
}

TEST_CASE("the largest difference of dQ is that of the worst run") {
  const Case causal = causal_case();
  const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact, {}, 4,
                                      spoiled_by([](Backward& run, std::int64_t number) {
                                        if (number == 2) run.gradients.dq[5] += 2;
                                        if (number == 3) run.gradients.dq[5] -= 1;
                                      }));
  CHECK(std::abs(runs.dq_difference - 2) < 1e-3);
}

TEST_CASE("an order that is wrong in a later run alone is noticed") {
  const Case causal = causal_case();
  const CheckedRuns runs = check_runs(causal.table, causal.attention, &causal.exact, {}, 3,
                                      spoiled_by([](Backward& run, std::int64_t number) {
                                        // The last dQ tile's: none of its bits are touched.
                                        if (number == 2)
                                          std::swap(run.witness[39], run.witness[41]);
                                      }));
  CHECK(runs.identical);
  CHECK_FALSE(runs.order_matches);
  REQUIRE_FALSE(runs.faults.empty());
  CHECK(runs.faults.front().kind == std::string("order"));
}

TEST_CASE("additions that are lost, doubled or made elsewhere are noticed by adding again") {
  const Case causal = causal_case();
  const auto check = [&](void (*spoil)(Backward&, std::int64_t)) {
    // Without a reference: the promise stands alone.
    const CheckedRuns runs =
        check_runs(causal.table, causal.attention, nullptr, {}, 2, spoiled_by(spoil));
    CHECK(runs.identical);
    CHECK(runs.order_matches);
    CHECK(runs.reaccumulated == false);
    REQUIRE(runs.faults.size() == 1);
    CHECK(runs.faults.front().kind == std::string("reaccumulation"));
  };
  // Q tiles are 4 queries of 8 elements; slot 0's partial is of Q tile 5 of head 0.
  check([](Backward& run, std::int64_t) {
    static std::vector<float> lost;
    if (!run.partials.empty()) lost.assign(run.partials.begin(), run.partials.begin() + 32);
    for (std::size_t index = 0; index < 32; ++index)
      run.gradients.dq[5 * 32 + index] -= lost[index];
  });
  check([](Backward& run, std::int64_t) {
    static std::vector<float> doubled;
    if (!run.partials.empty()) doubled.assign(run.partials.begin(), run.partials.begin() + 32);
    for (std::size_t index = 0; index < 32; ++index)
      run.gradients.dq[5 * 32 + index] += doubled[index];
  });
  check([](Backward& run, std::int64_t) {  // to the other head
    std::swap_ranges(run.gradients.dq.begin() + 5 * 32, run.gradients.dq.begin() + 6 * 32,
                     run.gradients.dq.begin() + 11 * 32);
  });
}

void check_right_device(const Case& causal, Mode mode, Dtype dtype) {
  CAPTURE(mode_name(mode), dtype_name(dtype));
  const CheckedRuns runs =
      check_runs(causal.table, causal.attention, &causal.exact,
                 {.mode = mode, .dtype = dtype, .perturb = 9}, 4, backward_on_cpu);
  CHECK(runs.verdict == RunVerdict::ok);
  CHECK(runs.dtype == dtype);
  CHECK(runs.bound == error_bound(causal.attention.shape, dtype));
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

TEST_CASE("runs of a right device are ok, perturbed or not, in every mode and dtype") {
  const Case causal = causal_case();
  for (const Mode mode : {Mode::deterministic, Mode::atomic, Mode::no_reduce}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
      check_right_device(causal, mode, dtype);
  }
}

TEST_CASE("what 16 bits hide of a sum is noticed all the same") {
  const Case causal = causal_case();
  const auto check = [&](Device device) {
    return check_runs(causal.table, causal.attention, &causal.exact, {.dtype = Dtype::bf16}, 3,
                      device);
  };
  const CheckedRuns lost = check(lost_bit);
  CHECK(lost.verdict == RunVerdict::mismatch);
  CHECK(has_fault(lost, "reaccumulation"));
  CHECK_FALSE(has_fault(lost, "gradient"));
  CHECK(lost.identical);

  const CheckedRuns changing = check(changing_sums);
  CHECK(changing.verdict == RunVerdict::mismatch);
  CHECK(has_fault(changing, "bits"));
  CHECK_FALSE(has_fault(changing, "reaccumulation"));
}

TEST_CASE("without partials nothing is added again, and all else is checked") {
  const Case causal = causal_case();
  const CheckedRuns runs =
      check_runs(causal.table, causal.attention, &causal.exact, {}, 2, backward_on_cpu, false);
  CHECK(runs.verdict == RunVerdict::ok);
  CHECK_FALSE(runs.reaccumulated.has_value());
  CHECK(runs.run.partials.empty());
  CHECK(check_runs(causal.table, causal.attention, &causal.exact, {}, 2, wrong_order, false)
            .verdict == RunVerdict::mismatch);
}

TEST_CASE("a wrong gradient, a wrong order and changing bits are each noticed") {
  const Case causal = causal_case();
  const auto check = [&](Device device) {
    return check_runs(causal.table, causal.attention, &causal.exact, {}, 3, device);
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

TEST_CASE("ranks that are no order are an order fault, also of a run that finished") {
  const Case causal = causal_case();
  // As on a device where two tasks of one rank both got the turn: all have reduced, the last one
  // too, whose turn was passed over.
  for (const std::int32_t rank : {1, 100}) {
    CAPTURE(rank);
    Case twice = causal;
    for (Slot& slot : twice.table.slots) {
      if (slot.task.q.value == 5 && slot.rank == 3) slot.rank = rank;
    }
    const auto device = [](const Table&, const Attention& attention,
                           const BackwardOptions& options) {
      return backward_on_cpu(causal_case().table, attention, options);
    };
    const CheckedRuns runs = check_runs(twice.table, twice.attention, &twice.exact, {}, 2, device);
    CHECK(runs.verdict == RunVerdict::mismatch);
    CHECK(has_fault(runs, "order"));
    CHECK_FALSE(has_fault(runs, "gradient"));
    CHECK_FALSE(runs.reaccumulated.has_value());
  }
}

}  // namespace
}  // namespace stagger::gpu
