#include "dag/liveness.hpp"
#include "gpu/check/checked_runs.hpp"
#include "gpu/check/cross_check.hpp"
#include "gpu/cpu/executor.hpp"
#include "gpu/numerics/rounding.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace stagger::gpu {
namespace {

using test::Random;

constexpr std::chrono::milliseconds kPatience{60'000};
constexpr Dtype kGroupDtypes[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};

Attention attention_of(const Problem& problem, std::int64_t head_dim = 4) {
  const AttentionShape shape = attention_shape(problem, head_dim);
  return make_attention(problem, shape, random_inputs(shape, 7));
}

Problem grouped(std::int64_t n, std::int64_t heads, const Grouping& grouping,
                const char* mask = "causal") {
  return make_problem(make_mask(mask), {n * 3, n * 3}, {3, 3}, heads, 0, grouping);
}

/// The inputs with each head's own copy of its KV head's K and V.
Inputs ungrouped(const AttentionShape& shape, const Inputs& inputs) {
  Inputs copies{.q = inputs.q, .k = {}, .v = {}, .d_out = inputs.d_out};
  const std::size_t head_elements = at(shape.seq_kv) * shape.dim();
  for (Head head{0}; head.value < shape.heads; ++head) {
    const std::size_t first = shape.kv_row(head, 0) * shape.dim();
    for (std::size_t index = first; index < first + head_elements; ++index) {
      copies.k.push_back(inputs.k[index]);
      copies.v.push_back(inputs.v[index]);
    }
  }
  return copies;
}

TEST_CASE("the gradients of a KV head are the sums of those that its heads would have alone") {
  for (const Grouping& grouping : {Grouping{.heads_kv = 2}, Grouping{.heads_kv = 1}}) {
    const Problem shared = grouped(3, 6, grouping);
    const Problem own = grouped(3, 6, {});
    const Attention attention = attention_of(shared);
    const ReferenceGradients got = reference_gradients(attention);
    const AttentionShape alone = attention_shape(own, 4);
    const ReferenceGradients each = reference_gradients(
        make_attention(own, alone, ungrouped(attention.shape, attention.inputs)));
    REQUIRE(got.dk.values.size() * 6 == each.dk.values.size() * at(grouping.heads_kv));
    for (std::size_t index = 0; index < got.dq.values.size(); ++index)
      REQUIRE(got.dq.values[index] == each.dq.values[index]);
    const std::size_t of_head = alone.kv_elements() / 6;
    const std::size_t group = 6 / at(grouping.heads_kv);
    for (std::size_t index = 0; index < got.dk.values.size(); ++index) {
      double dk = 0;
      double dv = 0;
      for (std::size_t member = 0; member < group; ++member) {
        const std::size_t head = index / of_head * group + member;
        dk += each.dk.values[head * of_head + index % of_head];
        dv += each.dv.values[head * of_head + index % of_head];
      }
      REQUIRE(std::abs(got.dk.values[index] - dk) < 1e-12);
      REQUIRE(std::abs(got.dv.values[index] - dv) < 1e-12);
    }
  }
}

void check_run(const Table& table, const Attention& attention, const ReferenceGradients& exact,
               Dtype dtype, std::uint64_t seed) {
  const auto run = [&](std::int32_t threads) {
    BackwardOptions options{.dtype = dtype, .timeout = kPatience, .threads = threads};
    if (seed % 4 == 0) options.perturb = seed;
    return check_runs(table, attention, &exact, options, 2, backward_on_cpu);
  };
  const CheckedRuns one = run(1);
  for (const RunFault& fault : one.faults)
    FAIL_CHECK(fault.kind << ": " << fault.message);
  REQUIRE(one.verdict == RunVerdict::ok);
  REQUIRE(one.reaccumulated == true);
  const CheckedRuns three = run(3);
  REQUIRE(three.verdict == RunVerdict::ok);
  REQUIRE(three.digests == one.digests);
  REQUIRE(three.run.dkv_witness == one.run.dkv_witness);
}

TEST_CASE("random tables of grouped heads give right gradients, bits and orders") {
  Random random(test::seed(20261122));
  std::map<Combine, int> cases;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 4), 4);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = test::random_live_table(random, problem, dispatch);
    if (table.slots.empty() || !dag::check_liveness(table, {}).live) continue;
    ++cases[problem.combine];
    const Attention attention = attention_of(problem, 3);
    check_run(table, attention, reference_gradients(attention), kGroupDtypes[at(round % 3)],
              static_cast<std::uint64_t>(round));
  }
  for (const Combine combine : {Combine::none, Combine::partials, Combine::ordered})
    CHECK(cases[combine] > 5);
}

TEST_CASE("tables of grouped heads finish or hang as the liveness check says") {
  Random random(test::seed(99));
  std::int64_t hanging_dkv = 0;
  std::int64_t finished = 0;
  for (int round = 0; round < 1'000; ++round) {
    CAPTURE(round);
    const Problem problem = test::with_random_groups(random, test::any_problem(random, 4), 4);
    Timing timing = test::random_timing(random, problem);
    const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
    const Table table = random.chance(3) ? test::random_live_table(random, problem, dispatch)
                                         : test::random_table(random, problem, dispatch);
    const dag::Liveness liveness = dag::check_liveness(table, timing);
    const Attention attention = attention_of(problem, 1);
    const Backward run = backward_on_cpu(table, attention,
                                         {.release = timing.release,
                                          .residency = timing.residency,
                                          .timeout = kPatience,
                                          .threads = 2});
    REQUIRE((run.outcome == Outcome::finished) == liveness.live);
    if (liveness.live) {
      ++finished;
      continue;
    }
    REQUIRE(run.outcome == Outcome::deadlock);
    for (const Wait& wait : waits(table, run))
      hanging_dkv += wait.dkv ? 1 : 0;
  }
  CHECK(finished > 100);
  CHECK(hanging_dkv > 20);
}

TEST_CASE("a lane that has a later part before an earlier one hangs, and the run says at what") {
  Table table;
  table.problem = grouped(1, 2, {.heads_kv = 1, .span = 1, .combine = Combine::ordered}, "full");
  table.slots = {{{Head{1}, KvTile{0}, QTile{0}}, 0}, {{Head{0}, KvTile{0}, QTile{0}}, 0}};
  table.end_lane();
  const Backward run = backward_on_cpu(table, attention_of(table.problem), {.threads = 1});
  REQUIRE(run.outcome == Outcome::deadlock);
  CHECK(run.lock_values == std::vector<std::int32_t>{0, 1});
  CHECK(run.dkv_lock_values == std::vector<std::int32_t>{0});
  const std::vector<Wait> waiting = waits(table, run);
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].dkv);
  CHECK(waiting[0].kv_head == KvHead{0});
  CHECK(waiting[0].rank == 1);
  CHECK(waiting[0].value == 0);
  CHECK(waiting[0].promised);
  CHECK(waiting[0].for_task.head == Head{0});
  CHECK(outcome_when_stopped(table, run, 1) == Outcome::deadlock);
}

TEST_CASE("wrong orders of parts are seen in the witness, and lost parts in the bits") {
  const Problem problem = grouped(2, 4, {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Attention attention = attention_of(problem);
  const Backward sound = backward_on_cpu(
      table, attention, {.timeout = kPatience, .keep_partials = true, .threads = 2});
  REQUIRE(sound.outcome == Outcome::finished);
  CHECK(order_faults(table, sound).empty());
  Backward wrong = sound;
  std::swap(wrong.dkv_witness[1], wrong.dkv_witness[2]);
  const auto faults = order_faults(table, wrong);
  REQUIRE_FALSE(faults.empty());
  CHECK(faults.front() ==
        "the chain of KV tile 0 and heads 2 to 2 reduced into dK and dV after 1 others, but has "
        "rank 2");
  wrong = sound;
  wrong.chain_times[at(problem.chain_place(Part{1}, KvTile{0}))].turn = 0;
  wrong.chain_times[at(problem.chain_place(Part{0}, KvTile{0}))].end = 1;
  CHECK(order_faults(table, wrong).size() == 1);

  Table swapped = table;
  swapped.dkv_ranks.assign(problem.chains(), 0);
  for (Part part{0}; part.value < 4; ++part) {
    for (KvTile kv{0}; kv.value < 2; ++kv)
      swapped.dkv_ranks[problem.chain_place(part, kv)] = part.value;
  }
  CHECK(reaccumulate_dkv(swapped, sound, Dtype::fp32)->dk == sound.dk_sums);
  swapped.dkv_ranks[problem.chain_place(Part{3}, KvTile{1})] = 1;  // twice
  CHECK_FALSE(reaccumulate_dkv(swapped, sound, Dtype::fp32).has_value());
  for (Part part{0}; part.value < 4; ++part) {  // beyond, below, of each
    Table beyond = swapped;
    for (const std::int32_t rank : {4, 5, -1, -2}) {
      beyond.dkv_ranks[problem.chain_place(part, KvTile{1})] = rank;
      CHECK_FALSE(reaccumulate_dkv(beyond, sound, Dtype::fp32).has_value());
    }
  }
}

TEST_CASE("parts that are added wrongly are noticed in dK alone and in dV alone") {
  const Problem problem = grouped(2, 4, {.heads_kv = 2, .span = 1, .combine = Combine::partials});
  const Table table = schedules::build(schedules::select("ascending"), problem);
  const Attention attention = attention_of(problem);
  static std::vector<float> Backward::*spoiled = nullptr;
  const Device device = [](const Table& played, const Attention& of,
                           const BackwardOptions& options) {
    Backward run = backward_on_cpu(played, of, options);
    if (spoiled == nullptr) return run;
    float& element = (run.*spoiled)[1];
    element = std::nextafter(element, 100.0F);
    return run;
  };
  const auto checked = [&](std::vector<float> Backward::*sums) {
    spoiled = sums;
    return check_runs(table, attention, nullptr, {}, 1, device);
  };
  CHECK(checked(nullptr).reaccumulated == true);
  for (const auto sums : {&Backward::dk_sums, &Backward::dv_sums}) {
    const CheckedRuns runs = checked(sums);
    CHECK(runs.reaccumulated == false);
    REQUIRE(runs.faults.size() == 1);
    CHECK(runs.faults.front().kind == std::string("reaccumulation"));
  }
  CHECK(backward_on_cpu(table, attention, {}).dk_partials.empty());
  CHECK(backward_on_cpu(table, attention, {}).dv_partials.empty());
  CHECK_FALSE(backward_on_cpu(table, attention, {.keep_partials = true}).dk_partials.empty());
}

/// The CPU's run as a kernel leaves it whose chains scale and round their parts: of the sums there
/// is nothing but the gradients.
Backward with_rounded_parts(const Table& table, const Attention& attention,
                            const BackwardOptions& options) {
  Backward run = backward_on_cpu(table, attention, options);
  const auto scale = static_cast<float>(attention.shape.scale());
  const auto round_all = [&](std::vector<float>& values, float factor) {
    for (float& value : values)
      value = rounded(value * factor, options.dtype);
  };
  round_all(run.dk_partials, scale);
  round_all(run.dv_partials, 1);
  run.dk_sums.clear();
  run.dv_sums.clear();
  if (run.dk_partials.empty()) return run;
  run.gradients.dk = sum_of_parts(table, run.dk_partials);
  run.gradients.dv = sum_of_parts(table, run.dv_partials);
  round_all(run.gradients.dk, 1);
  round_all(run.gradients.dv, 1);
  return run;
}

TEST_CASE("parts that are rounded before they are added are held to the rounded sum") {
  const Problem problem = grouped(3, 6, {.heads_kv = 1, .span = 2, .combine = Combine::partials});
  const Table table = schedules::build(schedules::select("spt"), problem);
  const Attention attention = attention_of(problem, 16);
  const BackwardOptions options{.dtype = Dtype::bf16};
  const ReferenceGradients exact = reference_gradients(attention);
  const CheckedRuns sound = check_runs(table, attention, &exact, options, 1, with_rounded_parts);
  CHECK(sound.verdict == RunVerdict::ok);
  CHECK(sound.reaccumulated == true);
  const Device spoiled = [](const Table& played, const Attention& of, const BackwardOptions& with) {
    Backward run = with_rounded_parts(played, of, with);
    float& element = run.gradients.dv[5];
    element = rounded(std::nextafter(element, 100.0F) * (1 + 0x1p-7F), with.dtype);
    return run;
  };
  const CheckedRuns wrong = check_runs(table, attention, nullptr, options, 1, spoiled);
  CHECK(wrong.reaccumulated == false);
  REQUIRE(wrong.faults.size() == 1);
  CHECK(wrong.faults.front().kind == std::string("reaccumulation"));
}

TEST_CASE("the bits of dK and dV depend on the span and on the order of parts alone") {
  std::map<std::int64_t, std::string> by_span;
  for (const std::int64_t span : {1, 2, 4}) {
    for (const Combine combine : {Combine::partials, Combine::ordered}) {
      const Problem problem =
          grouped(4, 4, {.heads_kv = 1, .span = span, .combine = combine}, "full");
      const Attention attention = attention_of(problem, 16);
      for (const char* schedule : {"ascending", "spt"}) {
        const Backward run = backward_on_cpu(schedules::build(schedules::select(schedule), problem),
                                             attention, {.timeout = kPatience, .threads = 2});
        REQUIRE(run.outcome == Outcome::finished);
        by_span.emplace(span, digest(run.gradients.dk));
      }
    }
  }
  CHECK(by_span[1] != by_span[2]);
  CHECK(by_span[2] != by_span[4]);
}

}  // namespace
}  // namespace stagger::gpu
