#pragma once

#include "cli/options.hpp"

namespace stagger::cli {

/// Searches every entry of an archive (`stagger.best-known/1`) again, each within `--time-limit`,
/// and says which hold, which were improved and which were not reached; `-o` writes the archive
/// with the improvements. Entries without a makespan are new. Returns the exit code: 0 all hold, 1
/// an entry is contradicted, 5 one was not reached. Throws Error.
[[nodiscard]] int check_archive(const Options& options);

}  // namespace stagger::cli
