#pragma once

#include "core/problem.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

struct Options;

/// A mask, and its size by the options, by its file or by what it says itself.
struct SizedMask {
  Mask mask;
  Lengths lengths;
  TileShape shape;
};

/// The mask of `--mask` or `--mask-file`. Throws Error.
[[nodiscard]] SizedMask sized_mask(const Options& options);

/// Adds the tiles of an imported mask to what was understood of its file, and says all of that on
/// standard error, unless JSON is printed, which has it too.
void note_import(const Options& options, Problem& problem);

/// What was understood of the file of a problem's mask, and what was lost: a line each.
[[nodiscard]] std::vector<std::string> import_lines(const MaskOrigin& origin);

/// `28 full, 8 partial and 28 empty tiles`; of all heads, and of how many grids, where they differ.
[[nodiscard]] std::string counts_words(const Problem& problem);

}  // namespace stagger::cli
