// Tables as CSV, for people who edit schedules in a spreadsheet. The first row holds the problem,
// with the mask as `tiles` rows, which need no quotes:
//
//   stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,dispatch=static,mask=tiles:rows=ff+.f
//   0:0:0:0,0:0:1:1
//   0:1:1:0

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace stagger {
namespace {

constexpr std::string_view kHeader = "stagger.table/1";

[[noreturn]] void reject(const std::string& place, const std::string& what) {
  throw Error(ErrorKind::invalid_input, place + ": " + what);
}

/// Takes the text up to a separator off the front.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view taken = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return taken;
}

std::string_view trim(std::string_view cell) {
  constexpr std::string_view kAround = " \t\r\"";
  const std::size_t begin = cell.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return {};
  return cell.substr(begin, cell.find_last_not_of(kAround) - begin + 1);
}

std::int64_t number(const std::string& place, std::string_view text, std::int64_t least,
                    std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    reject(place, "'" + std::string(text) + "' is not an integer from " + std::to_string(least) +
                      " to " + std::to_string(most));
  }
  return value;
}

Slot read_cell(const std::string& place, std::string_view cell) {
  std::int32_t parts[4] = {};
  if (std::count(cell.begin(), cell.end(), ':') != std::ssize(parts) - 1) {
    reject(place, "'" + std::string(cell) + "' is not head:kv:q:rank");
  }
  std::string_view rest = cell;
  for (std::int32_t& part : parts) {
    part = static_cast<std::int32_t>(number(place, take(rest, ':'), -INT32_MAX, INT32_MAX));
  }
  return {{Head{parts[0]}, KvTile{parts[1]}, QTile{parts[2]}}, parts[3]};
}

void read_header(std::string_view row, const std::string& place, Table& table) {
  std::map<std::string, std::string, std::less<>> values;
  while (!row.empty()) {
    std::string_view cell = trim(take(row, ','));
    if (cell.empty()) continue;
    const std::string key(take(cell, '='));
    constexpr std::string_view kKnown[] = {"name", "heads",    "kv_tiles", "q_tiles",
                                           "sms",  "dispatch", "mask"};
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown)) {
      reject(place, "unknown key '" + key +
                        "'; known: name, heads, kv_tiles, q_tiles, sms, dispatch, mask");
    }
    if (!values.emplace(key, cell).second) reject(place, "key '" + key + "' is given twice");
  }
  const auto get = [&](const char* key) -> const std::string& {
    const auto found = values.find(key);
    if (found == values.end()) reject(place, std::string("key '") + key + "' is missing");
    return found->second;
  };
  const Lengths lengths{.q = number(place, get("q_tiles"), 0, kMaxTiles),
                        .kv = number(place, get("kv_tiles"), 0, kMaxTiles)};
  const std::int64_t heads = number(place, get("heads"), 1, kMaxHeads);
  const std::int64_t sms = number(place, get("sms"), 1, kMaxSms);
  try {
    table.problem = make_problem(parse_mask(get("mask")), lengths, {}, heads, sms);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::limit) throw;
    reject(place, error.what());
  }
  if (values.contains("name")) table.name = get("name");
  if (!values.contains("dispatch") || get("dispatch") == "static") return;
  if (get("dispatch") != "in-order") {
    reject(place, "unknown dispatch '" + get("dispatch") + "'; known: static, in-order");
  }
  table.dispatch = Dispatch::in_order;
}

/// A name that cannot break a row.
std::string plain(std::string name) {
  std::erase_if(name, [](char letter) {
    return letter == ',' || letter == '"' || letter == '=' || (letter >= 0 && letter < ' ');
  });
  return name;
}

}  // namespace

Table read_table_csv(std::string_view text, const std::string& source, const Problem* problem) {
  Table table;
  table.name = "table";
  text = without_bom(text);
  const bool has_header = text.starts_with(kHeader);
  if (has_header) {
    std::string_view row = take(text, '\n');
    take(row, ',');
    read_header(row, source + ": row 1", table);
  } else if (problem != nullptr) {
    table.problem = *problem;
  }
  for (int line = 1; !text.empty(); ++line) {
    std::string_view row = take(text, '\n');
    for (int column = 1; !row.empty(); ++column) {
      const std::string_view cell = trim(take(row, ','));
      if (cell.empty()) continue;
      table.slots.push_back(read_cell(
          source + ": lane " + std::to_string(line - 1) + ", cell " + std::to_string(column),
          cell));
    }
    table.end_lane();
  }
  if (has_header || problem != nullptr) return table;
  if (table.slots.empty()) reject(source, "there is no table in it");
  throw Error(ErrorKind::usage, source + ": no first row '" + std::string(kHeader) +
                                    ",heads=...': give the problem with --mask, --n, …");
}

std::string write_table_csv(const Table& table) {
  const TileGrid& grid = table.problem.grid;
  std::string text = std::string(kHeader) + ",name=" + plain(table.name) +
                     ",heads=" + std::to_string(table.problem.heads) +
                     ",kv_tiles=" + std::to_string(grid.kv_tiles()) +
                     ",q_tiles=" + std::to_string(grid.q_tiles()) +
                     ",sms=" + std::to_string(table.problem.sms) +
                     ",dispatch=" + dispatch_name(table.dispatch) + ",mask=tiles:rows=";
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    if (kv.value > 0) text += '+';
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      text += static_cast<char>(grid.kind(kv, q));
  }
  text += '\n';
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    const char* separator = "";
    for (const auto& [task, rank] : table.lane(lane)) {
      text += separator + std::to_string(task.head.value) + ":" + std::to_string(task.kv.value) +
              ":" + std::to_string(task.q.value) + ":" + std::to_string(rank);
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

}  // namespace stagger
