#include "cli/report/comparison.hpp"

#include "cli/report/comparison_columns.hpp"
#include "cli/report/words.hpp"
#include "core/printable.hpp"
#include "sim/gantt_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Clock;
using workbench::Comparison;
using workbench::ComparisonRow;

/// The problem, the timing model and, in ns, whose it is.
std::string heading(const Comparison& comparison, const char* between) {
  const workbench::TimeModel& model = comparison.model;
  std::string text = describe(comparison.problem) + between + model_line(model) + between;
  if (model.clock != Clock::ns) return text;
  const TimeUnit unit = unit_of_ns(std::max(model.start, model.passes));
  return text + machine_line(model) + between +
         "a whole run takes longer: " + around_words(model, unit) + " " + unit.name + between;
}

/// `symmetric-shift; as fast: head-blocks, optimal`.
std::string best_words(const Comparison& comparison) {
  std::string text = printable(comparison.best->name);
  const char* separator = "; as fast: ";
  for (const std::string& name : comparison.ties()) {
    text += separator + printable(name);
    separator = ", ";
  }
  return text;
}

class ComparisonText {
 public:
  ComparisonText(const Comparison& comparison, const Terminal& terminal)
      : comparison_(comparison), terminal_(terminal), columns_(columns_of(comparison)) {
    first_width_ = columns_.front().width();
    for (const ComparisonRow& row : comparison.rows)
      first_width_ = std::max(first_width_, printable(row.name).size());
    leave_out_what_does_not_fit();
  }

  [[nodiscard]] std::string text() const {
    return wrapped(heading(comparison_, "\n"), terminal_.width, 6) + "\n" + table() + legend() +
           drawing();
  }

 private:
  /// A makespan is shown however narrow the terminal is.
  void leave_out_what_does_not_fit() {
    std::vector<std::size_t> widths = {first_width_};
    for (std::size_t column = 1; column < columns_.size(); ++column)
      widths.push_back(columns_[column].width());
    columns_.resize(columns_that_fit(widths, terminal_.width, 2));
  }

  [[nodiscard]] std::string line(std::size_t index, bool header) const {
    std::string text;
    for (const ComparisonColumn& column : columns_) {
      const std::size_t width = &column == &columns_.front() ? first_width_ : column.width();
      text += fmt::format(fmt::runtime(column.left ? "{:<{}} " : "{:>{}} "),
                          header ? column.header : column.cells[index], width);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  }

  [[nodiscard]] std::string table() const {
    std::string text = columns_.front().cells.empty() ? "" : line(0, true);
    std::size_t next = 0;
    for (const ComparisonRow& row : comparison_.rows)
      text += row.ok() ? painted(row, line(next++, false)) : remark(row);
    return text;
  }

  /// A row that has no times: its name and why.
  [[nodiscard]] std::string remark(const ComparisonRow& row) const {
    return wrapped(fmt::format("{:<{}} {}\n", printable(row.name), first_width_, reason_of(row)),
                   terminal_.width, static_cast<int>(first_width_) + 1);
  }

  /// The best are bold.
  [[nodiscard]] std::string painted(const ComparisonRow& row, const std::string& line) const {
    const bool best = row.summary->makespan == comparison_.best->makespan;
    if (!best || !terminal_.color) return line;
    return "\033[1m" + line.substr(0, line.size() - 1) + "\033[0m\n";
  }

  [[nodiscard]] std::string legend() const {
    std::string text;
    for (const ComparisonColumn& column : columns_) {
      const bool says = !column.legend.empty() && !column.cells.empty();
      if (says) text += wrapped(column.legend + "\n", terminal_.width, 2);
    }
    return text.empty() ? "" : "\n" + text;
  }

  [[nodiscard]] std::string drawing() const {
    constexpr std::int64_t kDrawn = 200'000;
    if (!comparison_.best) return "";
    std::string text = wrapped("\nbest: " + best_words(comparison_) + "\n", terminal_.width, 2);
    const std::int64_t tasks = comparison_.problem.tasks();
    if (tasks == 0 || tasks > kDrawn) return text;
    return text + sim::gantt_text(timeline_of(*comparison_.best), {.width = terminal_.width,
                                                                   .unicode = terminal_.unicode,
                                                                   .color = terminal_.color,
                                                                   .max_rows = 16});
  }

  const Comparison& comparison_;
  const Terminal& terminal_;
  std::vector<ComparisonColumn> columns_;
  std::size_t first_width_ = 0;  ///< of names, those of rows without times too
};

}  // namespace

std::string comparison_text(const Comparison& comparison, const Terminal& terminal) {
  return ComparisonText(comparison, terminal).text();
}

std::string comparison_markdown(const Comparison& comparison) {
  const std::vector<ComparisonColumn> columns = columns_of(comparison);
  std::string text = markdown_cell(heading(comparison, "  \n")) + "\n";
  std::string rule;
  for (const ComparisonColumn& column : columns) {
    text += "| " + column.header + " ";
    rule += column.left ? "|---" : "|--:";
  }
  text += "|\n" + rule + "|\n";
  std::size_t next = 0;
  for (const ComparisonRow& row : comparison.rows) {
    if (row.ok()) {
      for (const ComparisonColumn& column : columns)
        text += "| " + markdown_cell(column.cells[next]) + " ";
      ++next;
    } else {
      text +=
          "| " + markdown_cell(printable(row.name)) + " | " + markdown_cell(reason_of(row)) + " ";
      for (std::size_t column = 2; column < columns.size(); ++column)
        text += "| ";
    }
    text += "|\n";
  }
  text += "\n";
  for (const ComparisonColumn& column : columns) {
    if (!column.legend.empty()) text += "- " + markdown_cell(column.legend) + "\n";
  }
  return text + (comparison.best ? "- best: " + markdown_cell(best_words(comparison)) + "\n" : "");
}

}  // namespace stagger::cli
