#pragma once

#include "cli/option_rows.hpp"

#include <vector>

namespace stagger::cli {

/// The formats that `stagger export` writes: a file's extension, and what it is.
[[nodiscard]] std::vector<Word> format_words();

/// The layouts of tensors that `stagger export --as` writes.
[[nodiscard]] std::vector<Word> layout_words();

/// Writes `--as LAYOUT` to `--output`; what the exit status says of a table.
[[nodiscard]] int export_tensors(const Options& options);

}  // namespace stagger::cli
