// A project that uses the installed package: exit 0 if symmetric shift is optimal for causal 8 x 8,
// the best of all schedules, and runs to its end with the right bits.

#include <stagger/workbench/comparison.hpp>
#include <stagger/workbench/execution.hpp>

int main() {
  using namespace stagger;
  const Problem problem = make_problem(make_mask("causal"), {8, 8}, {}, 4, 8);
  const workbench::Source source =
      workbench::source_of(schedules::select("symmetric-shift"), problem);
  const workbench::Analysis found = workbench::analyze(source);
  if (!found.ok() || !found.optimal.value_or(false) || found.makespan != 108) return 1;
  if (workbench::compare({.problem = problem}).best->makespan != found.makespan) return 1;
  const workbench::Execution run = workbench::execute(
      {.source = source, .kernel = &workbench::kernel_of("portable"), .head_dim = 4});
  return run.runs && run.runs->verdict == gpu::RunVerdict::ok ? 0 : 1;
}
