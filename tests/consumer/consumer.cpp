// A project that uses the installed package: exit 0 if symmetric shift is optimal for causal 8 x 8.

#include <stagger/dag/bounds.hpp>
#include <stagger/schedules/schedule.hpp>
#include <stagger/sim/simulate.hpp>

int main() {
  const stagger::Problem problem =
      stagger::make_problem(stagger::make_mask("causal"), {8, 8}, {}, 4, 8);
  const stagger::Table table =
      stagger::schedules::build(stagger::schedules::select("symmetric-shift"), problem);
  const stagger::Ticks bound = stagger::dag::lower_bounds(problem, {}, table.dispatch).best.ticks;
  return stagger::sim::simulate(table, {}).makespan == bound ? 0 : 1;
}
