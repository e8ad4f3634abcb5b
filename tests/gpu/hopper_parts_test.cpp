#include "core/token_mask.hpp"
#include "dag/liveness.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/masked_tiles.hpp"
#include "gpu/hopper/hopper.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hopper.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <map>
#include <string>

namespace stagger::gpu {
namespace {

using test::Random;

TEST_CASE("hopper: chains of one, some and all heads of a KV head, in every shape and format") {
  if (!has_hopper()) return;
  std::int64_t cases = 0;
  for (const hopper::Shape& shape : hopper::kShapes) {
    for (const char* mask : {"causal", "sliding:left=100,right=30"}) {
      for (const std::int64_t span : {1, 2, 3, 6}) {
        // Ragged tiles, and with the window KV tiles that nobody sees.
        const Problem problem =
            hopper_problem(mask, {300, 700}, shape, 12, {.heads_kv = 2, .span = span});
        const Attention attention = hopper_attention(problem, shape.head_dim);
        const ReferenceGradients exact = reference_gradients(attention);
        for (const char* schedule : {"lpt-descending", "spt"}) {
          const Table table = schedules::build(schedules::select(schedule), problem);
          const Dtype dtype = kHopperDtypes[cases % 2];
          CAPTURE(mask, shape.head_dim, shape.tile_q, span, schedule, dtype_name(dtype));
          check_on_hopper(table, attention, exact,
                          {.dtype = dtype, .timeout = kHopperPatience, .perturb = 3}, 3);
          ++cases;
        }
      }
    }
  }
  CHECK(cases == std::ssize(hopper::kShapes) * 2 * 4 * 2);
}

TEST_CASE("hopper: a part's dK and dV are added again by the host, and its order of heads counts") {
  if (!has_hopper()) return;
  for (const hopper::Shape& shape : {hopper::kShapes[2], hopper::kShapes[5]}) {
    std::map<std::int64_t, std::string> by_span;
    for (const std::int64_t span : {1, 2, 4}) {
      CAPTURE(shape.head_dim, span);
      const Problem problem =
          hopper_problem("causal", {512, 512}, shape, 8, {.heads_kv = 2, .span = span});
      const Attention attention = hopper_attention(problem, shape.head_dim);
      const BackwardOptions options{.dtype = Dtype::bf16, .timeout = kHopperPatience};
      const auto run = [&](const char* schedule) {
        const CheckedRuns runs = check_runs(schedules::build(schedules::select(schedule), problem),
                                            attention, nullptr, options, 2, backward_on_hopper);
        CHECK(runs.verdict == RunVerdict::ok);
        CHECK(runs.reaccumulated == true);
        CHECK(runs.run.dk_partials.empty() == (span == 4));
        return runs.digests.dk;
      };
      by_span[span] = run("symmetric-shift");
      if (span > 1) CHECK(run("symmetric-shift:order=head-major") != by_span[span]);
    }
    CHECK(by_span[1] != by_span[2]);
    CHECK(by_span[2] != by_span[4]);
  }
}

/// Holds a run whose parts were added in order to the CPU's order of parts, and dK and dV to the
/// sums that were left.
void check_parts(const Table& table, const Attention& attention, const BackwardOptions& options) {
  const Backward run = backward_on_hopper(table, attention, options);
  const Backward cpu = backward_on_cpu(table, attention, options);
  REQUIRE(run.outcome == Outcome::finished);
  REQUIRE(run.witness == cpu.witness);
  REQUIRE(run.dkv_witness == cpu.dkv_witness);
  REQUIRE(run.dkv_lock_values == cpu.dkv_lock_values);
  Backward ended = run;
  end_dkv(ended, static_cast<float>(attention.shape.scale()), options.dtype);
  REQUIRE(digests(ended.gradients) == digests(run.gradients));
}

TEST_CASE("hopper: parts added in order have the reference's gradients and the table's order") {
  if (!has_hopper()) return;
  Random random(test::seed(20261124));
  std::int64_t cases = 0;
  for (const hopper::Shape& shape : hopper::kShapes) {
    // Ragged tiles, and with the window KV tiles that nobody sees and that own no rank.
    for (const char* mask : {"causal", "sliding:left=100,right=30"}) {
      for (const std::int64_t span : {1, 2, 3}) {
        const Problem problem =
            hopper_problem(mask, {300, 700}, shape, 12,
                           {.heads_kv = 2, .span = span, .combine = Combine::ordered});
        const Attention attention = hopper_attention(problem, shape.head_dim);
        const ReferenceGradients exact = reference_gradients(attention);
        for (const char* schedule : {"lpt-descending", "spt", "descending"}) {
          const Table table = schedules::build(schedules::select(schedule), problem);
          const BackwardOptions options{
              .dtype = kHopperDtypes[cases % 2], .timeout = kHopperPatience, .perturb = 3};
          CAPTURE(mask, shape.head_dim, shape.tile_q, span, schedule, dtype_name(options.dtype));
          check_on_hopper(table, attention, exact, options, 3);
          check_parts(table, attention, {.dtype = options.dtype, .timeout = kHopperPatience});
          ++cases;
        }
      }
    }
  }
  CHECK(cases == std::ssize(hopper::kShapes) * 2 * 3 * 3);
}

TEST_CASE("hopper: parts added in order beside masks told bit by bit, and dropout") {
  if (!has_hopper()) return;
  constexpr const char* kInBits =
      "sliding:left=30,right=0 | global:tokens=5+40+200+333,symmetric=true & causal";
  for (const hopper::Shape& shape : hopper::kShapes) {
    const Problem problem = hopper_problem(kInBits, {520, 520}, shape, 6,
                                           {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
    REQUIRE_FALSE(cuda::masked_tiles(problem, TokenMask(problem)).bits().empty());
    const Table table = schedules::build(schedules::select("spt"), problem);
    for (const Dtype dtype : kHopperDtypes) {
      CAPTURE(shape.head_dim, shape.tile_q, dtype_name(dtype));
      const BackwardOptions options{.dtype = dtype, .timeout = kHopperPatience, .perturb = 5};
      const Attention all = hopper_attention(problem, shape.head_dim);
      check_on_hopper(table, all, reference_gradients(all), options, 2);
      check_parts(table, all, {.dtype = dtype, .timeout = kHopperPatience});
      const Attention dropped = hopper_dropped(problem, shape.head_dim, {.probability = 0.1});
      check_on_hopper(table, dropped, reference_gradients(dropped), options, 2);
      check_parts(table, dropped, {.dtype = dtype, .timeout = kHopperPatience});
    }
  }
}

TEST_CASE("hopper: the ranks of parts are the order of their sum, whatever they are") {
  if (!has_hopper()) return;
  for (const hopper::Shape& shape : {hopper::kShapes[1], hopper::kShapes[5]}) {
    // An SM for every chain, so that whatever their ranks none is launched too late.
    const Problem problem =
        make_problem(parse_mask("causal"), {512, 512}, {.q = shape.tile_q, .kv = hopper::kTileKv},
                     8, 32, {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
    const Attention attention = hopper_attention(problem, shape.head_dim);
    const BackwardOptions options{.dtype = Dtype::bf16, .timeout = kHopperPatience};
    const Table table = schedules::build(schedules::select("lpt-descending"), problem);
    const auto sums = [&](std::int32_t shift) {
      Table turned = table;
      turned.dkv_ranks.assign(problem.chains(), 0);
      for (Part part{0}; part.value < problem.parts(); ++part) {
        for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
          turned.dkv_ranks[problem.chain_place(part, kv)] = (part.value + shift) % 4;
      }
      REQUIRE(dag::check_liveness(turned, {.model = Model::overlap}).live);
      const CheckedRuns runs =
          check_runs(turned, attention, nullptr, options, 2, backward_on_hopper);
      CHECK(runs.verdict == RunVerdict::ok);
      CHECK(runs.reaccumulated == true);
      check_parts(turned, attention, options);
      return digest(runs.run.dk_sums) + digest(runs.run.dv_sums);
    };
    const std::string upwards = sums(0);
    CHECK(sums(0) == upwards);
    CHECK(sums(1) != upwards);  // 3 0 1 2 in the place of 0 1 2 3
  }
}

TEST_CASE("hopper: a lane that has a later part before an earlier one hangs at dK and dV") {
  if (!has_hopper()) return;
  for (const hopper::Shape& shape : {hopper::kShapes[0], hopper::kShapes[5]}) {
    Table table;
    table.problem = hopper_problem("full", {shape.tile_q, hopper::kTileKv}, shape, 2,
                                   {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
    table.slots = {{{Head{1}, KvTile{0}, QTile{0}}, 0}, {{Head{0}, KvTile{0}, QTile{0}}, 0}};
    table.end_lane();
    REQUIRE_FALSE(dag::check_liveness(table, {.model = Model::overlap}).live);
    const Attention attention = hopper_attention(table.problem, shape.head_dim);
    for (const Mode mode : {Mode::deterministic, Mode::no_reduce}) {
      CAPTURE(shape.head_dim, mode_name(mode));
      const Backward run = backward_on_hopper(
          table, attention, {.mode = mode, .dtype = Dtype::bf16, .timeout = kHopperImpatience});
      CHECK(run.outcome == Outcome::deadlock);
      CHECK(run.dkv_lock_values == std::vector<std::int32_t>{0});
      const std::vector<Wait> waiting = waits(table, run);
      REQUIRE(waiting.size() == 1);
      CHECK(waiting[0].dkv);
      CHECK(waiting[0].rank == 1);
      CHECK(std::isnan(run.gradients.dk[0]));
    }
  }
}

TEST_CASE("hopper: random tables with parts in order finish wherever the liveness check says so") {
  if (!has_hopper()) return;
  Random random(test::seed(20261125));
  std::int64_t hanging = 0;
  std::int64_t at_dkv = 0;
  std::int64_t finished = 0;
  for (int round = 0; round < 120; ++round) {
    const hopper::Shape& shape = hopper::kShapes[random.chance(2) ? 2 : 5];  // one step, and two
    CAPTURE(round, shape.head_dim);
    Problem problem = hopper_problem(
        random.chance(2) ? "full" : "causal", {384, 384}, shape, 4,
        {.heads_kv = random.chance(2) ? 2 : 1, .span = 1, .combine = Combine::ordered});
    problem.sms = static_cast<std::int32_t>(random.between(3, 24));  // for 12 chains
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = random.chance(3) ? test::random_table(random, problem, dispatch)
                                   : test::random_live_table(random, problem, dispatch);
    test::perhaps_shuffle_dkv_ranks(random, table);
    const bool live = dag::check_liveness(table, {.model = Model::overlap}).live;
    const Attention attention = hopper_attention(problem, shape.head_dim);
    const Backward run =
        backward_on_hopper(table, attention, {.dtype = Dtype::bf16, .timeout = kHopperImpatience});
    // The kernel asks for dK's and dV's turn while the chain's last dQ waits for its own, where the
    // check has one behind the other: what hangs there may finish here, but not the other way.
    const bool ends = run.outcome == Outcome::finished;
    if (live) REQUIRE(ends);
    REQUIRE(run.outcome != Outcome::timeout);
    REQUIRE(order_faults(table, run).empty());
    REQUIRE(waits(table, run).empty() == ends);
    for (const Wait& wait : waits(table, run))
      at_dkv += wait.dkv ? 1 : 0;
    (ends ? finished : hanging) += 1;
  }
  CHECK(hanging > 5);
  CHECK(at_dkv > 5);
  CHECK(finished > 10);
}

}  // namespace
}  // namespace stagger::gpu
