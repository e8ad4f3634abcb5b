#include "dag/longest_path.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"

#include <string_view>

namespace stagger::schedules {
namespace {

TEST_CASE("every formula is exact inside its domain, and nowhere else on its shape with S = n") {
  std::int64_t inside = 0;
  std::int64_t outside = 0;
  for (const Schedule* schedule : all()) {
    const Selection selection = select(schedule->name);
    for (const Formula& formula : schedule->formulas) {
      for (const char* mask : {"full", "causal"}) {
        for (std::int64_t n_kv = 1; n_kv <= 7; ++n_kv) {
          for (std::int64_t n_q = 1; n_q <= 7; ++n_q) {
            for (std::int64_t heads = 1; heads <= 6; ++heads) {
              const Problem problem = make_problem(make_mask(mask), {n_q, n_kv}, {}, heads, 0);
              if (!formula.shape(problem.common_grid())) continue;
              if (why_unsupported(selection, problem)) continue;
              const Table table = build(selection, problem);
              for (const auto& [compute, reduce] :
                   {std::pair{5, 1}, std::pair{3, 2}, std::pair{2, 2}, std::pair{2, 3},
                    std::pair{1, 5}, std::pair{0, 2}, std::pair{4, 0}}) {
                const Timing timing{.compute = compute, .reduce = reduce};
                const Ticks makespan = sim::simulate(table, timing).makespan;
                const bool claimed = formula.in_domain(problem, timing);
                CAPTURE(schedule->name, formula.name, mask, n_kv, n_q, heads, compute, reduce);
                REQUIRE(claimed == (formula.twice_ticks(problem, timing) == 2 * makespan));
                (claimed ? inside : outside) += 1;
              }
            }
          }
        }
      }
    }
  }
  CHECK(inside > 3'000);
  CHECK(outside > 500);
}

TEST_CASE("no formula is claimed of tasks that are steps") {
  const Problem problem = make_problem(make_mask("full"), {4, 4}, {}, 2, 4);
  CHECK(claim(select("shift"), problem, {}) != nullptr);
  CHECK(claim(select("shift"), problem, {.steps = 2}) == nullptr);
}

TEST_CASE("of parts that are combined in order a formula is claimed if that takes no time") {
  std::int64_t claimed = 0;
  for (const Schedule* schedule : all()) {
    if (schedule->formulas.empty()) continue;
    const Selection selection = select(schedule->name);
    for (const char* mask : {"full", "causal"}) {
      for (std::int64_t n = 1; n <= 5; ++n) {
        for (std::int64_t heads_kv = 1; heads_kv <= 3; ++heads_kv) {
          for (const auto& [group, span] : {std::pair{2, 1}, std::pair{3, 1}, std::pair{4, 2}}) {
            const Problem problem =
                make_problem(make_mask(mask), {n, n}, {}, heads_kv * group, n,
                             {.heads_kv = heads_kv, .span = span, .combine = Combine::ordered});
            if (why_unsupported(selection, problem)) continue;
            CAPTURE(schedule->name, mask, n, heads_kv, group, span);
            Timing timing;
            const Formula* const formula = claim(selection, problem, timing);
            timing.reduce_kv = 1;
            REQUIRE(claim(selection, problem, timing) == nullptr);
            if (formula == nullptr) continue;
            timing.reduce_kv = 0;
            const Table table = build(selection, problem, timing);
            REQUIRE(twice_ticks(*formula, problem, timing) ==
                    2 * sim::simulate(table, timing).makespan);
            ++claimed;
          }
        }
      }
    }
  }
  CHECK(claimed > 100);
}

/// Whether a case is in a domain as its words say it.
bool in_words(std::string_view domain, const Problem& problem, const Timing& timing) {
  const auto says = [&](std::string_view words) { return domain.find(words) != domain.npos; };
  const std::int32_t n = problem.kv_tiles();
  if (says("S = n") && problem.sms != n) return false;
  if (says("n_kv <= n_q (or r = 0)") && n > problem.q_tiles() && timing.reduce != 0) {
    return false;
  }
  if (says("even m with r < c, or m = 2, or r = c, or n = 1")) {
    return (problem.heads % 2 == 0 && timing.reduce < timing.compute) || problem.heads == 2 ||
           timing.reduce == timing.compute || n == 1;
  }
  return (!says("even n") || n % 2 == 0) && (!says("even m") || problem.heads % 2 == 0);
}

TEST_CASE(
    "every formula's domain is what its words say, on any number of SMs, and it holds there") {
  std::int64_t inside = 0;
  std::int64_t outside = 0;
  const auto check = [&](const Schedule& schedule, const Formula& formula, const Problem& problem,
                         const Timing& timing) {
    CAPTURE(schedule.name, formula.name, problem.kv_tiles(), problem.q_tiles(), problem.heads,
            problem.sms);
    const Selection selection = select(schedule.name);
    if (!formula.shape(problem.common_grid()) || why_unsupported(selection, problem)) return;
    const bool claimed = formula.in_domain(problem, timing);
    REQUIRE(claimed == in_words(formula.domain, problem, timing));
    (claimed ? inside : outside) += 1;
    // Without "S = n" a formula speaks of as many SMs as KV tiles all the same: DASH section 3.
    if (!claimed || problem.sms != problem.kv_tiles()) return;
    const Ticks makespan = sim::simulate(build(selection, problem), timing).makespan;
    REQUIRE(formula.twice_ticks(problem, timing) == 2 * makespan);
  };
  for (const Schedule* schedule : all()) {
    for (const Formula& formula : schedule->formulas) {
      for (std::int64_t n_kv = 1; n_kv <= 5; ++n_kv) {
        for (std::int64_t n_q = 1; n_q <= 5; ++n_q) {
          for (std::int64_t heads = 1; heads <= 4; ++heads) {
            for (std::int64_t sms = 1; sms <= 7; ++sms) {
              for (const char* mask : {"full", "causal"}) {
                const Problem problem = make_problem(make_mask(mask), {n_q, n_kv}, {}, heads, sms);
                check(*schedule, formula, problem, {});
                check(*schedule, formula, problem, {.compute = 3, .reduce = 0});
                check(*schedule, formula, problem, {.compute = 3, .reduce = 3});
                check(*schedule, formula, problem, {.compute = 2, .reduce = 5});
              }
            }
          }
        }
      }
    }
  }
  CHECK(inside > 500);
  CHECK(outside > 500);
}

}  // namespace
}  // namespace stagger::schedules
