#include "workbench/formula_sweep.hpp"

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

/// The cases inside and outside a formula's domain: full masks where it speaks of those, else
/// causal ones, of every size, with every time but none at all.
std::pair<std::int64_t, std::int64_t> counted(const schedules::Schedule& schedule,
                                              const schedules::Formula& formula,
                                              const SweepRequest& request) {
  std::int64_t inside = 0;
  std::int64_t outside = 0;
  const schedules::Selection selection = schedules::select(schedule.name);
  const std::int64_t sizes = request.n.size() * request.n.size();
  for (std::int64_t size = 0; size < sizes; ++size) {
    const std::int64_t n_kv = request.n.first + size / request.n.size();
    const std::int64_t n_q = request.n.first + size % request.n.size();
    for (std::int64_t heads = request.heads.first; heads <= request.heads.last; ++heads) {
      Problem problem = make_problem(make_mask("full"), {n_q, n_kv}, {}, heads, 0);
      const auto meant = [&] {
        return formula.shape(problem.common_grid()) &&
               !schedules::why_unsupported(selection, problem);
      };
      if (!meant()) problem = make_problem(make_mask("causal"), {n_q, n_kv}, {}, heads, 0);
      if (!meant()) continue;
      for (Ticks compute = request.compute.first; compute <= request.compute.last; ++compute) {
        for (Ticks reduce = request.reduce.first; reduce <= request.reduce.last; ++reduce) {
          if (compute == 0 && reduce == 0) continue;
          const Timing timing{.compute = compute, .reduce = reduce};
          ++(formula.in_domain(problem, timing) ? inside : outside);
        }
      }
    }
  }
  return {inside, outside};
}

TEST_CASE("the first failure is the first: by heads, compute and reduce") {
  const SweepRequest all{.n = {3, 3}, .heads = {1, 4}, .compute = {0, 4}, .reduce = {0, 3}};
  const auto fails = [&](const SweptFormula& formula, const SweptRange& heads,
                         const SweptRange& compute, const SweptRange& reduce) {
    if (heads.size() <= 0 || compute.size() <= 0 || reduce.size() <= 0) return false;
    for (const SweptFormula& each :
         sweep_formulas({.n = all.n, .heads = heads, .compute = compute, .reduce = reduce})) {
      if (each.formula == formula.formula && each.schedule == formula.schedule)
        return each.outside.first_failure.has_value();
    }
    return false;
  };
  int found = 0;
  for (const SweptFormula& formula : sweep_formulas(all)) {
    if (!formula.outside.first_failure) continue;
    ++found;
    const SweptCase& at = formula.outside.first_failure->at;
    CAPTURE(formula.schedule->name, at.heads, at.compute, at.reduce);
    const SweptRange one{at.heads, at.heads};
    CHECK_FALSE(fails(formula, {all.heads.first, at.heads - 1}, all.compute, all.reduce));
    CHECK_FALSE(fails(formula, one, {all.compute.first, at.compute - 1}, all.reduce));
    CHECK_FALSE(fails(formula, one, {at.compute, at.compute}, {all.reduce.first, at.reduce - 1}));
    CHECK(fails(formula, one, {at.compute, at.compute}, {at.reduce, at.reduce}));
  }
  CHECK(found > 1);
}

TEST_CASE("every case of the ranges is checked once, inside and outside a formula's domain") {
  SweepRequest request{.n = {2, 4}, .heads = {1, 3}, .compute = {0, 2}, .reduce = {0, 1}};
  std::vector<double> told;
  request.progress = [&](double fraction) { told.push_back(fraction); };
  std::int64_t formulas = 0;
  std::int64_t failures = 0;
  for (const SweptFormula& swept : sweep_formulas(request)) {
    CAPTURE(swept.schedule->name, swept.formula->name);
    ++formulas;
    const auto [inside, outside] = counted(*swept.schedule, *swept.formula, request);
    CHECK(swept.inside.checked == inside);
    CHECK(swept.outside.checked == outside);
    CHECK(swept.inside.checked > 0);
    CHECK(swept.holds());
    CHECK_FALSE(swept.inside.first_failure.has_value());
    REQUIRE(swept.outside.first_failure.has_value() ==
            (swept.outside.holds < swept.outside.checked));
    if (!swept.outside.first_failure) continue;
    ++failures;
    CHECK(swept.outside.first_failure->twice_formula != 2 * swept.outside.first_failure->makespan);
    CHECK(swept.outside.first_failure->at.n_kv >= 2);
  }
  CHECK(formulas >= 6);
  CHECK(failures >= 1);
  REQUIRE(told.size() == static_cast<std::size_t>(3 * formulas));
  CHECK(told[0] == 0.0);
  CHECK(told[1] == 1.0 / 3);
  CHECK(told[2] == 2.0 / 3);
}

/// Whether the ranges are swept, seen by the first progress that is told of.
bool begins(SweepRequest request) {
  struct Begun {};
  request.progress = [](double) { throw Begun(); };
  try {
    static_cast<void>(sweep_formulas(request));
  } catch (const Begun&) {
    return true;
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::limit);
    CHECK(error.what() == std::string("the ranges make more than 10000000 cases"));
  }
  return false;
}

TEST_CASE("a sweep that is stopped has what was checked by then") {
  SweepRequest request{.n = {1, 6}, .heads = {1, 2}, .compute = {5, 5}, .reduce = {1, 1}};
  const auto cases = [](const std::vector<SweptFormula>& results) {
    std::int64_t all = 0;
    for (const SweptFormula& each : results)
      all += each.inside.checked + each.outside.checked;
    return all;
  };
  const std::int64_t all = cases(sweep_formulas(request));
  int asked = 0;
  request.stop = [&] { return ++asked > 40; };
  const std::vector<SweptFormula> some = sweep_formulas(request);
  CHECK(cases(some) > 0);
  CHECK(cases(some) < all);
  CHECK_FALSE(some.back().checked());
  request.stop = [] { return true; };
  CHECK(cases(sweep_formulas(request)) == 0);
}

TEST_CASE("ranges that make too many cases are refused before the first") {
  constexpr std::int64_t kMost = 10'000'000;
  const SweptRange one{1, 1};
  const SweepRequest least{.n = one, .heads = one, .group = one, .compute = one, .reduce = one};
  for (SweptRange SweepRequest::*const range : {&SweepRequest::heads, &SweepRequest::group,
                                                &SweepRequest::compute, &SweepRequest::reduce}) {
    SweepRequest request = least;
    request.*range = {1, kMost};
    CHECK(begins(request));
    request.*range = {1, kMost + 1};
    CHECK_FALSE(begins(request));
    // A tile more on both sides is four times as many cases; one value of another range more is
    // twice as many.
    request.*range = {1, kMost / 4};
    request.n = {1, 2};
    CHECK(begins(request));
    for (SweptRange SweepRequest::*const other : {&SweepRequest::heads, &SweepRequest::group,
                                                  &SweepRequest::compute, &SweepRequest::reduce}) {
      if (other == range) continue;
      SweepRequest more = request;
      more.*other = {1, 2};
      CHECK_FALSE(begins(more));
    }
  }
  SweepRequest sizes = least;
  sizes.n = {1, 3162};  // the most whose square is not too many
  CHECK(begins(sizes));
  sizes.n = {1, 3163};
  CHECK_FALSE(begins(sizes));
}

}  // namespace
}  // namespace stagger::workbench
