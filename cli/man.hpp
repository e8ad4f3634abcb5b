#pragma once

#include <string>

namespace stagger::cli {

/// The man page, in roff: every command with its arguments and options. An option that several
/// commands take is described once.
[[nodiscard]] std::string man_page();

}  // namespace stagger::cli
