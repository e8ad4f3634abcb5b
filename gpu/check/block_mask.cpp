#include "gpu/check/block_mask.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace stagger::gpu {
namespace {

constexpr std::int64_t kSide = BlockMask::kSide;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

/// Returns a word with bits [begin, end) set.
std::uint64_t bits(std::int64_t begin, std::int64_t end) {
  return kAll >> (kSide - end) & kAll << begin;
}

/// Adds the keys of a range; `seen` is by (KV block, query in the block).
void add(const KeyRange& range, std::int64_t query, std::vector<std::uint64_t>& seen) {
  for (std::int64_t block = range.begin / kSide; block * kSide < range.end; ++block) {
    const std::int64_t first = block * kSide;
    seen[at(first + query)] |=
        bits(std::max(range.begin - first, std::int64_t{0}), std::min(range.end - first, kSide));
  }
}

void append_block(std::span<const std::uint64_t> seen, BlockMask& mask) {
  const auto is = [&](std::uint64_t keys) {
    return std::all_of(seen.begin(), seen.end(), [=](std::uint64_t row) { return row == keys; });
  };
  if (is(0) || is(kAll)) {
    mask.kinds.push_back(is(0) ? BlockMask::kEmpty : BlockMask::kFull);
    return;
  }
  mask.kinds.push_back(static_cast<std::int32_t>(mask.seen.size() / at(kSide)));
  mask.seen.insert(mask.seen.end(), seen.begin(), seen.end());
}

}  // namespace

BlockMask block_mask(const TokenMask& mask, const Lengths& lengths) {
  BlockMask result;
  result.q_blocks = (lengths.q + kSide - 1) / kSide;
  result.kv_blocks = (lengths.kv + kSide - 1) / kSide;
  if (result.q_blocks * result.kv_blocks > kMaxGridTiles) {
    throw Error(ErrorKind::limit, "a reference of " + std::to_string(lengths.q) + " x " +
                                      std::to_string(lengths.kv) + " tokens is too large");
  }
  result.kinds.reserve(at(result.q_blocks * result.kv_blocks));
  for (std::int64_t first = 0; first < lengths.q; first += kSide) {
    std::vector<std::uint64_t> seen(at(result.kv_blocks * kSide));
    for (std::int64_t query = first; query < std::min(first + kSide, lengths.q); ++query) {
      for (const KeyRange& range : mask.keys(query))
        add(range, query - first, seen);
    }
    for (std::int64_t block = 0; block < result.kv_blocks; ++block)
      append_block(std::span(seen).subspan(at(block * kSide), at(kSide)), result);
  }
  return result;
}

}  // namespace stagger::gpu
