#pragma once

// What the tests of imports share: bundles of a few numbers, and what is made of them.

#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/formats/mask_import.hpp"
#include "core/problem.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace stagger::formats {

using Elements = std::vector<std::int64_t>;

inline Bundle bundle_of(std::vector<std::pair<std::string, Tensor>> tensors) {
  Bundle bundle;
  for (auto& [name, tensor] : tensors) {
    NamedTensor named{.name = name};
    named.tensor = std::move(tensor);
    bundle.tensors.push_back(std::move(named));
  }
  return bundle;
}

inline Tensor ints(std::vector<std::int64_t> shape, Elements elements) {
  return {.dtype = Dtype::int32, .shape = std::move(shape), .elements = std::move(elements)};
}

inline ImportedMask read(const Bundle& bundle, const MaskFileRequest& request = {}) {
  return read_mask_file(write_npz(bundle), "x.npz", request);
}

/// The rows of the grid, or of all that differ by head, a bar between them.
inline std::vector<std::string> rows_of(const ImportedMask& imported, TileShape shape = {}) {
  if (imported.shape.q > 0) shape = imported.shape;
  const std::int64_t heads = std::max<std::int64_t>(mask_heads(imported.mask), 1);
  const Problem problem = make_problem(imported.mask, imported.lengths, shape, heads, 1);
  std::vector<std::string> rows;
  for (const TileGrid& grid : problem.grids.distinct()) {
    if (!rows.empty()) rows.emplace_back("|");
    const Mask tiles = tiles_mask(grid);
    rows.insert(rows.end(), tiles.strings("rows").begin(), tiles.strings("rows").end());
  }
  return rows;
}

inline std::string refusal_of(const Bundle& bundle, const MaskFileRequest& request = {}) {
  try {
    static_cast<void>(rows_of(read(bundle, request)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool says(const ImportedMask& imported, const std::string& words) {
  const auto has = [&](const std::vector<std::string>& lines) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  };
  return has(imported.mask.origin.understood) || has(imported.mask.origin.lost);
}

// 16 tokens, tiles of 2, a window of 5 before the query and none behind it.
inline const std::vector<std::string> kW8 = {"pffp....", ".pffp...", "..pffp..", "...pffp.",
                                             "....pffp", ".....pff", "......pf", ".......p"};

}  // namespace stagger::formats
