#include "cli/report/comparison.hpp"

#include "cli/report/duration.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "core/files.hpp"
#include "core/version.hpp"
#include "sim/gantt_text.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Clock;
using workbench::Comparison;
using workbench::ComparisonRow;
using workbench::FormulaCheck;
using workbench::Summary;

constexpr std::size_t kColumns = 8;
using Cells = std::array<std::string, kColumns>;
using Widths = std::array<std::size_t, kColumns>;

/// Columns as narrow as what is in them, so that a line fits a terminal of 80.
Widths widths_of(const std::vector<Cells>& lines) {
  Widths widths{};
  for (const Cells& cells : lines) {
    for (std::size_t column = 0; column < kColumns; ++column)
      widths[column] = std::max(widths[column], cells[column].size());
  }
  return widths;
}

std::string line_of(const Cells& cells, const Widths& widths) {
  constexpr std::array kLeft = {true, false, false, false, true, false, false, true};
  std::string line;
  for (std::size_t column = 0; column < kColumns; ++column) {
    line += fmt::format(fmt::runtime(kLeft[column] ? "{:<{}} " : "{:>{}} "), cells[column],
                        widths[column]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string failure(const Summary& summary) {
  const dag::Verification& verification = summary.verification;
  const auto& liveness = verification.liveness;
  std::string text = dag::verdict_name(verification.verdict);
  if (liveness && liveness->residency_needed > liveness->residency_available) {
    return text + fmt::format(": needs {} CTAs resident, there are {}", liveness->residency_needed,
                              liveness->residency_available);
  }
  return verification.findings.empty() ? text : text + ": " + verification.findings.back().message;
}

/// What most of the gap is due to, on the SM that ends last.
const char* why(const Summary& summary) {
  const workbench::Gap gap = summary.gap();
  if (summary.makespan == summary.bounds.best.ticks) return "";
  if (gap.memory > std::max({gap.packing, gap.contention, gap.startup})) return "memory";
  if (gap.packing >= std::max(gap.contention, gap.startup)) return "packing";
  return gap.contention >= gap.startup ? "contention" : "startup";
}

std::string lemma1(const dag::Lemma1& lemma) {
  if (!lemma.premise) return "-";
  return lemma.monotone ? "holds" : fmt::format("{} viol.", lemma.violation_count);
}

std::string formula(const std::optional<FormulaCheck>& check) {
  if (!check) return "";
  return check->holds ? check->formula->name
                      : fmt::format("{} FAILS: {}", check->formula->name, check->ticks);
}

Cells cells_of(const Summary& summary, Clock clock) {
  const Ticks bound = summary.bounds.best.ticks;
  const Ticks all = std::max<Ticks>(summary.bubbles.total() + summary.bubbles.busy, 1);
  return {summary.name,
          short_duration(summary.makespan, clock),
          short_duration(bound, clock),
          summary.optimal.value_or(false)
              ? "optimal"
              : percent(summary.makespan - bound, std::max<Ticks>(bound, 1)),
          why(summary),
          percent(summary.bubbles.total(), all),
          lemma1(summary.lemma1),
          formula(summary.formula)};
}

bool is_ok(const ComparisonRow& row) {
  return row.summary && row.summary->ok();
}

class ComparisonText {
 public:
  ComparisonText(const Comparison& comparison, const Terminal& terminal)
      : comparison_(comparison), terminal_(terminal) {}

  [[nodiscard]] std::string text() const {
    return heading() + "\n" + table() + legend() + drawing();
  }

 private:
  [[nodiscard]] std::string heading() const {
    const workbench::TimeModel& model = comparison_.model;
    std::string text = describe(comparison_.problem) + "\n" + model_line(model) + "\n";
    if (model.clock == Clock::ns) text += machine_line(model) + "\n";
    return wrapped(text, terminal_.width, 6);
  }

  [[nodiscard]] std::string table() const {
    std::vector<Cells> lines = {
        {"schedule", "makespan", "bound", "gap", "why", "bubbles", "Lemma 1", "formula"}};
    for (const ComparisonRow& row : comparison_.rows) {
      if (is_ok(row)) lines.push_back(cells_of(*row.summary, comparison_.model.clock));
    }
    Widths widths = widths_of(lines);
    for (const schedules::Schedule* schedule : schedules::all())
      widths[0] = std::max(widths[0], std::string_view(schedule->name).size());
    std::string text = line_of(lines.front(), widths);
    std::size_t next = 1;
    for (const ComparisonRow& row : comparison_.rows)
      text += is_ok(row) ? painted(row, line_of(lines[next++], widths))
                         : fmt::format("{:<{}} {}\n", row.name, widths[0], reason(row));
    return text;
  }

  [[nodiscard]] static std::string reason(const ComparisonRow& row) {
    return row.summary ? failure(*row.summary) : row.unsupported;
  }

  /// The best are bold.
  [[nodiscard]] std::string painted(const ComparisonRow& row, const std::string& line) const {
    const bool best = row.summary->makespan == comparison_.best->makespan;
    if (!best || !terminal_.color) return line;
    return "\033[1m" + line.substr(0, line.size() - 1) + "\033[0m\n";
  }

  [[nodiscard]] std::string legend() const {
    std::string text = "\n";
    if (comparison_.best) {
      text += fmt::format("bound: {} ({}); optimal: reached\n", comparison_.best->bounds.best.by,
                          comparison_.best->bounds.best.why);
    }
    return text +
           "why: most of the gap on the SM that ends last: its load (packing), waits for a\n"
           "  turn (contention), waits before its first reduction (startup), the\n"
           "  L2 cache and device memory (memory)\n"
           "Lemma 1: depth-monotone dependency edges, or how many violate it (-: chains\n"
           "  are not isomorphic)\n"
           "formula: named where the schedule claims one for this case and it holds\n";
  }

  [[nodiscard]] std::string drawing() const {
    constexpr std::int64_t kDrawn = 200'000;
    const auto& best = comparison_.best;
    const std::int64_t tasks = comparison_.problem.tasks();
    if (!best || tasks == 0 || tasks > kDrawn) return "";
    return "\nbest: " + best->name + "\n" +
           sim::gantt_text(timeline_of(*best), {.width = terminal_.width,
                                                .unicode = terminal_.unicode,
                                                .color = terminal_.color,
                                                .max_rows = 16});
  }

  const Comparison& comparison_;
  const Terminal& terminal_;
};

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  std::string text = fmt::format(
      "{{\"schema\": \"stagger.compare/1\", \"version\": \"{}\",\n\"problem\": {},\n\"model\": "
      "{},\n\"best\": {},\n\"rows\": [",
      version(), workbench::counted_problem_json(comparison.problem).text(),
      workbench::model_json(comparison.problem, comparison.model).text(),
      (comparison.best ? Json(comparison.best->name) : Json()).text());
  const char* separator = "\n";
  for (const ComparisonRow& row : comparison.rows)
    text += std::exchange(separator, ",\n") + row_json(comparison, row).text();
  return text + "]}\n";
}

std::string comparison_text(const Comparison& comparison, const Terminal& terminal) {
  return ComparisonText(comparison, terminal).text();
}

}  // namespace stagger::cli
