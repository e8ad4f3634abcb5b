#include "dag/longest_path.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/support/catch.hpp"

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
              if (!formula.shape(problem.grid)) continue;
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

}  // namespace
}  // namespace stagger::schedules
