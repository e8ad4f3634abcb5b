#include "gpu/hopper/hopper.hpp"

#include "core/error.hpp"
#include "core/median.hpp"
#include "core/token_mask.hpp"
#include "dag/liveness.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/masked_tiles.hpp"
#include "gpu/hopper/shape.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hopper.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace stagger::gpu {
namespace {

using test::Random;

TEST_CASE("hopper: every mask, shape and format has the reference's gradients and steady bits") {
  if (!has_hopper()) return;
  std::int64_t cases = 0;
  std::uint32_t seed = 0;
  for (const hopper::Shape& shape : hopper::kShapes) {
    for (const Problem& problem :
         test::every_mask({520, 520}, {.q = shape.tile_q, .kv = hopper::kTileKv}, 2, ++seed)) {
      const char* mask = problem.mask.family->name;
      const Attention attention = hopper_attention(problem, shape.head_dim);
      const ReferenceGradients exact = reference_gradients(attention);
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      for (const Dtype dtype : kHopperDtypes) {
        CAPTURE(mask, shape.head_dim, shape.tile_q, dtype_name(dtype));
        check_on_hopper(table, attention, exact,
                        {.dtype = dtype, .timeout = kHopperPatience, .perturb = 5}, 3);
        ++cases;
      }
    }
  }
  CHECK(cases == std::ssize(hopper::kShapes) * std::ssize(kHopperDtypes) * test::kinds_of_masks());
}

TEST_CASE(
    "hopper: masks told bit by bit have the reference's gradients, in every shape and group") {
  if (!has_hopper()) return;
  Random random(20261123);
  std::int64_t cases = 0;
  for (const hopper::Shape& shape : hopper::kShapes) {
    const TileShape tile{.q = shape.tile_q, .kv = hopper::kTileKv};
    for (const Grouping& grouping :
         {Grouping{}, Grouping{.heads_kv = 1, .span = 2}, Grouping{.heads_kv = 1, .span = 1}}) {
      for (const Problem& problem : test::masks_in_bits(random, {500, 520}, tile, 2, grouping)) {
        const char* mask = problem.mask.family->name;
        REQUIRE_FALSE(cuda::masked_tiles(problem, TokenMask(problem)).bits().empty());
        const Attention attention = hopper_attention(problem, shape.head_dim);
        const ReferenceGradients exact = reference_gradients(attention);
        const char* const schedule = cases % 2 == 0 ? "lpt-descending" : "spt";
        const Table table = schedules::build(schedules::select(schedule), problem);
        for (const Dtype dtype : kHopperDtypes) {
          CAPTURE(mask, shape.head_dim, shape.tile_q, problem.span, schedule, dtype_name(dtype));
          check_on_hopper(table, attention, exact,
                          {.dtype = dtype, .timeout = kHopperPatience, .perturb = 5}, 3);
          ++cases;
        }
      }
    }
  }
  CHECK(cases == std::ssize(hopper::kShapes) * 3 * 5 * std::ssize(kHopperDtypes));
}

TEST_CASE("hopper: with dropout right gradients, and the same bits of stored and generated bits") {
  if (!has_hopper()) return;
  constexpr int kBits[] = {8, 16, 32};
  std::int64_t cases = 0;
  for (const hopper::Shape& shape : hopper::kShapes) {
    for (const char* mask : {"full", "causal", "sliding:left=150,right=20",
                             "sliding:left=150,right=0 | global:first=4 & causal"}) {
      const bool is_short = cases / 2 % 2 == 1;
      const Lengths lengths = is_short ? Lengths{300, 157} : Lengths{520, 520};
      const Problem problem =
          hopper_problem(mask, lengths, shape, 4, {.heads_kv = 2, .span = is_short ? 1 : 2});
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      const int bits = kBits[cases / 2 % 3];
      DropoutOptions options{.probability = 0.1, .rounds = bits == 8 ? 7 : 10, .bits = bits};
      const Attention generates = hopper_dropped(problem, shape.head_dim, options);
      options.mask_bits = MaskBits::stored;
      const Attention reads = hopper_dropped(problem, shape.head_dim, options);
      const ReferenceGradients exact = reference_gradients(generates);
      for (const Dtype dtype : kHopperDtypes) {
        CAPTURE(mask, lengths.q, shape.head_dim, shape.tile_q, bits, dtype_name(dtype));
        const BackwardOptions run{.dtype = dtype, .timeout = kHopperPatience, .perturb = 5};
        check_on_hopper(table, generates, exact, run, 2);
        check_on_hopper(table, reads, exact, run, 2);
        const BackwardOptions once{.dtype = dtype, .timeout = kHopperPatience};
        CHECK(digests(backward_on_hopper(table, generates, once).gradients) ==
              digests(backward_on_hopper(table, reads, once).gradients));
        ++cases;
      }
    }
  }
  CHECK(cases == std::ssize(hopper::kShapes) * 4 * std::ssize(kHopperDtypes));
}

TEST_CASE("hopper: dropping nothing leaves the bits of the kernel without dropout") {
  if (!has_hopper()) return;
  for (const hopper::Shape& shape : hopper::kShapes) {
    const Problem problem = hopper_problem("causal", {520, 520}, shape, 3);
    const Table table = schedules::build(schedules::select("spt"), problem);
    for (const Dtype dtype : kHopperDtypes) {
      CAPTURE(shape.head_dim, shape.tile_q, dtype_name(dtype));
      const BackwardOptions options{.dtype = dtype, .timeout = kHopperPatience};
      const Backward want =
          backward_on_hopper(table, hopper_attention(problem, shape.head_dim), options);
      for (const MaskBits mask_bits : {MaskBits::generated, MaskBits::stored}) {
        const Attention all =
            hopper_dropped(problem, shape.head_dim, {.probability = 0, .mask_bits = mask_bits});
        CHECK(digests(backward_on_hopper(table, all, options).gradients) ==
              digests(want.gradients));
      }
    }
  }
}

TEST_CASE("hopper: its passes are timed as a part of the whole, and the whole without stamps") {
  if (!has_hopper()) return;
  const Problem problem = hopper_problem("full", {512, 512}, hopper::kShapes[0], 32);
  const AttentionShape shape = attention_shape(problem, hopper::kShapes[0].head_dim);
  const Attention attention = unjudged_attention(problem, shape, random_inputs(shape, 11));
  const Table table = schedules::build(schedules::select("spt"), problem);
  const BackwardOptions options{.dtype = Dtype::bf16, .timeout = kHopperPatience};
  const Backward run = backward_on_hopper(table, attention, options);
  CHECK(run.passes_ns > 0);
  CHECK(run.passes_ns < run.elapsed_ns);
  CHECK(run.untimed_ns > run.passes_ns);
  CHECK(run.untimed_ns < 2 * run.elapsed_ns);
}

TEST_CASE("hopper: a run that rested takes as long as one in a row: no time has a launch in it") {
  if (!has_hopper()) return;
  const Problem problem = hopper_problem("full", {512, 512}, hopper::kShapes[0], 32);
  const AttentionShape shape = attention_shape(problem, hopper::kShapes[0].head_dim);
  const Attention attention = unjudged_attention(problem, shape, random_inputs(shape, 11));
  const Table table = schedules::build(schedules::select("spt"), problem);
  const UntimedRuns runs = untimed_runs_on_hopper(
      table, attention, {.dtype = Dtype::bf16, .timeout = kHopperPatience}, 3, 15);
  REQUIRE(runs.rested_ns.size() == 15);
  REQUIRE(runs.elapsed_ns.size() == 15);
  const auto rested = static_cast<double>(median(runs.rested_ns));
  const auto in_a_row = static_cast<double>(median(runs.elapsed_ns));
  INFO("ns rested " << rested << ", in a row " << in_a_row);
  // Launches that the device waits for take 13 to 22 us of a pass that rested.
  CHECK(std::abs(rested / in_a_row - 1) < 0.06);
}

TEST_CASE("hopper: a query that sees nothing has no gradient, whichever infinity its lse is") {
  if (!has_hopper()) return;
  for (const hopper::Shape& shape : hopper::kShapes) {
    CAPTURE(shape.head_dim, shape.tile_q);
    // 300 queries and 130 keys, aligned at their ends: the first 170 queries see nothing.
    const Problem problem = hopper_problem("causal", {300, 130}, shape, 2);
    const Table table = schedules::build(schedules::select("spt"), problem);
    const BackwardOptions options{.dtype = Dtype::bf16, .timeout = kHopperPatience};
    Attention attention = hopper_attention(problem, shape.head_dim);
    const Backward plus = backward_on_hopper(table, attention, options);
    std::int64_t unseeing = 0;
    for (double& lse : attention.forward.lse) {
      if (!std::isinf(lse)) continue;
      lse = -lse;
      ++unseeing;
    }
    REQUIRE(unseeing == 2 * 170);
    const Backward minus = backward_on_hopper(table, attention, options);
    CHECK(digests(minus.gradients) == digests(plus.gradients));
    for (const auto* gradient : {&minus.gradients.dq, &minus.gradients.dk, &minus.gradients.dv}) {
      CHECK(std::all_of(gradient->begin(), gradient->end(),
                        [](float element) { return std::isfinite(element); }));
    }
  }
}

TEST_CASE("hopper: lengths that differ, ragged and short") {
  if (!has_hopper()) return;
  for (const Lengths lengths : {Lengths{1, 1}, Lengths{1, 300}, Lengths{300, 1}, Lengths{65, 129},
                                Lengths{257, 500}, Lengths{700, 130}}) {
    for (const hopper::Shape& shape : hopper::kShapes) {
      for (const char* mask : {"full", "causal"}) {
        CAPTURE(lengths.q, lengths.kv, shape.head_dim, shape.tile_q, mask);
        const Problem problem = hopper_problem(mask, lengths, shape, 3);
        const Attention attention = hopper_attention(problem, shape.head_dim);
        const Table table = schedules::build(schedules::select("spt"), problem);
        check_on_hopper(table, attention, reference_gradients(attention),
                        {.dtype = Dtype::bf16, .timeout = kHopperPatience}, 2);
      }
    }
  }
}

/// Runs every schedule that applies and every mode; how many schedules.
std::int64_t check_schedules(const Problem& problem, std::int64_t head_dim) {
  const Attention attention = hopper_attention(problem, head_dim);
  const ReferenceGradients exact = reference_gradients(attention);
  std::int64_t runs = 0;
  for (const schedules::Schedule* schedule : schedules::all()) {
    const schedules::Selection selection = schedules::select(schedule->name);
    if (schedules::why_unsupported(selection, problem)) continue;
    CAPTURE(schedule->name);
    const Table table = schedules::build(selection, problem);
    const BackwardOptions options{.dtype = Dtype::bf16, .timeout = kHopperPatience, .perturb = 9};
    check_on_hopper(table, attention, exact, options, 4);
    const Backward run = backward_on_hopper(table, attention, options);
    const Backward cpu = backward_on_cpu(table, attention, options);
    REQUIRE(run.witness == cpu.witness);
    REQUIRE(run.dkv_witness == cpu.dkv_witness);
    ++runs;
  }
  const Table table = schedules::build(schedules::select("descending"), problem);
  for (const Mode mode : {Mode::atomic, Mode::no_reduce}) {
    CAPTURE(mode_name(mode));
    check_on_hopper(table, attention, exact,
                    {.mode = mode, .dtype = Dtype::fp16, .timeout = kHopperPatience}, 4);
  }
  check_on_hopper(table, attention, exact,
                  {.dtype = Dtype::fp16, .release = Release::delayed, .timeout = kHopperPatience},
                  4);
  return runs;
}

TEST_CASE("hopper: every schedule and mode, and the CPU's order") {
  if (!has_hopper()) return;
  std::int64_t runs = 0;
  for (const char* mask : {"full", "causal"}) {
    // K and V in two places, in one, and a tile in two steps.
    for (const hopper::Shape& shape :
         {hopper::kShapes[2], hopper::kShapes[4], hopper::kShapes[5]}) {
      CAPTURE(mask, shape.head_dim, shape.tile_q);
      runs += check_schedules(hopper_problem(mask, {768, 768}, shape, 4), shape.head_dim);
      runs += check_schedules(
          hopper_problem(mask, {768, 768}, shape, 4, {.heads_kv = 1, .span = 2}), shape.head_dim);
      runs +=
          check_schedules(hopper_problem(mask, {768, 768}, shape, 4,
                                         {.heads_kv = 1, .span = 2, .combine = Combine::ordered}),
                          shape.head_dim);
    }
  }
  CHECK(runs > 90);
}

TEST_CASE("hopper: random tables finish or hang as the liveness check says") {
  if (!has_hopper()) return;
  Random random(20261121);
  std::int64_t hanging = 0;
  std::int64_t finished = 0;
  for (int round = 0; round < 60; ++round) {
    const hopper::Shape& shape = hopper::kShapes[random.chance(2) ? 2 : 5];  // one step, and two
    CAPTURE(round, shape.head_dim);
    const Grouping grouping{.heads_kv = random.chance(2) ? 2 : 1, .span = 0};
    const Problem problem =
        hopper_problem(random.chance(2) ? "full" : "causal", {384, 384}, shape, 2, grouping);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = random.chance(2) ? test::random_table(random, problem, dispatch)
                                         : test::random_live_table(random, problem, dispatch);
    const bool live = dag::check_liveness(table, {.model = Model::overlap}).live;
    const Attention attention = hopper_attention(problem, shape.head_dim);
    const Backward run =
        backward_on_hopper(table, attention, {.dtype = Dtype::bf16, .timeout = kHopperImpatience});
    REQUIRE(run.outcome == (live ? Outcome::finished : Outcome::deadlock));
    REQUIRE(order_faults(table, run).empty());
    REQUIRE(waits(table, run).empty() == live);
    (live ? finished : hanging) += 1;
  }
  CHECK(hanging > 5);
  CHECK(finished > 20);
}

TEST_CASE("hopper: a delayed release that hangs in the model hangs, in steps too") {
  if (!has_hopper()) return;
  for (const hopper::Shape& shape : {hopper::kShapes[2], hopper::kShapes[5]}) {
    CAPTURE(shape.head_dim);
    const Problem problem = hopper_problem("full", {512, 512}, shape, 1);
    const Table table = schedules::build(schedules::select("shift"), problem);
    const Timing timing{.model = Model::overlap, .release = Release::delayed};
    REQUIRE_FALSE(dag::check_liveness(table, timing).live);
    const Backward run = backward_on_hopper(
        table, hopper_attention(problem, shape.head_dim),
        {.dtype = Dtype::bf16, .release = Release::delayed, .timeout = kHopperImpatience});
    CHECK(run.outcome == Outcome::deadlock);
    CHECK(waits(table, run).size() == 4);
  }
}

TEST_CASE("hopper: untimed runs end with one that is stopped") {
  if (!has_hopper()) return;
  const Problem problem = hopper_problem("full", {512, 512}, hopper::kShapes[2], 1);
  Table table = schedules::build(schedules::select("shift"), problem);
  table.slots.front().rank = 100;
  const UntimedRuns untimed =
      untimed_runs_on_hopper(table, hopper_attention(problem, 64),
                             {.dtype = Dtype::bf16, .timeout = kHopperImpatience}, 2, 5);
  CHECK(untimed.elapsed_ns.empty());
  CHECK(untimed.last.outcome == Outcome::timeout);
}

TEST_CASE("hopper: what it does not run is refused") {
  const Problem problem = make_problem(make_mask("full"), {256, 256}, {.q = 96, .kv = 128}, 1, 0);
  CHECK_FALSE(hopper_refusal(problem, attention_shape(problem, 64), Dtype::bf16).empty());
  const Problem fits = hopper_problem("full", {256, 256}, {64, 128}, 1);
  CHECK_FALSE(hopper_refusal(fits, attention_shape(fits, 96), Dtype::bf16).empty());
  CHECK_FALSE(hopper_refusal(fits, attention_shape(fits, 64), Dtype::fp32).empty());
}

TEST_CASE("hopper: untimed runs take time and leave the bits of stamped ones") {
  if (!has_hopper()) return;
  for (const Grouping& grouping :
       {Grouping{}, Grouping{.heads_kv = 2, .span = 2, .combine = Combine::ordered}}) {
    const Problem problem = hopper_problem("causal", {1024, 1024}, {64, 128}, 8, grouping);
    const Table table = schedules::build(schedules::select("descending"), problem);
    const Attention attention = hopper_attention(problem, 64);
    const BackwardOptions options{.dtype = Dtype::bf16, .timeout = kHopperPatience, .perturb = 3};
    const UntimedRuns untimed = untimed_runs_on_hopper(table, attention, options, 2, 5);
    REQUIRE(untimed.elapsed_ns.size() == 5);
    CHECK(*std::min_element(untimed.elapsed_ns.begin(), untimed.elapsed_ns.end()) > 1000);
    CheckedRuns checked = check_runs(table, attention, nullptr, options, 1, backward_on_hopper);
    check_untimed_runs(untimed, options.mode, checked);
    CHECK(checked.verdict == RunVerdict::ok);
    CHECK(checked.untimed_median_ns.has_value());
  }
}

}  // namespace
}  // namespace stagger::gpu
