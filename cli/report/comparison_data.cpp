// A comparison for programs.

#include "cli/report/comparison.hpp"
#include "cli/report/comparison_columns.hpp"
#include "cli/report/json.hpp"
#include "cli/report/words.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

using workbench::Comparison;
using workbench::ComparisonRow;
using workbench::Summary;

/// Cells of one line, as the first line names them.
std::vector<std::string> cells_of(const Comparison& comparison, const ComparisonRow& row) {
  if (!row.summary) return {printable(row.name), "", "unsupported"};
  const Summary& summary = *row.summary;
  std::vector<std::string> cells = {printable(row.name), dispatch_name(summary.dispatch),
                                    dag::verdict_name(summary.verification.verdict)};
  if (!row.ok()) return cells;
  const Ticks bound = summary.bounds.best.ticks;
  const auto speedup = comparison.speedup(row);
  cells.insert(
      cells.end(),
      {std::to_string(summary.makespan), speedup ? fmt::format("{:.6f}", *speedup) : "",
       std::to_string(bound), summary.bounds.best.by,
       summary.optimal ? (*summary.optimal ? "yes" : "no") : "",
       bound == 0 ? "" : fmt::format("{:.6f}", decimal(exact(summary.makespan - bound, bound))),
       cause_of_gap(summary), fmt::format("{:.6f}", summary.bubble_fraction()),
       summary.lemma1.premise ? std::to_string(summary.lemma1.violation_count) : "",
       summary.formula ? summary.formula->formula->name : "",
       summary.formula ? (summary.formula->holds ? "yes" : "no") : ""});
  return cells;
}

}  // namespace

std::string comparison_json(const Comparison& comparison, std::span<const Judgement> judgements) {
  const auto name_or_null = [](const std::string* name) {
    return (name == nullptr ? Json() : Json(*name)).text();
  };
  std::string text = fmt::format(
      "{{\"schema\": \"stagger.compare/1\", \"version\": \"{}\",\n\"problem\": {},\n\"model\": "
      "{},\n\"best\": {},\n\"ties\": {},\n\"baseline\": {},\n\"missing\": {},\n",
      version(), workbench::counted_problem_json(comparison.problem).text(),
      workbench::model_json(comparison.problem, comparison.model).text(),
      name_or_null(comparison.best ? &comparison.best->name : nullptr),
      Json(comparison.ties()).text(),
      name_or_null(comparison.baseline.empty() ? nullptr : &comparison.baseline),
      comparison.missing);
  if (!judgements.empty()) {
    text += fmt::format("\"expectations\": {},\n", judgements_json(judgements).text());
  }
  text += "\"rows\": [";
  const char* separator = "\n";
  for (const ComparisonRow& row : comparison.rows) {
    Json json = row_json(comparison, row);
    if (const auto speedup = comparison.speedup(row)) json["speedup"] = *speedup;
    text += std::exchange(separator, ",\n") + json.text();
  }
  return text + "]}\n";
}

std::string comparison_csv(const Comparison& comparison) {
  constexpr std::size_t kCells = 15;  // without the SMs
  std::string text = fmt::format(
      "schedule,dispatch,verdict,makespan_{0},speedup,bound_{0},bound_by,optimal,gap,why,bubbles,"
      "lemma1_violations,formula,formula_holds,reason,sms\n",
      comparison.model.unit());
  for (const ComparisonRow& row : comparison.rows) {
    std::vector<std::string> cells = cells_of(comparison, row);
    cells.resize(kCells);
    if (!row.ok()) cells.back() = printable(reason_of(row));
    cells.push_back(row.summary ? std::to_string(row.summary->sms) : "");
    const char* separator = "";
    for (const std::string& cell : cells)
      text += std::exchange(separator, ",") + in_csv(cell);
    text += "\n";
  }
  return text;
}

}  // namespace stagger::cli
