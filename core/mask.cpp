// The masks: one row of the table below each.
//
// A token-level family says which keys each query sees, as one interval [begin, end); tiling.cpp
// does the rest. Lengths that differ are aligned at the bottom right, as FlashAttention does: query
// q stands at key position q + kv - q_length.

#include "core/mask.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace stagger {
namespace {

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorKind::invalid_input, what);
}

// ---- token-level families ---------------------------------------------------------------------

/// Fills one range a query; `range(position)` gets the query's position among the keys.
template <class Range>
std::vector<KeyRange> each_query(const Lengths& lengths, Range range) {
  std::vector<KeyRange> rows(at(lengths.q));
  std::int64_t position = lengths.kv - lengths.q;
  for (KeyRange& row : rows) {
    const KeyRange keys = range(position++);
    row.begin = std::clamp<std::int64_t>(keys.begin, 0, lengths.kv);
    row.end = std::clamp<std::int64_t>(keys.end, row.begin, lengths.kv);
  }
  return rows;
}

std::vector<KeyRange> full_rows(const Mask&, const Lengths& lengths) {
  return each_query(lengths, [&](std::int64_t) { return KeyRange{0, lengths.kv}; });
}

std::vector<KeyRange> causal_rows(const Mask&, const Lengths& lengths) {
  return each_query(lengths, [](std::int64_t position) { return KeyRange{0, position + 1}; });
}

std::vector<KeyRange> sliding_rows(const Mask& mask, const Lengths& lengths) {
  const auto side = [&](const char* key) {
    const std::int64_t width = mask.integer(key);
    if (width < -1) {
      reject(std::string("sliding: ") + key + " = " + std::to_string(width) +
             ": a window is 0 or more tokens, or -1 for unbounded");
    }
    return width == -1 ? kMaxTokens : std::min(width, kMaxTokens);
  };
  const std::int64_t left = side("left");
  const std::int64_t right = side("right");
  return each_query(lengths, [&](std::int64_t position) {
    return KeyRange{position - left, position + right + 1};
  });
}

std::vector<KeyRange> prefix_rows(const Mask& mask, const Lengths& lengths) {
  const std::int64_t length = mask.integer("length");
  if (length < 0) reject("prefix: length = " + std::to_string(length) + ": must be 0 or more");
  return each_query(lengths, [&](std::int64_t position) {
    return KeyRange{0, std::max(length, position + 1)};
  });
}

Lengths document_size(const Mask& mask) {
  std::int64_t total = 0;
  std::size_t place = 0;
  for (const std::int64_t length : mask.integers("lengths")) {
    if (length < 0 || length > kMaxTokens) {
      reject("document: lengths[" + std::to_string(place) + "] = " + std::to_string(length) +
             ": must be 0 to " + std::to_string(kMaxTokens) + " tokens");
    }
    ++place;
    total = std::min(total + length, 2 * kMaxTokens);
  }
  return {total, total};
}

std::vector<KeyRange> document_rows(const Mask& mask, const Lengths& lengths) {
  const Lengths size = document_size(mask);
  if (lengths.q != size.q || lengths.kv != size.kv) {
    reject("document: lengths add up to " + std::to_string(size.q) + " tokens, the problem has " +
           std::to_string(lengths.q) + " queries and " + std::to_string(lengths.kv) + " keys");
  }
  const bool causal = mask.boolean("causal");
  std::vector<KeyRange> rows;
  rows.reserve(at(lengths.q));
  std::int64_t begin = 0;
  for (const std::int64_t length : mask.integers("lengths")) {
    for (std::int64_t token = begin; token < begin + length; ++token) {
      rows.push_back({begin, causal ? token + 1 : begin + length});
    }
    begin += length;
  }
  return rows;
}

Lengths block_causal_size(const Mask& mask) {
  return {static_cast<std::int64_t>(mask.integers("q_blocks").size()),
          static_cast<std::int64_t>(mask.integers("kv_blocks").size())};
}

std::vector<KeyRange> block_causal_rows(const Mask& mask, const Lengths& lengths) {
  // A kernel that skips Q tiles until one whose last query attends, as OpenTau's does, leaves out
  // of dK and dV what earlier queries of the tiles before see, if ids decrease; and it crashes not.
  constexpr std::array<const char*, 2> kWhy[] = {
      {"q_blocks", "kernels that ask the last query of a tile would leave out what others see"},
      {"kv_blocks", "the keys that a query sees would not be the first ones"}};
  for (const auto& [key, why] : kWhy) {
    const auto& blocks = mask.integers(key);
    const auto bad = std::is_sorted_until(blocks.begin(), blocks.end());
    if (bad != blocks.end()) {
      reject(std::string("block-causal: ") + key + "[" + std::to_string(bad - blocks.begin()) +
             "] = " + std::to_string(*bad) +
             " is below the block before it; ids never decrease, or " + why);
    }
  }
  if (lengths != block_causal_size(mask)) {
    reject("block-causal: " + std::to_string(mask.integers("q_blocks").size()) + " q_blocks and " +
           std::to_string(mask.integers("kv_blocks").size()) + " kv_blocks, the problem has " +
           std::to_string(lengths.q) + " queries and " + std::to_string(lengths.kv) + " keys");
  }
  const auto& kv_blocks = mask.integers("kv_blocks");
  std::vector<KeyRange> rows;
  rows.reserve(at(lengths.q));
  for (const std::int64_t q_block : mask.integers("q_blocks")) {
    const auto end = std::upper_bound(kv_blocks.begin(), kv_blocks.end(), q_block);
    rows.push_back({0, end - kv_blocks.begin()});
  }
  return rows;
}

// ---- block-sparse families --------------------------------------------------------------------

Lengths tiles_size(const Mask& mask) {
  const auto& rows = mask.strings("rows");
  return {rows.empty() ? 0 : static_cast<std::int64_t>(rows.front().size()),
          static_cast<std::int64_t>(rows.size())};
}

TileGrid tiles_grid(const Mask& mask, std::int32_t kv_tiles, std::int32_t q_tiles) {
  const auto& rows = mask.strings("rows");
  if (rows.size() != at(kv_tiles)) {
    reject("tiles: " + std::to_string(rows.size()) + " rows for " + std::to_string(kv_tiles) +
           " KV tiles");
  }
  std::vector<TileKind> kinds;
  kinds.reserve(at(kv_tiles) * at(q_tiles));
  for (std::size_t kv = 0; kv < rows.size(); ++kv) {
    if (rows[kv].size() != at(q_tiles)) {
      reject("tiles: rows[" + std::to_string(kv) + "] has " + std::to_string(rows[kv].size()) +
             " tiles, not " + std::to_string(q_tiles));
    }
    for (const char tile : rows[kv]) {
      if (tile != 'f' && tile != 'p' && tile != '.') {
        reject("tiles: rows[" + std::to_string(kv) + "]: unknown tile '" + std::string(1, tile) +
               "'; known: f (full), p (partial), . (empty)");
      }
      kinds.push_back(static_cast<TileKind>(tile));
    }
  }
  return {kv_tiles, q_tiles, std::move(kinds)};
}

Lengths csr_size(const Mask& mask) {
  std::int64_t q_tiles = 0;
  for (const char* key : {"mask_block_idx", "full_block_idx"}) {
    for (const std::int64_t q : mask.integers(key))
      q_tiles = std::max(q_tiles, q + 1);
  }
  return {q_tiles, static_cast<std::int64_t>(mask.integers("mask_block_cnt").size())};
}

/// Marks the tiles of one of FlashAttention-4's two lists (`mask_block_*` or `full_block_*`).
void mark_csr(const Mask& mask, const std::string& list, TileKind kind, std::int32_t q_tiles,
              std::vector<TileKind>& kinds) {
  const auto& count = mask.integers(list + "_cnt");
  const auto& offset = mask.integers(list + "_offset");
  const auto& index = mask.integers(list + "_idx");
  const std::size_t kv_tiles = kinds.size() / at(std::max(q_tiles, 1));
  if (count.size() != kv_tiles || (offset.size() != kv_tiles && offset.size() != kv_tiles + 1)) {
    reject("csr: " + list + "_cnt has " + std::to_string(count.size()) + " and " + list +
           "_offset " + std::to_string(offset.size()) + " entries for " + std::to_string(kv_tiles) +
           " KV tiles (offset may have one more)");
  }
  const auto size = static_cast<std::int64_t>(index.size());
  for (std::size_t kv = 0; kv < kv_tiles; ++kv) {
    if (offset[kv] < 0 || offset[kv] > size || count[kv] < 0 || count[kv] > size - offset[kv]) {
      reject("csr: KV tile " + std::to_string(kv) + ": " + list + "_offset " +
             std::to_string(offset[kv]) + " and _cnt " + std::to_string(count[kv]) + " leave the " +
             std::to_string(size) + " entries of " + list + "_idx");
    }
    for (std::int64_t place = offset[kv]; place < offset[kv] + count[kv]; ++place) {
      const std::int64_t q = index[at(place)];
      if (q < 0 || q >= q_tiles) {
        reject("csr: " + list + "_idx[" + std::to_string(place) + "] = " + std::to_string(q) +
               " is no Q tile; there are " + std::to_string(q_tiles));
      }
      TileKind& tile = kinds[kv * at(q_tiles) + at(q)];
      if (tile != TileKind::empty) {
        reject("csr: " + list + "_idx[" + std::to_string(place) + "]: tile (kv " +
               std::to_string(kv) + ", q " + std::to_string(q) + ") is listed twice");
      }
      tile = kind;
    }
  }
}

TileGrid csr_grid(const Mask& mask, std::int32_t kv_tiles, std::int32_t q_tiles) {
  std::vector<TileKind> kinds(at(kv_tiles) * at(q_tiles), TileKind::empty);
  mark_csr(mask, "mask_block", TileKind::partial, q_tiles, kinds);
  mark_csr(mask, "full_block", TileKind::full, q_tiles, kinds);
  return {kv_tiles, q_tiles, std::move(kinds)};
}

// ---- the table --------------------------------------------------------------------------------

const std::vector<MaskFamily>& families() {
  using Integers = std::vector<std::int64_t>;
  using Strings = std::vector<std::string>;
  static const std::vector<MaskFamily> table = {
      {.name = "full",
       .summary = "every query sees every key",
       .example = "full",
       .keys = {},
       .rows = full_rows},
      {.name = "causal",
       .summary = "a query sees the keys at and before it; bottom-right aligned",
       .example = "causal",
       .keys = {},
       .rows = causal_rows},
      {.name = "sliding",
       .summary = "a window around the query's position; bottom-right aligned",
       .example = "sliding:left=256,right=0",
       .keys = {{"left", "tokens seen before the query, -1 = all", std::int64_t{-1}},
                {"right", "tokens seen after the query, -1 = all", std::int64_t{-1}}},
       .rows = sliding_rows},
      {.name = "prefix",
       .summary = "prefix-LM: the first keys for everybody, causal after",
       .example = "prefix:length=512",
       .keys = {{"length", "keys that every query sees", std::int64_t{0}, true}},
       .rows = prefix_rows},
      {.name = "document",
       .summary = "packed sequences: attention within a document only",
       .example = "document:lengths=366+25+80,causal=true",
       .keys = {{"lengths", "tokens of each document", Integers{}, true},
                {"causal", "causal within each document", false}},
       .rows = document_rows,
       .implied = document_size},
      {.name = "block-causal",
       .summary = "a query sees the keys whose block is at or before its own",
       .example = "block-causal:q_blocks=0+0+1+1,kv_blocks=0+0+1+1",
       .keys = {{"q_blocks", "block of each query token, never decreasing", Integers{}, true},
                {"kv_blocks", "block of each key token, never decreasing", Integers{}, true}},
       .rows = block_causal_rows,
       .implied = block_causal_size},
      {.name = "tiles",
       .summary = "block-sparse: one string per KV tile, a character per Q tile",
       .example = "tiles:rows=ff+.f",
       .keys = {{"rows", "f full, p partial, . empty", Strings{}, true}},
       .tiles = tiles_grid,
       .implied = tiles_size},
      {.name = "csr",
       .summary = "block-sparse as FlashAttention-4 keeps it, per KV tile",
       .example = "csr:mask_block_cnt=1+1,mask_block_offset=0+1,mask_block_idx=0+1,"
                  "full_block_cnt=1+0,full_block_offset=0+1,full_block_idx=1",
       .keys = {{"mask_block_cnt", "partial tiles of each KV tile", Integers{}, true},
                {"mask_block_offset", "where each KV tile's partial tiles begin", Integers{}, true},
                {"mask_block_idx", "Q tiles of the partial tiles", Integers{}, true},
                {"full_block_cnt", "full tiles of each KV tile", Integers{}, true},
                {"full_block_offset", "where each KV tile's full tiles begin", Integers{}, true},
                {"full_block_idx", "Q tiles of the full tiles", Integers{}, true}},
       .tiles = csr_grid,
       .implied = csr_size},
  };
  return table;
}

const char* type_name(const MaskValue& value) {
  constexpr const char* kNames[] = {"an integer", "true or false", "a list of integers",
                                    "a list of strings"};
  return kNames[value.index()];
}

const MaskKey& find_key(const MaskFamily& family, std::string_view name) {
  for (const MaskKey& key : family.keys) {
    if (key.name == name) return key;
  }
  reject(std::string(family.name) + ": " + unknown_name("key", name, names_of(family.keys)));
}

const MaskFamily& find_family(std::string_view kind) {
  for (const MaskFamily& family : families()) {
    if (family.name == kind) return family;
  }
  reject(unknown_name("mask", kind, names_of(families())));
}

// ---- text -------------------------------------------------------------------------------------

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::int64_t parse_integer(const std::string& place, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    reject(place + " = '" + std::string(text) + "' is not an integer");
  }
  return value;
}

MaskValue parse_value(const std::string& place, const MaskKey& key, std::string_view text) {
  if (std::holds_alternative<std::int64_t>(key.fallback)) return parse_integer(place, text);
  if (std::holds_alternative<bool>(key.fallback)) {
    if (text == "true" || text == "1") return true;
    if (text == "false" || text == "0") return false;
    reject(place + " = '" + std::string(text) + "' is neither true nor false");
  }
  const std::vector<std::string> parts = split(text, '+');
  if (std::holds_alternative<std::vector<std::string>>(key.fallback)) return parts;
  std::vector<std::int64_t> integers;
  integers.reserve(parts.size());
  for (const std::string& part : parts)
    integers.push_back(parse_integer(place, part));
  return integers;
}

std::string value_words(const MaskValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  std::string words;
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    for (const std::int64_t item : *integers)
      words += (words.empty() ? "" : "+") + std::to_string(item);
  } else {
    for (const std::string& item : std::get<std::vector<std::string>>(value))
      words += (words.empty() ? "" : "+") + item;
  }
  return words;
}

}  // namespace

std::int64_t Mask::integer(std::string_view key) const {
  return std::get<std::int64_t>(values.find(key)->second);
}
bool Mask::boolean(std::string_view key) const {
  return std::get<bool>(values.find(key)->second);
}
const std::vector<std::int64_t>& Mask::integers(std::string_view key) const {
  return std::get<std::vector<std::int64_t>>(values.find(key)->second);
}
const std::vector<std::string>& Mask::strings(std::string_view key) const {
  return std::get<std::vector<std::string>>(values.find(key)->second);
}

std::span<const MaskFamily> mask_families() {
  return families();
}

Mask make_mask(std::string_view kind, std::map<std::string, MaskValue, std::less<>> values) {
  const MaskFamily& family = find_family(kind);
  for (auto& [name, value] : values) {
    const MaskKey& key = find_key(family, name);
    const auto* integers = std::get_if<std::vector<std::int64_t>>(&value);
    if (integers != nullptr && integers->empty()) {
      // An empty list has no type of its own.
      if (std::holds_alternative<std::vector<std::string>>(key.fallback)) value = key.fallback;
    }
    if (value.index() != key.fallback.index()) {
      reject(std::string(kind) + ": " + name + " must be " + type_name(key.fallback));
    }
  }
  for (const MaskKey& key : family.keys) {
    if (key.required && !values.contains(key.name)) {
      reject(std::string(kind) + ": key '" + key.name + "' is missing (" + key.meaning +
             "); example: " + family.example);
    }
    values.emplace(key.name, key.fallback);
  }
  return {&family, std::move(values)};
}

Mask parse_mask(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string kind(text.substr(0, colon));
  const MaskFamily& family = find_family(kind);
  std::map<std::string, MaskValue, std::less<>> values;
  if (colon < text.size()) {
    for (const std::string& item : split(text.substr(colon + 1), ',')) {
      const std::size_t equals = item.find('=');
      if (equals == std::string::npos) {
        reject(kind + ": '" + item + "' is not key=value; example: " + family.example);
      }
      const std::string name = item.substr(0, equals);
      const MaskKey& key = find_key(family, name);
      const std::string place = kind + ": " + name;
      if (!values.emplace(name, parse_value(place, key, item.substr(equals + 1))).second) {
        reject(place + " is given twice");
      }
    }
  }
  return make_mask(kind, std::move(values));
}

std::string mask_words(const Mask& mask) {
  std::string words = mask.family->name;
  char separator = ':';
  for (const MaskKey& key : mask.family->keys) {
    const MaskValue& value = mask.values.find(key.name)->second;
    if (value == key.fallback) continue;
    words += std::exchange(separator, ',') + std::string(key.name) + "=" + value_words(value);
  }
  return words;
}

}  // namespace stagger
