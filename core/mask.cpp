// The masks: one row of the table below each.
//
// A token-level family says which keys each query sees, as ranges [begin, end); tiling.cpp does the
// rest. Its rule is in mask_rows.cpp where that is one range, else in mask_ranges.cpp.

#include "core/mask.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/mask_rules.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <utility>

namespace stagger {
namespace {

using Masks = std::vector<Mask>;

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
      {.name = "varlen",
       .summary = "sequences of several lengths, as cu_seqlens has them; bottom-right aligned each",
       .example = "varlen:q_lengths=5+3+8,causal=true",
       .keys = {{"q_lengths", "queries of each sequence", Integers{}, true},
                {"kv_lengths", "keys of each sequence; none: as many as queries", Integers{}},
                {"causal", "causal within each sequence", false},
                {"left", "tokens seen before the query, -1 = all", std::int64_t{-1}},
                {"right", "tokens seen after the query, -1 = all", std::int64_t{-1}},
                {"align_q", "sequences begin at multiples of it: a kernel's Q tile",
                 std::int64_t{1}},
                {"align_kv", "sequences begin at multiples of it: a kernel's KV tile",
                 std::int64_t{1}}},
       .rows = varlen_rows,
       .implied = varlen_size},
      {.name = "block-causal",
       .summary = "a query sees the keys whose block is at or before its own",
       .example = "block-causal:q_blocks=0+0+1+1,kv_blocks=0+0+1+1",
       .keys = {{"q_blocks", "block of each query token, never decreasing", Integers{}, true},
                {"kv_blocks", "block of each key token, never decreasing", Integers{}, true}},
       .rows = block_causal_rows,
       .implied = block_causal_size},
      {.name = "global",
       .summary = "keys that every query sees: attention sinks; with | beside a window",
       .example = "global:first=4",
       .keys = {{"first", "that many keys at the beginning", std::int64_t{0}},
                {"tokens", "these keys too", Integers{}},
                {"symmetric", "and they see every key, as queries", false}},
       .ranges = global_ranges},
      {.name = "slices",
       .summary = "MagiAttention's slices: bands in rectangles of queries and keys",
       .example = "slices:q=0+5+5+16,kv=0+5+0+16,types=1+3",
       .keys = {{"q", "begin and end of each slice's queries", Integers{}, true},
                {"kv", "begin and end of each slice's keys", Integers{}, true},
                {"types", "0 full, 1 causal, 2 inverse causal, 3 both; none: full", Integers{}}},
       .ranges = slices_ranges,
       .implied = slices_size},
      {.name = "flashmask",
       .summary = "FlashMask's columns: the queries that do not see a key, by key",
       .example = "flashmask:causal=true,lts=2+2+4+4",
       .keys = {{"causal", "causal too, bottom-right aligned", false},
                {"lts", "first query of the lower masked interval", Integers{}, true},
                {"lte", "the query behind it; none: all that follow", Integers{}},
                {"uts", "first query of the upper masked interval; none: 0", Integers{}},
                {"ute", "the query behind it", Integers{}}},
       .ranges = flashmask_ranges,
       .implied = flashmask_size},
      {.name = "and",
       .summary = "the pairs that are in all of several masks",
       .example = "sliding:left=2,right=0 & document:lengths=3+5",
       .keys = {{"of", "two masks or more", Masks{}, true}},
       .ranges = and_ranges},
      {.name = "or",
       .summary = "the pairs that are in any of several masks",
       .example = "sliding:left=2,right=0 | global:first=1 & causal",
       .keys = {{"of", "two masks or more", Masks{}, true}},
       .ranges = or_ranges},
      {.name = "heads",
       .summary = "masks of which each is for some of the heads; a batch has them over and over",
       .example = "heads:heads=0+0+1+1; causal; full",
       .keys = {{"of", "two masks or more", Masks{}, true},
                {"heads", "the place of each head's mask; none: a mask a head", Integers{}}},
       .by_head = true},
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
                                    "a list of strings", "a list of masks"};
  return kNames[value.index()];
}

/// Checks the masks that a mask is made of.
void check_masks(const Mask& mask, const Masks& masks) {
  const std::string kind = mask.family->name;
  if (masks.size() < 2) reject_mask(kind + ": of must be two masks or more");
  for (const Mask& part : masks) {
    if (part.family->by_head) {
      reject_mask(kind + ": a mask by head is a whole mask, and no part of another");
    }
  }
  if (mask.family->by_head ? std::ssize(masks) > kMaxHeadMasks : mask_parts(mask) > kMaxMaskParts) {
    throw Error(ErrorKind::limit,
                "a mask of more than " +
                    std::to_string(mask.family->by_head ? kMaxHeadMasks : kMaxMaskParts) +
                    " masks");
  }
}

/// Checks which masks the heads of a mask by head have.
void check_heads(const Mask& mask) {
  const std::int64_t masks = std::ssize(mask.masks("of"));
  const std::vector<std::int64_t>& heads = mask.integers("heads");
  if (std::ssize(heads) > kMaxHeads) {
    throw Error(ErrorKind::limit, "masks for more than " + std::to_string(kMaxHeads) + " heads");
  }
  for (std::size_t head = 0; head < heads.size(); ++head) {
    if (heads[head] >= 0 && heads[head] < masks) continue;
    reject_mask("heads: heads[" + std::to_string(head) + "] = " + std::to_string(heads[head]) +
                " is no mask; there are " + std::to_string(masks));
  }
}

}  // namespace

const MaskKey& find_mask_key(const MaskFamily& family, std::string_view name) {
  for (const MaskKey& key : family.keys) {
    if (key.name == name) return key;
  }
  reject_mask(std::string(family.name) + ": " + unknown_name("key", name, names_of(family.keys)));
}

const MaskFamily& find_mask_family(std::string_view kind) {
  for (const MaskFamily& family : families()) {
    if (family.name == kind) return family;
  }
  reject_mask(unknown_name("mask", kind, names_of(families())));
}

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

const std::vector<Mask>& Mask::masks(std::string_view key) const {
  return std::get<std::vector<Mask>>(values.find(key)->second);
}

void reject_mask(const std::string& what) {
  throw Error(ErrorKind::invalid_input, what);
}

std::int64_t mask_parts(const Mask& mask) {
  std::int64_t parts = 1;
  for (const auto& [key, value] : mask.values) {
    if (const auto* masks = std::get_if<std::vector<Mask>>(&value)) {
      for (const Mask& part : *masks)
        parts += mask_parts(part);
    }
  }
  return parts;
}

std::span<const MaskFamily> mask_families() {
  return families();
}

Mask make_mask(std::string_view kind, std::map<std::string, MaskValue, std::less<>> values) {
  const MaskFamily& family = find_mask_family(kind);
  for (auto& [name, value] : values) {
    const MaskKey& key = find_mask_key(family, name);
    const auto* integers = std::get_if<std::vector<std::int64_t>>(&value);
    if (integers != nullptr && integers->empty()) {
      // An empty list has no type of its own.
      if (key.fallback.index() > value.index()) value = key.fallback;
    }
    if (value.index() != key.fallback.index()) {
      reject_mask(std::string(kind) + ": " + name + " must be " + type_name(key.fallback));
    }
  }
  for (const MaskKey& key : family.keys) {
    if (key.required && !values.contains(key.name)) {
      reject_mask(std::string(kind) + ": key '" + key.name + "' is missing (" + key.meaning +
                  "); example: " + family.example);
    }
    values.emplace(key.name, key.fallback);
  }
  Mask mask{.family = &family, .values = std::move(values)};
  for (const MaskKey& key : family.keys) {
    if (std::holds_alternative<Masks>(key.fallback)) check_masks(mask, mask.masks(key.name));
  }
  if (family.by_head) check_heads(mask);
  return mask;
}

bool is_of_tiles(const Mask& mask) {
  if (mask.family->tiles != nullptr) return true;
  return std::ranges::any_of(mask.values, [](const auto& entry) {
    const auto* masks = std::get_if<std::vector<Mask>>(&entry.second);
    return masks != nullptr && std::ranges::any_of(*masks, is_of_tiles);
  });
}

Lengths implied_lengths(const Mask& mask, const TileShape& shape) {
  Lengths implied;
  if (mask.family->implied != nullptr) implied = mask.family->implied(mask);
  if (mask.family->tiles != nullptr) implied = {implied.q * shape.q, implied.kv * shape.kv};
  for (const auto& [key, value] : mask.values) {
    const auto* masks = std::get_if<std::vector<Mask>>(&value);
    if (masks == nullptr) continue;
    for (const Mask& part : *masks) {
      const Lengths own = implied_lengths(part, shape);
      implied = {std::max(implied.q, own.q), std::max(implied.kv, own.kv)};
    }
  }
  return implied;
}

}  // namespace stagger
