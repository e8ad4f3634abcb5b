#include "core/version.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"

#include <fmt/format.h>

namespace stagger::cli {
namespace {

int run(const Options&) {
  write_stdout(fmt::format("stagger {}\n", version()));
  return kHolds;
}

}  // namespace

extern const Command kVersion;
const Command kVersion{
    .name = "version",
    .summary = "What this is, and what it was built with",
    .examples = "  stagger --version\n",
    .run = run,
};

}  // namespace stagger::cli
