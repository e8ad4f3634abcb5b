#include "core/error.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/numerics/exponential.hpp"
#include "gpu/numerics/rounding.hpp"
#include "schedules/schedule.hpp"
#include "tests/gpu/executor_case.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace stagger::gpu {
namespace {

constexpr Dtype kCpuDtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

/// Checks every property of a table that runs to its end; counts the runs.
void check_table(const Table& table, const Attention& attention, const ReferenceGradients& exact,
                 Dtype dtype, std::uint64_t seed, std::int64_t& runs) {
  CAPTURE(table.name, table.problem.mask.family->name, table.problem.heads, dtype_name(dtype),
          seed);
  const Backward plain = backward_on_cpu(
      table, attention, {.dtype = dtype, .timeout = kPatience, .keep_partials = true});
  REQUIRE(plain.outcome == Outcome::finished);
  check_gradients(plain.gradients, exact, error_bound(attention.shape, dtype));
  REQUIRE(order_faults(table, plain).empty());
  REQUIRE(digest(reaccumulate(table, attention.shape, plain.partials).value()) ==
          digest(plain.dq_added()));
  for (const std::int32_t threads : {1, 3}) {
    BackwardOptions options{.dtype = dtype, .timeout = kPatience, .threads = threads};
    if (seed % 4 == 0) options.perturb = seed;
    const Backward again = backward_on_cpu(table, attention, options);
    REQUIRE(again.outcome == Outcome::finished);
    REQUIRE(digests(again.gradients) == digests(plain.gradients));
    REQUIRE(digest(again.dq_sums) == digest(plain.dq_sums));
    REQUIRE(again.witness == plain.witness);
    ++runs;
  }
}

TEST_CASE("every schedule on every mask gives right gradients, the same bits and its own order") {
  std::int64_t runs = 0;
  std::uint64_t seed = test::seed(0);  // every table in one of the dtypes, in another one next time
  std::vector<Problem> problems = test::every_small_mask();
  for (Problem& problem : test::small_masks_by_head())
    problems.push_back(std::move(problem));
  for (const Problem& problem : problems) {
    const Attention attention = attention_of(problem);
    const ReferenceGradients exact = reference_gradients(attention);
    for (const schedules::Schedule* schedule : schedules::all()) {
      const schedules::Selection selection = schedules::select(schedule->name);
      if (schedules::why_unsupported(selection, problem)) continue;
      const Dtype dtype = kCpuDtypes[++seed % std::size(kCpuDtypes)];
      check_table(schedules::build(selection, problem), attention, exact, dtype, seed, runs);
    }
  }
  CHECK(runs > 300);
}

TEST_CASE("every head_dim and tile shape gives right gradients") {
  std::int64_t cases = 0;
  for (const TileShape shape : {TileShape{.q = 1, .kv = 1}, TileShape{.q = 5, .kv = 3},
                                TileShape{.q = 16, .kv = 8}, TileShape{.q = 64, .kv = 64}}) {
    for (const Problem& problem : test::every_mask({.q = 33, .kv = 38}, shape, 1, 4)) {
      const char* mask = problem.mask.family->name;
      const Table table = schedules::build(schedules::select("lpt-descending"), problem);
      for (const std::int64_t head_dim : {1, 5, 64, 128}) {
        CAPTURE(mask, shape.q, shape.kv, head_dim);
        const Attention attention = attention_of(problem, head_dim);
        const ReferenceGradients exact = reference_gradients(attention);
        for (const Dtype dtype : kCpuDtypes) {
          const Backward run =
              backward_on_cpu(table, attention, {.dtype = dtype, .timeout = kPatience});
          REQUIRE(run.outcome == Outcome::finished);
          check_gradients(run.gradients, exact, error_bound(attention.shape, dtype));
          ++cases;
        }
      }
    }
  }
  CHECK(cases == 4 * 4 * std::ssize(kCpuDtypes) * test::kinds_of_masks());
}

/// Computes one tile, all of whose pairs attend, by the definition of a dtype: P and dS are
/// rounded, sums are not, dQ and dK get the scale at their end.
Backward rounded_by_hand(const Attention& attention, Dtype dtype) {
  const AttentionShape& shape = attention.shape;
  const Inputs& in = attention.inputs;
  const auto scale = static_cast<float>(shape.scale());
  Backward run;
  run.gradients = {.dq = std::vector<float>(shape.q_elements()),
                   .dk = std::vector<float>(shape.kv_elements()),
                   .dv = std::vector<float>(shape.kv_elements())};
  const std::size_t dim = shape.dim();
  for (std::size_t q = 0; q < shape.q_rows(); ++q) {
    for (std::size_t key = 0; key < in.k.size() / dim; ++key) {
      float score = 0;
      float dp = 0;
      for (std::size_t column = 0; column < dim; ++column) {
        score += in.q[q * dim + column] * in.k[key * dim + column];
        dp += in.d_out[q * dim + column] * in.v[key * dim + column];
      }
      const float p = exponential(score * scale - static_cast<float>(attention.forward.lse[q]));
      const float ds = p * (dp - static_cast<float>(attention.forward.delta[q]));
      for (std::size_t column = 0; column < dim; ++column) {
        run.gradients.dv[key * dim + column] += rounded(p, dtype) * in.d_out[q * dim + column];
        run.gradients.dk[key * dim + column] += rounded(ds, dtype) * in.q[q * dim + column];
        run.gradients.dq[q * dim + column] += rounded(ds, dtype) * in.k[key * dim + column];
      }
    }
  }
  run.dq_sums = run.gradients.dq;
  for (auto* scaled : {&run.gradients.dq, &run.gradients.dk}) {
    for (float& element : *scaled)
      element = rounded(element * scale, dtype);
  }
  for (float& element : run.gradients.dv)
    element = rounded(element, dtype);
  return run;
}

TEST_CASE("a 16-bit run rounds P, dS and the gradients, and nothing else") {
  const Problem problem = make_problem(make_mask("full"), {13, 9}, {13, 9}, 1, 0);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Attention attention = attention_of(problem, 6);
  std::set<std::string> bits;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    CAPTURE(dtype_name(dtype));
    const Backward want = rounded_by_hand(attention, dtype);
    const Backward got = backward_on_cpu(table, attention, {.dtype = dtype});
    CHECK(got.dq_sums == want.dq_sums);
    CHECK(got.gradients.dq == want.gradients.dq);
    CHECK(got.gradients.dk == want.gradients.dk);
    CHECK(got.gradients.dv == want.gradients.dv);
    bits.insert(digest(got.gradients.dv));
  }
  CHECK(bits.size() == 2);
  CHECK(backward_on_cpu(table, attention, {}).dq_sums.empty());
}

TEST_CASE("inputs that a 16-bit format does not have are a contract violation") {
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 0);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const AttentionShape shape = attention_shape(problem, 1);
  Inputs inputs = random_inputs(shape, 1);
  inputs.v[1] = 1 + 0x1p-10F;  // fp16 has it, bf16 does not
  const Attention attention = make_attention(problem, shape, inputs);
  CHECK(backward_on_cpu(table, attention, {.dtype = Dtype::fp16}).outcome == Outcome::finished);
  CHECK_THROWS_AS(backward_on_cpu(table, attention, {.dtype = Dtype::bf16}), ContractViolation);
}

TEST_CASE("atomic mode adds every partial once, in no promised order") {
  const Problem problem = make_problem(make_mask("causal"), {16, 16}, {2, 2}, 2, 0);
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Attention attention = attention_of(problem);
  const ReferenceGradients exact = reference_gradients(attention);
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Dtype dtype = kCpuDtypes[seed % 3];
    const Backward run = backward_on_cpu(
        table, attention, {.mode = Mode::atomic, .dtype = dtype, .perturb = seed, .threads = 4});
    REQUIRE(run.outcome == Outcome::finished);
    check_gradients(run.gradients, exact, error_bound(attention.shape, dtype));
    std::vector<std::int64_t> slots = run.witness;
    std::sort(slots.begin(), slots.end());
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
      REQUIRE(slots[slot] == static_cast<std::int64_t>(slot));
    orders.insert(order_faults(table, run).empty() ? "as the table" : "another");
  }
  CHECK(orders.contains("another"));
}

TEST_CASE("the witness is who was the n-th to add, whatever the ranks say") {
  Table table = square(3);
  for (Slot& slot : table.slots)
    slot.rank = 2 - slot.rank;
  // One lane after the other, so that KV tile 0 adds first, which has the last rank.
  const Backward run = backward_on_cpu(table, attention_of(table.problem),
                                       {.mode = Mode::atomic, .residency = 1, .threads = 1});
  REQUIRE(run.outcome == Outcome::finished);
  CHECK(run.witness == std::vector<std::int64_t>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  CHECK(run.lock_values == std::vector<std::int32_t>{3, 3, 3});
  const std::vector<std::string> faults = order_faults(table, run);
  REQUIRE(faults.size() == 6);  // the middle one of three is where its rank says
  CHECK(faults.front() == "(head 0, kv 0, q 0) reduced after 0 others, but has rank 2");
}

/// The table with the ranks that a run's witness says.
Table by_witness(const Table& table, const Backward& run) {
  Table played = table;
  std::map<std::pair<Head, QTile>, std::int32_t> additions;
  for (const std::int64_t index : run.witness) {
    Slot& slot = played.slots[static_cast<std::size_t>(index)];
    slot.rank = additions[{slot.task.head, slot.task.q}]++;
  }
  return played;
}

TEST_CASE("atomic mode's partials, added again in the witness's order, give its bits") {
  const Problem problem = make_problem(make_mask("causal"), {30, 30}, {3, 3}, 2, 0);
  const Attention attention = attention_of(problem);
  Table table = schedules::build(schedules::select("ascending"), problem);
  for (Slot& slot : table.slots)  // against the order in which lanes come to a dQ tile
    slot.rank = problem.contributions(slot.task) - 1 - slot.rank;
  std::int64_t disordered = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    const Backward run = backward_on_cpu(
        table, attention,
        {.mode = Mode::atomic, .perturb = seed, .keep_partials = true, .threads = 4});
    REQUIRE(run.outcome == Outcome::finished);
    const Table played = by_witness(table, run);
    REQUIRE(digest(reaccumulate(played, attention.shape, run.partials).value()) ==
            digest(run.dq_added()));
    REQUIRE(order_faults(played, run).empty());
    if (!order_faults(table, run).empty()) ++disordered;
  }
  CHECK(disordered > 0);
}

TEST_CASE("no-reduce mode computes dK and dV alone") {
  const Problem problem = make_problem(make_mask("causal"), {16, 16}, {2, 2}, 2, 0);
  Table table = schedules::build(schedules::select("spt"), problem);
  const Attention attention = attention_of(problem);
  const Backward whole = backward_on_cpu(table, attention, {.timeout = kPatience});
  use_kv_index_ranks(table);  // ranks mean nothing here
  const Backward alone = backward_on_cpu(table, attention, {.mode = Mode::no_reduce});
  CHECK(alone.outcome == Outcome::finished);
  CHECK(alone.gradients.dk == whole.gradients.dk);
  CHECK(alone.gradients.dv == whole.gradients.dv);
  CHECK(alone.gradients.dq == std::vector<float>(attention.shape.q_elements(), 0.0F));
}

TEST_CASE("the measured timeline: one lane an SM, compute before wait before reduce") {
  const Problem problem = make_problem(make_mask("causal"), {24, 24}, {4, 4}, 2, 3);
  const Table table = schedules::build(schedules::select("spt"), problem);
  REQUIRE(table.dispatch == Dispatch::in_order);
  const Attention attention = attention_of(problem);
  const Backward run =
      backward_on_cpu(table, attention, {.residency = 2, .timeout = kPatience, .perturb = 1});
  REQUIRE(run.outcome == Outcome::finished);
  const Timeline timeline = measured_timeline(table, run, "test");
  CHECK(timeline.clock == "ns");
  CHECK(timeline.sms == 2);
  CHECK(timeline.makespan > 0);
  CHECK(timeline.makespan <= run.elapsed_ns);
  std::map<Phase, std::int64_t> phases;
  for (std::size_t index = 0; index < timeline.intervals.size(); ++index) {
    const Interval& interval = timeline.intervals[index];
    ++phases[interval.phase];
    REQUIRE(interval.start < interval.end);
    if (index == 0 || timeline.intervals[index - 1].sm != interval.sm) continue;
    const Interval& before = timeline.intervals[index - 1];
    REQUIRE(before.end <= interval.start);
    if (before.task == interval.task) REQUIRE(before.phase < interval.phase);
  }
  CHECK(phases[Phase::compute] == problem.tasks());
  CHECK(phases[Phase::reduce] == problem.tasks());
}

TEST_CASE("an incomplete table is a contract violation, not a crash") {
  Table table = square(2);
  const Attention attention = attention_of(table.problem);
  table.slots[1] = table.slots[0];
  CHECK_THROWS_AS(backward_on_cpu(table, attention, {}), ContractViolation);
  table = square(2);
  table.slots[3].task.q = QTile{7};
  CHECK_THROWS_AS(backward_on_cpu(table, attention, {}), ContractViolation);
  table = square(2);
  std::swap(table.slots[0].task, table.slots[2].task);  // splits both chains
  CHECK_THROWS_AS(backward_on_cpu(table, attention, {}), ContractViolation);
}

TEST_CASE("the processor's name is what the system has behind the colon") {
  std::ifstream file("/proc/cpuinfo");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string name = cpu_name();
  const bool named = text.find("\nmodel name") != std::string::npos;
  CHECK(named == (text.find(": " + name + "\n") != std::string::npos));
  CHECK(named == (name != "cpu"));
}

}  // namespace
}  // namespace stagger::gpu
