// Tables as CSV, for people who edit schedules in a spreadsheet. The first row holds the problem,
// with the mask as `tiles` rows, of which several follow `heads:heads=0+1;` by head:
//
//   stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,dispatch=static,mask=tiles:rows=ff+.f
//   0:0:0:0,0:0:1:1
//   0:1:1:0
//
// With tiles of more than one token it has seq_q, seq_kv, tile_q and tile_kv, and the mask's words,
// in quotes where there is a comma in them: "mask=sliding:left=100,right=0".
//
// Where heads share K and V it begins with stagger.table/2 and has heads_kv, span, combine and, if
// they are not the parts' places, dkv_ranks=kv_head:kv:part:rank+... too.

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "core/text.hpp"
#include "core/tiling.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

namespace stagger {
namespace {

constexpr std::string_view kSchemas = "stagger.table/";
constexpr std::string_view kHeader = "stagger.table/1";
constexpr std::string_view kGroupedHeader = "stagger.table/2";

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

/// Takes a cell off the front of a row: up to the next comma that is not between quotes.
std::string_view take_cell(std::string_view& row) {
  const std::size_t begin = row.find_first_not_of(" \t");
  std::size_t closing = std::string_view::npos;
  if (begin != std::string_view::npos && row[begin] == '"') closing = row.find('"', begin + 1);
  const std::size_t quoted = closing == std::string_view::npos ? 0 : closing;
  const std::size_t end = std::min(row.find(',', quoted), row.size());
  const std::string_view taken = row.substr(0, end);
  row.remove_prefix(std::min(end + 1, row.size()));
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

/// Four numbers joined by colons.
std::array<std::int32_t, 4> read_four(const std::string& place, std::string_view cell,
                                      const char* meaning) {
  std::array<std::int32_t, 4> numbers = {};
  if (std::count(cell.begin(), cell.end(), ':') != std::ssize(numbers) - 1) {
    reject(place, "'" + std::string(cell) + "' is not " + meaning);
  }
  std::string_view rest = cell;
  for (std::int32_t& each : numbers)
    each = static_cast<std::int32_t>(number(place, take(rest, ':'), -INT32_MAX, INT32_MAX));
  return numbers;
}

Slot read_cell(const std::string& place, std::string_view cell) {
  const auto [head, kv, q, rank] = read_four(place, cell, "head:kv:q:rank");
  return {{Head{head}, KvTile{kv}, QTile{q}}, rank};
}

void read_dkv_ranks(std::string_view cell, const std::string& place, Table& table) {
  const Problem& problem = table.problem;
  constexpr std::int32_t kNone = -1;
  table.dkv_ranks.assign(problem.chains(), kNone);
  while (!cell.empty()) {
    const std::string text(take(cell, '+'));
    const auto [kv_head, kv, part, rank] = read_four(place, text, "kv_head:kv:part:rank");
    if (kv_head < 0 || kv_head >= problem.heads_kv || kv < 0 || kv >= problem.kv_tiles() ||
        part < 0 || part >= problem.group_parts()) {
      reject(place, "'" + text + "' is a part that does not exist");
    }
    table.dkv_ranks[problem.chain_place(Part{kv_head * problem.group_parts() + part}, KvTile{kv})] =
        rank;
  }
}

std::string dkv_ranks_cell(const Table& table) {
  const Problem& problem = table.problem;
  std::string text;
  for (Part part{0}; part.value < problem.parts(); ++part) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::int32_t rank = table.dkv_ranks[problem.chain_place(part, kv)];
      if (rank < 0 && problem.chain_length(part, kv) == 0) continue;
      text += (text.empty() ? "" : "+") + std::to_string(problem.kv_head_of(part).value) + ":" +
              std::to_string(kv.value) + ":" + std::to_string(part.value % problem.group_parts()) +
              ":" + std::to_string(rank);
    }
  }
  return text;
}

using Cells = std::map<std::string, std::string, std::less<>>;

/// What a first row says of heads that share K and V.
Grouping read_grouping(const Cells& values, const std::string& place, std::int64_t heads) {
  const auto found = [&](const char* key) { return values.find(key); };
  Grouping grouping;
  if (const auto cell = found("heads_kv"); cell != values.end()) {
    grouping.heads_kv = number(place, cell->second, 1, heads);
  }
  if (const auto cell = found("span"); cell != values.end()) {
    grouping.span = number(place, cell->second, 1, heads);
  }
  if (const auto cell = found("combine"); cell != values.end()) {
    const auto known = std::find(std::begin(kCombineNames), std::end(kCombineNames), cell->second);
    if (known == std::end(kCombineNames)) {
      reject(place, "unknown combination '" + cell->second + "'; known: none, partials, ordered");
    }
    grouping.combine = static_cast<Combine>(known - std::begin(kCombineNames));
  }
  if (grouping.heads_kv > 0 && (grouping.span == 0 || found("combine") == values.end())) {
    reject(place, "with heads_kv there must be span and combine");
  }
  return grouping;
}

/// The cells of a first row behind the schema, by their keys.
Cells read_cells(std::string_view row, const std::string& place) {
  Cells values;
  while (!row.empty()) {
    std::string_view cell = trim(take_cell(row));
    if (cell.empty()) continue;
    const std::string key(take(cell, '='));
    constexpr std::string_view kKnown[] = {
        "name", "heads",    "kv_tiles", "q_tiles",  "seq_q", "seq_kv",  "tile_q",   "tile_kv",
        "sms",  "dispatch", "mask",     "heads_kv", "span",  "combine", "dkv_ranks"};
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown)) {
      reject(place, "unknown key '" + key +
                        "'; known: name, heads, kv_tiles, q_tiles, seq_q, seq_kv, tile_q, tile_kv, "
                        "sms, dispatch, mask, heads_kv, span, combine, dkv_ranks");
    }
    if (!values.emplace(key, cell).second) reject(place, "key '" + key + "' is given twice");
  }
  return values;
}

void read_header(std::string_view row, const std::string& place, Table& table) {
  const Cells values = read_cells(row, place);
  const auto get = [&](const char* key) -> const std::string& {
    const auto found = values.find(key);
    if (found == values.end()) reject(place, std::string("key '") + key + "' is missing");
    return found->second;
  };
  const auto optional = [&](const char* key, std::int64_t least, std::int64_t fallback) {
    return values.contains(key) ? number(place, get(key), least, kMaxTokens) : fallback;
  };
  const std::int64_t q_tiles = number(place, get("q_tiles"), 0, kMaxTiles);
  const std::int64_t kv_tiles = number(place, get("kv_tiles"), 0, kMaxTiles);
  const TileShape shape{.q = optional("tile_q", 1, 1), .kv = optional("tile_kv", 1, 1)};
  const Lengths lengths{.q = optional("seq_q", 0, q_tiles), .kv = optional("seq_kv", 0, kv_tiles)};
  if (const std::string apart = tiles_apart(lengths, shape, q_tiles, kv_tiles); !apart.empty()) {
    reject(place, apart);
  }
  const std::int64_t heads = number(place, get("heads"), 1, kMaxHeads);
  const std::int64_t sms = number(place, get("sms"), 1, kMaxSms);
  const Grouping grouping = read_grouping(values, place, heads);
  const std::string& mask = get("mask");
  try {
    table.problem = make_problem(parse_mask(mask), lengths, shape, heads, sms, grouping);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::limit) throw;
    reject(place, error.what());
  }
  if (values.contains("dkv_ranks")) read_dkv_ranks(get("dkv_ranks"), place, table);
  if (values.contains("name")) table.name = get("name");
  if (!values.contains("dispatch")) return;
  const std::string& dispatch = get("dispatch");
  const auto* const known = std::ranges::find(kDispatchNames, dispatch);
  if (known == std::end(kDispatchNames)) {
    const std::vector<std::string> names(std::begin(kDispatchNames), std::end(kDispatchNames));
    reject(place, unknown_name("dispatch", dispatch, names));
  }
  table.dispatch = static_cast<Dispatch>(known - kDispatchNames);
}

/// The cells of a problem's lengths, tiles and mask: those are given where tiles have more than one
/// token, and then the mask in its own words.
std::string tokens_and_mask(const Problem& problem) {
  if (problem.shape == TileShape{}) return ",mask=" + mask_words(tiles_mask(problem.grids));
  const std::string mask = "mask=" + mask_words(problem.mask);
  const char* const quote = mask.find(',') == std::string::npos ? "" : "\"";
  return ",seq_q=" + std::to_string(problem.lengths.q) +
         ",seq_kv=" + std::to_string(problem.lengths.kv) +
         ",tile_q=" + std::to_string(problem.shape.q) +
         ",tile_kv=" + std::to_string(problem.shape.kv) + "," + quote + mask + quote;
}

/// A name that cannot break a row.
std::string plain(std::string name) {
  std::erase_if(name, [](char letter) {
    return letter == ',' || letter == '"' || letter == '=' || (letter >= 0 && letter < ' ');
  });
  return name;
}

}  // namespace

bool is_table_csv(std::string_view text) {
  std::string_view row = without_bom(text);
  row = take(row, '\n');
  return trim(take_cell(row)).starts_with(kSchemas);
}

Table read_table_csv(std::string_view text, const std::string& source, const Problem* problem) {
  Table table;
  table.name = "table";
  text = without_bom(text);
  std::string_view first = text.substr(0, text.find('\n'));
  const std::string_view schema = trim(take_cell(first));
  const bool has_header = schema == kHeader || schema == kGroupedHeader;
  if (has_header) {
    std::string_view row = take(text, '\n');
    take_cell(row);
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
  const Problem& problem = table.problem;
  std::string text =
      std::string(problem.group() > 1 ? kGroupedHeader : kHeader) + ",name=" + plain(table.name) +
      ",heads=" + std::to_string(table.problem.heads) +
      ",kv_tiles=" + std::to_string(problem.kv_tiles()) +
      ",q_tiles=" + std::to_string(problem.q_tiles()) +
      ",sms=" + std::to_string(table.problem.sms) + ",dispatch=" + dispatch_name(table.dispatch);
  if (problem.group() > 1) {
    text += ",heads_kv=" + std::to_string(problem.heads_kv) +
            ",span=" + std::to_string(problem.span) + ",combine=" + combine_name(problem.combine);
    if (!table.dkv_ranks.empty()) text += ",dkv_ranks=" + dkv_ranks_cell(table);
  }
  text += tokens_and_mask(problem) + '\n';
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
