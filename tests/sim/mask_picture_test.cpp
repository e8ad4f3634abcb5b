#include "sim/mask_picture.hpp"

#include "core/error.hpp"
#include "core/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// The rows of letters of a picture, without their numbers, and what is below them.
struct Lines {
  std::vector<std::string> labels;
  std::vector<std::string> rows;
  std::string legend;
};

Lines lines_of(const std::string& text) {
  Lines lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); text.starts_with("kv ") && end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    if (!line.starts_with("kv ")) break;
    const std::size_t gap = line.find("  ", line.find_first_not_of(' ', 2));
    lines.labels.push_back(line.substr(0, gap + 2));
    lines.rows.push_back(line.substr(gap + 2));
  }
  lines.legend = text.substr(begin);
  return lines;
}

constexpr const char* kLegend = "f full, p partial, . empty; a column for each Q tile";

TEST_CASE("a mask that fits is drawn tile by tile, with a number at each row") {
  const std::vector<std::string> rows = {"pffp....", ".pffp...", "..pffp..", "...f...."};
  const TileGrid grid = test::tiles_problem(rows, 1, 1).common_grid();
  const std::string text = mask_text(grid, {});
  CHECK(text == "kv 0  pffp....\nkv 1  .pffp...\nkv 2  ..pffp..\nkv 3  ...f....\n" +
                    std::string(kLegend) + "\n");
  // Six columns are the number's, and eight tiles fit into eight more; four rows are enough.
  CHECK(mask_text(grid, {.width = 14, .rows = 4}) == text);
  CHECK(mask_text(grid, {.width = 13}) != text);
  CHECK(mask_text(grid, {.width = 14, .rows = 3}) != text);
  const TileGrid eleven =
      test::tiles_problem(std::vector<std::string>(11, "f"), 1, 1).common_grid();
  CHECK(mask_text(eleven, {}).starts_with("kv  0  f\nkv  1  f\n"));
  CHECK(mask_text(eleven, {}).find("kv 10  f\n") != std::string::npos);
  CHECK(mask_text(TileGrid(), {}) == std::string(kLegend) + "\n");
}

Problem heads_problem(const std::string& heads, std::int64_t count) {
  return make_problem(parse_mask("heads:heads=" + heads + "; tiles:rows=ff+.p; tiles:rows=.f+p."),
                      {2, 2}, {}, count, 1);
}

TEST_CASE("masks of several heads are drawn one below the other, each with its heads") {
  const Problem few = heads_problem("0+1+0", 3);
  CHECK(mask_text(few.grids, {}) ==
        "heads 0, 2\nkv 0  ff\nkv 1  .p\n\nhead 1\nkv 0  .f\nkv 1  p.\n\n" + std::string(kLegend) +
            "\n");
  const std::string svg = mask_svg(few.grids);
  CHECK(svg.find("width=\"24\" height=\"96\"") != std::string::npos);
  CHECK(svg.find("y=\"18\" font-size=\"12\" font-family=\"sans-serif\">heads 0, 2</text>") !=
        std::string::npos);
  CHECK(svg.find("y=\"66\" font-size=\"12\" font-family=\"sans-serif\">head 1</text>") !=
        std::string::npos);
  for (const char* const tiles :
       {"x=\"0\" y=\"24\" width=\"24\"", "x=\"12\" y=\"36\" width=\"12\"",
        "x=\"12\" y=\"72\" width=\"12\"", "x=\"0\" y=\"84\" width=\"12\""}) {
    CAPTURE(tiles);
    CHECK(svg.find(tiles) != std::string::npos);
  }
}

TEST_CASE("of many heads with one mask eight are listed, and the others counted") {
  const auto first_line = [](const std::string& heads, std::int64_t count) {
    const std::string text = mask_text(heads_problem(heads, count).grids, {});
    return text.substr(0, text.find('\n'));
  };
  CHECK(first_line("0+0+0+0+0+0+0+0+1", 9) == "heads 0, 1, 2, 3, 4, 5, 6, 7");
  CHECK(first_line("0+0+1+0+0+0+0+0+0+0+0+0", 12) == "heads 0, 1, 3, 4, 5, 6, 7, 8 and 3 more");
}

TEST_CASE("a letter of a large mask is a square of tiles, partial if they are not all alike") {
  test::Random random(test::seed(94));
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> rows(static_cast<std::size_t>(random.between(1, 40)));
    const std::int64_t q_tiles = random.between(1, 40);
    const bool even = random.chance(2);
    for (std::string& row : rows) {
      for (std::int64_t q = 0; q < q_tiles; ++q)
        row += even && !random.chance(20) ? 'f' : ".fp"[random.between(0, 2)];
    }
    const auto width = static_cast<int>(random.between(1, 30));
    const auto most_rows = static_cast<std::int32_t>(random.between(0, 12));
    CAPTURE(round, rows.size(), q_tiles, width, most_rows);
    const std::string text = mask_text(test::tiles_problem(rows, 1, 1).common_grid(),
                                       {.width = width, .rows = most_rows});
    const Lines lines = lines_of(text);
    REQUIRE_FALSE(lines.rows.empty());
    // The least side with which the columns and the rows fit.
    const std::int64_t columns =
        std::max<std::int64_t>(width - static_cast<std::int64_t>(lines.labels[0].size()), 1);
    std::int64_t side = 1;
    while (side * columns < q_tiles || side * std::max(most_rows, 1) < std::ssize(rows))
      ++side;
    std::vector<std::string> wanted;
    for (std::int64_t kv = 0; kv < std::ssize(rows); kv += side) {
      wanted.emplace_back();
      for (std::int64_t q = 0; q < q_tiles; q += side) {
        std::string square;
        for (std::int64_t row = kv; row < std::min(kv + side, std::ssize(rows)); ++row)
          square += rows[static_cast<std::size_t>(row)].substr(static_cast<std::size_t>(q),
                                                               static_cast<std::size_t>(side));
        const bool alike = square.find_first_not_of(square[0]) == std::string::npos;
        wanted.back() += alike ? square[0] : 'p';
      }
    }
    CHECK(lines.rows == wanted);
    for (std::size_t row = 0; row < lines.rows.size(); ++row)
      CHECK(std::stoll(lines.labels[row].substr(3)) == static_cast<std::int64_t>(row) * side);
    const std::string tiles = std::to_string(side) + " x " + std::to_string(side);
    CHECK(lines.legend ==
          kLegend +
              (side > 1 ? "\na letter for " + tiles + " tiles: f or . if all are that, else p"
                        : std::string()) +
              "\n");
  }
}

TEST_CASE("the rectangles of a picture are the tiles, those of one kind in a row as one") {
  test::Random random(test::seed(95));
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> rows(static_cast<std::size_t>(random.between(1, 9)));
    const std::int64_t q_tiles = random.between(1, 9);
    for (std::string& row : rows) {
      for (std::int64_t q = 0; q < q_tiles; ++q)
        row += ".ffp"[random.between(0, 3)];
    }
    const std::string svg = mask_svg(test::tiles_problem(rows, 1, 1).common_grid());
    std::vector<std::string> drawn(rows.size(),
                                   std::string(static_cast<std::size_t>(q_tiles), '.'));
    std::size_t rectangles = 0;
    for (std::size_t at = svg.find("<rect x="); at != std::string::npos;
         at = svg.find("<rect x=", at + 1), ++rectangles) {
      int x = 0;
      int y = 0;
      int width = 0;
      int height = 0;
      char color[8] = "";
      REQUIRE(std::sscanf(svg.c_str() + at,
                          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%7s\"/>", &x,
                          &y, &width, &height, color) == 5);
      CHECK(height == 12);
      for (int tile = x / 12; tile < (x + width) / 12; ++tile) {
        char& letter =
            drawn.at(static_cast<std::size_t>(y / 12)).at(static_cast<std::size_t>(tile));
        CHECK(letter == '.');
        letter = color == std::string("#1f5a94") ? 'f' : 'p';
      }
    }
    CHECK(drawn == rows);
    std::size_t runs = 0;
    for (const std::string& row : rows) {
      for (std::size_t q = 0; q < row.size(); ++q)
        runs += row[q] != '.' && (q == 0 || row[q - 1] != row[q]) ? 1 : 0;
    }
    CHECK(rectangles == runs);
    const std::string size = "width=\"" + std::to_string(12 * q_tiles) + "\" height=\"" +
                             std::to_string(12 * rows.size()) + "\"";
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" " + size + " viewBox=\"0 0 " +
                          std::to_string(12 * q_tiles) + " " + std::to_string(12 * rows.size()) +
                          "\""));
    CHECK(svg.find("<rect " + size + " fill=\"#ffffff\"/>") != std::string::npos);
    CHECK(svg.find("<title>" + std::to_string(rows.size()) + " KV tiles (rows) x " +
                   std::to_string(q_tiles) + " Q tiles") != std::string::npos);
    CHECK(svg.ends_with("</svg>\n"));
  }
}

TEST_CASE("a picture of a million rectangles is drawn, and of one more refused") {
  const auto grid = [](bool more) {
    std::vector<TileKind> kinds;
    for (std::int32_t tile = 0; tile < 4 * 500'000; ++tile)
      kinds.push_back(tile % 2 == 0 ? TileKind::full : TileKind::empty);
    if (more) kinds.back() = TileKind::partial;
    return TileGrid(4, 500'000, std::move(kinds));
  };
  CHECK_NOTHROW(mask_svg(grid(false)));
  CHECK_THROWS_AS(mask_svg(grid(true)), Error);
}

}  // namespace
}  // namespace stagger::sim
