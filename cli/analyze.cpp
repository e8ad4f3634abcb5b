#include "cli/commands.hpp"
#include "cli/expect.hpp"
#include "cli/files.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "workbench/analysis.hpp"

#include <fmt/format.h>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Source;

Variables variables_of(const Analysis& analysis) {
  const Problem& problem = analysis.table.problem;
  const Timing& timing = analysis.model.timing;
  return {{"makespan", analysis.simulation->makespan},
          {"lower_bound", analysis.bounds.best.ticks},
          {"bubble", analysis.bubbles.total()},
          {"violations", analysis.lemma1.violation_count},
          {"optimal", analysis.optimal.value_or(false) ? 1 : 0},
          {"co_residency", analysis.verification.liveness->residency_needed},
          {"tasks", problem.tasks()},
          {"m", problem.heads},
          {"n", problem.grid.kv_tiles()},
          {"n_kv", problem.grid.kv_tiles()},
          {"n_q", problem.grid.q_tiles()},
          {"s", problem.sms},
          {"c", timing.compute},
          {"r", timing.reduce}};
}

/// Says on standard error which expectations do not hold.
bool expectations_hold(const Options& options, const Analysis& analysis) {
  bool all = true;
  for (const std::string& expression : options.expect) {
    if (analysis.ok() && holds(expression, variables_of(analysis))) continue;
    complain("expectation does not hold: " + expression);
    all = false;
  }
  return all;
}

int report(const Options& options, Source source) {
  const Analysis analysis = workbench::analyze(std::move(source), analysis_options(options));
  if (options.json) {
    write_stdout(report_json(analysis, true) + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(report_text(analysis, terminal), terminal);
  }
  const bool expected = expectations_hold(options, analysis);
  if (analysis.verification.verdict == dag::Verdict::deadlock) return kDeadlock;
  const bool formula = !analysis.formula || analysis.formula->holds;
  return analysis.ok() && formula && expected ? kHolds : kViolated;
}

int run_analyze(const Options& options) {
  return report(options, source_of(options));
}

}  // namespace

extern const Command kAnalyze;
const Command kAnalyze{
    .name = "analyze",
    .summary = "One schedule: the whole report",
    .examples =
        "  stagger analyze --mask causal --n 8 --heads 4 --schedule symmetric-shift\n"
        "  stagger analyze --mask sliding:left=4095,right=0 --seq 16384 --tile-q 128 \\\n"
        "      --tile-kv 128 --heads 16 --sms 132 --schedule spt:swizzle=8 \\\n"
        "      --model overlap --latency 2\n"
        "  stagger analyze --n 8 --heads 4 --schedule symmetric-shift \\\n"
        "      --expect 'makespan == m*(n+1)*(c+r)/2'\n"
        "  stagger analyze --config configs/varlen_full_1k.json --ranks kv-index\n",
    .run = run_analyze,
};

extern const Command kVerify;
const Command kVerify{
    .name = "verify",
    .summary = "A table from a file: findings, deadlock, bounds",
    .examples =
        "  stagger verify mine.table.json\n"
        "  stagger verify - --residency 100 < mine.table.json\n"
        "  stagger verify lanes.csv --mask causal --n 8 --heads 2\n",
    .run = run_analyze,
};

}  // namespace stagger::cli
