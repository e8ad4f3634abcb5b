#include "cli/commands.hpp"
#include "cli/designs.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/interrupt.hpp"
#include "cli/numbers.hpp"
#include "cli/progress.hpp"
#include "cli/report/comparison.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/nearest.hpp"

#include <algorithm>

namespace stagger::cli {
namespace {

using schedules::Schedule;
using schedules::Selection;
using workbench::Comparison;
using workbench::ComparisonRequest;
using workbench::ComparisonRow;

constexpr std::int64_t kListedOfRow = 3;  ///< findings of a kind, and edges

bool is_same(const Problem& left, const Problem& right) {
  return left.grids == right.grids && left.heads == right.heads &&
         left.heads_kv == right.heads_kv && left.span == right.span &&
         left.combine == right.combine && left.sms == right.sms;
}

// ---- what is compared -------------------------------------------------------------------------

/// `shift,spt:swizzle=8,group=2`: a comma that a parameter follows is within a name.
std::vector<Selection> selections_in(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    const bool parameter = word.find('=') < word.find(':');
    if (parameter && !names.empty()) {
      names.back() += "," + word;
    } else {
      names.push_back(word);
    }
    begin = end + 1;
  }
  std::vector<Selection> selections;
  for (const std::string& name : names) {
    if (std::ranges::count(names, name) > 1) {
      throw Error(ErrorKind::usage, "--schedules: " + in_quotes(name) + " is there twice");
    }
    selections.push_back(schedules::select(name));
  }
  return selections;
}

/// A baseline is one of the rows; a schedule that was not asked for is compared too.
void add_baseline(ComparisonRequest& request, const std::string& name) {
  const auto named = [&](const auto& rows, auto member) {
    return std::ranges::find(rows, name, member) != rows.end();
  };
  request.baseline = name;
  if (named(request.tables, &Table::name)) return;
  if (!named(request.schedules, &Selection::text)) {
    request.schedules.push_back(schedules::select(name));
  }
  const auto selection = std::ranges::find(request.schedules, name, &Selection::text);
  if (const auto reason = schedules::why_unsupported(*selection, request.problem)) {
    throw Error(ErrorKind::usage, "--baseline " + name + ": " + *reason);
  }
}

/// The options' problem, or that of the first table beside the schedules.
ComparisonRequest comparison_request(const Options& options) {
  ComparisonRequest request{.problem = {},
                            .kv_index_ranks = options.ranks == dag::LockValues::absolute,
                            .invariant = options.invariant,
                            .analysis = analysis_options(options)};
  // The report of each row lists little, or thirteen of them would be megabytes.
  request.analysis.limit = options.limit.value_or(kListedOfRow);
  if (!options.schedules.empty()) request.schedules = selections_in(options.schedules);
  for (const std::string& path : options.tables)
    request.tables.push_back(read_table(path, options));
  const bool described = options.problem_given || request.tables.empty();
  if (!described) {
    reject(given_in(options, Group::problem),
           "is for a problem that --n or --seq gives; " + options.tables.front() + " says its own");
  }
  request.problem = described ? problem_of(options) : request.tables.front().problem;
  for (std::size_t index = 0; index < request.tables.size(); ++index) {
    if (is_same(request.tables[index].problem, request.problem)) continue;
    throw Error(ErrorKind::usage, options.tables[index] + ": its problem is another than " +
                                      (described ? "the options'" : "that of the first table"));
  }
  expect_fixed_span(options, request.problem);
  request.model = time_model_of(options, request.problem);
  if (!options.baseline.empty()) add_baseline(request, options.baseline);
  return request;
}

// ---- what is expected -------------------------------------------------------------------------

/// `makespan_symmetric_shift`.
std::string name_of_makespan(const Schedule& schedule) {
  std::string name = std::string("makespan_") + schedule.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

struct NamedMakespan {
  std::string name;
  std::string meaning;
};

const std::vector<NamedMakespan>& makespan_names() {
  static const std::vector<NamedMakespan> names = [] {
    std::vector<NamedMakespan> all;
    for (const Schedule* schedule : schedules::all()) {
      all.push_back({name_of_makespan(*schedule), std::string("that of ") + schedule->name});
    }
    return all;
  }();
  return names;
}

/// Those of a report, of the best; and those that compare.
std::vector<ExpectName> expect_names() {
  std::vector<ExpectName> names = number_names();
  names.push_back({"speedup", "how many times as fast as --baseline the best is"});
  names.push_back({"makespan_baseline", "makespan of --baseline"});
  names.push_back({"makespan_table", "that of the first --table"});
  for (const NamedMakespan& name : makespan_names())
    names.push_back({name.name.c_str(), name.meaning.c_str()});
  return names;
}

/// Throws Error{usage} if an expectation speaks of a baseline or a table where none is given.
void expect_given(std::span<const Expectation> expectations, const Options& options) {
  for (const Expectation& expectation : expectations) {
    for (const char* name : {"speedup", "makespan_baseline"}) {
      if (options.baseline.empty() && expectation.names().count(name) > 0) {
        throw Error(ErrorKind::usage, "--expect: " + std::string(name) + " needs --baseline");
      }
    }
    if (options.tables.empty() && expectation.names().count("makespan_table") > 0) {
      throw Error(ErrorKind::usage, "--expect: makespan_table needs --table");
    }
  }
}

/// What is known of the best and of the rows. Requires a comparison with a best.
Values values_of(const Comparison& comparison) {
  Values values = numbers_of(*comparison.best);
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.ok()) continue;
    const workbench::Summary& summary = *row.summary;
    values.emplace(
        summary.selection ? name_of_makespan(*summary.selection->schedule) : "makespan_table",
        exact(summary.makespan));
  }
  const ComparisonRow* const baseline = comparison.find(comparison.baseline);
  if (baseline != nullptr && baseline->ok()) {
    const Ticks makespan = baseline->summary->makespan;
    values.emplace("makespan_baseline", exact(makespan));
    values.emplace("speedup", exact(makespan, std::max<Ticks>(comparison.best->makespan, 1)));
  }
  return values;
}

// ---- the command ------------------------------------------------------------------------------

/// The worst of the given tables', or of the schedules' where none is given: one that hangs, else
/// one that is wrong.
ExitCode worst_code(const Comparison& comparison, bool of_tables) {
  ExitCode worst = kHolds;
  for (const ComparisonRow& row : comparison.rows) {
    if (!row.summary || (of_tables && row.summary->selection)) continue;
    worst = std::max(worst, exit_code(*row.summary));
  }
  return worst;
}

void print(const Comparison& comparison, std::span<const Judgement> judgements,
           const Options& options) {
  if (options.json) return write_stdout(comparison_json(comparison, judgements));
  if (options.csv) return write_stdout(comparison_csv(comparison));
  const Terminal terminal = terminal_of(options);
  write_text(
      options.markdown ? comparison_markdown(comparison) : comparison_text(comparison, terminal),
      terminal);
}

int compare_command(const Options& options) {
  if (options.designs) {
    return compare_designs(options, options.schedules.empty() ? ComparisonRequest::every_schedule()
                                                              : selections_in(options.schedules));
  }
  const std::vector<Expectation> expectations = expectations_of(options.expect, expect_names());
  expect_given(expectations, options);
  ComparisonRequest request = comparison_request(options);
  Progress progress;
  request.progress = [&](double fraction) { progress.show("comparing schedules", fraction); };
  request.stop = interruption();
  finish_on_interrupt();
  const Comparison comparison = workbench::compare(std::move(request));
  progress.end();
  const std::optional<Values> values =
      comparison.best ? std::optional(values_of(comparison)) : std::nullopt;
  const std::vector<Judgement> judgements = judge(expectations, values ? &*values : nullptr);
  print(comparison, judgements, options);
  const bool expected = all_hold(judgements);
  if (comparison.missing > 0) {
    complain("interrupted: " + std::to_string(comparison.missing) + " more would be compared");
    return kInterrupted;
  }
  if (interrupted()) {
    complain("interrupted: a search ended with what it had");
    return kInterrupted;
  }
  const ExitCode code = worst_code(comparison, !options.tables.empty());
  return code == kHolds && !expected ? kViolated : code;
}

}  // namespace

extern const Command kCompare;
const Command kCompare{
    .name = "compare",
    .summary = "Every schedule on one problem: the main job",
    .examples =
        "  stagger compare --mask causal --n 8 --heads 4\n"
        "  stagger compare --mask full --seq 16384 --tile-q 128 --tile-kv 128 \\\n"
        "      --heads 16 --sms 132 --model overlap --latency 3 --baseline spt\n"
        "  stagger compare --mask causal --n 8 --schedules spt,spt:swizzle=2,optimal \\\n"
        "      --expect 'makespan_spt <= 1.25*lower_bound'\n"
        "  stagger compare --table mine.table.json --markdown\n"
        "  stagger compare --designs --mask causal --seq 16384 --tile-q 128 \\\n"
        "      --tile-kv 128 --heads 32 --sms 132 --dtype bf16 --head-dim 128\n",
    .run = compare_command,
    .names = expect_names,
};

}  // namespace stagger::cli
