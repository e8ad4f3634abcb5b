#include "core/formats/block_pairs.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>

namespace stagger::formats {
namespace {

using Pairs = std::vector<std::int64_t>;

/// `mask`, held against the number of blocks and what else is known of their size.
Pairs pairs_of_mask(const Bundle& bundle, std::int64_t blocks, TileShape& block) {
  const Tensor& mask = bundle.at("mask");
  const auto fits = [](std::int64_t own, std::int64_t said) {
    return own > 0 && own <= kMaxTokens && (said == 0 || own == said);
  };
  if (mask.shape.size() != 3 || mask.shape[0] != blocks || !fits(mask.shape[1], block.q) ||
      !fits(mask.shape[2], block.kv)) {
    bundle.reject("mask has a shape of " + shape_words(mask.shape) + ", not [" +
                  std::to_string(blocks) + ",R,C]");
  }
  block = {.q = mask.shape[1], .kv = mask.shape[2]};
  Pairs pairs = mask.elements;
  for (std::int64_t& pair : pairs)
    pair = pair != 0 ? 1 : 0;
  return pairs;
}

/// The bytes of `packed_mask`. A block row begins one of its own.
const Pairs& bytes_of(const Bundle& bundle, std::span<const std::int64_t> indptr,
                      std::int64_t pairs_of_block) {
  const Tensor& packed = bundle.at("packed_mask");
  std::int64_t bytes = 0;
  for (std::size_t row = 1; row < indptr.size(); ++row)
    bytes += divide_up((indptr[row] - indptr[row - 1]) * pairs_of_block, std::int64_t{8});
  if (std::ssize(packed.elements) != bytes) {
    bundle.reject("packed_mask has " + std::to_string(packed.elements.size()) + " bytes, not " +
                  std::to_string(bytes) + ": " + std::to_string(pairs_of_block) +
                  " bits a block, and each block row begins a byte");
  }
  for (std::size_t place = 0; place < packed.elements.size(); ++place) {
    if (packed.elements[place] >= 0 && packed.elements[place] <= 255) continue;
    bundle.reject("packed_mask[" + std::to_string(place) +
                  "] = " + std::to_string(packed.elements[place]) + " is no byte");
  }
  return packed.elements;
}

/// `packed_mask`, as the kernel reads it: of a block row query by query, of a query block by block,
/// a byte's low bits first.
Pairs pairs_of_bits(const Bundle& bundle, std::span<const std::int64_t> indptr, std::int64_t blocks,
                    const TileShape& block) {
  if (block.q == 0 || block.kv == 0) bundle.reject("packed_mask needs R and C");
  if (!(Checked(blocks) * block.q * block.kv).within(kMaxElements)) {
    throw Error(ErrorKind::limit, bundle.source + ": packed_mask is of more than " +
                                      std::to_string(kMaxElements) + " pairs");
  }
  const Pairs& bytes = bytes_of(bundle, indptr, block.q * block.kv);
  Pairs pairs(at(blocks * block.q * block.kv), 0);
  std::int64_t bit = 0;
  for (std::size_t row = 1; row < indptr.size(); ++row) {
    for (std::int64_t query = 0; query < block.q; ++query) {
      for (std::int64_t place = indptr[row - 1]; place < indptr[row]; ++place) {
        for (std::int64_t key = 0; key < block.kv; ++key, ++bit) {
          pairs[at((place * block.q + query) * block.kv + key)] = bytes[at(bit / 8)] >> bit % 8 & 1;
        }
      }
    }
    bit = divide_up(bit, std::int64_t{8}) * 8;
  }
  return pairs;
}

}  // namespace

std::optional<Pairs> pairs_of_blocks(const Bundle& bundle, std::span<const std::int64_t> indptr,
                                     std::int64_t blocks, TileShape& block) {
  std::optional<Pairs> pairs;
  if (bundle.has("mask")) pairs = pairs_of_mask(bundle, blocks, block);
  if (!bundle.has("packed_mask")) return pairs;
  Pairs bits = pairs_of_bits(bundle, indptr, blocks, block);
  if (!pairs) return bits;
  const auto [own, packed] = std::ranges::mismatch(*pairs, bits);
  if (own == pairs->end()) return pairs;
  bundle.reject("mask" + place_words(own - pairs->begin(), {blocks, block.q, block.kv}) + " is " +
                std::to_string(*own) + ", and packed_mask has another bit for it");
}

}  // namespace stagger::formats
