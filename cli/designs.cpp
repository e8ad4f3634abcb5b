#include "cli/designs.hpp"

#include "cli/commands.hpp"
#include "cli/device.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/report/design_run.hpp"
#include "cli/report/designs.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/version.hpp"
#include "sim/gantt_text.hpp"
#include "workbench/json.hpp"

#include <chrono>
#include <string>
#include <utility>
#include <variant>

namespace stagger::cli {
namespace {

/// A design by itself for programs; with its timeline if there is one.
std::string json_of(const PlayedDesign& played, const Timeline* timeline) {
  const designs::Analysis& analysis = played.analysis;
  std::string text =
      std::string("{\"schema\": \"stagger.design/1\", \"version\": \"") + version() +
      "\",\n\"problem\": " + workbench::counted_problem_json(played.problem).text() +
      ",\n\"model\": " + workbench::model_json(played.problem, analysis.model).text() +
      ",\n\"name\": " + Json(analysis.plan.name).text() +
      ",\n\"design\": " + design_json(analysis).text();
  if (timeline != nullptr) text += ",\n\"timeline\": " + write_timeline_json(*timeline);
  return text + "}\n";
}

void check_run(const Options& options, const designs::Selection& selection) {
  if (options.kernel->name != std::string("portable") && !selection.design->is_table) {
    throw Error(ErrorKind::usage, std::string("--kernel ") + options.kernel->name +
                                      " plays tables; --design " + selection.text + " has none");
  }
  if (options.dropped && !selection.design->is_table) {
    throw Error(ErrorKind::usage,
                "--dropout is for tables; --design " + selection.text + " has none");
  }
  if (selection.design->runs) return;
  std::string known;
  for (const designs::Design* design : designs::all()) {
    if (design->runs) known += (known.empty() ? "" : ", ") + std::string(design->name);
  }
  throw Error(ErrorKind::usage, selection.text + " is a model alone; what runs: " + known);
}

/// Lanes that wait for nobody have no turns: what is said of those would be ignored.
void check_turns(const Options& options, const designs::Selection& selection) {
  if (selection.design->is_table || selection.design->plays_schedule) return;
  reject(given_of(options, "latency release"),
         "means nothing beside --design " + selection.text + ", where nobody waits");
}

}  // namespace

designs::Request design_request(const Options& options) {
  designs::Request request{.problem = problem_of(options),
                           .head_dim = options.head_dim,
                           .element_bytes = options.dtype == gpu::Dtype::fp32 ? 4 : 2};
  request.model = time_model_of(options, request.problem);
  if (!options.schedule.empty()) request.schedule = schedules::select(options.schedule);
  return request;
}

PlayedDesign played_design(const Options& options) {
  const designs::Selection selection = designs::select(options.design);
  check_turns(options, selection);
  const designs::Request request = design_request(options);
  return {.problem = request.problem,
          .analysis = designs::analyze(selection, request, analysis_options(options))};
}

int exit_code(const designs::Analysis& analysis) {
  return analysis.table ? exit_code(*analysis.table) : kHolds;
}

workbench::Source design_source(const Options& options) {
  const designs::Selection selection = designs::select(options.design);
  designs::Request request = design_request(options);
  designs::Plan plan = designs::plan(selection, request);
  if (!selection.design->is_table) {
    throw Error(ErrorKind::usage, selection.text + " has no table of the problem");
  }
  return {.table = std::move(std::get<Table>(plan.stages.front().work)),
          .model = std::move(request.model),
          .selection = std::move(request.schedule)};
}

std::optional<int> run_design(const Options& options) {
  const designs::Selection selection = designs::select(options.design);
  check_run(options, selection);
  designs::ExecutionRequest request{.selection = selection,
                                    .request = design_request(options),
                                    .dtype = options.dtype,
                                    .seed = static_cast<std::uint64_t>(options.seed),
                                    .repeats = options.runs,
                                    .reference = options.reference,
                                    .adds_partials = !options.no_partials,
                                    .threads = static_cast<std::int32_t>(options.threads)};
  if (selection.design->is_table) return std::nullopt;
  check_turns(options, selection);
  reject(given_of(options, "mode output residency"),
         "means nothing beside --design " + selection.text + ", where nobody waits");
  if (options.perturb) request.perturb = static_cast<std::uint64_t>(*options.perturb);
  if (!given_of(options, "timeout").empty()) {
    request.timeout = std::chrono::milliseconds(options.timeout_ms);
  }
  if (options.device == Device::cuda) {
    if (!has_device()) return kSkipped;
    request.cuda = gpu::cuda_device();
  }
  Progress progress;
  request.progress = [&](const char* what, double fraction) { progress.show(what, fraction); };
  request.begins = finish_on_interrupt;  // before the first run there is nothing to keep
  request.stop = interruption();
  const designs::Execution execution = designs::execute(request);
  progress.end();
  if (options.json) {
    write_stdout(design_run_json(execution));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(design_run_text(execution, terminal), terminal);
  }
  if (execution.timed_out) return kLimit;
  if (!execution.ok()) return kViolated;
  return execution.cut_short ? kInterrupted : kHolds;
}

int analyze_design(const Options& options) {
  const PlayedDesign played = played_design(options);
  if (options.json) {
    write_stdout(json_of(played, nullptr));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(design_text(played.analysis, played.problem, terminal), terminal);
  }
  return exit_code(played.analysis);
}

int show_design(const Options& options) {
  workbench::expect_drawable(problem_of(options));
  const PlayedDesign played = played_design(options);
  const Timeline timeline = designs::timeline_of(played.analysis, played.problem);
  const Terminal terminal = terminal_of(options);
  if (options.json) {
    write_stdout(json_of(played, &timeline));
  } else {
    write_text(design_text(played.analysis, played.problem, terminal) + "\n", terminal);
    write_stdout(sim::gantt_text(timeline, {.width = terminal.width,
                                            .unicode = terminal.unicode,
                                            .color = terminal.color,
                                            .max_rows = kLanesShown}));
  }
  return exit_code(played.analysis);
}

int compare_designs(const Options& options, std::vector<schedules::Selection> schedules) {
  designs::ComparisonRequest request{.request = design_request(options),
                                     .schedules = std::move(schedules),
                                     .analysis = analysis_options(options)};
  request.analysis.limit = 0;
  Progress progress;
  request.progress = [&](double fraction) { progress.show("comparing designs", fraction); };
  request.stop = interruption();
  finish_on_interrupt();
  const designs::Comparison comparison = designs::compare(std::move(request));
  progress.end();
  if (options.json) {
    write_stdout(designs_json(comparison));
  } else if (options.csv) {
    write_stdout(designs_csv(comparison));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(options.markdown ? designs_markdown(comparison) : designs_text(comparison, terminal),
               terminal);
  }
  if (comparison.missing == 0) return kHolds;
  complain("interrupted: " + std::to_string(comparison.missing) + " more would be compared");
  return kInterrupted;
}

}  // namespace stagger::cli
