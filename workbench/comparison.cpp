#include "workbench/comparison.hpp"

#include <utility>

namespace stagger::workbench {
namespace {

void add(Comparison& comparison, Source source, const AnalysisOptions& options) {
  Analysis analysis = analyze(std::move(source), options);
  const Summary& summary = analysis;
  comparison.rows.push_back({.name = summary.name, .unsupported = {}, .summary = summary});
  if (!analysis.ok()) return;
  if (comparison.best && comparison.best->makespan <= analysis.makespan) return;
  comparison.best = std::move(analysis);
}

}  // namespace

Comparison compare(ComparisonRequest request) {
  Comparison comparison{.problem = std::move(request.problem),
                        .model = std::move(request.model),
                        .rows = {},
                        .best = {}};
  double done = 0;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (request.progress) {
      request.progress(done++ / static_cast<double>(schedules::all().size()));
    }
    schedules::Selection selection = schedules::select(schedule->name);
    if (const auto reason = schedules::why_unsupported(selection, comparison.problem)) {
      comparison.rows.push_back({.name = schedule->name, .unsupported = *reason, .summary = {}});
      continue;
    }
    Source source = source_of(std::move(selection), comparison.problem, comparison.model);
    if (request.kv_index_ranks) use_kv_index_ranks(source.table);
    add(comparison, std::move(source), request.analysis);
  }
  for (Table& table : request.tables) {
    add(comparison, {.table = std::move(table), .model = comparison.model, .selection = {}},
        request.analysis);
  }
  for (ComparisonRow& row : comparison.rows) {
    if (!row.summary || !row.summary->ok() || row.summary->optimal) continue;
    if (comparison.best->makespan < row.summary->makespan) row.summary->optimal = false;
  }
  return comparison;
}

}  // namespace stagger::workbench
