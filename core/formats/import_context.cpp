#include "core/formats/import_context.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace stagger::formats {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

/// `128 x 64 tokens`, KV first, as everywhere.
std::string tokens_words(const TileShape& shape) {
  return std::to_string(shape.kv) + " keys x " + std::to_string(shape.q) + " queries";
}

/// How many tiles a block's side has.
std::int64_t tiles_of_block(const char* option, std::int64_t block, std::int64_t tile) {
  if (tile == 0) return 1;
  if (block % tile != 0) {
    fail(std::string(option) + " " + std::to_string(tile) +
         " does not divide the file's blocks of " + std::to_string(block) + " tokens");
  }
  return block / tile;
}

/// Of which tokens a length is.
enum class Tokens { queries, keys };

/// `5 queries are`, `1 key is`.
std::string tokens_are(std::int64_t tokens, Tokens what) {
  const bool queries = what == Tokens::queries;
  return std::to_string(tokens) + (queries ? does(tokens, " query is", " queries are")
                                           : does(tokens, " key is", " keys are"));
}

void check_length(Tokens what, std::int64_t tokens, std::int64_t tile, std::int64_t tiles) {
  if (divide_up(tokens, tile) == tiles) return;
  fail(tokens_are(tokens, what) + " no " + counted(tiles, "tile") + " of " + std::to_string(tile) +
       does(tile, " token", " tokens") + ", which the file has");
}

TileGrid refined(const TileGrid& grid, const Lengths& factor, const Lengths& tiles) {
  std::vector<TileKind> kinds;
  kinds.reserve(at(tiles.kv * tiles.q));
  for (std::int64_t kv = 0; kv < tiles.kv; ++kv) {
    for (std::int64_t q = 0; q < tiles.q; ++q) {
      kinds.push_back(grid.kind(KvTile{static_cast<std::int32_t>(kv / factor.kv)},
                                QTile{static_cast<std::int32_t>(q / factor.q)}));
    }
  }
  return {static_cast<std::int32_t>(tiles.kv), static_cast<std::int32_t>(tiles.q),
          std::move(kinds)};
}

/// The name of a tensor in a sentence: that of a lone `.npy` is empty.
std::string spoken(std::string_view name) {
  return name.empty() ? "the array" : std::string(name);
}

/// As many as two of a dimension have together, of which one may be for all of the other's.
std::optional<std::int64_t> wider(std::int64_t left, std::int64_t right) {
  if (left == right || right == 1) return left;
  if (left == 1) return right;
  return std::nullopt;
}

/// A mask, or every one of those by head, and causal.
Mask each_and_causal(Mask mask) {
  if (!mask.family->by_head) {
    return make_mask("and", {{"of", std::vector<Mask>{std::move(mask), make_mask("causal")}}});
  }
  std::vector<Mask> masks;
  for (const Mask& each : mask.masks("of"))
    masks.push_back(each_and_causal(each));
  return make_mask("heads", {{"of", std::move(masks)}, {"heads", mask.integers("heads")}});
}

}  // namespace

std::optional<std::vector<std::int64_t>> Import::numbers(std::string_view name) const {
  if (const Tensor* tensor = bundle.find(name)) return tensor->elements;
  const auto words = bundle.words.find(name);
  if (words == bundle.words.end()) return std::nullopt;
  std::vector<std::int64_t> values;
  const char* at = words->second.data();
  const char* const end = at + words->second.size();
  while (at != end) {
    if (std::string_view(" ,()[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) {
      bundle.reject(std::string(name) + " = '" + words->second + "' is no list of integers");
    }
    values.push_back(value);
    at = next;
  }
  return values;
}

std::optional<std::vector<std::int64_t>> Import::numbers(std::string_view name,
                                                         std::size_t count) const {
  auto values = numbers(name);
  if (values && values->size() != count) {
    bundle.reject(std::string(name) + " has " + std::to_string(values->size()) + " numbers, not " +
                  std::to_string(count));
  }
  return values;
}

TileShape Import::block_size(std::string_view name) const {
  const auto sizes = numbers(name, 2);
  if (!sizes) return {.q = 0, .kv = 0};
  const auto is_size = [](std::int64_t tokens) { return tokens >= 1 && tokens <= kMaxTokens; };
  if (!is_size(sizes->front()) || !is_size(sizes->back())) {
    bundle.reject(std::string(name) + " is " + std::to_string(sizes->front()) + ", " +
                  std::to_string(sizes->back()) + ", not 1 to " + std::to_string(kMaxTokens) +
                  " tokens each");
  }
  return {.q = sizes->front(), .kv = sizes->back()};
}

std::optional<bool> Import::flag(std::string_view name) const {
  const auto words = bundle.words.find(name);
  if (words != bundle.words.end()) {
    const std::string& value = words->second;
    if (value == "true" || value == "True" || value == "1") return true;
    if (value == "false" || value == "False" || value == "0") return false;
    bundle.reject(std::string(name) + " = '" + value + "' is neither true nor false");
  }
  if (const auto value = numbers(name, 1)) return value->front() != 0;
  return std::nullopt;
}

std::optional<bool> Import::causal_of_file() const {
  if (const std::optional<bool> own = flag("causal")) return own;
  const auto type = bundle.words.find("mask_type");
  if (type == bundle.words.end()) return std::nullopt;
  if (type->second != "causal" && type->second != "dense") {
    bundle.reject("mask_type = '" + type->second + "' is neither dense nor causal");
  }
  return type->second == "causal";
}

std::optional<bool> Import::causal() {
  heeds_causal_ = true;
  const std::optional<bool> own = causal_of_file();
  if (own && request.causal && *own != *request.causal) {
    fail(std::string("--mask-causal ") + (*own ? "false" : "true") +
         ", where the file says the other");
  }
  return own ? own : request.causal;
}

TileShape Import::block_or_asked(const TileShape& block) const {
  const auto side = [](std::int64_t file, std::int64_t asked) {
    if (file > 0) return file;
    return asked > 0 ? asked : 1;
  };
  return {.q = side(block.q, request.shape.q), .kv = side(block.kv, request.shape.kv)};
}

Lengths Import::asked_blocks(const TileShape& block) const {
  const TileShape own = block_or_asked(block);
  return {divide_up(request.lengths.q, own.q), divide_up(request.lengths.kv, own.kv)};
}

Lengths Import::ragged_tokens(const Lengths& lengths, const TileShape& block) const {
  const TileShape own = block_or_asked(block);
  const auto side = [](std::int64_t file, std::int64_t asked) { return file > 0 ? file : asked; };
  return {side(lengths.q, request.lengths.q) % own.q,
          side(lengths.kv, request.lengths.kv) % own.kv};
}

void Import::expect_heeded(const char* format) const {
  if (request.head && !heeds_head_) {
    fail(std::string("--mask-head means nothing to ") + format + ", which has one mask for all");
  }
  if (request.causal && !heeds_causal_) {
    fail(std::string("--mask-causal means nothing to ") + format + ", which says itself");
  }
}

Mask Import::by_head(const MasksOfFile& masks, const std::function<Mask(std::int64_t)>& mask) {
  heeds_head_ = true;
  if (masks.count() < 1) bundle.reject("it has no batch or no head");
  const std::string sizes = masks.words();
  if (request.head) {
    if (*request.head < 0 || *request.head >= masks.count()) {
      fail("--mask-head " + std::to_string(*request.head) + ": the file has " + sizes + ", 0 to " +
           std::to_string(masks.count() - 1));
    }
    understood("the mask of batch " + std::to_string(*request.head / masks.heads) + ", head " +
               std::to_string(*request.head % masks.heads) + " of " + sizes);
    if (masks.count() > 1) lost("the masks of the other heads");
    return mask(*request.head);
  }
  std::vector<Mask> distinct;
  std::map<std::string, std::int64_t> found;  // their places, by their words
  std::vector<std::int64_t> of_place;
  for (std::int64_t place = 0; place < masks.count(); ++place) {
    Mask each = mask(place);
    const auto [known, is_new] = found.emplace(mask_words(each), std::ssize(distinct));
    if (is_new) distinct.push_back(std::move(each));
    if (std::ssize(distinct) > kMaxHeadMasks) {
      throw Error(ErrorKind::limit, bundle.source + ": more than " + std::to_string(kMaxHeadMasks) +
                                        " masks that differ");
    }
    of_place.push_back(known->second);
  }
  if (distinct.size() == 1) {
    if (masks.count() > 1) understood("the same mask for " + sizes);
    return std::move(distinct.front());
  }
  understood(std::to_string(distinct.size()) + " masks that differ for " + sizes);
  std::vector<std::int64_t> heads = places_of_heads(masks);
  for (std::int64_t& head : heads)
    head = of_place[at(head)];
  return make_mask("heads", {{"of", std::move(distinct)}, {"heads", std::move(heads)}});
}

std::vector<std::int64_t> Import::places_of_heads(const MasksOfFile& masks) const {
  const std::int64_t all = request.heads == 0 ? masks.count() : request.heads;
  const bool of_kv = masks.of_kv_heads && request.heads_kv > 0;
  // Of masks of batches alone each is for all heads of its batch.
  const std::int64_t alike = masks.heads == 1 ? all / masks.batches
                             : of_kv          ? all / request.heads_kv
                                              : 1;
  const std::int64_t pattern = masks.count() * alike;
  const bool repeats = masks.batches == 1 || pattern == all;
  if (alike == 0 || all % pattern != 0 || !repeats) {
    fail(bundle.source + ": masks for " + masks.words() + " are none for --heads " +
         std::to_string(all) + "; --mask-head chooses one for all");
  }
  std::vector<std::int64_t> places;
  for (std::int64_t head = 0; head < pattern; ++head)
    places.push_back(head / alike);
  return places;
}

Lengths Import::agreed(const Lengths& lengths) const {
  const auto side = [](Tokens what, std::int64_t file, std::int64_t given) {
    if (file > 0 && given > 0 && file != given) {
      fail(tokens_are(given, what) + " asked for, where the file says " + std::to_string(file));
    }
    return file > 0 ? file : given;
  };
  return {side(Tokens::queries, lengths.q, request.lengths.q),
          side(Tokens::keys, lengths.kv, request.lengths.kv)};
}

ImportedMask Import::tiled(const MasksOfFile& masks,
                           const std::function<TileGrid(std::int64_t)>& grid,
                           const TileShape& block, const Lengths& lengths) {
  const TileShape own = block_or_asked(block);
  ImportedMask imported{.lengths = agreed(lengths)};
  Lengths& tokens = imported.lengths;
  const Lengths factor = {tiles_of_block("--tile-q", own.q, request.shape.q),
                          tiles_of_block("--tile-kv", own.kv, request.shape.kv)};
  imported.shape = {.q = own.q / factor.q, .kv = own.kv / factor.kv};
  imported.mask = by_head(masks, [&](std::int64_t place) {
    const TileGrid blocks = grid(place);
    if (tokens.q == 0) tokens.q = own.q * blocks.q_tiles();
    if (tokens.kv == 0) tokens.kv = own.kv * blocks.kv_tiles();
    check_lengths(tokens, own, blocks.q_tiles(), blocks.kv_tiles());
    if (factor == Lengths{1, 1}) return tiles_mask(blocks);
    const Lengths tiles = {divide_up(tokens.q, imported.shape.q),
                           divide_up(tokens.kv, imported.shape.kv)};
    if (tiles.q > kMaxTiles || tiles.kv > kMaxTiles || tiles.q * tiles.kv > kMaxGridTiles) {
      throw Error(ErrorKind::limit, "more than " + std::to_string(kMaxGridTiles) + " tiles");
    }
    return tiles_mask(refined(blocks, factor, tiles));
  });
  if (block.q == 0 && block.kv == 0 && request.shape.q == 0 && request.shape.kv == 0) {
    understood("the file does not say how many tokens a tile has: one");
  } else {
    understood("blocks of " + tokens_words(own) + ", " + std::to_string(tokens.kv) + " keys and " +
               std::to_string(tokens.q) + " queries");
  }
  if (factor != Lengths{1, 1}) {
    understood("each block is " + std::to_string(factor.kv) + " x " + std::to_string(factor.q) +
               " tiles, all of its kind");
    lost("which tiles of a partial block are full or empty");
  }
  return imported;
}

void Import::compose_causal(ImportedMask& imported) {
  if (!causal().value_or(false)) return;
  imported.mask = each_and_causal(std::move(imported.mask));
  understood("and causal, bottom-right aligned");
}

ImportedMask Import::of_tokens(Mask mask, const Lengths& lengths) {
  ImportedMask imported{.mask = std::move(mask), .lengths = agreed(lengths)};
  imported.shape = request.shape;
  return imported;
}

Leading leading_of(const Bundle& bundle, std::string_view name, std::size_t inner) {
  const std::vector<std::int64_t>& shape = bundle.at(name).shape;
  if (shape.size() < inner || shape.size() > inner + 2) {
    bundle.reject(spoken(name) + " has a shape of " + shape_words(shape) + ", not " +
                  std::to_string(inner) + " to " + std::to_string(inner + 2) + " dimensions");
  }
  const std::size_t before = shape.size() - inner;
  Leading leading;
  if (before >= 1) leading.heads = shape[before - 1];
  if (before == 2) leading.batches = shape[0];
  leading.inner.assign(shape.begin() + static_cast<std::ptrdiff_t>(before), shape.end());
  return leading;
}

std::optional<MasksOfFile> together(const MasksOfFile& left, const MasksOfFile& right) {
  const auto batches = wider(left.batches, right.batches);
  const auto heads = wider(left.heads, right.heads);
  if (!batches || !heads) return std::nullopt;
  return MasksOfFile{
      .batches = *batches, .heads = *heads, .of_kv_heads = left.of_kv_heads || right.of_kv_heads};
}

std::int64_t own_place(const Leading& own, const MasksOfFile& all, std::int64_t mask) {
  const std::int64_t batch = own.batches == 1 ? 0 : mask / all.heads;
  const std::int64_t head = own.heads == 1 ? 0 : mask % all.heads;
  return batch * own.heads + head;
}

void check_masks(const Bundle& bundle, const std::string& name, const MasksOfFile& masks,
                 std::int64_t size) {
  const Checked count = Checked(masks.batches) * masks.heads;
  if (count.within(kMaxElements) && (count * size).within(kMaxElements)) return;
  throw Error(ErrorKind::limit, bundle.source + ": " + name + ": masks for " + masks.words() +
                                    " are more than " + std::to_string(kMaxElements));
}

void check_zeros_and_ones(const Bundle& bundle, std::string_view name) {
  const Tensor& tensor = bundle.at(name);
  for (std::size_t place = 0; place < tensor.elements.size(); ++place) {
    if (tensor.elements[place] == 0 || tensor.elements[place] == 1) continue;
    bundle.reject(std::string(name) + place_words(static_cast<std::int64_t>(place), tensor.shape) +
                  " = " + std::to_string(tensor.elements[place]) + ", neither 0 nor 1");
  }
}

void check_lengths(const Lengths& tokens, const TileShape& block, std::int64_t q_tiles,
                   std::int64_t kv_tiles) {
  check_length(Tokens::queries, tokens.q, block.q, q_tiles);
  check_length(Tokens::keys, tokens.kv, block.kv, kv_tiles);
}

void check_grid_size(const Bundle& bundle, std::int64_t kv_tiles, std::int64_t q_tiles) {
  if (kv_tiles <= kMaxTiles && q_tiles <= kMaxTiles && kv_tiles * q_tiles <= kMaxGridTiles) return;
  throw Error(ErrorKind::limit, bundle.source + ": " + std::to_string(kv_tiles) + " x " +
                                    std::to_string(q_tiles) + " tiles; at most " +
                                    std::to_string(kMaxGridTiles) + " a head are supported");
}

std::string place_words(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    place[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return shape_words(place);
}

std::optional<std::string> fa4_prefix(const Bundle& bundle, Direction direction) {
  const bool backward = direction == Direction::backward;
  const std::initializer_list<const char*> backwards = {"backward.", "bwd.", "backward_",
                                                        "bwd_",      "k2q.", "k2q_"};
  const std::initializer_list<const char*> forwards = {"forward.", "fwd.", "forward_",
                                                       "fwd_",     "q2k.", "q2k_"};
  for (const char* prefix : backward ? backwards : forwards) {
    if (bundle.has(prefix + std::string("mask_block_cnt")) ||
        bundle.has(prefix + std::string("full_block_cnt"))) {
      return prefix;
    }
  }
  if (!bundle.has("mask_block_cnt") && !bundle.has("full_block_cnt")) return std::nullopt;
  // A layout by offsets is by KV tile, as `csr` is.
  const bool ordered = bundle.has("dq_write_order") || bundle.has("dq_write_order_full") ||
                       bundle.has("spt") || bundle.words.contains("spt") ||
                       bundle.has("mask_block_offset");
  if (ordered == backward) return "";
  return std::nullopt;
}

}  // namespace stagger::formats
