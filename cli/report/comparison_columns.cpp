#include "cli/report/comparison_columns.hpp"

#include "cli/report/words.hpp"
#include "cli/terminal.hpp"
#include "core/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace stagger::cli {
namespace {

using workbench::Comparison;
using workbench::ComparisonRow;
using workbench::FormulaCheck;
using workbench::Summary;

class Columns {
 public:
  explicit Columns(const Comparison& comparison) : comparison_(comparison) {
    Ticks longest = 0;
    for (const ComparisonRow& row : comparison.rows) {
      if (!row.ok()) continue;
      rows_.push_back(&row);
      longest = std::max(longest, row.summary->makespan);
    }
    unit_ = unit_of(comparison.model.unit(), longest);
  }

  std::vector<ComparisonColumn> all() {
    add("schedule", true, [](const Summary& row) { return printable(row.name); });
    add(
        "SMs", false,
        [&](const Summary& row) {
          return row.sms == comparison_.problem.sms ? "" : std::to_string(row.sms);
        },
        fmt::format("SMs: of {}, where one order for all heads leaves some idle",
                    comparison_.problem.sms));
    add("makespan" + in_unit(), false, [&](const Summary& row) {  //
      return unit_.number(row.makespan);
    });
    speedups();
    add("bound" + in_unit(), false, [&](const Summary& row) {  //
      return unit_.number(row.bounds.best.ticks);
    });
    columns_.back().legend = bound_legend();
    add("gap", false, gap);
    add("why", true, cause_of_gap,
        "why: most of the gap on the SM that ends last: its load (packing), waits for a turn "
        "(contention), waits before its first reduction (startup), the L2 cache and device memory "
        "(memory)");
    add("bubbles", false, bubbles);
    add("Lemma 1", false, lemma1,
        "Lemma 1: depth-monotone dependency edges, or how many violate it (-: chains are not "
        "isomorphic)");
    add("formula", true, formula,
        "formula: named where the schedule claims one for this case and it holds");
    std::erase_if(columns_, [&](const ComparisonColumn& column) {
      return !rows_.empty() && std::ranges::all_of(column.cells, &std::string::empty);
    });
    return std::move(columns_);
  }

 private:
  void add(std::string header, bool left, const std::function<std::string(const Summary&)>& cell,
           std::string legend = "") {
    ComparisonColumn& column =
        columns_.emplace_back(ComparisonColumn{std::move(header), left, {}, std::move(legend)});
    for (const ComparisonRow* row : rows_)
      column.cells.push_back(cell(*row->summary));
  }

  void speedups() {
    if (comparison_.baseline.empty()) return;
    ComparisonColumn& column = columns_.emplace_back();
    column.header = "speedup";
    column.legend = "speedup: how many times as fast as " + printable(comparison_.baseline);
    for (const ComparisonRow* row : rows_) {
      const auto speedup = comparison_.speedup(*row);
      column.cells.push_back(speedup ? fmt::format("{:.3f}x", *speedup) : "");
    }
  }

  [[nodiscard]] std::string in_unit() const {
    const std::string name = unit_.name;
    return name == TimeUnit{}.name ? "" : " " + name;
  }

  /// One bound for all rows, or what makes the difference.
  [[nodiscard]] std::string bound_legend() const {
    std::map<Dispatch, const dag::Bound*> bounds;
    for (const ComparisonRow* row : rows_)
      bounds.emplace(row->summary->dispatch, &row->summary->bounds.best);
    if (bounds.empty()) return "";
    const auto words = [](const dag::Bound& bound) {
      return fmt::format("{} ({})", bound.by, bound.why);
    };
    const dag::Bound& first = *bounds.begin()->second;
    const bool same = std::ranges::all_of(
        bounds, [&](const auto& entry) { return entry.second->ticks == first.ticks; });
    if (same) return "bound: " + words(first) + "; optimal: reached";
    std::string text = "bound: ";
    for (const auto& [dispatch, bound] : bounds) {
      text += fmt::format("{} with {} dispatch: {}; ", unit_.number(bound->ticks),
                          dispatch_name(dispatch), words(*bound));
    }
    return text +
           "a CTA that is launched in order waits for all reductions of the one before it on its "
           "SM, a static lane goes on; optimal: reached, and nothing here is shorter";
  }

  static std::string gap(const Summary& row) {
    const Ticks bound = row.bounds.best.ticks;
    return row.optimal.value_or(false) ? "optimal"
                                       : percent(row.makespan - bound, std::max<Ticks>(bound, 1));
  }

  static std::string bubbles(const Summary& row) {
    const Ticks all = row.bubbles.total() + row.bubbles.busy;
    return percent(row.bubbles.total(), std::max<Ticks>(all, 1));
  }

  static std::string lemma1(const Summary& row) {
    if (!row.lemma1.premise) return "-";
    return row.lemma1.monotone ? "holds" : fmt::format("{} viol.", row.lemma1.violation_count);
  }

  static std::string formula(const Summary& row) {
    if (!row.formula) return "";
    const FormulaCheck& check = *row.formula;
    return check.holds ? check.formula->name
                       : fmt::format("{} FAILS: {}", check.formula->name, check.ticks);
  }

  const Comparison& comparison_;
  std::vector<const ComparisonRow*> rows_;  ///< that are ok
  TimeUnit unit_;
  std::vector<ComparisonColumn> columns_;
};

std::string failure(const Summary& summary) {
  const dag::Verification& verification = summary.verification;
  const dag::Liveness& liveness = verification.liveness;
  std::string text = dag::verdict_name(verification.verdict);
  if (liveness.residency_needed > liveness.residency_available) {
    return text + fmt::format(": needs {} CTAs resident, there are {}", liveness.residency_needed,
                              liveness.residency_available);
  }
  return verification.findings.empty() ? text : text + ": " + verification.findings.back().message;
}

}  // namespace

std::size_t ComparisonColumn::width() const {
  std::size_t widest = static_cast<std::size_t>(width_of(header));
  for (const std::string& cell : cells)
    widest = std::max(widest, static_cast<std::size_t>(width_of(cell)));
  return widest;
}

std::vector<ComparisonColumn> columns_of(const Comparison& comparison) {
  return Columns(comparison).all();
}

std::string reason_of(const ComparisonRow& row) {
  return row.summary ? failure(*row.summary) : row.unsupported;
}

const char* cause_of_gap(const Summary& summary) {
  const workbench::Gap gap = summary.gap();
  if (summary.makespan == summary.bounds.best.ticks) return "";
  if (gap.memory > std::max({gap.packing, gap.contention, gap.startup})) return "memory";
  if (gap.packing >= std::max(gap.contention, gap.startup)) return "packing";
  return gap.contention >= gap.startup ? "contention" : "startup";
}

}  // namespace stagger::cli
