#include "cli/version.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "core/version.hpp"
#include "schedules/search/sat.hpp"

#include <fmt/format.h>

#include <string_view>

namespace stagger::cli {
namespace {

int run(const Options&) {
  constexpr std::string_view kCuda = STAGGER_CUDA_VERSION;
  const std::string solver = search::sat_solver();
  const std::string known = commit();
  write_stdout(fmt::format("stagger {}\ncommit {}\n{}\n{}\n", version(),
                           known.empty() ? "unknown" : known,
                           kCuda.empty() ? "no CUDA" : fmt::format("CUDA {}", kCuda),
                           solver.empty() ? "no CaDiCaL" : solver));
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
