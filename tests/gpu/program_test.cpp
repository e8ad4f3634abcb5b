// Programs of lanes that wait for nobody, written out by hand: which are sound, in which order they
// add, and gradients of every way to make them against double precision.

#include "gpu/check/program.hpp"

#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/program_executor.hpp"
#include "tests/gpu/program_case.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace stagger::gpu {
namespace {

/// Two heads of 3 x 3 tiles of 2 tokens under a causal mask.
Problem program_problem() {
  return make_problem(make_mask("causal"), {6, 6}, {2, 2}, 2, 2);
}

/// A lane for each head, its KV tiles upwards.
Program lane_a_head() {
  Program program{.problem = program_problem(), .kernels = {{}}};
  for (const std::int32_t head : {0, 1}) {
    program.kernels[0].lanes.emplace_back();
    for (const std::int32_t kv : {0, 1, 2})
      program.kernels[0].lanes.back().push_back(stint_of(program.problem, Makes::all, head, kv));
  }
  return program;
}

/// A lane for each KV tile, even tiles into one buffer of dQ and odd ones into another: two
/// kernels, so that tiles 0 and 2 do not meet in a buffer.
Program two_buffers() {
  Program program{.problem = program_problem(), .kernels = {{}, {}}, .buffers = 2};
  for (const std::int32_t head : {0, 1}) {
    for (const std::int32_t kv : {0, 1, 2})
      program.kernels[kv == 2 ? 1 : 0].lanes.push_back(
          {stint_of(program.problem, Makes::all, head, kv, kv % 2)});
  }
  return program;
}

/// dK and dV by KV tile, then dQ by Q tile.
Program two_kernels() {
  Program program{.problem = program_problem(), .kernels = {{}, {}}};
  for (const std::int32_t head : {0, 1}) {
    for (const std::int32_t tile : {2, 0, 1}) {
      program.kernels[0].lanes.push_back({stint_of(program.problem, Makes::dkv, head, tile)});
      program.kernels[1].lanes.push_back({stint_of(program.problem, Makes::dq, head, tile)});
    }
  }
  return program;
}

TEST_CASE("a program is sound if each task is made once and lanes share nothing") {
  for (const Program& sound : {lane_a_head(), two_buffers(), two_kernels()})
    CHECK_FALSE(fault_of(sound));
  const auto fault = [](Program program, auto change) {
    change(program);
    return fault_of(program).value_or("sound");
  };
  const auto lanes = [](Program & program, std::size_t kernel = 0) -> auto& {
    return program.kernels[kernel].lanes;
  };
  CHECK(fault(lane_a_head(), [&](Program& each) { lanes(each)[1].pop_back(); }) ==
        "dQ lacks tasks");
  CHECK(fault(two_kernels(), [&](Program& each) { lanes(each).pop_back(); }) ==
        "dK and dV lack tasks");
  CHECK(fault(two_kernels(), [&](Program& each) { lanes(each, 1).pop_back(); }) ==
        "dQ lacks tasks");
  CHECK(fault(two_kernels(), [&](Program& each) { lanes(each, 1).push_back(lanes(each, 1)[0]); }) ==
        "two lanes add to one tile");
  CHECK(fault(two_kernels(), [&](Program& each) {
          lanes(each, 1)[0].push_back(lanes(each, 1)[0][0]);
        }) == "(head 0, kv 2, q 2) is added to dQ twice");
  CHECK(fault(two_kernels(), [&](Program& each) { lanes(each)[0].push_back(lanes(each)[0][0]); }) ==
        "(head 0, kv 2, q 2) is added to dK and dV twice");
  // A lane of its own for each KV tile: they all add to the Q tiles behind them.
  CHECK(fault(lane_a_head(), [&](Program& each) {
          lanes(each).push_back({lanes(each)[0][2]});
          lanes(each)[0].pop_back();
        }) == "two lanes add to one tile");
  CHECK(fault(two_buffers(), [](Program& each) { each.buffers = 1; }) == "no such dQ buffer");
  CHECK(fault(two_buffers(), [&](Program& each) { lanes(each)[0][0].buffer = -1; }) ==
        "no such dQ buffer");
  CHECK(fault(lane_a_head(), [&](Program& each) {
          lanes(each)[0][0].tasks.back() = {Head{0}, KvTile{2}, QTile{0}};
        }) == "(head 0, kv 2, q 0) is no live tile");
  CHECK(fault(lane_a_head(), [&](Program& each) {
          lanes(each)[0][0].tasks.back() = {Head{2}, KvTile{0}, QTile{0}};
        }) == "(head 2, kv 0, q 0) is no live tile");
  CHECK(fault(lane_a_head(), [&](Program& each) {
          std::swap(lanes(each)[0][0].tasks[1], lanes(each)[0][1].tasks[0]);
        }) == "a stint of two KV tiles");
}

TEST_CASE("a program's order is that of its text, buffer by buffer and head by head") {
  const auto tiles = [](std::vector<std::int32_t> values) {
    std::vector<KvTile> all;
    for (const std::int32_t value : values)
      all.push_back(KvTile{value});
    return all;
  };
  const ProgramOrder split = order_of(two_buffers());
  CHECK(split.head_tasks == 6);
  REQUIRE(split.added.size() == 2 * 2 * 3);
  for (const std::size_t head : {0U, 1U}) {
    CHECK(split.added[3 * head] == tiles({0}));
    CHECK(split.added[3 * head + 1] == tiles({0}));
    CHECK(split.added[3 * head + 2] == tiles({0, 2}));
    CHECK(split.added[6 + 3 * head].empty());
    CHECK(split.added[6 + 3 * head + 1] == tiles({1}));
    CHECK(split.added[6 + 3 * head + 2] == tiles({1}));
  }
  CHECK(split.place == std::vector<std::int64_t>{0, 1, 2, -1, 3, 4, -1, -1, 5});
  CHECK(split.place_of({Head{1}, KvTile{1}, QTile{2}}, 3) == 6 + 4);
  // Kernels of dK and dV add nothing to dQ.
  const ProgramOrder apart = order_of(two_kernels());
  CHECK(apart.added[2] == tiles({0, 1, 2}));
  CHECK(apart.added[5] == tiles({0, 1, 2}));
}

TEST_CASE("every way to make gradients makes those of double precision") {
  for (const Program& program : {lane_a_head(), two_buffers(), two_kernels()}) {
    for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
      const AttentionShape shape = attention_shape(program.problem, 4);
      const Attention attention = make_attention(program.problem, shape, random_inputs(shape, 3));
      const ReferenceGradients exact = reference_gradients(attention);
      const ProgramRun run =
          program_on_cpu(program, attention, {.dtype = dtype, .threads = 2, .keep_partials = true});
      const double bound = error_bound(shape, dtype);
      CAPTURE(program.kernels.size(), program.buffers, dtype_name(dtype));
      CHECK(deviation(run.gradients.dq, exact.dq).most <= bound);
      CHECK(deviation(run.gradients.dk, exact.dk).most <= bound);
      CHECK(deviation(run.gradients.dv, exact.dv).most <= bound);
      CHECK(run.witness == order_of(program).added);
      CHECK(run.dq_sums.empty() == (dtype == Dtype::fp32));
      CHECK(run.dk_heads.empty());
      CHECK(run.elapsed_ns > 0);
      CHECK(run.partials.size() == 12 * 2 * 4);
      CHECK(reaccumulate(program, shape, run.partials) == run.dq_added());
      const ProgramRun again = program_on_cpu(program, attention, {.dtype = dtype, .perturb = 5});
      CHECK(again.gradients.dq == run.gradients.dq);
      CHECK(again.gradients.dk == run.gradients.dk);
      CHECK(again.partials.empty());
    }
  }
}

TEST_CASE("heads that share K and V are added upwards, rounded before or after") {
  Program program{.problem = make_problem(make_mask("full"), {2, 2}, {2, 2}, 4, 2,
                                          {.heads_kv = 2, .span = 1, .combine = Combine::partials}),
                  .kernels = {{}}};
  for (const std::int32_t head : {0, 1, 2, 3})
    program.kernels[0].lanes.push_back({stint_of(program.problem, Makes::all, head, 0)});
  const AttentionShape shape = attention_shape(program.problem, 1);
  // Two keys of each of four heads: 1 + 2^-8 is no bf16 and becomes 1, 1 + 2^-7 is one.
  const std::vector<float> heads = {1.00390625F, 2, 0.00390625F, 3, 5, 6, 7, 8};
  program.head_sums = HeadSums::fp32;
  CHECK(sum_of_heads(program, shape, heads, 2, Dtype::fp32) ==
        std::vector<float>{2.015625F, 10, 24, 28});
  CHECK(sum_of_heads(program, shape, heads, 1, Dtype::bf16) ==
        std::vector<float>{1.0078125F, 5, 12, 14});
  program.head_sums = HeadSums::rounded;
  CHECK(sum_of_heads(program, shape, heads, 1, Dtype::bf16) == std::vector<float>{1, 5, 12, 14});

  const Attention attention = make_attention(program.problem, shape, random_inputs(shape, 3));
  const ReferenceGradients exact = reference_gradients(attention);
  for (const HeadSums sums : {HeadSums::fp32, HeadSums::rounded}) {
    program.head_sums = sums;
    const ProgramRun run = program_on_cpu(program, attention, {});
    CHECK(run.dk_heads.size() == 4 * 2);
    CHECK(deviation(run.gradients.dk, exact.dk).most <= error_bound(shape, Dtype::fp32));
    CHECK(deviation(run.gradients.dv, exact.dv).most <= error_bound(shape, Dtype::fp32));
    CHECK(run.gradients.dk == sum_of_heads(program, shape, run.dk_heads,
                                           static_cast<float>(shape.scale()), Dtype::fp32));
  }
}

TEST_CASE("a program that takes too long is stopped, and the same one with time enough is not") {
  const Problem problem = make_problem(make_mask("full"), {256, 256}, {16, 16}, 1, 1);
  const AttentionShape shape = attention_shape(problem, 64);
  const Attention attention = unjudged_attention(problem, shape, random_inputs(shape, 1));
  for (const Program& program : {workers(problem, 2), owners(problem, 2)}) {
    ProgramOptions options{.threads = 2, .timeout = std::chrono::milliseconds(1)};
    CHECK(program_on_cpu(program, attention, options).outcome == Outcome::timeout);
    options.timeout = std::chrono::minutes(10);
    CHECK(program_on_cpu(program, attention, options).outcome == Outcome::finished);
  }
}

TEST_CASE("the bytes of a run are those of its arrays") {
  const Program program = two_buffers();
  const AttentionShape shape = attention_shape(program.problem, 4);
  // 48 elements of Q and of K: inputs, what is exact, three sets of gradients, dQ's buffers.
  constexpr std::int64_t kElements = 2 * 6 * 4;
  const std::int64_t bare =
      4 * 4 * kElements + 8 * 4 * kElements + 3 * 4 * 4 * kElements + 2 * 4 * kElements + 12 * 200;
  CHECK(run_bytes(program, shape, false) == bare);
  CHECK(run_bytes(program, shape, true) == bare + 12 * 4 * 2 * 4);
  Program wide = program;
  wide.problem = make_problem(make_mask("causal"), {6, 6}, {2, 2}, 2, 2,
                              {.heads_kv = 1, .span = 1, .combine = Combine::partials});
  const AttentionShape shared = attention_shape(wide.problem, 4);
  const std::int64_t less = (4 * 2 + 8 * 2 + 3 * 4 * 2) * (kElements / 2);  // one head of K and V
  CHECK(run_bytes(wide, shared, false) == bare - less);
  wide.head_sums = HeadSums::fp32;
  CHECK(run_bytes(wide, shared, false) == bare - less + 2 * 2 * 4 * kElements);
}

}  // namespace
}  // namespace stagger::gpu
