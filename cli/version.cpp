#include "cli/version.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "core/version.hpp"
#include "schedules/search/sat.hpp"

#include <fmt/format.h>

#include <string>

namespace stagger::cli {
namespace {

int run(const Options&) {
  const std::string cuda(STAGGER_CUDA_VERSION, sizeof(STAGGER_CUDA_VERSION) - 1);
  const std::string solver = search::sat_solver();
  const std::string known = commit();
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
    .run = run,
};

}  // namespace stagger::cli
