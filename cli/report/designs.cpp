#include "cli/report/designs.hpp"

#include "cli/report/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Clock;

constexpr const char* kBitsLegend =
    "bits move with: what besides numbers, mask and lengths changes the bits of a gradient; batch "
    "is how many heads there are; a schedule's row is the ordered design by it";
constexpr const char* kStoreLegend =
    "ds-store: no rate of device memory is known here, and dS is stored and loaded in no time";

/// Both sides of tiles are `tiles`.
std::string short_bits(const std::vector<const char*>& words) {
  const auto has = [&](std::string_view word) { return std::ranges::count(words, word) > 0; };
  const bool tiles = has(designs::bits::kTileQ) && has(designs::bits::kTileKv);
  std::string text = tiles ? "tiles" : "";
  for (const std::string_view word : words) {
    if (tiles && word.starts_with("tile-")) continue;
    text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text.empty() ? "nothing" : text;
}

/// The cells of a table, a row each; the last column is text, as wide as it likes.
struct Cells {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

class DesignTable {
 public:
  explicit DesignTable(const designs::Comparison& comparison) : comparison_(comparison) {
    Ticks longest = comparison.without_order;
    for (const designs::ComparisonRow& row : comparison.rows) {
      if (!row.ok()) continue;
      longest = std::max(longest, row.analysis->takes());
      timed_ = timed_ || row.analysis->elapsed.has_value();
    }
    unit_ = unit_of(comparison.model.unit(), longest);
  }

  [[nodiscard]] Cells cells() const {
    const std::string in_unit =
        unit_.name == std::string(TimeUnit{}.name) ? "" : std::string(" ") + unit_.name;
    Cells cells;
    cells.header = {"design", "makespan" + in_unit};
    if (timed_) cells.header.push_back("elapsed" + in_unit);
    for (const char* name : {"compute", "workspace", "HBM", "launches", "bits move with"})
      cells.header.emplace_back(name);
    for (const designs::ComparisonRow& row : comparison_.rows) {
      if (row.ok()) cells.rows.push_back(cells_of(row));
    }
    return cells;
  }

  [[nodiscard]] std::string heading(const char* between) const {
    std::string text =
        describe(comparison_.problem) + between + model_line(comparison_.model) + between;
    if (comparison_.model.clock == Clock::ns) text += machine_line(comparison_.model) + between;
    return text + fmt::format("head_dim {}, {} bytes an element; without any order {}{}",
                              comparison_.head_dim, comparison_.element_bytes,
                              unit_.text(comparison_.without_order), between);
  }

  [[nodiscard]] std::string legend() const {
    std::string text = std::string(kBitsLegend) + "\n";
    if (timed_) text += "elapsed: with passes over whole tensors and launches of 3 µs each\n";
    if (!comparison_.model.timing.memory) text += std::string(kStoreLegend) + "\n";
    return text;
  }

 private:
  [[nodiscard]] std::vector<std::string> cells_of(const designs::ComparisonRow& row) const {
    const designs::Analysis& analysis = *row.analysis;
    const designs::Plan& plan = analysis.plan;
    std::vector<std::string> cells = {row.name, unit_.number(analysis.makespan)};
    if (timed_) cells.push_back(analysis.elapsed ? unit_.number(*analysis.elapsed) : "");
    cells.push_back(fmt::format("{:.1f}x", 1e-3 * static_cast<double>(plan.compute_permille)));
    cells.push_back(bytes_text(plan.workspace_bytes));
    cells.push_back(bytes_text(plan.hbm_bytes));
    cells.push_back(std::to_string(plan.launches()));
    cells.push_back(short_bits(plan.bits_depend_on));
    return cells;
  }

  const designs::Comparison& comparison_;
  bool timed_ = false;
  TimeUnit unit_;
};

std::vector<std::size_t> widths_of(const designs::Comparison& comparison, const Cells& cells) {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < cells.header.size(); ++column) {
    std::size_t widest = static_cast<std::size_t>(width_of(cells.header[column]));
    for (const auto& row : cells.rows)
      widest = std::max(widest, static_cast<std::size_t>(width_of(row[column])));
    widths.push_back(widest);
  }
  for (const designs::ComparisonRow& row : comparison.rows)
    widths.front() = std::max(widths.front(), static_cast<std::size_t>(width_of(row.name)));
  return widths;
}

/// A makespan and what bits move with are shown however narrow the terminal is.
void leave_out_what_does_not_fit(Cells& cells, std::vector<std::size_t>& widths, int width) {
  constexpr int kTextAtLeast = 10;
  const std::size_t last = widths.size() - 1;
  const std::size_t fit =
      columns_that_fit(std::span(widths).first(last), width - 1 - kTextAtLeast, 2);
  const auto leave_out = [&](auto& row) {
    row.erase(row.begin() + std::ssize(row) - 1 - static_cast<std::ptrdiff_t>(last - fit),
              row.end() - 1);
  };
  leave_out(widths);
  leave_out(cells.header);
  for (auto& row : cells.rows)
    leave_out(row);
}

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    int width) {
  std::string text;
  for (std::size_t column = 0; column < cells.size(); ++column) {
    const bool left = column == 0 || column + 1 == cells.size();
    text += fmt::format(fmt::runtime(left ? "{:<{}} " : "{:>{}} "), cells[column], widths[column]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  std::size_t indent = 0;
  for (std::size_t column = 0; column + 1 < widths.size(); ++column)
    indent += widths[column] + 1;
  return wrapped(text + "\n", width, static_cast<int>(indent));
}

}  // namespace

std::string designs_text(const designs::Comparison& comparison, const Terminal& terminal) {
  const DesignTable table(comparison);
  Cells cells = table.cells();
  std::vector<std::size_t> widths = widths_of(comparison, cells);
  leave_out_what_does_not_fit(cells, widths, terminal.width);
  std::string text = wrapped(table.heading("\n"), terminal.width, 6) + "\n";
  text += line_of(cells.header, widths, terminal.width);
  for (const auto& row : cells.rows)
    text += line_of(row, widths, terminal.width);
  for (const designs::ComparisonRow& row : comparison.rows) {
    if (row.ok()) continue;
    text += wrapped(fmt::format("{:<{}} {}\n", row.name, widths.front(), reason_of(row)),
                    terminal.width, static_cast<int>(widths.front()) + 1);
  }
  return text + "\n" + wrapped(table.legend(), terminal.width, 2);
}

std::string designs_markdown(const designs::Comparison& comparison) {
  const DesignTable table(comparison);
  const Cells cells = table.cells();
  std::string text = markdown_cell(table.heading("  \n")) + "\n";
  const auto add = [&](const std::vector<std::string>& row) {
    for (const std::string& cell : row)
      text += "| " + markdown_cell(cell) + " ";
    text += "|\n";
  };
  add(cells.header);
  text += "|---";
  for (std::size_t column = 1; column + 1 < cells.header.size(); ++column)
    text += "|--:";
  text += "|---|\n";
  for (const auto& row : cells.rows)
    add(row);
  for (const designs::ComparisonRow& row : comparison.rows) {
    if (row.ok()) continue;
    std::vector<std::string> without(cells.header.size());
    without.front() = row.name;
    without.back() = reason_of(row);
    add(without);
  }
  text += "\n";
  std::istringstream legend(table.legend());
  for (std::string line; std::getline(legend, line);)
    text += "- " + markdown_cell(line) + "\n";
  return text;
}

}  // namespace stagger::cli
