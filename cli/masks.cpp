#include "cli/masks.hpp"

#include "cli/files.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/formats/mask_import.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <utility>

namespace stagger::cli {
namespace {

/// Tiles of a side that are one token each without being asked for.
constexpr std::int64_t kMostOneTokenTiles = 256;

[[noreturn]] void reject_mask(const std::string& what) {
  throw Error(ErrorKind::usage, what);
}

/// What the options say of the size; 0 where they say nothing.
Lengths given_lengths(const Options& options) {
  if (options.n) return {*options.n * options.tile().q, *options.n * options.tile().kv};
  const std::int64_t both = options.seq.value_or(0);
  return {options.seq_q.value_or(both), options.seq_kv.value_or(both)};
}

formats::ImportedMask mask_of(const Options& options) {
  if (!options.mask_file.empty()) {
    return formats::read_mask_file(
        read_file(options.mask_file), options.mask_file,
        {.format = options.mask_format,
         .lengths = given_lengths(options),
         .shape = {.q = options.tile_q.value_or(0), .kv = options.tile_kv.value_or(0)},
         .head = options.mask_head,
         .heads = options.heads.value_or(0),
         .heads_kv = options.heads_kv.value_or(0),
         .causal = options.mask_causal});
  }
  const std::string& text = options.mask;
  const bool json = text.starts_with('{');
  try {
    return {.mask = json ? read_mask_json(text, "--mask") : parse_mask(text)};
  } catch (const Error& error) {
    reject_mask((json ? "" : "--mask: ") + std::string(error.what()));
  }
}

/// Tiles of one token each are for tables drawn by hand; of a real sequence they are a mistake that
/// takes minutes.
void check_tiles(const Options& options, const Lengths& lengths) {
  const auto check = [](std::int64_t tokens, const std::optional<std::int64_t>& tile,
                        const char* option) {
    if (tile || tokens <= kMostOneTokenTiles) return;
    reject_mask(std::to_string(tokens) + " tokens would be as many tiles: give " + option +
                " (64 or 128, say), or --n TILES");
  };
  check(lengths.q, options.tile_q, "--tile-q");
  check(lengths.kv, options.tile_kv, "--tile-kv");
}

/// Whether a mask, or one of those by head, counts tiles and not tokens.
bool is_block_sparse(const Mask& mask) {
  if (!mask.family->by_head) return mask.family->tiles != nullptr;
  return std::ranges::any_of(mask.masks("of"), is_block_sparse);
}

/// The sequence lengths, from the options or from what the mask says of itself.
Lengths lengths_of(const Options& options, const Mask& mask) {
  const bool block_sparse = is_block_sparse(mask);
  if (options.n) {
    const std::int64_t tokens = *options.n * options.tile().kv;
    // Block-sparse masks count tiles, so n of them need n tiles on both sides.
    return {block_sparse ? *options.n * options.tile().q : tokens, tokens};
  }
  const auto either = [](std::int64_t first, std::int64_t second) {
    return first > 0 ? first : second;
  };
  const Lengths given = given_lengths(options);
  if (given.q > 0 || given.kv > 0) return {either(given.q, given.kv), either(given.kv, given.q)};
  const Lengths implied = implied_lengths(mask, options.tile());
  if (implied.q == 0 && implied.kv == 0 && mask.family->implied == nullptr) {
    reject_mask(std::string("the size is missing: give --n TILES or --seq TOKENS for a ") +
                mask.family->name + " mask");
  }
  return implied;
}

/// Tokens in a file that are tiles of one token each: nobody said how many a tile has.
bool says_tokens_alone(const Options& options, const Mask& mask) {
  return !options.n && !is_block_sparse(mask);
}

}  // namespace

SizedMask sized_mask(const Options& options) {
  formats::ImportedMask imported = mask_of(options);
  SizedMask sized{.mask = std::move(imported.mask), .lengths = {}, .shape = options.tile()};
  if (imported.shape.q > 0) sized.shape.q = imported.shape.q;
  if (imported.shape.kv > 0) sized.shape.kv = imported.shape.kv;
  if (imported.lengths.q > 0 || imported.lengths.kv > 0) {
    sized.lengths = imported.lengths;
  } else {
    sized.lengths = lengths_of(options, sized.mask);
  }
  const bool shaped = imported.shape.q > 0 && imported.shape.kv > 0;
  if (!shaped && says_tokens_alone(options, sized.mask)) check_tiles(options, sized.lengths);
  return sized;
}

void note_import(const Options& options, Problem& problem) {
  MaskOrigin& origin = problem.mask.origin;
  origin.understood.push_back(counts_words(problem));
  if (options.json) return;
  std::string text = options.mask_file;
  for (const std::string& line : import_lines(origin))
    text += "\n" + line;
  complain(text);
}

std::vector<std::string> import_lines(const MaskOrigin& origin) {
  std::vector<std::string> lines = {"read as " + origin.format};
  for (const std::string& what : origin.understood)
    lines.push_back(what);
  for (const std::string& what : origin.lost)
    lines.push_back("not kept: " + what);
  return lines;
}

std::string counts_words(const Problem& problem) {
  const HeadGrids& grids = problem.grids;
  const std::vector<std::int32_t> heads =
      grids.all_alike() ? std::vector<std::int32_t>{1} : grids.counts(problem.heads);
  TileCounts all;
  for (std::size_t place = 0; place < heads.size(); ++place) {
    const TileCounts counts = grids.distinct()[place].counts();
    all.full += heads[place] * counts.full;
    all.partial += heads[place] * counts.partial;
    all.empty += heads[place] * counts.empty;
  }
  const std::string by_head =
      heads.size() == 1 ? "" : counted(std::ssize(heads), "grid") + " by head; in all heads ";
  return by_head + std::to_string(all.full) + " full, " + std::to_string(all.partial) +
         " partial and " + std::to_string(all.empty) + " empty tiles";
}

}  // namespace stagger::cli
