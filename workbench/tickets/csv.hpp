#pragma once

#include "core/json_place.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {

/// A cell of a comma-separated text, without the spaces and quotes around it, and where it is.
struct Cell {
  std::string_view text;
  TextPlace place;

  [[nodiscard]] TextRange range() const;
};

/// Takes the next row off the front of a text. `line` counts.
[[nodiscard]] std::vector<Cell> take_row(std::string_view& text, std::int64_t& line);

/// Throws Error{invalid_input}: `x.csv:3:7: ` and what.
[[noreturn]] void reject(const std::string& file, const TextPlace& place, const std::string& what);

/// Throws Error{invalid_input} if the cell is no integer from `least` to `most`; `name` says what
/// it is.
[[nodiscard]] std::int64_t integer(const std::string& file, const Cell& cell, const char* name,
                                   std::int64_t least, std::int64_t most);

}  // namespace stagger::tickets
