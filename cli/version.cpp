#include "core/version.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "core/json.hpp"
#include "schedules/search/sat.hpp"
#include "workbench/commit.hpp"

#include <fmt/format.h>

#include <string>

namespace stagger::cli {
namespace {

int version_command(const Options& options) {
  const std::string cuda(STAGGER_CUDA_VERSION, sizeof(STAGGER_CUDA_VERSION) - 1);
  const std::string solver = search::sat_solver();
  const std::string known = workbench::commit();
  if (options.json) {
    const auto or_null = [](const std::string& word) { return word.empty() ? Json() : Json(word); };
    const Json json = {{"schema", "stagger.version/1"},
                       {"version", version()},
                       {"commit", or_null(known)},
                       {"cuda", or_null(cuda)},
                       {"sat_solver", or_null(solver)}};
    write_stdout(json.line() + "\n");
    return kHolds;
  }
  write_stdout(fmt::format(
      "stagger {}\ncommit {}\n{}\n{}\n", version(), known.empty() ? "unknown" : known,
      cuda.empty() ? "no CUDA" : "CUDA " + cuda, solver.empty() ? "no CaDiCaL" : solver));
  return kHolds;
}

}  // namespace

extern const Command kVersion;
const Command kVersion{
    .name = "version",
    .summary = "What this is, and what it was built with",
    .examples = "  stagger --version\n",
    .run = version_command,
};

}  // namespace stagger::cli
