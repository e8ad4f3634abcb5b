#include "cli/designs.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/report/designs.hpp"
#include "cli/requests.hpp"
#include "core/files.hpp"
#include "core/version.hpp"
#include "sim/gantt_text.hpp"
#include "workbench/json.hpp"

#include <utility>

namespace stagger::cli {
namespace {

constexpr std::int32_t kLanesShown = 40;

/// A design by itself for programs; with its timeline if there is one.
std::string json_of(const PlayedDesign& played, const Timeline* timeline) {
  const designs::Analysis& analysis = played.analysis;
  std::string text = std::string("{\"schema\": \"stagger.design/1\", \"version\": \"") + version() +
                     "\",\n\"problem\": " + workbench::counted_problem_json(played.problem).text() +
                     ",\n\"model\": " +
                     workbench::model_json(played.problem, analysis.model).text() +
                     ",\n\"name\": " + Json(analysis.plan.name).text() +
                     ",\n\"design\": " + design_json(analysis).text();
  if (timeline != nullptr) text += ",\n\"timeline\": " + write_timeline_json(*timeline);
  return text + "}\n";
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
  const designs::Request request = design_request(options);
  return {.problem = request.problem,
          .analysis = designs::analyze(selection, request, analysis_options(options))};
}

int exit_code(const designs::Analysis& analysis) {
  return analysis.table ? exit_code(*analysis.table) : kHolds;
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
  request.stop = interrupted;
  finish_on_interrupt();
  const designs::Comparison comparison = designs::compare(std::move(request));
  progress.end();
  if (options.json) {
    write_stdout(designs_json(comparison));
  } else if (options.csv) {
    write_stdout(designs_csv(comparison));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(options.markdown ? designs_markdown(comparison)
                                : designs_text(comparison, terminal),
               terminal);
  }
  if (comparison.missing == 0) return kHolds;
  complain("interrupted: " + std::to_string(comparison.missing) + " more would be compared");
  return kInterrupted;
}

}  // namespace stagger::cli
