#pragma once

#include "cli/option_rows.hpp"

#include <vector>

namespace stagger::cli {

/// The formats that `stagger export` writes: a file's extension, and what it is.
[[nodiscard]] std::vector<Word> format_words();

}  // namespace stagger::cli
