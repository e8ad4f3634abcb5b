#include "workbench/tickets/csv.hpp"

#include "core/error.hpp"
#include "core/index.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <charconv>

namespace stagger::tickets {
namespace {

Cell trimmed(std::string_view cell, std::int64_t line, std::int64_t column) {
  constexpr std::string_view kAround = " \t\r\"";
  const std::size_t begin = cell.find_first_not_of(kAround);
  const std::string_view before = cell.substr(0, begin == std::string_view::npos ? 0 : begin);
  const TextPlace place{line, column + code_points(before)};
  if (begin == std::string_view::npos) return {{}, place};
  return {cell.substr(begin, cell.find_last_not_of(kAround) - begin + 1), place};
}

}  // namespace

std::vector<Cell> take_row(std::string_view& text, std::int64_t& line) {
  ++line;
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view row = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  std::vector<Cell> cells;
  if (row.find_first_not_of(" \t\r") == std::string_view::npos) return cells;
  cells.reserve(at(std::count(row.begin(), row.end(), ',')) + 1);
  std::int64_t column = 1;
  for (std::size_t begin = 0; begin <= row.size();) {
    const std::size_t comma = std::min(row.find(',', begin), row.size());
    const std::string_view cell = row.substr(begin, comma - begin);
    cells.push_back(trimmed(cell, line, column));
    column += code_points(cell) + 1;
    begin = comma + 1;
  }
  return cells;
}

TextRange Cell::range() const {
  return {place, {place.line, place.column + code_points(text)}};
}

void reject(const std::string& file, const TextPlace& place, const std::string& what) {
  throw Error(ErrorKind::invalid_input, file + ":" + std::to_string(place.line) + ":" +
                                            std::to_string(place.column) + ": " + what);
}

std::int64_t integer(const std::string& file, const Cell& cell, const char* name,
                     std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = cell.text.data() + cell.text.size();
  const auto [stop, error] = std::from_chars(cell.text.data(), end, value);
  if (error == std::errc{} && stop == end && value >= least && value <= most) return value;
  reject(file, cell.place,
         std::string(name) + " " + in_quotes(cell.text) + " is no integer from " +
             std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace stagger::tickets
