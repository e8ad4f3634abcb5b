#pragma once

#include "cli/options.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace stagger::cli {

/// What standard output can show.
struct Terminal {
  int width = 80;
  bool unicode = false;
  bool color = false;
};

/// From the options, the environment (NO_COLOR, TERM, LC_ALL, LC_CTYPE, LANG, COLUMNS) and the
/// terminal itself.
[[nodiscard]] Terminal terminal_of(const Options& options);

/// Lanes of a table or timeline that a terminal is shown; a file has all of them.
inline constexpr std::int32_t kLanesShown = 40;

/// The columns of the terminal that a file descriptor is, else COLUMNS, else 80.
[[nodiscard]] int terminal_width(int file);

/// Writes text to standard output; without Unicode, `…` becomes `...`, `§` becomes `section ` and
/// `µ` becomes `u`. Throws Error{io}.
void write_text(const std::string& text, const Terminal& terminal);

/// Says something on standard error, after `stagger: `, within the terminal's width. What cannot be
/// written is lost: there is nowhere to say so.
void complain(const std::string& text) noexcept;

/// Columns that UTF-8 text takes; escape sequences, which end with `m`, take none.
[[nodiscard]] int width_of(std::string_view text);

/// `text` with lines broken at spaces where they would be wider than `width` columns; what follows
/// a break is indented. Words that are too long stay whole; colours take no columns.
[[nodiscard]] std::string wrapped(const std::string& text, int width, int indent);

/// A label in a column of 14, and text beside it, wrapped; a line.
[[nodiscard]] std::string labelled(const std::string& label, const std::string& text, int width);

}  // namespace stagger::cli
