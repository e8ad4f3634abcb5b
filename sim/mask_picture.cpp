#include "sim/mask_picture.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <algorithm>

namespace stagger::sim {
namespace {

/// What a square of tiles is, all of it.
TileKind kind_of(const TileGrid& grid, std::int64_t kv, std::int64_t q, std::int64_t side) {
  const TileKind first =
      grid.kind(KvTile{static_cast<std::int32_t>(kv)}, QTile{static_cast<std::int32_t>(q)});
  for (std::int64_t row = kv; row < std::min<std::int64_t>(kv + side, grid.kv_tiles()); ++row) {
    for (std::int64_t column = q; column < std::min<std::int64_t>(q + side, grid.q_tiles());
         ++column) {
      const TileKind kind = grid.kind(KvTile{static_cast<std::int32_t>(row)},
                                      QTile{static_cast<std::int32_t>(column)});
      if (kind != first) return TileKind::partial;
    }
  }
  return first;
}

/// `heads 0, 2`, the first of those that have a grid.
std::string heads_words(const HeadGrids& grids, std::int32_t place) {
  constexpr std::int32_t kListed = 8;
  std::int32_t count = 0;
  std::string listed;
  for (Head head{0}; head.value < std::ssize(grids.places()); ++head) {
    if (grids.place_of(head) != place || ++count > kListed) continue;
    listed += (count > 1 ? ", " : "") + std::to_string(head.value);
  }
  if (count > kListed) listed += " and " + std::to_string(count - kListed) + " more";
  return (count == 1 ? "head " : "heads ") + listed;
}

/// Tiles that a letter stands for, as a square of them.
std::int64_t side_of(const TileGrid& grid, std::int64_t label, const MaskTextOptions& options) {
  const std::int64_t columns = std::max<std::int64_t>(options.width - label, 1);
  return std::max({std::int64_t{1}, divide_up(grid.q_tiles(), columns),
                   divide_up(grid.kv_tiles(), std::max(options.rows, 1))});
}

std::string rows_text(const TileGrid& grid, std::int64_t side) {
  const std::string last = std::to_string(std::max(grid.kv_tiles() - 1, 0));
  std::string text;
  for (std::int64_t kv = 0; kv < grid.kv_tiles(); kv += side) {
    std::string number = std::to_string(kv);
    number.insert(0, last.size() - number.size(), ' ');
    text += "kv " + number + "  ";
    for (std::int64_t q = 0; q < grid.q_tiles(); q += side)
      text += static_cast<char>(kind_of(grid, kv, q, side));
    text += '\n';
  }
  return text;
}

constexpr std::int64_t kSide = 12;

/// A rectangle for tiles of one kind beside each other. Counts them.
std::string rectangles_of(const TileGrid& grid, std::int64_t top, std::int64_t& count) {
  constexpr std::int64_t kMostRectangles = 1'000'000;
  std::string text;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles();) {
      const TileKind kind = grid.kind(kv, q);
      const QTile first = q;
      while (q.value < grid.q_tiles() && grid.kind(kv, q) == kind)
        ++q;
      if (kind == TileKind::empty) continue;
      if (++count > kMostRectangles) {
        throw Error(ErrorKind::limit,
                    "a picture of more than " + std::to_string(kMostRectangles) + " rectangles");
      }
      text += "<rect x=\"" + std::to_string(kSide * first.value) + "\" y=\"" +
              std::to_string(top + kSide * kv.value) + "\" width=\"" +
              std::to_string(kSide * (q.value - first.value)) + "\" height=\"" +
              std::to_string(kSide) + "\" fill=\"" +
              (kind == TileKind::full ? "#1f5a94" : "#9dc3e6") + "\"/>\n";
    }
  }
  return text;
}

}  // namespace

std::string mask_text(const HeadGrids& grids, const MaskTextOptions& options) {
  const TileGrid& first = grids.distinct().front();
  const std::string last = std::to_string(std::max(first.kv_tiles() - 1, 0));
  const auto label = static_cast<std::int64_t>(last.size()) + 5;  // `kv 17  `
  const std::int64_t side = side_of(first, label, options);
  std::string text;
  for (std::int32_t place = 0; place < std::ssize(grids.distinct()); ++place) {
    if (!grids.all_alike()) text += heads_words(grids, place) + "\n";
    text += rows_text(grids.distinct()[place], side);
    if (!grids.all_alike()) text += "\n";
  }
  text += "f full, p partial, . empty; a column for each Q tile";
  if (side > 1) {
    const std::string tiles = std::to_string(side) + " x " + std::to_string(side);
    text += "\na letter for " + tiles + " tiles: f or . if all are that, else p";
  }
  return text + "\n";
}

std::string mask_svg(const HeadGrids& grids) {
  const TileGrid& first = grids.distinct().front();
  const std::int64_t title = grids.all_alike() ? 0 : 2 * kSide;  // above each grid
  const std::int64_t step = title + kSide * first.kv_tiles();
  const std::string width = std::to_string(kSide * first.q_tiles());
  const std::string height = std::to_string(step * std::ssize(grids.distinct()));
  std::string text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + width + "\" height=\"" + height +
      "\" viewBox=\"0 0 " + width + " " + height + "\" shape-rendering=\"crispEdges\">\n<title>" +
      std::to_string(first.kv_tiles()) + " KV tiles (rows) x " + std::to_string(first.q_tiles()) +
      " Q tiles (columns): dark full, light partial</title>\n<rect width=\"" + width +
      "\" height=\"" + height + "\" fill=\"#ffffff\"/>\n";
  std::int64_t rectangles = 0;
  for (std::int32_t place = 0; place < std::ssize(grids.distinct()); ++place) {
    const std::int64_t top = place * step + title;
    if (!grids.all_alike()) {
      text += "<text x=\"0\" y=\"" + std::to_string(top - kSide / 2) + "\" font-size=\"" +
              std::to_string(kSide) + "\" font-family=\"sans-serif\">" + heads_words(grids, place) +
              "</text>\n";
    }
    text += rectangles_of(grids.distinct()[place], top, rectangles);
  }
  return text + "</svg>\n";
}

}  // namespace stagger::sim
