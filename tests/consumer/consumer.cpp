// A project that uses the installed package: exit 0 if symmetric shift is optimal for causal 8 x 8
// and runs to its end.

#include <stagger/dag/bounds.hpp>
#include <stagger/gpu/cpu/executor.hpp>
#include <stagger/schedules/schedule.hpp>
#include <stagger/sim/simulate.hpp>

int main() {
  const stagger::Problem problem =
      stagger::make_problem(stagger::make_mask("causal"), {8, 8}, {}, 4, 8);
  const stagger::Table table =
      stagger::schedules::build(stagger::schedules::select("symmetric-shift"), problem);
  const stagger::Ticks bound = stagger::dag::lower_bounds(problem, {}, table.dispatch).best.ticks;
  if (stagger::sim::simulate(table, {}).makespan != bound) return 1;
  const auto shape = stagger::gpu::attention_shape(problem, 4);
  const auto attention =
      stagger::gpu::make_attention(problem, shape, stagger::gpu::random_inputs(shape, 1));
  const auto run = stagger::gpu::backward_on_cpu(table, attention, {});
  return run.outcome == stagger::gpu::Outcome::finished ? 0 : 1;
}
