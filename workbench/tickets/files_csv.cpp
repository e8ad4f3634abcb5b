// Tickets as CSV, a row for each step:
//
//   stagger.tickets/1,name=fa3-local,dispatch=in-order,residency=132,release=immediate,initial=0
//   program,step,sem,wait,add,reduce,head,kv,q
//   0,0,0,0,1,1,0,0,0
//   0,1,1,,1,0,0,0,1
//   1,0,0,1,1,1,0,1,0
//
// The first row may be missing.

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "core/text.hpp"
#include "workbench/tickets/csv.hpp"
#include "workbench/tickets/files.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

namespace stagger::tickets {
namespace {

constexpr std::string_view kHeader = "stagger.tickets/1";
constexpr std::array<const char*, 9> kNames = {"program", "step", "sem", "wait", "add",
                                               "reduce",  "head", "kv",  "q"};

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file, std::vector<std::int64_t>& lines)
      : text_(without_bom(text)), file_(file), lines_(lines) {}

  Tickets run() {
    std::vector<Cell> row = next_row();
    if (!row.empty() && row.front().text == kHeader) {
      for (const Cell& cell : std::span(row).subspan(1))
        setting(cell);
      row = next_row();
    }
    expect_names(row);
    for (row = next_row(); !row.empty(); row = next_row())
      add_step(row);
    tickets_.end_program();
    if (tickets_.steps.empty()) tickets_.program_begin = {0};
    name_semaphores();
    return std::move(tickets_);
  }

 private:
  /// The next row that has cells; empty at the end.
  std::vector<Cell> next_row() {
    while (!text_.empty()) {
      std::vector<Cell> row = take_row(text_, line_);
      if (!row.empty()) return row;
    }
    return {};
  }

  template <std::size_t size>
  [[nodiscard]] int word(const Cell& cell, const char* what, const char* const (&known)[size]) {
    for (std::size_t index = 0; index < size; ++index) {
      if (cell.text == known[index]) return static_cast<int>(index);
    }
    reject(file_, cell.place,
           unknown_name(what, cell.text, std::vector<std::string>(known, known + size)));
  }

  void setting(Cell cell) {
    if (cell.text.empty()) return;
    const std::size_t equals = std::min(cell.text.find('='), cell.text.size());
    const std::string key(cell.text.substr(0, equals));
    const Cell value{cell.text.substr(std::min(equals + 1, cell.text.size())), cell.place};
    if (key == "name") {
      tickets_.name = value.text;
    } else if (key == "dispatch") {
      tickets_.dispatch = static_cast<Dispatch>(word(value, "dispatch", kDispatchNames));
    } else if (key == "release") {
      tickets_.release = static_cast<Release>(word(value, "release", kReleaseNames));
    } else if (key == "residency") {
      tickets_.residency =
          static_cast<std::int32_t>(integer(file_, value, "residency", 1, kMaxPrograms));
    } else if (key == "initial") {
      initial_ = integer(file_, value, "initial", -kAnyIndex, kAnyIndex);
    } else if (key == "semaphores") {
      semaphores_ = integer(file_, value, "semaphores", 0, kMaxSemaphores);
    } else {
      const std::vector<std::string> known = {"name",    "dispatch", "residency",
                                              "release", "initial",  "semaphores"};
      reject(file_, cell.place, unknown_name("key", key, known));
    }
  }

  void expect_names(const std::vector<Cell>& row) {
    const bool right =
        row.size() == kNames.size() &&
        std::equal(row.begin(), row.end(), kNames.begin(),
                   [](const Cell& cell, const char* name) { return cell.text == name; });
    if (right) return;
    reject(file_, row.empty() ? TextPlace{line_ + 1, 1} : row.front().place,
           "expected the row program,step,sem,wait,add,reduce,head,kv,q");
  }

  void add_step(const std::vector<Cell>& row) {
    if (row.size() != kNames.size()) {
      reject(file_, row.front().place,
             "a step has 9 cells (program,step,sem,wait,add,reduce,head,kv,q), not " +
                 std::to_string(row.size()));
    }
    const auto number = [&](std::size_t index, std::int64_t least, std::int64_t most) {
      return static_cast<std::int32_t>(integer(file_, row[index], kNames[index], least, most));
    };
    go_to(row, number(0, 0, kMaxPrograms - 1), number(1, 0, kAnyIndex));
    Step step;
    step.semaphore = Semaphore{number(2, 0, semaphores_.value_or(kMaxSemaphores) - 1)};
    if (!row[3].text.empty()) step.wait = number(3, -kAnyIndex, kAnyIndex);
    step.add = number(4, 0, kAnyIndex);
    step.reduces = number(5, 0, 1) == 1;
    step.task = {Head{number(6, 0, kMaxHeads)}, KvTile{number(7, 0, kMaxTiles)},
                 QTile{number(8, -1, kMaxTiles)}};
    step.chain = chain_of(step.task);
    tickets_.steps.push_back(step);
    lines_.push_back(line_);
    most_ = std::max(most_, std::int64_t{step.semaphore.value} + 1);
  }

  /// Ends programs up to the one of the next step.
  void go_to(const std::vector<Cell>& row, std::int32_t program, std::int32_t step) {
    if (program < tickets_.programs()) {
      reject(file_, row[0].place,
             "program " + std::to_string(program) + " comes behind program " +
                 std::to_string(tickets_.programs()) + ": steps are listed program by program");
    }
    while (tickets_.programs() < program)
      tickets_.end_program();
    const std::int64_t expected = std::ssize(tickets_.steps) - tickets_.program_begin.back();
    if (step == expected) return;
    reject(file_, row[1].place,
           "step " + std::to_string(step) + " of program " + std::to_string(program) + ": step " +
               std::to_string(expected) + " is next");
  }

  void name_semaphores() { tickets_.initial.assign(semaphores_.value_or(most_), initial_); }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::int64_t>& lines_;
  std::int64_t line_ = 0;
  std::int64_t initial_ = 0;
  std::optional<std::int64_t> semaphores_;
  std::int64_t most_ = 0;
  Tickets tickets_;
};

/// Whether a cell is neither a number nor one that stands for none.
bool is_name(const Cell& cell) {
  return !cell.text.empty() && cell.text != "." &&
         cell.text.find_first_not_of("-0123456789") != std::string_view::npos;
}

}  // namespace

Tickets read_tickets_csv(std::string_view text, const std::string& file,
                         std::vector<std::int64_t>& lines) {
  return CsvReader(text, file, lines).run();
}

std::string write_tickets_csv(const Tickets& tickets) {
  std::string name = tickets.name;
  std::erase_if(name, [](char letter) {
    return letter == ',' || letter == '"' || letter == '=' || (letter >= 0 && letter < ' ');
  });
  std::string text = std::string(kHeader) + ",name=" + name +
                     ",dispatch=" + dispatch_name(tickets.dispatch) +
                     ",release=" + release_name(tickets.release) +
                     ",semaphores=" + std::to_string(tickets.semaphores());
  if (tickets.residency > 0) text += ",residency=" + std::to_string(tickets.residency);
  if (!tickets.initial.empty()) text += ",initial=" + std::to_string(tickets.initial.front());
  text += "\nprogram,step,sem,wait,add,reduce,head,kv,q\n";
  for (Program program{0}; program.value < tickets.programs(); ++program) {
    std::int64_t place = 0;
    for (const Step& step : tickets.program(program)) {
      text += std::to_string(program.value) + "," + std::to_string(place++) + "," +
              std::to_string(step.semaphore.value) + "," +
              (step.waits() ? std::to_string(step.wait) : "") + "," + std::to_string(step.add) +
              (step.reduces ? ",1," : ",0,") + std::to_string(step.task.head.value) + "," +
              std::to_string(step.task.kv.value) + "," + std::to_string(step.task.q.value) + "\n";
    }
  }
  return text;
}

Tickets read_lock_values(std::string_view text, const std::string& file,
                         std::vector<TextRange>& places) {
  Tickets tickets;
  text = without_bom(text);
  std::int64_t line = 0;
  std::size_t columns = 0;
  while (!text.empty()) {
    const std::vector<Cell> row = take_row(text, line);
    if (row.empty()) continue;
    if (columns == 0 && std::all_of(row.begin(), row.end(), is_name)) continue;  // names of columns
    if (columns == 0) columns = row.size();
    if (row.size() != columns) {
      reject(file, row.front().place,
             "a row of " + std::to_string(row.size()) + " cells; the first has " +
                 std::to_string(columns));
    }
    const KvTile kv{tickets.programs()};
    for (std::size_t q = 0; q < row.size(); ++q) {
      const Cell& cell = row[q];
      if (cell.text.empty() || cell.text == "." || cell.text == "-1") continue;
      const auto wait =
          static_cast<std::int32_t>(integer(file, cell, "the lock value", -kAnyIndex, kAnyIndex));
      const Task task{Head{0}, kv, QTile{static_cast<std::int32_t>(q)}};
      tickets.steps.push_back({.semaphore = Semaphore{task.q.value},
                               .wait = wait,
                               .task = task,
                               .chain = chain_of(task)});
      places.push_back(cell.range());
    }
    tickets.end_program();
  }
  if (columns == 0) {
    throw Error(ErrorKind::invalid_input, file + ": there are no lock values in it");
  }
  tickets.initial.assign(columns, 0);
  return tickets;
}

}  // namespace stagger::tickets
