#include "cli/commands.hpp"
#include "cli/designs.hpp"
#include "cli/expect.hpp"
#include "cli/files.hpp"
#include "cli/numbers.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "workbench/analysis.hpp"

#include <optional>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Analysis;

int report(const Options& options) {
  if (!options.design.empty()) return analyze_design(options);
  const std::vector<Expectation> expectations = expectations_of(options.expect, number_names());
  const Analysis analysis = workbench::analyze(source_of(options), analysis_options(options));
  const std::optional<Values> values =
      analysis.ok() ? std::optional(numbers_of(analysis)) : std::nullopt;
  const std::vector<Judgement> judgements = judge(expectations, values ? &*values : nullptr);
  if (options.json) {
    write_stdout(report_json(analysis, judgements).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(report_text(analysis, terminal), terminal);
  }
  const bool expected = all_hold(judgements);
  const ExitCode code = exit_code(analysis);
  return code == kHolds && !expected ? kViolated : code;
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
    .run = report,
    .names = number_names,
};

extern const Command kVerify;
const Command kVerify{
    .name = "verify",
    .summary = "A table from a file: findings, deadlock, bounds",
    .examples =
        "  stagger verify mine.table.json\n"
        "  stagger verify - --residency 100 < mine.table.json\n"
        "  stagger verify lanes.csv --mask causal --n 8 --heads 2\n",
    .run = report,
    .names = number_names,
};

}  // namespace stagger::cli
