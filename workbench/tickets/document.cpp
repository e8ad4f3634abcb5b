#include "workbench/tickets/document.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/json_error.hpp"
#include "core/text.hpp"
#include "workbench/tickets/csv.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/tensors.hpp"

#include <utility>

namespace stagger::tickets {

extern const Rule kStg016;

namespace {

bool is_json(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && (text[begin] == '{' || text[begin] == '[');
}

std::string slot_pointer(std::int32_t lane, std::int64_t place) {
  return "/lanes/" + std::to_string(lane) + "/" + std::to_string(place);
}

/// Notes slots whose tasks do not exist: they touch no lock, so they are not among the tickets.
void find_out_of_range(const Table& table, Document& document) {
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      if (table.problem.contains(table.slots[slot].task)) continue;
      document.found.push_back({.rule = &kStg016,
                                .message = describe(table.slots[slot].task) + " does not exist",
                                .pointer = slot_pointer(lane.value, slot - table.begin_of(lane))});
    }
  }
}

void find_lanes(const Table& table, Document& document) {
  if (table.dispatch != Dispatch::static_ || table.lanes() <= table.problem.sms) return;
  document.found.push_back({.rule = &kStg016,
                            .message = counted(table.lanes(), "lane") + " for " +
                                       counted(table.problem.sms, "SM") +
                                       "; with static dispatch lane i is SM i",
                            .pointer = "/lanes/" + std::to_string(table.problem.sms)});
}

/// Which slot of its lane each step is: out of those that exist, and a combination that of the
/// task before.
std::vector<std::int64_t> slots_of(const Table& table, const Tickets& tickets) {
  std::vector<std::int64_t> slots;
  slots.reserve(tickets.steps.size());
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::int64_t slot = table.begin_of(lane) - 1;
    for (const Step& step : tickets.program(Program{lane.value})) {
      if (step.reduces) {
        do
          ++slot;
        while (!table.problem.contains(table.slots[slot].task));
      }
      slots.push_back(slot - table.begin_of(lane));
    }
  }
  return slots;
}

Document document_of(Table table, bool json, std::int64_t limit) {
  Document document{.kind = Kind::table, .json = json, .found = Findings(limit)};
  find_lanes(table, document);
  find_out_of_range(table, document);
  document.tickets = from_table(existing_tasks(table));
  document.slots = slots_of(table, document.tickets);
  document.problem = std::move(table.problem);
  return document;
}

/// Whether a document's own schema is a table's: a name may have any words.
bool is_table(const JsonValue& root) {
  return root.is_object() && root.has("schema") && root.at("schema").is_string() &&
         root.at("schema").string().starts_with("stagger.table/");
}

/// A JSON document that is no table.
Document read_steps_json(const JsonValue& root, std::int64_t limit) {
  if (root.has("schema") && root.at("schema").string() == "stagger.fa4/1") {
    Document document{.kind = Kind::fa4, .found = Findings(limit)};
    document.lists = read_block_lists(root, document.found);
    document.origin = ranks_are_whole(document.lists) ? Origin::ranked_lists : Origin::block_lists;
    document.tickets = tickets_of(document.lists, document.entries);
    return document;
  }
  return {.tickets = read_tickets(root), .found = Findings(limit)};
}

Document read_json(std::string_view text, const std::string& file, std::int64_t limit) {
  {
    const JsonDocument parsed(text, file);
    if (!is_table(parsed.root())) return read_steps_json(parsed.root(), limit);
  }
  return document_of(read_table_json(text, file), true, limit);
}

/// What is wrong, with its line and column in front; as it was where they are not known.
std::string placed(const JsonError& error, std::string_view text, const std::string& file) {
  const TextPlace place = json_places(text, std::span(&error.pointer(), 1)).front().begin;
  std::string what = error.what();
  const std::string begin = file + ": ";
  if (place.line == 0 || !what.starts_with(begin)) return what;
  return file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) + ": " +
         what.substr(begin.size());
}

Document read_csv(std::string_view text, const std::string& file, std::int64_t limit) {
  const std::string_view plain = without_bom(text);
  if (is_table_csv(plain)) {
    return document_of(read_table_csv(text, file, nullptr), false, limit);
  }
  Document document{.json = false, .found = Findings(limit)};
  if (plain.starts_with("stagger.tickets/") || plain.starts_with("program")) {
    std::vector<std::int64_t> lines;
    document.tickets = read_tickets_csv(text, file, lines);
    document.places.reserve(lines.size());
    for (const std::int64_t line : lines)
      document.places.push_back({.begin = {line, 1}});
    return document;
  }
  document.kind = Kind::lock_values;
  document.tickets = read_lock_values(text, file, document.places);
  return document;
}

/// The cells of a table's lanes that are not empty, by lane; the first row may be the problem's.
class TableCells {
 public:
  explicit TableCells(std::string_view text) : rest_(without_bom(text)) {
    static_cast<void>(take_row(rest_, line_));
  }

  /// Requires lanes in ascending order, and places within them.
  TextRange at(std::int32_t lane, std::int64_t place) {
    while (lane_ < lane && !rest_.empty()) {
      row_ = take_row(rest_, line_);
      ++lane_;
    }
    for (const Cell& cell : row_) {
      if (!cell.text.empty() && place-- == 0) return cell.range();
    }
    return {};
  }

 private:
  std::string_view rest_;
  std::int64_t line_ = 0;
  std::int32_t lane_ = -1;
  std::vector<Cell> row_;
};

void put(const TextRange& range, At& at) {
  at.place = range.begin;
  at.end = range.end;
}

At at_step(const Document& document, std::int64_t step) {
  const Program program = document.tickets.program_of(step);
  if (document.kind == Kind::table) {
    return {slot_pointer(program.value, document.slots[stagger::at(step)])};
  }
  if (document.kind == Kind::fa4) {
    return {pointer_of(document.lists, document.entries[stagger::at(step)])};
  }
  At at{"/programs/" + std::to_string(program.value) + "/" +
        std::to_string(step - document.tickets.begin_of(program))};
  if (!document.json) put(document.places[stagger::at(step)], at);
  return at;
}

/// Lane and place of `/lanes/3/0`.
std::pair<std::int32_t, std::int64_t> slot_at(const std::string& pointer) {
  constexpr std::string_view kLanes = "/lanes/";
  if (!pointer.starts_with(kLanes)) return {-1, -1};
  const std::size_t slash = pointer.find('/', kLanes.size());
  const auto number = [&](std::size_t begin) { return std::stoll(pointer.substr(begin)); };
  return {static_cast<std::int32_t>(number(kLanes.size())),
          slash == std::string::npos ? 0 : number(slash + 1)};
}

void place_in_rows(std::string_view text, std::vector<At>& places) {
  for (At& at : places) {
    const auto [lane, place] = slot_at(at.pointer);
    if (lane >= 0) put(TableCells(text).at(lane, place), at);
  }
}

Document read_text(std::string_view text, const std::string& file, std::int64_t limit) {
  if (!is_json(without_bom(text))) return read_csv(text, file, limit);
  try {
    return read_json(text, file, limit);
  } catch (const JsonError& error) {
    throw Error(ErrorKind::invalid_input, placed(error, text, file));
  }
}

/// What is wrong is told by tensor and indices: the file has no lines.
Document read_tensors(const TensorText& tensors, const std::string& file, std::int64_t limit) {
  if (tensors.values.empty()) return read_csv(tensors.text, file, limit);
  try {
    return read_json(tensors.text, file, limit);
  } catch (const JsonError& error) {
    const std::string place = tensor_place(tensors.values, error.pointer());
    const std::string begin = file + ": " + error.pointer() + ": ";
    const std::string what = error.what();
    if (!what.starts_with(begin)) throw;
    throw Error(ErrorKind::invalid_input,
                file + ": " + place + (place.empty() ? "" : ": ") + what.substr(begin.size()));
  }
}

/// Says of which tensor, and where in it, findings are.
void name_tensors(const Document& document, std::span<const Finding> findings,
                  std::vector<At>& places) {
  for (std::size_t index = 0; index < places.size(); ++index) {
    At& at = places[index];
    if (document.kind != Kind::lock_values) {
      at.tensor = tensor_place(document.tensors->values, at.pointer);
    } else if (const std::int64_t step = findings[index].step; step >= 0) {
      const Task& task = document.tickets.steps[stagger::at(step)].task;
      at.tensor = "[" + std::to_string(task.kv.value) + "," + std::to_string(task.q.value) + "]";
    }
  }
}

}  // namespace

Document read_document(std::string_view text, const std::string& file, std::int64_t limit) {
  std::optional<TensorText> tensors = text_of_tensors(text, file);
  if (!tensors) return read_text(text, file, limit);
  Document document = read_tensors(*tensors, file, limit);
  document.json = false;  // the file has no lines
  document.places.assign(document.tickets.steps.size(), {});
  document.tensors = std::move(tensors);
  return document;
}

std::vector<At> locate(const Document& document, std::string_view text,
                       std::span<const Finding> findings) {
  std::vector<At> places;
  places.reserve(findings.size());
  for (const Finding& finding : findings)
    places.push_back(finding.step >= 0 ? at_step(document, finding.step) : At{finding.pointer});
  if (document.tensors) name_tensors(document, findings, places);
  if (!document.json) {
    if (document.kind == Kind::table) place_in_rows(text, places);
    return places;
  }
  std::vector<std::string> pointers;
  pointers.reserve(places.size());
  for (const At& at : places)
    pointers.push_back(at.pointer);
  const std::vector<TextRange> found = json_places(text, pointers);
  for (std::size_t index = 0; index < places.size(); ++index)
    put(found[index], places[index]);
  return places;
}

}  // namespace stagger::tickets
