#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/report/comparison.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"

#include <algorithm>

namespace stagger::cli {
namespace {

using workbench::Comparison;
using workbench::ComparisonRequest;

bool is_same(const Problem& left, const Problem& right) {
  return left.grid == right.grid && left.heads == right.heads && left.sms == right.sms;
}

/// The options' problem, or that of the first table beside the schedules.
ComparisonRequest request_of(const Options& options) {
  ComparisonRequest request{.problem = {},
                            .kv_index_ranks = options.ranks == dag::LockValues::absolute,
                            .analysis = analysis_options(options)};
  for (const std::string& path : options.tables)
    request.tables.push_back(read_table(path, options));
  const bool described = options.problem_given || request.tables.empty();
  request.problem = described ? problem_of(options) : request.tables.front().problem;
  for (std::size_t index = 0; index < request.tables.size(); ++index) {
    if (is_same(request.tables[index].problem, request.problem)) continue;
    throw Error(ErrorKind::usage, options.tables[index] + ": its problem is another than " +
                                      (described ? "the options'" : "that of the first table"));
  }
  request.model = time_model_of(options, request.problem);
  return request;
}

/// The worst of the tables': one that hangs, else one that is wrong.
ExitCode worst_code(const Comparison& comparison) {
  ExitCode worst = kHolds;
  for (const workbench::ComparisonRow& row : comparison.rows) {
    if (row.summary) worst = std::max(worst, exit_code(*row.summary));
  }
  return worst;
}

int run(const Options& options) {
  ComparisonRequest request = request_of(options);
  Progress progress("comparing schedules");
  request.progress = [&](double fraction) { progress.show(fraction); };
  const Comparison comparison = workbench::compare(std::move(request));
  progress.end();
  if (options.json) {
    write_stdout(comparison_json(comparison));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(comparison_text(comparison, terminal), terminal);
  }
  return worst_code(comparison);
}

}  // namespace

extern const Command kCompare;
const Command kCompare{
    .name = "compare",
    .summary = "Every schedule on one problem: the main job",
    .examples =
        "  stagger compare --mask causal --n 8 --heads 4\n"
        "  stagger compare --mask full --seq 16384 --tile-q 128 --tile-kv 128 \\\n"
        "      --heads 16 --sms 132 --model overlap --latency 2\n"
        "  stagger compare --table mine.table.json\n",
    .run = run,
};

}  // namespace stagger::cli
