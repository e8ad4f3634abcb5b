#include "core/error.hpp"
#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/tiling.hpp"

#include <limits>
#include <type_traits>
#include <utility>

namespace stagger {
namespace {

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kAnyIndex = std::numeric_limits<std::int32_t>::max();
constexpr const char* kTable = "stagger.table/1";
constexpr const char* kGroupedTable = "stagger.table/2";  ///< written where heads share K and V

// ---- masks ------------------------------------------------------------------------------------

Mask read_mask(const JsonValue& description);

MaskValue read_mask_value(const JsonValue& value) {
  if (value.is_boolean()) return value.boolean();
  if (value.is_integer()) return value.integer(-kAnyInteger, kAnyInteger);
  if (value.size() > 0 && value.item(0).is_string()) {
    std::vector<std::string> strings;
    for (std::size_t index = 0; index < value.size(); ++index) {
      strings.push_back(value.item(index).string());
    }
    return strings;
  }
  if (value.size() > 0 && value.item(0).is_object()) {
    std::vector<Mask> masks;
    for (std::size_t index = 0; index < value.size(); ++index)
      masks.push_back(read_mask(value.item(index)));
    return masks;
  }
  std::vector<std::int64_t> integers;
  for (std::size_t index = 0; index < value.size(); ++index) {
    integers.push_back(value.item(index).integer(-kAnyInteger, kAnyInteger));
  }
  return integers;
}

Mask read_mask(const JsonValue& description) {
  const std::string kind = description.at("kind").string();
  std::map<std::string, MaskValue, std::less<>> values;
  for (const std::string& key : description.keys()) {
    if (key == "kind" || key == "schema") continue;
    values.emplace(key, read_mask_value(description.at(key)));
  }
  try {
    return make_mask(kind, std::move(values));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::limit) throw;
    description.reject(error.what());
  }
}

/// What a file says that its mask was made from.
MaskOrigin read_origin(const JsonValue& imported) {
  imported.expect_keys({"format", "understood", "lost"});
  const auto lines = [&](const char* key) {
    std::vector<std::string> words;
    const JsonValue value = imported.at(key);
    for (std::size_t index = 0; index < value.size(); ++index)
      words.push_back(value.item(index).string());
    return words;
  };
  return {.format = imported.at("format").string(),
          .understood = lines("understood"),
          .lost = lines("lost")};
}

Json origin_json(const MaskOrigin& origin) {
  return {{"format", origin.format}, {"understood", origin.understood}, {"lost", origin.lost}};
}

/// A grid as a `tiles` mask, without the braces.
std::string tiles_text(const TileGrid& grid) {
  std::string text = "\"kind\": \"tiles\", \"rows\": [";
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    text += kv.value == 0 ? "\n  \"" : ",\n  \"";
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      text += static_cast<char>(grid.kind(kv, q));
    text += "\"";
  }
  return text + "]";
}

// ---- tables -----------------------------------------------------------------------------------

Slot read_slot(const JsonValue& slot) {
  if (slot.size() != 4) slot.reject("a slot is [head, kv, q, rank]");
  const auto number = [&](std::size_t index) {
    return static_cast<std::int32_t>(slot.item(index).integer(-kAnyIndex, kAnyIndex));
  };
  return {{Head{number(0)}, KvTile{number(1)}, QTile{number(2)}}, number(3)};
}

/// Ranks [kv_head, kv, part, rank] of a table's `dkv`.
void read_dkv_ranks(const JsonValue& ranks, Table& table) {
  const Problem& problem = table.problem;
  constexpr std::int32_t kNone = -1;
  table.dkv_ranks.assign(problem.chains(), kNone);
  IndexVector<std::int64_t, bool> given(problem.chains(), false);
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    const JsonValue entry = ranks.item(index);
    if (entry.size() != 4) entry.reject("a rank of dK and dV is [kv_head, kv, part, rank]");
    const auto number = [&](std::size_t place, std::int64_t least, std::int64_t most) {
      return static_cast<std::int32_t>(entry.item(place).integer(least, most));
    };
    const std::int32_t kv_head = number(0, 0, problem.heads_kv - 1);
    const KvTile kv{number(1, 0, problem.kv_tiles() - 1)};
    const Part part{kv_head * problem.group_parts() + number(2, 0, problem.group_parts() - 1)};
    const std::int64_t place = problem.chain_place(part, kv);
    if (given[place]) entry.reject("this part of this KV tile has a rank already");
    given[place] = true;
    table.dkv_ranks[place] = number(3, -kAnyIndex, kAnyIndex);
  }
}

/// What the table says of dK and dV.
void read_dkv(const JsonValue& dkv, Table& table) {
  dkv.expect_keys({"span", "combine", "ranks"});
  table.problem = read_chains(dkv, std::move(table.problem));
  if (!dkv.has("ranks")) return;
  if (table.problem.combine != Combine::ordered) {
    dkv.at("ranks").reject("only an ordered combination has ranks");
  }
  read_dkv_ranks(dkv.at("ranks"), table);
}

std::string dkv_ranks_text(const Table& table) {
  const Problem& problem = table.problem;
  std::string text;
  const char* separator = "[";
  for (Part part{0}; part.value < problem.parts(); ++part) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      const std::int32_t rank = table.dkv_ranks[problem.chain_place(part, kv)];
      if (rank < 0 && problem.chain_length(part, kv) == 0) continue;
      text += separator + std::string("[") + std::to_string(problem.kv_head_of(part).value) + "," +
              std::to_string(kv.value) + "," + std::to_string(part.value % problem.group_parts()) +
              "," + std::to_string(rank) + "]";
      separator = ",";
    }
  }
  return text.empty() ? "[]" : text + "]";
}

/// The line of a table's `dkv`; none where heads share nothing.
std::string dkv_text(const Table& table) {
  const Problem& problem = table.problem;
  if (problem.group() == 1) return "";
  std::string text = ",\n \"dkv\": {\"span\": " + std::to_string(problem.span) +
                     ", \"combine\": \"" + combine_name(problem.combine) + "\"";
  if (!table.dkv_ranks.empty()) text += ", \"ranks\": " + dkv_ranks_text(table);
  return text + "}";
}

}  // namespace

Json mask_json(const Mask& mask) {
  Json json = {{"kind", mask.family->name}};
  for (const auto& [key, value] : mask.values) {
    if (const auto* masks = std::get_if<std::vector<Mask>>(&value)) {
      for (const Mask& part : *masks)
        json[key].push_back(mask_json(part));
    } else {
      json[key] = std::visit(
          [](const auto& held) {
            if constexpr (std::is_same_v<decltype(held), const std::vector<Mask>&>) {
              return Json();
            } else {
              return Json(held);
            }
          },
          value);
    }
  }
  return json;
}

Problem read_problem(const JsonValue& problem) {
  problem.expect_keys({"heads", "heads_kv", "kv_tiles", "q_tiles", "sms", "mask", "seq_q", "seq_kv",
                       "tile_q", "tile_kv", "tasks", "imported"});
  const auto optional = [&](const char* key, std::int64_t fallback, std::int64_t most) {
    return problem.has(key) ? problem.at(key).integer(1, most) : fallback;
  };
  const std::int64_t q_tiles = problem.at("q_tiles").integer(0, kMaxTiles);
  const std::int64_t kv_tiles = problem.at("kv_tiles").integer(0, kMaxTiles);
  const TileShape shape{.q = optional("tile_q", 1, kMaxTokens),
                        .kv = optional("tile_kv", 1, kMaxTokens)};
  const auto tokens = [&](const char* key, std::int64_t tiles) {
    return problem.has(key) ? problem.at(key).integer(0, kMaxTokens) : tiles;
  };
  const Lengths lengths{.q = tokens("seq_q", q_tiles), .kv = tokens("seq_kv", kv_tiles)};
  if (const std::string apart = tiles_apart(lengths, shape, q_tiles, kv_tiles); !apart.empty()) {
    problem.reject(apart);
  }
  const std::int64_t heads = problem.at("heads").integer(1, kMaxHeads);
  const std::int64_t sms = problem.at("sms").integer(1, kMaxSms);
  const Grouping grouping{.heads_kv = optional("heads_kv", heads, heads)};
  if (heads % grouping.heads_kv != 0) {
    problem.at("heads_kv").reject("does not divide the " + std::to_string(heads) + " heads");
  }
  const JsonValue mask = problem.at("mask");
  Mask description = read_mask(mask);
  if (problem.has("imported")) description.origin = read_origin(problem.at("imported"));
  try {
    return make_problem(std::move(description), lengths, shape, heads, sms, grouping);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::limit) throw;
    mask.reject(error.what());
  }
}

Problem read_chains(const JsonValue& dkv, Problem problem) {
  const JsonValue span = dkv.at("span");
  const std::int64_t heads = span.integer(1, kMaxHeads);
  const auto combine = static_cast<Combine>(dkv.at("combine").word("combination", kCombineNames));
  const bool whole = heads == problem.group();
  if (problem.group() % heads != 0) {
    span.reject("does not divide the group of " + std::to_string(problem.group()) + " heads");
  }
  if (!problem.grids.alike_in_parts(static_cast<std::int32_t>(heads))) {
    span.reject("makes chains of heads that have different masks");
  }
  if (whole != (combine == Combine::none)) {
    dkv.at("combine").reject(whole ? "is 'none' where a chain has all heads of its group"
                                   : "is 'partials' or 'ordered' where a group has several parts");
  }
  return with_span(std::move(problem), heads, combine);
}

Json problem_json(const Problem& problem) {
  Json json = {{"heads", problem.heads}};
  if (problem.group() > 1) json["heads_kv"] = problem.heads_kv;
  json.append(
      {{"kv_tiles", problem.kv_tiles()}, {"q_tiles", problem.q_tiles()}, {"sms", problem.sms}});
  if (problem.shape != TileShape{}) {
    json.append({{"seq_q", problem.lengths.q},
                 {"seq_kv", problem.lengths.kv},
                 {"tile_q", problem.shape.q},
                 {"tile_kv", problem.shape.kv}});
  }
  json["mask"] = mask_json(problem.mask);
  if (!problem.mask.origin.format.empty()) json["imported"] = origin_json(problem.mask.origin);
  return json;
}

Table read_table_json(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  const JsonValue& root = document.root();
  const std::string schema = root.has("schema") ? root.at("schema").string() : "";
  const bool grouped = schema == kGroupedTable;
  if (!grouped) root.expect_schema(kTable);
  if (grouped) {
    root.expect_keys({"schema", "name", "problem", "dispatch", "dkv", "lanes"});
  } else {
    root.expect_keys({"schema", "name", "problem", "dispatch", "lanes"});
  }
  Table table;
  table.name = root.has("name") ? root.at("name").string() : "table";
  const JsonValue problem = root.at("problem");
  if (!grouped && problem.has("heads_kv")) {
    problem.at("heads_kv").reject(std::string("is a key of ") + kGroupedTable);
  }
  table.problem = read_problem(problem);
  if (grouped && (table.problem.group() > 1 || root.has("dkv"))) read_dkv(root.at("dkv"), table);
  table.dispatch = static_cast<Dispatch>(root.at("dispatch").word("dispatch", kDispatchNames));
  const JsonValue lanes = root.at("lanes");
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const JsonValue slots = lanes.item(lane);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      table.slots.push_back(read_slot(slots.item(slot)));
    }
    table.end_lane();
  }
  return table;
}

std::string write_table_json(const Table& table) {
  const char* const schema = table.problem.group() > 1 ? kGroupedTable : kTable;
  std::string text =
      std::string("{\"schema\": \"") + schema + "\", \"name\": " + json_quote(table.name) +
      ",\n \"problem\": " + problem_json(table.problem).line() + ",\n \"dispatch\": \"" +
      dispatch_name(table.dispatch) + "\"" + dkv_text(table) + ",\n \"lanes\": [";
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    text += lane.value == 0 ? "\n  [" : ",\n  [";
    const char* separator = "[";
    for (const auto& [task, rank] : table.lane(lane)) {
      text += separator + std::to_string(task.head.value) + "," + std::to_string(task.kv.value) +
              "," + std::to_string(task.q.value) + "," + std::to_string(rank) + "]";
      separator = ",[";
    }
    text += "]";
  }
  return text + "]}\n";
}

Mask read_mask_json(std::string_view text, const std::string& source) {
  const JsonDocument document(text, source);
  return read_mask_json(document.root());
}

Mask read_mask_json(const JsonValue& description) {
  if (description.has("schema")) description.expect_schema("stagger.mask/1");
  return read_mask(description);
}

std::string write_mask_json(const HeadGrids& grids) {
  std::string text = "{\"schema\": \"stagger.mask/1\", ";
  if (grids.all_alike()) return text + tiles_text(grids.distinct().front()) + "}\n";
  text += "\"kind\": \"heads\", \"of\": [";
  const char* separator = "\n {";
  for (const TileGrid& grid : grids.distinct()) {
    text += separator + tiles_text(grid) + "}";
    separator = ",\n {";
  }
  return text + "],\n \"heads\": " + Json(tiles_mask(grids).integers("heads")).line() + "}\n";
}

}  // namespace stagger
