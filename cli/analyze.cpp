#include "cli/commands.hpp"
#include "cli/expect.hpp"
#include "cli/files.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "workbench/analysis.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Analysis;

/// A number of the report.
struct Number {
  ExpectName name;
  Exact (*of)(const Analysis&);
};

Exact gap(const Analysis& analysis) {
  const Ticks bound = analysis.bounds.best.ticks;
  return exact(analysis.makespan - bound, std::max<Ticks>(bound, 1));
}

constexpr std::array kNumbers = {
    Number{{"makespan", "from the first task's start to the last one's end"},
           [](const Analysis& given) { return exact(given.makespan); }},
    Number{{"lower_bound", "that no table of the problem is below"},
           [](const Analysis& given) { return exact(given.bounds.best.ticks); }},
    Number{{"gap", "makespan / lower_bound - 1"}, gap},
    Number{{"optimal", "1 if the makespan is proved to be the least, else 0"},
           [](const Analysis& given) { return exact(given.optimal.value_or(false) ? 1 : 0); }},
    Number{{"bubble", "ticks of SMs that neither compute nor reduce"},
           [](const Analysis& given) { return exact(given.bubbles.total()); }},
    Number{{"violations", "dependency edges that decrease the depth"},
           [](const Analysis& given) { return exact(given.lemma1.violation_count); }},
    Number{
        {"co_residency", "CTAs that must be resident at once"},
        [](const Analysis& given) { return exact(given.verification.liveness->residency_needed); }},
    Number{{"tasks", "live tiles of all heads"},
           [](const Analysis& given) { return exact(given.table.problem.tasks()); }},
    Number{{"m", "heads"}, [](const Analysis& given) { return exact(given.table.problem.heads); }},
    Number{{"n", "KV tiles"},
           [](const Analysis& given) { return exact(given.table.problem.grid.kv_tiles()); }},
    Number{{"n_kv", "KV tiles"},
           [](const Analysis& given) { return exact(given.table.problem.grid.kv_tiles()); }},
    Number{{"n_q", "Q tiles"},
           [](const Analysis& given) { return exact(given.table.problem.grid.q_tiles()); }},
    Number{{"s", "SMs"}, [](const Analysis& given) { return exact(given.table.problem.sms); }},
    Number{{"c", "compute"},
           [](const Analysis& given) { return exact(given.model.timing.compute); }},
    Number{{"r", "reduce"}, [](const Analysis& given) { return exact(given.model.timing.reduce); }},
};

constexpr auto kNames = [] {
  std::array<ExpectName, kNumbers.size()> names{};
  for (std::size_t index = 0; index < kNumbers.size(); ++index)
    names[index] = kNumbers[index].name;
  return names;
}();

Values values_of(const Analysis& analysis) {
  Values values;
  for (const Number& number : kNumbers)
    values.emplace(number.name.name, number.of(analysis));
  return values;
}

int report(const Options& options) {
  const std::vector<Expectation> expectations = expectations_of(options.expect, kNames);
  const Analysis analysis = workbench::analyze(source_of(options), analysis_options(options));
  const std::optional<Values> values =
      analysis.ok() ? std::optional(values_of(analysis)) : std::nullopt;
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
    .names = kNames,
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
    .names = kNames,
};

}  // namespace stagger::cli
