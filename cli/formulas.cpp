#include "cli/report/formulas.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace stagger::cli {
namespace {

using workbench::SweptFormula;
using workbench::SweptRange;

constexpr std::int64_t kMost = 1'000'000;  ///< of any range

/// Reads `4` or `1..16`.
SweptRange parse_range(const char* name, const std::string& text, std::int64_t least) {
  const std::size_t dots = text.find("..");
  const auto number = [&](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (end != part.data() + part.size() || part.empty() || error == std::errc::invalid_argument) {
      throw Error(ErrorKind::usage,
                  fmt::format("--{} '{}' is not a number or a range such as 1..16", name, text));
    }
    if (error != std::errc{} || value < least || value > kMost) {
      throw Error(ErrorKind::usage,
                  fmt::format("--{} '{}' is not within {} to {}", name, text, least, kMost));
    }
    return value;
  };
  const std::string_view all = text;
  if (dots == std::string::npos) return {number(all), number(all)};
  const SweptRange range{number(all.substr(0, dots)), number(all.substr(dots + 2))};
  if (range.last < range.first) {
    throw Error(ErrorKind::usage, fmt::format("--{} '{}' is empty", name, text));
  }
  return range;
}

int formulas_command(const Options& options) {
  const SweptRange compute = parse_range("compute", options.compute_range, 0);
  const SweptRange reduce = parse_range("reduce", options.reduce_range, 0);
  if (compute.last == 0 && reduce.last == 0) {
    throw Error(ErrorKind::usage, "compute and reduce cannot both be 0 ticks");
  }
  finish_on_interrupt();
  Progress progress;
  const std::vector<SweptFormula> results = workbench::sweep_formulas(
      {.n = parse_range("n", options.n_range, 1),
       .heads = parse_range("heads", options.heads_range, 1),
       .group = parse_range("group", options.group_range, 1),
       .compute = compute,
       .reduce = reduce,
       .progress = [&](double fraction) { progress.show("checking formulas", fraction); },
       .stop = interruption()});
  progress.end();
  const bool complete = !interrupted();
  if (options.json) {
    write_stdout(formulas_json(results, complete).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(wrapped(formulas_text(results, complete), terminal.width, 6), terminal);
  }
  if (!complete) {
    complain("interrupted: not every case was checked");
    return kInterrupted;
  }
  return std::ranges::all_of(results, &SweptFormula::holds) ? kHolds : kViolated;
}

}  // namespace

extern const Command kFormulas;
const Command kFormulas{
    .name = "formulas",
    .summary = "Every closed form against the graph and the simulator over ranges",
    .examples =
        "  stagger formulas\n"
        "  stagger formulas --n 2..12 --group 1..4 --compute 5 --reduce 1\n"
        "  stagger formulas --n 2..32 --heads 1..6 --compute 5 --reduce 1..5 --json\n",
    .run = formulas_command,
};

}  // namespace stagger::cli
