#include "cli/report/diff.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "workbench/analysis.hpp"
#include "workbench/tickets/lint.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::cli {
namespace {

using tickets::LintVerdict;

/// A table's makespan in the timing model asked for.
void simulate(const std::string& text, const Options& options, DiffSide& side) {
  Table table = side.document.json ? read_table_json(text, side.file)
                                   : read_table_csv(text, side.file, nullptr);
  side.model = time_model_of(options, table.problem);
  if (side.verdict != LintVerdict::ok) return;
  const workbench::Analysis analysis = workbench::analyze(
      {.table = std::move(table), .model = *side.model, .selection = std::nullopt});
  if (analysis.ok()) side.makespan = analysis.makespan;
}

DiffSide side_of(const std::string& file, const Options& options) {
  const std::string text = read_file(file);
  tickets::LintRequest request{.release = options.release};
  if (options.residency > 0) request.residency = static_cast<std::int32_t>(options.residency);
  DiffSide side{.file = file, .document = tickets::read_document(text, file)};
  const tickets::Linted linted = tickets::lint(text, file, request);
  side.verdict = linted.verdict;
  side.sums = linted.sums;
  if (side.document.kind == tickets::Kind::table) simulate(text, options, side);
  return side;
}

int diff_command(const Options& options) {
  if (options.compared.size() != 2) {
    throw Error(ErrorKind::usage, "give two FILES: tables, tickets or lock values");
  }
  if (options.compared[0] == "-" && options.compared[1] == "-") {
    throw Error(ErrorKind::usage, "only one of the two can be standard input");
  }
  DiffReport report{.before = side_of(options.compared[0], options),
                    .after = side_of(options.compared[1], options)};
  report.difference =
      tickets::difference(report.before.document.tickets, report.after.document.tickets);
  if (options.limit) report.limit = *options.limit;
  if (options.json) {
    write_stdout(diff_json(report).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(diff_text(report, terminal), terminal);
  }
  const LintVerdict worst = std::max(report.before.verdict, report.after.verdict);
  if (worst == LintVerdict::deadlock) return kDeadlock;
  return worst == LintVerdict::ok && same(report) ? kHolds : kViolated;
}

}  // namespace

extern const Command kDiff;
const Command kDiff{
    .name = "diff",
    .summary = "Two tables or tickets: what moved, and what it does to makespan and bits",
    .examples =
        "  stagger diff old.table.json new.table.json\n"
        "  stagger diff old.table.json new.table.json --model overlap --latency 2 --json\n"
        "  stagger diff theirs.tickets.json mine.tickets.json --limit 100\n",
    .run = diff_command,
};

}  // namespace stagger::cli
