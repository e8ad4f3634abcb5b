#include "core/error.hpp"
#include "core/token_mask.hpp"
#include "dag/liveness.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/masked_tiles.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>

namespace stagger::gpu {
namespace {

using test::Random;

constexpr std::chrono::milliseconds kPatience{10'000};
constexpr std::chrono::milliseconds kImpatience{20};
constexpr Dtype kCudaDtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

Attention attention_of(const Problem& problem, std::int64_t head_dim) {
  const AttentionShape shape = attention_shape(problem, head_dim);
  return make_attention(problem, shape, random_inputs(shape, 11));
}

/// Both devices leave the same: bits, order and partials.
void check_as_on_cpu(const Table& table, const Attention& attention, Dtype dtype = Dtype::fp32) {
  CAPTURE(dtype_name(dtype));
  const BackwardOptions options{.dtype = dtype, .timeout = kPatience, .keep_partials = true};
  const Backward cpu = backward_on_cpu(table, attention, options);
  const Backward cuda = backward_on_cuda(table, attention, options);
  REQUIRE(cpu.outcome == Outcome::finished);
  REQUIRE(cuda.outcome == Outcome::finished);
  REQUIRE(digests(cuda.gradients) == digests(cpu.gradients));
  REQUIRE(digest(cuda.dq_sums) == digest(cpu.dq_sums));
  REQUIRE(digest(cuda.partials) == digest(cpu.partials));
  REQUIRE(cuda.witness == cpu.witness);
  REQUIRE(cuda.lock_values == cpu.lock_values);
  REQUIRE(order_faults(table, cuda).empty());
}

TEST_CASE("every schedule on every mask leaves the CPU's bits and order") {
  std::int64_t runs = 0;
  for (const Problem& problem : test::every_small_mask()) {
    const Attention attention = attention_of(problem, 4);
    for (const schedules::Schedule* schedule : schedules::all()) {
      const schedules::Selection selection = schedules::select(schedule->name);
      if (schedules::why_unsupported(selection, problem)) continue;
      CAPTURE(schedule->name, problem.mask.family->name, problem.heads);
      const Table table = schedules::build(selection, problem);
      for (const Dtype dtype : kCudaDtypes) {
        check_as_on_cpu(table, attention, dtype);
        ++runs;
      }
    }
  }
  CHECK(runs > 450);
}

TEST_CASE("every head_dim and tile shape leaves the CPU's bits") {
  std::int64_t cases = 0;
  for (const TileShape shape :
       {TileShape{.q = 5, .kv = 3}, TileShape{.q = 64, .kv = 64}, TileShape{.q = 64, .kv = 128},
        TileShape{.q = 80, .kv = 128}, TileShape{.q = 128, .kv = 128}}) {
    for (const Problem& problem : test::every_mask({.q = 220, .kv = 220}, shape, 1, 6)) {
      const char* mask = problem.mask.family->name;
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      for (const std::int64_t head_dim : {1, 5, 64, 128}) {
        CAPTURE(mask, shape.q, shape.kv, head_dim);
        const Attention attention = attention_of(problem, head_dim);
        for (const Dtype dtype : kCudaDtypes) {
          check_as_on_cpu(table, attention, dtype);
          ++cases;
        }
      }
    }
  }
  CHECK(cases == 5 * 4 * std::ssize(kCudaDtypes) * test::kinds_of_masks());
}

TEST_CASE("masks told bit by bit leave the CPU's bits, whatever the tiles and groups") {
  Random random(20261123);
  std::int64_t cases = 0;
  std::int64_t split = 0;
  for (const TileShape shape : {TileShape{.q = 5, .kv = 33}, TileShape{.q = 64, .kv = 128},
                                TileShape{.q = 80, .kv = 128}, TileShape{.q = 128, .kv = 64}}) {
    for (const Grouping& grouping : {Grouping{}, Grouping{.heads_kv = 1, .span = 2}}) {
      for (const Problem& problem : test::masks_in_bits(random, {500, 520}, shape, 2, grouping)) {
        const char* mask = problem.mask.family->name;
        CAPTURE(mask, shape.q, shape.kv, problem.span);
        split += cuda::masked_tiles(problem, TokenMask(problem)).bits().empty() ? 0 : 1;
        const Table table = schedules::build(schedules::select("lpt-descending"), problem);
        const Attention attention = attention_of(problem, 16);
        for (const Dtype dtype : kCudaDtypes) {
          check_as_on_cpu(table, attention, dtype);
          ++cases;
        }
      }
    }
  }
  CHECK(cases == 4 * 2 * 5 * std::ssize(kCudaDtypes));
  CHECK(split > 4 * 2 * 4);
}

TEST_CASE("dropout leaves the CPU's bits, of bits that are stored and that are generated") {
  std::int64_t cases = 0;
  for (const TileShape shape : {TileShape{.q = 5, .kv = 3}, TileShape{.q = 64, .kv = 128}}) {
    for (const Problem& problem : test::every_mask({.q = 220, .kv = 220}, shape, 2, 6)) {
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      for (const int bits : {8, 16, 32}) {
        for (const MaskBits mask_bits : {MaskBits::generated, MaskBits::stored}) {
          const char* mask = problem.mask.family->name;
          CAPTURE(mask, shape.q, shape.kv, bits, mask_bits_name(mask_bits));
          const AttentionShape tensors = attention_shape(problem, 8);
          const DropoutOptions options{.probability = 0.2, .bits = bits, .mask_bits = mask_bits};
          const Attention attention =
              make_attention(problem, tensors, random_inputs(tensors, 11),
                             make_dropout(options, tensors.dropout_layout()));
          for (const Dtype dtype : kCudaDtypes) {
            check_as_on_cpu(table, attention, dtype);
            ++cases;
          }
        }
      }
    }
  }
  CHECK(cases >= 2 * 6 * std::ssize(kCudaDtypes) * 10);
}

TEST_CASE("checked runs hold in every mode, perturbed or not") {
  const Problem problem = make_problem(make_mask("causal"), {512, 512}, {64, 64}, 4, 0);
  const Table table = schedules::build(schedules::select("symmetric-shift"), problem);
  const Attention attention = attention_of(problem, 64);
  const ReferenceGradients exact = reference_gradients(attention);
  for (const Mode mode : {Mode::deterministic, Mode::atomic, Mode::no_reduce}) {
    for (const Dtype dtype : kCudaDtypes) {
      CAPTURE(mode_name(mode), dtype_name(dtype));
      const CheckedRuns runs = check_runs(
          table, attention, &exact,
          {.mode = mode, .dtype = dtype, .timeout = kPatience, .perturb = 3}, 6, backward_on_cuda);
      CHECK(runs.verdict == RunVerdict::ok);
      CHECK(runs.median_ns > 0);
      if (mode == Mode::deterministic) CHECK(runs.order_matches);
    }
  }
}

TEST_CASE("random tables finish or hang as the liveness check says, and the GPU is given back") {
  Random random(20260404);
  std::int64_t hanging = 0;
  std::int64_t finished = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Problem problem = test::random_problem(random, 5);
    const Timing timing = test::random_timing(random, problem);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = random.chance(2) ? test::random_table(random, problem, dispatch)
                                         : test::random_live_table(random, problem, dispatch);
    const dag::Liveness liveness = dag::check_liveness(table, timing);
    const Attention attention = attention_of(problem, 1);
    const Backward run = backward_on_cuda(
        table, attention,
        {.release = timing.release, .residency = timing.residency, .timeout = kImpatience});
    REQUIRE(run.outcome == (liveness.live ? Outcome::finished : Outcome::deadlock));
    REQUIRE(order_faults(table, run).empty());
    REQUIRE(waits(table, run).empty() == liveness.live);
    (liveness.live ? finished : hanging) += 1;
  }
  CHECK(hanging > 5);
  CHECK(finished > 20);
}

TEST_CASE(
    "tables of parts in order finish or hang as the liveness check says, at what the CPU says") {
  Random random(test::seed(20261123));
  std::int64_t at_dkv = 0;
  std::int64_t finished = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    Problem problem = test::random_problem(random, 4);
    problem.heads_kv = problem.heads;
    problem.heads *= 2;
    problem = with_span(std::move(problem), 1, Combine::ordered);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    Table table = random.chance(2) ? test::random_table(random, problem, dispatch)
                                   : test::random_live_table(random, problem, dispatch);
    test::perhaps_shuffle_dkv_ranks(random, table);
    const bool live = dag::check_liveness(table, {}).live;
    const Attention attention = attention_of(problem, 1);
    const Backward cpu = backward_on_cpu(table, attention, {.timeout = kPatience});
    const Backward cuda = backward_on_cuda(table, attention, {.timeout = kImpatience});
    REQUIRE(cuda.outcome == (live ? Outcome::finished : Outcome::deadlock));
    REQUIRE(order_faults(table, cuda).empty());
    REQUIRE(cuda.dkv_lock_values == cpu.dkv_lock_values);
    REQUIRE(describe(waits(table, cuda), table.dispatch) ==
            describe(waits(table, cpu), table.dispatch));
    finished += live ? 1 : 0;
    for (const Wait& wait : waits(table, cuda))
      at_dkv += wait.dkv ? 1 : 0;
  }
  CHECK(at_dkv > 5);
  CHECK(finished > 10);
}

TEST_CASE("the block-sparse deadlock is stopped, and the waits are the CPU's") {
  const Problem problem = make_problem(parse_mask("document:lengths=366+25+80+364+149+21+12+3+3+1"),
                                       {1024, 1024}, {128, 128}, 1, 0);
  Table table = schedules::build(schedules::select("fa4-sparse"), problem);
  const Attention attention = attention_of(problem, 8);
  check_as_on_cpu(table, attention);
  use_kv_index_ranks(table);
  const Backward cpu = backward_on_cpu(table, attention, {.timeout = kPatience});
  const Backward cuda = backward_on_cuda(table, attention, {.timeout = kImpatience});
  CHECK(cuda.outcome == Outcome::deadlock);
  CHECK(cuda.lock_values == cpu.lock_values);
  CHECK(describe(waits(table, cuda), table.dispatch) ==
        describe(waits(table, cpu), table.dispatch));
}

TEST_CASE("a wait that is merely long ends in a timeout") {
  // Lane 1's first task waits for lane 0's last.
  Table table;
  table.problem = make_problem(make_mask("full"), {1280, 256}, {128, 128}, 1, 2);
  for (KvTile kv{0}; kv.value < 2; ++kv) {
    for (std::int32_t place = 0; place < 10; ++place)
      table.slots.push_back({{Head{0}, kv, QTile{kv.value == 0 ? place : 9 - place}}, kv.value});
    table.end_lane();
  }
  const Attention attention = attention_of(table.problem, 512);
  CHECK(backward_on_cuda(table, attention, {.timeout = std::chrono::milliseconds(1)}).outcome ==
        Outcome::timeout);
  check_as_on_cpu(table, attention);
}

/// What the device says instead of running a table; empty if it runs.
std::string refusal(const Table& table, const Attention& attention) {
  try {
    static_cast<void>(backward_on_cuda(table, attention, {.timeout = kPatience}));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a run that does not fit is refused before the launch") {
  const CudaDevice device = cuda_device().value();
  const std::int32_t lanes = device.sms + 1;
  const Problem problem = make_problem(make_mask("full"), {1, lanes}, {}, 1, lanes);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Attention attention = attention_of(problem, 4);
  CHECK(refusal(table, attention).find("this device holds " + std::to_string(device.sms)) !=
        std::string::npos);
  CHECK(backward_on_cuda(table, attention, {.residency = device.sms}).outcome == Outcome::finished);

  const Problem wide = make_problem(make_mask("full"), {512, 512}, {512, 512}, 1, 0);
  CHECK(refusal(schedules::build(schedules::select("ascending"), wide), attention_of(wide, 1))
            .find("shared memory") != std::string::npos);
}

TEST_CASE("the measured timeline: each SM's phases follow one another") {
  const Problem problem = make_problem(make_mask("causal"), {1024, 1024}, {64, 64}, 2, 8);
  const Table table = schedules::build(schedules::select("spt"), problem);
  const Backward run = backward_on_cuda(table, attention_of(problem, 64), {.timeout = kPatience});
  REQUIRE(run.outcome == Outcome::finished);
  REQUIRE(run.smids.size() == 8);
  std::vector<std::int32_t> smids = run.smids;
  std::sort(smids.begin(), smids.end());
  CHECK(std::unique(smids.begin(), smids.end()) == smids.end());
  const Timeline timeline = measured_timeline(table, run, "test");
  CHECK(timeline.sms == 8);
  CHECK(timeline.makespan <= run.elapsed_ns);
  CHECK(run.passes_ns == 0);  // it has none
  for (std::size_t index = 1; index < timeline.intervals.size(); ++index) {
    if (timeline.intervals[index - 1].sm != timeline.intervals[index].sm) continue;
    REQUIRE(timeline.intervals[index - 1].end <= timeline.intervals[index].start);
  }
}

}  // namespace
}  // namespace stagger::gpu
