#include "workbench/designs/comparison.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <utility>

namespace stagger::designs {
namespace {

void forget_tiles(Problem& problem) {
  problem.grids = HeadGrids();
  problem.mask.values.clear();
}

/// A row keeps what it says of itself, not what has an entry for each task or tile.
Analysis without_tables(Analysis analysis) {
  for (Stage& stage : analysis.plan.stages) {
    stage.work = FreeLanes{};
    forget_tiles(stage.problem);
  }
  if (analysis.table) {
    Table& table = analysis.table->table;
    table.slots = {};
    table.lane_begin.resize(1);
    forget_tiles(table.problem);
    analysis.table->simulation.reset();
    analysis.table->critical_path.steps = {};
  }
  return analysis;
}

struct Wanted {
  Selection selection;
  std::optional<schedules::Selection> schedule;
};

std::vector<Wanted> wanted(std::vector<schedules::Selection> schedules) {
  std::vector<Wanted> all;
  all.reserve(schedules.size());
  for (schedules::Selection& schedule : schedules)
    all.push_back({select("ordered"), std::move(schedule)});
  for (Selection& selection : compared())
    all.push_back({std::move(selection), std::nullopt});
  return all;
}

ComparisonRow row_of(const Wanted& design, const ComparisonRequest& request) {
  Request asked = request.request;
  asked.schedule = design.schedule;
  ComparisonRow row{.design = design.selection.design,
                    .name = design.schedule ? design.schedule->text : design.selection.text,
                    .unsupported = {},
                    .analysis = {}};
  const auto reason = design.schedule ? schedules::why_unsupported(*design.schedule, asked.problem)
                                      : why_unsupported(design.selection, asked);
  if (reason) {
    row.unsupported = *reason;
  } else {
    row.analysis = without_tables(analyze(design.selection, asked, request.analysis));
  }
  return row;
}

std::pair<int, Ticks> order_of(const ComparisonRow& row) {
  if (row.ok()) return {0, row.analysis->takes()};
  return {row.analysis ? 1 : 2, 0};
}

}  // namespace

std::vector<Selection> compared() {
  std::vector<Selection> all;
  for (const char* text : {"split", "split-best", "two-pass", "two-pass:launches=2", "opentau",
                           "ds-store", "q-stationary", "cluster", "head-per-cta"}) {
    all.push_back(select(text));
  }
  return all;
}

bool ComparisonRow::moves_with(const std::vector<std::string>& words) const {
  return analysis && std::ranges::any_of(analysis->plan.bits_depend_on, [&](const char* word) {
           return std::ranges::find(words, word) != words.end();
         });
}

const ComparisonRow* Comparison::best() const {
  return best_without({});
}

const ComparisonRow* Comparison::best_without(const std::vector<std::string>& words) const {
  const auto found = std::ranges::find_if(
      rows, [&](const ComparisonRow& row) { return knows_time(row) && !row.moves_with(words); });
  return found == rows.end() ? nullptr : &*found;
}

Comparison compare(ComparisonRequest request) {
  constexpr std::int64_t kMost = kMaxTasks / 2;
  const Request& asked = request.request;
  if (asked.problem.tasks() + asked.problem.chains() > kMost) {
    throw Error(ErrorKind::limit, describe(asked.problem) + ": a comparison takes " +
                                      std::to_string(kMost) + " tasks and chains at most");
  }
  Comparison result{.problem = asked.problem,
                    .model = asked.model,
                    .head_dim = asked.head_dim,
                    .element_bytes = asked.element_bytes};
  expect_one_mask(asked.problem, "a comparison of designs");
  check_timing(asked.model.timing, asked.problem);
  result.without_order = without_order(asked.problem, asked.model);
  const std::vector<Wanted> designs = wanted(std::move(request.schedules));
  result.missing = std::ssize(designs);
  for (const Wanted& design : designs) {
    if (request.progress) {
      request.progress(1 -
                       static_cast<double>(result.missing) / static_cast<double>(designs.size()));
    }
    if (request.stop && request.stop()) break;
    result.rows.push_back(row_of(design, request));
    --result.missing;
  }
  std::ranges::stable_sort(result.rows, {}, order_of);
  return result;
}

}  // namespace stagger::designs
