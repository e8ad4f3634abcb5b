// Designs run for real: gradients against double precision, bits that move with what the plan says
// and with nothing else, and orders witnessed. The executor of tables is an oracle for the orders.

#include "core/error.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/cpu/program_executor.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "workbench/designs/execution.hpp"
#include "workbench/designs/split.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace stagger::designs {
namespace {

constexpr std::array kRun = {"split",         "split:buffers=3",     "split-best",
                             "two-pass",      "two-pass:launches=2", "opentau",
                             "opentau:tile=8"};

Problem tokens(const char* mask, std::int64_t seq, TileShape shape, std::int64_t heads,
               std::int64_t sms) {
  return make_problem(parse_mask(mask), {seq, seq}, shape, heads, sms);
}

ExecutionRequest asked(const char* design, Problem problem) {
  return {.selection = select(design),
          .request = {.problem = std::move(problem), .head_dim = 8},
          .repeats = 3,
          .perturb = 1,
          .threads = 3};
}

/// The gradients of one run, by a program's text.
gpu::ProgramRun run_of(const char* design, const Problem& problem,
                       gpu::Dtype dtype = gpu::Dtype::fp32) {
  const Request request{.problem = problem, .head_dim = 8};
  const Selection selection = select(design);
  const gpu::Program program = program_of(*selection.design, plan(selection, request));
  const gpu::AttentionShape shape = gpu::attention_shape(program.problem, 8);
  const gpu::Attention attention =
      gpu::make_attention(program.problem, shape, gpu::random_inputs(shape, 7));
  return gpu::program_on_cpu(program, attention, {.dtype = dtype, .threads = 2});
}

TEST_CASE("designs run right, with the same bits and in their own order") {
  for (const char* design : kRun) {
    for (const gpu::Dtype dtype : {gpu::Dtype::fp32, gpu::Dtype::bf16, gpu::Dtype::fp16}) {
      CAPTURE(design, gpu::dtype_name(dtype));
      ExecutionRequest request = asked(design, tokens("causal", 70, {16, 12}, 3, 8));
      request.dtype = dtype;
      const Execution execution = execute(request);
      for (const gpu::RunFault& fault : execution.faults)
        FAIL_CHECK(fault.message);
      CHECK(execution.repeats == 3);
      CHECK(execution.identical);
      CHECK(execution.order_matches);
      CHECK(execution.reaccumulated == true);
      REQUIRE(execution.errors.has_value());
      CHECK(execution.errors->dk.frobenius > 0);
    }
  }
}

TEST_CASE("every mask runs by every design") {
  int seen = 0;
  for (const Problem& problem : test::every_small_mask()) {
    if (problem.common_grid().live_tiles() == 0) continue;
    for (const char* design : kRun) {
      if (is_of_tiles(problem.mask) && design == std::string("opentau:tile=8")) continue;
      CAPTURE(describe(problem), design);
      ExecutionRequest request = asked(design, problem);
      request.repeats = 2;
      CHECK(execute(request).verdict() == std::string("ok"));
      ++seen;
    }
  }
  CHECK(seen > 100);
}

TEST_CASE("heads that share K and V run by every design that knows them") {
  const Problem problem = make_problem(make_mask("causal"), {40, 40}, {8, 8}, 6, 4,
                                       {.heads_kv = 2, .span = 1, .combine = Combine::partials});
  for (const char* design : {"split", "two-pass:launches=2", "opentau"}) {
    for (const gpu::Dtype dtype : {gpu::Dtype::fp32, gpu::Dtype::bf16}) {
      CAPTURE(design, gpu::dtype_name(dtype));
      ExecutionRequest request = asked(design, problem);
      request.dtype = dtype;
      CHECK(execute(request).verdict() == std::string("ok"));
    }
  }
  CHECK_THROWS_AS(execute(asked("two-pass", problem)), Error);
}

/// dQ of one head, or dK or dV, as bytes compare.
std::vector<float> head_of(const std::vector<float>& all, std::size_t heads) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / heads)};
}

struct Bits {
  std::vector<float> dq, dk, dv;
  friend bool operator==(const Bits&, const Bits&) = default;
};
/// The bits of head 0: inputs are drawn by element, so that it has the same numbers among any
/// number of heads.
Bits first_head(const char* design, const Problem& problem) {
  const gpu::Gradients gradients = run_of(design, problem).gradients;
  const auto heads = static_cast<std::size_t>(problem.heads);
  return {head_of(gradients.dq, heads), head_of(gradients.dk, heads), head_of(gradients.dv, heads)};
}

TEST_CASE("bits move with what the plan says and with nothing else") {
  const auto problem = [](std::int64_t heads, std::int64_t sms, TileShape shape) {
    return tokens("causal", 96, shape, heads, sms);
  };
  for (const char* design : kRun) {
    CAPTURE(design);
    const Problem base = problem(3, 8, {16, 16});
    const Plan planned = plan(select(design), {.problem = base, .head_dim = 8});
    const auto says = [&](const std::string& word) {
      return std::ranges::count(planned.bits_depend_on, word) > 0;
    };
    const Bits bits = first_head(design, base);
    CHECK(bits == first_head(design, base));
    // SMs: some other number moves them, or none does.
    bool moved = false;
    for (const std::int64_t sms : {1, 2, 4, 7, 16})
      moved = moved || first_head(design, problem(3, sms, {16, 16})) != bits;
    CHECK(moved == says("sms"));
    moved = false;
    for (const std::int64_t heads : {1, 2, 5, 8})
      moved = moved || first_head(design, problem(heads, 8, {16, 16})) != bits;
    CHECK(moved == says("batch"));
    const bool by_kv = first_head(design, problem(3, 8, {16, 32})) != bits;
    const bool by_q = first_head(design, problem(3, 8, {32, 16})) != bits;
    CHECK(by_kv == says("tile-kv"));
    CHECK(by_q == says("tile-q"));
  }
  // Another number of buffers; launches are no order.
  const Problem base = problem(3, 8, {16, 16});
  CHECK(first_head("split:buffers=2", base) != first_head("split:buffers=3", base));
  CHECK(first_head("split:buffers=2", base).dk == first_head("split:buffers=3", base).dk);
  CHECK(first_head("two-pass", base) == first_head("two-pass:launches=2", base));
  CHECK(first_head("split", base) == first_head("split:buffers=3", base));  // ceil(8 / 3)
}

TEST_CASE("an order is an order, whoever keeps it") {
  // One buffer: KV tiles upwards, Q tiles downwards, as a table of the house has them.
  const Problem problem = tokens("causal", 64, {16, 16}, 2, 1);
  const Table table = schedules::build(schedules::select("lpt-descending"), problem);
  const gpu::AttentionShape shape = gpu::attention_shape(problem, 8);
  const gpu::Attention attention =
      gpu::make_attention(problem, shape, gpu::random_inputs(shape, 7));
  const gpu::Backward ordered = gpu::backward_on_cpu(table, attention, {.threads = 1});
  const gpu::ProgramRun split = run_of("split:buffers=1", problem);
  CHECK(split.gradients.dq == ordered.gradients.dq);
  CHECK(split.gradients.dk == ordered.gradients.dk);
  CHECK(split.gradients.dv == ordered.gradients.dv);
  // Upwards on both sides: OpenTau's owners and the ascending schedule.
  const Table ascending = schedules::build(schedules::select("ascending"), problem);
  const gpu::Backward up = gpu::backward_on_cpu(ascending, attention, {.threads = 1});
  const gpu::ProgramRun owners = run_of("opentau", problem);
  CHECK(owners.gradients.dq == up.gradients.dq);
  CHECK(owners.gradients.dk == up.gradients.dk);
}

TEST_CASE("a split's dQ is its buffers, each summed upwards, then added upwards") {
  // By hand, from the partials that one buffer leaves: 5 KV tiles in two buffers.
  const Problem problem = tokens("full", 40, {8, 8}, 1, 2);
  const Request request{.problem = problem, .head_dim = 8};
  const Selection selection = select("split:buffers=2");
  const gpu::Program program = program_of(*selection.design, plan(selection, request));
  const gpu::AttentionShape shape = gpu::attention_shape(problem, 8);
  const gpu::Attention attention =
      gpu::make_attention(problem, shape, gpu::random_inputs(shape, 7));
  const gpu::ProgramRun run =
      gpu::program_on_cpu(program, attention, {.threads = 2, .keep_partials = true});
  const std::size_t elements = 8 * 8;
  for (std::size_t q = 0; q < 5; ++q) {
    for (std::size_t index = 0; index < elements; ++index) {
      const auto of = [&](std::size_t kv) { return run.partials[(kv * 5 + q) * elements + index]; };
      float even = 0;
      float odd = 0;
      for (const std::size_t kv : {0, 2, 4})
        even += of(kv);
      for (const std::size_t kv : {1, 3})
        odd += of(kv);
      CHECK(run.gradients.dq[q * elements + index] == even + odd);
    }
  }
}

TEST_CASE("a program that is not sound says what is wrong") {
  const Problem problem = tokens("full", 2, {1, 1}, 1, 2);
  const Selection selection = select("two-pass");
  const gpu::Program sound =
      program_of(*selection.design, plan(selection, {.problem = problem, .head_dim = 8}));
  CHECK_FALSE(gpu::fault_of(sound));
  gpu::Program twice = sound;
  twice.kernels.push_back(twice.kernels.front());
  CHECK(gpu::fault_of(twice)->find("twice") != std::string::npos);
  gpu::Program lacks = sound;
  lacks.kernels.front().lanes.pop_back();
  CHECK(gpu::fault_of(lacks)->find("lack") != std::string::npos);
  gpu::Program shared = sound;
  shared.kernels.front().lanes[0][1].tasks = {{{0}, {0}, {0}}};
  shared.kernels.front().lanes[1][1].tasks.push_back({{0}, {1}, {0}});
  CHECK(gpu::fault_of(shared)->find("two lanes") != std::string::npos);
}

TEST_CASE("what a run is told of, how far it went, and what of it was asked for") {
  ExecutionRequest request = asked("split:buffers=2", tokens("causal", 40, {8, 8}, 2, 3));
  std::vector<std::pair<std::string, double>> told;
  request.progress = [&](const char* what, double fraction) { told.emplace_back(what, fraction); };
  request.seed = 5;
  request.perturb = 9;
  const Execution whole = execute(request);
  const std::vector<std::pair<std::string, double>> wanted = {
      {"playing the design", 0},
      {"computing what the gradients should be", 0.1},
      {"computing what the gradients should be", 0.4},
      {"running", 0},
      {"running", 1.0 / 3},
      {"running", 2.0 / 3},
      {"running", 1}};
  CHECK(told == wanted);
  CHECK(whole.asked == 3);
  CHECK(whole.repeats == 3);
  CHECK_FALSE(whole.cut_short);
  CHECK(whole.seed == 5);
  CHECK(whole.perturb == 9);
  CHECK(whole.threads == 3);
  CHECK(whole.head_dim == 8);
  CHECK_FALSE(whole.device.empty());
  CHECK(whole.median_ns > 0);
  CHECK(whole.bound == gpu::error_bound(gpu::attention_shape(whole.problem, 8), gpu::Dtype::fp32));
  // 5 GEMMs of 2 x 8 operations for each of 40 x 41 / 2 pairs of 2 heads.
  CHECK(whole.flops == 5 * 2.0 * 8 * 820 * 2);
  CHECK(whole.digests.dq.size() == whole.digests.dk.size());

  std::int64_t stops = 0;
  request.stop = [&] { return ++stops == 2; };
  const Execution cut = execute(request);
  CHECK(cut.cut_short);
  CHECK(cut.repeats == 2);
  CHECK(cut.digests.dq == whole.digests.dq);
  request.stop = [] { return true; };
  request.repeats = 1;
  CHECK_FALSE(execute(request).cut_short);  // all that was asked for is done

  request.reference = workbench::Reference::none;
  request.adds_partials = false;
  request.threads = 0;
  const Execution bare = execute(request);
  CHECK_FALSE(bare.errors.has_value());
  CHECK_FALSE(bare.reaccumulated.has_value());
  CHECK(bare.threads >= 2);
  CHECK(bare.ok());
  request.timeout = std::chrono::milliseconds(1);
  request.request.problem = tokens("full", 512, {16, 16}, 4, 3);
  const Execution slow = execute(request);
  CHECK(slow.verdict() == std::string("timeout"));
  CHECK(slow.repeats == 0);
  REQUIRE(slow.faults.size() == 1);
  CHECK(slow.faults[0].message == "a run took longer than 1 ms, after 0 runs that finished");
  ExecutionRequest table = asked("ordered", tokens("causal", 40, {8, 8}, 2, 3));
  table.request.schedule = schedules::select("spt");
  CHECK_THROWS_WITH(execute(table), "ordered is not run by free lanes");
}

}  // namespace
}  // namespace stagger::designs
