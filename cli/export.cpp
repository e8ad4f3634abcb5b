#include "cli/export.hpp"

#include "cli/commands.hpp"
#include "cli/designs.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/as_played.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/json.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "core/version.hpp"
#include "dag/dag.hpp"
#include "dag/graph_files.hpp"
#include "dag/slot_bounds.hpp"
#include "schedules/search/round_cnf.hpp"
#include "schedules/search/round_files.hpp"
#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/mask_picture.hpp"
#include "sim/overlay.hpp"
#include "sim/perfetto_trace.hpp"
#include "sim/trace_json.hpp"
#include "workbench/analysis.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Analysis;

/// What is written: lines for people, a timeline that may be read again, a picture of one or of
/// several, a table, its graph, a mask, whether so many rounds suffice, or how that is asked.
enum class Kind { text, timeline, picture, table, graph, mask, question, model };

/// What can be exported, from a timeline, a table or a problem alone.
struct Format {
  const char* name;  ///< the file's extension without the dot
  Kind kind;
  const char* what;
  std::string (*of_timeline)(const Timeline&, const Terminal&);
  std::optional<std::string> (*of_table)(const Analysis&);  ///< nullopt: this one has none
  std::string (*of_problem)(const Problem&, const Options&) = nullptr;
  /// Draws a mask alone, where there is neither a timeline nor a table.
  std::string (*of_mask)(const HeadGrids&, const Terminal&) = nullptr;
};

constexpr std::int64_t kDrawnTasks = 1'000'000;

void expect_few(std::int64_t tasks) {
  if (tasks <= kDrawnTasks) return;
  throw Error(ErrorKind::limit,
              "a graph of more than " + std::to_string(kDrawnTasks) + " tasks is not exported");
}

void expect_small_graph(const Problem& problem) {
  expect_few(problem.tasks());
}

using WriteGraph = std::string (*)(const Table&, const dag::Dag&);
/// nullopt of a table whose ranks are no order, or whose lanes never start.
template <WriteGraph write>
std::optional<std::string> graph_text(const Analysis& analysis) {
  if (!analysis.ordered()) return std::nullopt;
  expect_few(std::ssize(analysis.table.slots) * analysis.model.timing.steps);
  const AsPlayed played(analysis.table, analysis.model.timing);
  const std::optional<dag::Dag> graph = dag::build(played.table(), played.timing());
  if (!graph) return std::nullopt;
  return write(played.table(), *graph);
}

/// What the formats of the slot model ask: do so many rounds suffice on the SMs that are there?
struct SlotQuestion {
  Problem problem;
  std::int32_t rounds = 0;  ///< as given, else the lower bound
};

SlotQuestion question_of(const Problem& any, const Options& options) {
  Problem problem =
      on_resident_sms(any, static_cast<std::int32_t>(std::min(options.residency, kMaxSms)));
  if (problem.tasks() == 0) throw Error(ErrorKind::usage, "there is no live tile to ask about");
  const std::int64_t rounds =
      options.rounds > 0 ? options.rounds : dag::slot_bounds(problem).best.ticks;
  if (rounds > kMaxTasks) throw Error(ErrorKind::limit, "--rounds is too large");
  return {std::move(problem), static_cast<std::int32_t>(rounds)};
}

constexpr Format kFormats[] = {
    {"table.json", Kind::table, "the table", nullptr,
     [](const Analysis& analysis) { return std::optional(write_table_json(analysis.table)); }},
    {"csv", Kind::table, "the table as CSV", nullptr,
     [](const Analysis& analysis) { return std::optional(write_table_csv(analysis.table)); }},
    {"mask.json", Kind::mask, "the mask as tiles; needs no schedule", nullptr, nullptr,
     [](const Problem& problem, const Options&) { return write_mask_json(problem.grids); }},
    {"timeline.json", Kind::timeline, "the timeline",
     [](const Timeline& timeline, const Terminal&) { return write_timeline_json(timeline); },
     nullptr},
    {"pftrace", Kind::picture, "the timeline for Perfetto, as its own trace",
     [](const Timeline& timeline, const Terminal&) { return sim::perfetto_trace(timeline); },
     nullptr},
    {"trace.json", Kind::picture, "the timeline for Perfetto and chrome://tracing",
     [](const Timeline& timeline, const Terminal&) { return sim::trace_json(timeline); }, nullptr},
    {"svg", Kind::picture, "the Gantt chart, or the mask",
     [](const Timeline& timeline, const Terminal&) { return sim::gantt_svg(timeline); }, nullptr,
     nullptr, [](const HeadGrids& grids, const Terminal&) { return sim::mask_svg(grids); }},
    {"tex", Kind::picture, "the Gantt chart in TikZ",
     [](const Timeline& timeline, const Terminal&) { return sim::gantt_tikz(timeline); }, nullptr},
    {"txt", Kind::text, "the Gantt chart, or the mask, as text",
     [](const Timeline& timeline, const Terminal& terminal) {
       return sim::gantt_text(
           timeline,
           {.width = terminal.width, .unicode = terminal.unicode, .color = terminal.color});
     },
     nullptr, nullptr,
     [](const HeadGrids& grids, const Terminal& terminal) {
       return sim::mask_text(grids, {.width = terminal.width});
     }},
    {"dot", Kind::graph, "the graph for Graphviz", nullptr, graph_text<dag::write_dot>},
    {"graphml", Kind::graph, "the graph as GraphML", nullptr, graph_text<dag::write_graphml>},
    {"cnf", Kind::question, "\"do --rounds rounds suffice?\" for SAT solvers; needs no schedule",
     nullptr, nullptr,
     [](const Problem& problem, const Options& options) {
       const SlotQuestion question = question_of(problem, options);
       return search::RoundCnf(question.problem, question.rounds).dimacs();
     }},
    {"mzn", Kind::model, "the same question in MiniZinc; the data is .dzn", nullptr, nullptr,
     [](const Problem&, const Options&) { return search::write_minizinc_model(); }},
    {"dzn", Kind::question, "MiniZinc's data", nullptr, nullptr,
     [](const Problem& problem, const Options& options) {
       const SlotQuestion question = question_of(problem, options);
       return search::write_minizinc_data(question.problem, question.rounds);
     }},
    {"lp", Kind::question, "the same question as a linear program in binaries", nullptr, nullptr,
     [](const Problem& problem, const Options& options) {
       const SlotQuestion question = question_of(problem, options);
       return search::write_linear_program(question.problem, question.rounds);
     }},
};

/// Rejects options that what is written does not heed.
void check_options(const Options& options, const Format& format) {
  check_standard_output(options);
  const bool asks = format.kind == Kind::question;
  if (format.kind != Kind::text) reject(given_of(options, "width ascii color"), "is for txt");
  if (!asks) reject(given_of(options, "rounds"), "is for cnf, dzn and lp");
  if (!options.schedule.empty() || !options.table.empty() || !options.design.empty()) return;
  if (!options.timelines.empty()) {
    const std::string why = "means nothing beside --timeline without --schedule or --table";
    for (const Group group : {Group::problem, Group::timing})
      reject(given_in(options, group), why);
    reject(given_of(options, "machine kernel dtype head-dim ranks"), why);
  } else if (format.of_problem != nullptr || format.of_mask != nullptr) {
    const std::string why =
        std::string("means nothing to ") + format.name + " without --schedule or --table";
    const std::string timing = given_in(options, Group::timing);
    if (!asks || timing != "--residency") reject(timing, why);
    reject(given_of(options, "kernel dtype head-dim tick-ns ranks"), why);
  }
}

const Format& format_of(const Options& options) {
  for (const Format& format : kFormats) {
    const std::string extension = std::string(".") + format.name;
    if (options.format.empty() ? options.output.ends_with(extension)
                               : options.format == format.name) {
      return format;
    }
  }
  if (!options.format.empty()) {
    throw Error(ErrorKind::usage, unknown_name("format", options.format, names_of(kFormats)));
  }
  const std::string name = options.output.substr(options.output.rfind('/') + 1);
  const std::size_t point = name.find('.');
  const std::string extension = point == std::string::npos ? "" : name.substr(point + 1);
  throw Error(ErrorKind::usage,
              options.output + ": the extension is no known format, and no --format is given: " +
                  unknown_name("format", extension, names_of(kFormats)));
}

/// What is written, and what the exit status says of the table that it is of.
struct Exported {
  std::optional<std::string> text;  ///< absent: the table has none
  ExitCode code = kHolds;
};

/// What a format cannot take is refused before it is analysed.
void (*limit_of(const Format& format))(const Problem&) {
  if (format.of_timeline != nullptr) return workbench::expect_drawable;
  return format.kind == Kind::graph ? expect_small_graph : expect_any;
}

/// The options' table, of which any fault has been said.
Analysis analyzed(const Options& options, const Format& format) {
  Analysis analysis =
      workbench::analyze(source_of(options, limit_of(format)), analysis_options(options));
  if (!analysis.ok()) {
    complain(analysis.name + ": " + dag::verdict_name(analysis.verification.verdict) +
             "; see `stagger verify`");
  }
  return analysis;
}

/// Whether all are in ns, or all in ticks and parts of them.
bool is_one_clock(const std::vector<Timeline>& timelines) {
  return std::ranges::all_of(timelines, [&](const Timeline& timeline) {
    return (timeline.clock == "ns") == (timelines.front().clock == "ns");
  });
}

/// The timelines of the files and, if a schedule or a table is given, what is predicted of it: one
/// above the other if there are several.
Exported timelines_exported(const Options& options, const Format& format,
                            const Terminal& terminal) {
  Exported exported;
  std::vector<Timeline> timelines;
  if (!options.schedule.empty() || !options.table.empty()) {
    const Analysis analysis = analyzed(options, format);
    exported.code = exit_code(analysis);
    timelines.push_back(timeline_of(analysis));
  }
  for (const std::string& path : options.timelines)
    timelines.push_back(read_timeline_json(read_file(path), path));
  if (is_one_clock(timelines) && !options.kernel->spins()) {
    reject(given_of(options, "tick-ns"), "is for a timeline in ticks beside one in ns");
  }
  if (timelines.size() > 1 && format.kind == Kind::timeline) {
    throw Error(ErrorKind::usage, "several timelines make no timeline.json");
  }
  exported.text = format.of_timeline(timelines.size() == 1
                                         ? timelines.front()
                                         : sim::overlay(std::move(timelines), options.tick_ns),
                                     terminal);
  return exported;
}

/// A design's timeline, or its table if it has one.
Exported design_exported(const Options& options, const Format& format, const Terminal& terminal) {
  if (format.of_problem != nullptr) {
    throw Error(ErrorKind::usage, std::string(format.name) + " is of a problem, not of a design");
  }
  limit_of(format)(problem_of(options));
  const PlayedDesign played = played_design(options);
  const auto code = static_cast<ExitCode>(exit_code(played.analysis));
  if (format.of_timeline != nullptr) {
    const Timeline timeline = designs::timeline_of(played.analysis, played.problem);
    return {.text = format.of_timeline(timeline, terminal), .code = code};
  }
  if (!played.analysis.table) {
    throw Error(ErrorKind::usage, played.analysis.plan.name + " has no " + format.name +
                                      ": nobody waits for anybody, and there are no ranks");
  }
  return {.text = format.of_table(*played.analysis.table), .code = code};
}

Exported exported(const Options& options, const Format& format) {
  Terminal terminal = terminal_of(options);
  // A file is no terminal.
  terminal.color = terminal.color && (options.output == "-" || options.color == Color::always);
  if (!options.design.empty()) return design_exported(options, format, terminal);
  const bool alone = options.table.empty() && options.schedule.empty() && options.timelines.empty();
  if (format.of_mask != nullptr && alone) {
    return {.text = format.of_mask(problem_of(options).grids, terminal)};
  }
  if (format.of_timeline != nullptr) return timelines_exported(options, format, terminal);
  if (!options.timelines.empty()) {
    throw Error(ErrorKind::usage, std::string("a timeline has no ") + format.name);
  }
  if (format.of_problem != nullptr && options.table.empty() && options.schedule.empty()) {
    return {.text = format.of_problem(problem_of(options), options)};
  }
  const Analysis analysis = analyzed(options, format);
  const ExitCode code = exit_code(analysis);
  if (format.of_problem != nullptr) {
    return {.text = format.of_problem(analysis.table.problem, options), .code = code};
  }
  return {.text = format.of_table(analysis), .code = code};
}

int export_command(const Options& options) {
  if (!options.as.empty()) return export_tensors(options);
  const Format& format = format_of(options);
  check_options(options, format);
  const auto& [text, code] = exported(options, format);
  if (!text) {
    complain(options.output + ": not written, as such a table has no graph");
    return code;
  }
  write_file(options.output, *text);
  if (options.json && options.output != "-") {
    const Json json = {{"schema", "stagger.export/1"},
                       {"version", version()},
                       {"format", format.name},
                       {"what", format.what}};
    write_stdout(json.line() + "\n");
  }
  return code;
}

}  // namespace

std::vector<Word> format_words() {
  std::vector<Word> words;
  for (const Format& format : kFormats)
    words.push_back({format.name, format.what});
  return words;
}

extern const Command kExport;
const Command kExport{
    .name = "export",
    .summary = "Table, mask, graph, timeline or Gantt chart to a file; the extension says which",
    .examples =
        "  stagger export --mask causal --n 8 --heads 4 --schedule symmetric-shift \\\n"
        "      -o fig.svg\n"
        "  stagger export --n 4 --mask full --schedule shift -o shift.table.json\n"
        "  stagger export --table mine.csv -o mine.trace.json\n"
        "  stagger export --timeline predicted.timeline.json \\\n"
        "      --timeline run.timeline.json --tick-ns 1000 -o both.svg\n"
        "  stagger export --timeline run.timeline.json --mask causal --seq 4096 \\\n"
        "      --tile-q 64 --tile-kv 64 --heads 8 --schedule descending \\\n"
        "      --machine h200 -o both.svg\n"
        "  stagger export --n 4 --mask full --schedule shift -o - --format dot \\\n"
        "      | dot -Tpdf > g.pdf\n"
        "  stagger export --mask sliding:left=4095,right=0 --seq 16384 --tile-q 128 \\\n"
        "      --tile-kv 128 --as flex -o window.npz\n",
    .run = export_command,
};

}  // namespace stagger::cli
