// The masks of which a query sees one range of keys. Lengths that differ are aligned at the bottom
// right, as FlashAttention does: query q stands at key position q + kv - q_length.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/mask_rules.hpp"

#include <algorithm>
#include <string>

namespace stagger {
namespace {

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

/// A key's tokens to one side of the query.
std::int64_t side_of(const Mask& mask, const char* key) {
  const std::int64_t width = mask.integer(key);
  if (width < -1) {
    reject_mask(std::string(mask.family->name) + ": " + key + " = " + std::to_string(width) +
                ": a window is 0 or more tokens, or -1 for unbounded");
  }
  return width == -1 ? kMaxTokens : std::min(width, kMaxTokens);
}

/// Tokens of sequences that begin at multiples of `align`.
std::int64_t sum_of(const Mask& mask, const char* key, std::int64_t align) {
  std::int64_t total = 0;
  std::size_t place = 0;
  for (const std::int64_t length : mask.integers(key)) {
    if (length < 0 || length > kMaxTokens) {
      reject_mask(std::string(mask.family->name) + ": " + key + "[" + std::to_string(place) +
                  "] = " + std::to_string(length) + ": must be 0 to " + std::to_string(kMaxTokens) +
                  " tokens");
    }
    ++place;
    total = std::min(divide_up(total, align) * align + length, 2 * kMaxTokens);
  }
  return total;
}

}  // namespace

std::vector<KeyRange> full_rows(const Mask&, const Lengths& lengths) {
  return each_query(lengths, [&](std::int64_t) { return KeyRange{0, lengths.kv}; });
}

std::vector<KeyRange> causal_rows(const Mask&, const Lengths& lengths) {
  return each_query(lengths, [](std::int64_t position) { return KeyRange{0, position + 1}; });
}

std::vector<KeyRange> sliding_rows(const Mask& mask, const Lengths& lengths) {
  const std::int64_t left = side_of(mask, "left");
  const std::int64_t right = side_of(mask, "right");
  return each_query(lengths, [&](std::int64_t position) {
    return KeyRange{position - left, position + right + 1};
  });
}

std::vector<KeyRange> prefix_rows(const Mask& mask, const Lengths& lengths) {
  const std::int64_t length = mask.integer("length");
  if (length < 0) reject_mask("prefix: length = " + std::to_string(length) + ": must be 0 or more");
  return each_query(lengths, [&](std::int64_t position) {
    return KeyRange{0, std::max(length, position + 1)};
  });
}

Lengths document_size(const Mask& mask) {
  const std::int64_t total = sum_of(mask, "lengths", 1);
  return {total, total};
}

std::vector<KeyRange> document_rows(const Mask& mask, const Lengths& lengths) {
  const Lengths size = document_size(mask);
  if (lengths.q != size.q || lengths.kv != size.kv) {
    reject_mask("document: lengths add up to " + std::to_string(size.q) +
                " tokens, the problem has " + std::to_string(lengths.q) + " queries and " +
                std::to_string(lengths.kv) + " keys");
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
  for (const char* key : {"q_blocks", "kv_blocks"}) {
    const auto& blocks = mask.integers(key);
    const auto bad = std::is_sorted_until(blocks.begin(), blocks.end());
    if (bad != blocks.end()) {
      reject_mask(std::string("block-causal: ") + key + "[" + std::to_string(bad - blocks.begin()) +
                  "] = " + std::to_string(*bad) +
                  " is below the block before it; ids never decrease");
    }
  }
  if (lengths != block_causal_size(mask)) {
    reject_mask("block-causal: " + std::to_string(mask.integers("q_blocks").size()) +
                " q_blocks and " + std::to_string(mask.integers("kv_blocks").size()) +
                " kv_blocks, the problem has " + std::to_string(lengths.q) + " queries and " +
                std::to_string(lengths.kv) + " keys");
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

// ---- varlen -----------------------------------------------------------------------------------

namespace {

/// What the keys of a `varlen` mask say, checked.
struct Sequences {
  const std::vector<std::int64_t>& q;
  const std::vector<std::int64_t>& kv;
  std::int64_t align_q;
  std::int64_t align_kv;
};

Sequences sequences_of(const Mask& mask) {
  const auto& q = mask.integers("q_lengths");
  const auto& kv = mask.integers("kv_lengths");
  if (!kv.empty() && kv.size() != q.size()) {
    reject_mask("varlen: " + std::to_string(q.size()) + " q_lengths and " +
                std::to_string(kv.size()) + " kv_lengths");
  }
  const auto align = [&](const char* key) {
    const std::int64_t tokens = mask.integer(key);
    if (tokens < 1 || tokens > kMaxTokens) {
      reject_mask(std::string("varlen: ") + key + " = " + std::to_string(tokens) +
                  ": must be 1 to " + std::to_string(kMaxTokens) + " tokens");
    }
    return tokens;
  };
  return {.q = q,
          .kv = kv.empty() ? q : kv,
          .align_q = align("align_q"),
          .align_kv = align("align_kv")};
}

}  // namespace

Lengths varlen_size(const Mask& mask) {
  const Sequences sequences = sequences_of(mask);
  const char* const kv = mask.integers("kv_lengths").empty() ? "q_lengths" : "kv_lengths";
  return {sum_of(mask, "q_lengths", sequences.align_q), sum_of(mask, kv, sequences.align_kv)};
}

std::vector<KeyRange> varlen_rows(const Mask& mask, const Lengths& lengths) {
  const Lengths size = varlen_size(mask);
  if (lengths != size) {
    reject_mask("varlen: the sequences take " + std::to_string(size.q) + " queries and " +
                std::to_string(size.kv) + " keys, the problem has " + std::to_string(lengths.q) +
                " and " + std::to_string(lengths.kv));
  }
  const Sequences sequences = sequences_of(mask);
  const std::int64_t left = side_of(mask, "left");
  const std::int64_t right = mask.boolean("causal") ? 0 : side_of(mask, "right");
  std::vector<KeyRange> rows(at(lengths.q));
  Lengths first;  // tokens before the sequence
  for (std::size_t place = 0; place < sequences.q.size(); ++place) {
    first = {divide_up(first.q, sequences.align_q) * sequences.align_q,
             divide_up(first.kv, sequences.align_kv) * sequences.align_kv};
    const std::int64_t keys = sequences.kv[place];
    std::int64_t position = keys - sequences.q[place];
    for (std::int64_t query = 0; query < sequences.q[place]; ++query, ++position) {
      const std::int64_t begin = std::clamp<std::int64_t>(position - left, 0, keys);
      const std::int64_t end = std::clamp<std::int64_t>(position + right + 1, begin, keys);
      rows[at(first.q + query)] = {first.kv + begin, first.kv + end};
    }
    first = {first.q + sequences.q[place], first.kv + keys};
  }
  return rows;
}

}  // namespace stagger
