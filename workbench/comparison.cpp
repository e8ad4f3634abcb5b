#include "workbench/comparison.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "workbench/invariance.hpp"

#include <algorithm>
#include <utility>

namespace stagger::workbench {
namespace {

class Comparer {
 public:
  explicit Comparer(ComparisonRequest request) : request_(std::move(request)) {
    result_.problem = std::move(request_.problem);
    result_.model = std::move(request_.model);
    result_.baseline = std::move(request_.baseline);
    result_.missing = std::ssize(request_.schedules) + std::ssize(request_.tables);
  }

  Comparison run() {
    const auto all = static_cast<double>(std::max<std::int64_t>(result_.missing, 1));
    const auto goes_on = [&] {
      if (request_.progress) request_.progress(1 - static_cast<double>(result_.missing) / all);
      return !request_.stop || !request_.stop();
    };
    for (schedules::Selection& selection : request_.schedules) {
      if (!goes_on()) break;
      add(std::move(selection));
    }
    for (Table& table : request_.tables) {
      if (!goes_on()) break;
      add({.table = std::move(table), .model = result_.model, .selection = {}});
    }
    judge();
    std::ranges::stable_sort(result_.rows, {}, order_of);
    return std::move(result_);
  }

 private:
  void add(schedules::Selection selection) {
    const std::string name = selection.text;
    std::string why_not;
    if (std::optional<Source> source = source_or_reason(std::move(selection), why_not)) {
      if (request_.kv_index_ranks) use_kv_index_ranks(source->table);
      return add(*std::move(source));
    }
    result_.rows.push_back({.name = name, .unsupported = why_not, .summary = {}});
    --result_.missing;
  }

  /// Absent, and why, if the schedule has no table for what is asked.
  std::optional<Source> source_or_reason(schedules::Selection selection, std::string& why_not) {
    const Problem& problem = result_.problem;
    if (const auto reason = schedules::why_unsupported(selection, problem)) {
      why_not = *reason;
      return std::nullopt;
    }
    if (!request_.invariant) {
      return source_of(std::move(selection), problem, result_.model, request_.stop);
    }
    expect_searchable(selection, problem);
    std::optional<Table> table = invariant_table(selection, problem, result_.model.timing);
    if (!table) {
      why_not = why_not_invariant(selection, problem);
      return std::nullopt;
    }
    return Source{
        .table = *std::move(table), .model = result_.model, .selection = std::move(selection)};
  }

  /// A row has the name that was asked for, whatever its table says was chosen.
  void add(Source source) {
    if (source.selection) source.table.name = source.selection->text;
    Analysis analysis = analyze(std::move(source), request_.analysis);
    bound_by_all_sms(analysis);
    const Summary& summary = analysis;
    result_.rows.push_back({.name = summary.name, .unsupported = {}, .summary = summary});
    --result_.missing;
    if (!analysis.ok()) return;
    if (result_.best && result_.best->makespan <= analysis.makespan) return;
    result_.best = std::move(analysis);
  }

  /// A table that leaves SMs idle is held against what all of them could do.
  void bound_by_all_sms(Analysis& analysis) const {
    if (analysis.sms == result_.problem.sms) return;
    analysis.bounds =
        dag::lower_bounds(result_.problem, result_.model.timing, analysis.table.dispatch);
    analysis.optimal.reset();
    if (analysis.ok() && analysis.makespan == analysis.bounds.best.ticks) analysis.optimal = true;
  }

  /// What is beaten is not optimal, even if nothing with its dispatch is shorter.
  void judge() {
    for (ComparisonRow& row : result_.rows) {
      if (row.ok() && result_.best->makespan < row.summary->makespan) row.summary->optimal = false;
    }
  }

  static std::pair<int, Ticks> order_of(const ComparisonRow& row) {
    if (row.ok()) return {0, row.summary->makespan};
    return {row.summary ? 1 : 2, 0};
  }

  ComparisonRequest request_;
  Comparison result_;
};

}  // namespace

std::vector<schedules::Selection> ComparisonRequest::every_schedule() {
  std::vector<schedules::Selection> selections;
  for (const schedules::Schedule* schedule : schedules::all())
    selections.push_back(schedules::select(schedule->name));
  return selections;
}

std::vector<std::string> Comparison::ties() const {
  std::vector<std::string> names;
  for (std::size_t index = 1; index < rows.size(); ++index) {
    const ComparisonRow& row = rows[index];
    if (row.ok() && row.summary->makespan == best->makespan) names.push_back(row.name);
  }
  return names;
}

const ComparisonRow* Comparison::find(const std::string& name) const {
  const auto found = std::ranges::find(rows, name, &ComparisonRow::name);
  return found == rows.end() ? nullptr : &*found;
}

std::optional<double> Comparison::speedup(const ComparisonRow& row) const {
  const ComparisonRow* const base = find(baseline);
  if (base == nullptr || !base->ok() || !row.ok() || row.summary->makespan == 0) {
    return std::nullopt;
  }
  return static_cast<double>(base->summary->makespan) / static_cast<double>(row.summary->makespan);
}

Comparison compare(ComparisonRequest request) {
  // Beside the table at hand the best is kept.
  constexpr std::int64_t kMost = kMaxTasks / 2;
  const Problem& problem = request.problem;
  if (problem.tasks() + problem.chains() > kMost) {
    throw Error(ErrorKind::limit, describe(problem) + ": a comparison keeps two tables, of " +
                                      std::to_string(kMost) + " tasks and chains at most");
  }
  return Comparer(std::move(request)).run();
}

}  // namespace stagger::workbench
