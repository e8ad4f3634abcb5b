#include "cli/commands.hpp"
#include "cli/designs.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/masks.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "core/files.hpp"
#include "core/json.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"
#include "sim/gantt_text.hpp"
#include "sim/mask_picture.hpp"
#include "workbench/analysis.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

using workbench::Analysis;

/// The heads of a head's chains: `h3`, `h0-3`.
std::string heads_text(const Problem& problem, Head head) {
  const std::int32_t first = problem.part_of(head).value * problem.span;
  return problem.span == 1 ? fmt::format("h{}", first)
                           : fmt::format("h{}-{}", first, first + problem.span - 1);
}

/// `SM 0  h0 kv0: 3@0 4@1 | h0 kv7: 7@7`, cut at the terminal's width.
std::string lane_text(const Table& table, Lane lane, const Terminal& terminal) {
  const char* unit = table.dispatch == Dispatch::static_ ? "SM" : "CTA";
  std::string text = fmt::format("{:<9}", fmt::format("{} {}", unit, lane.value));
  const std::size_t label = text.size();
  const auto width = static_cast<std::size_t>(terminal.width);
  for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
    const auto& [task, rank] = table.slots[slot];
    if (table.begins_chain(lane, slot)) {
      text += fmt::format("{}{} kv{}:", text.size() == label ? "" : " | ",
                          heads_text(table.problem, task.head), task.kv.value);
    }
    const std::string head = table.problem.span == 1 ? "" : fmt::format("{}.", task.head.value);
    text += fmt::format(" {}{}@{}", head, task.q.value, rank);
    if (text.size() > width) return text.substr(0, width - 3) + "...";
  }
  return text;
}

std::string table_text(const Table& table, const Terminal& terminal) {
  const char* const head = table.problem.span == 1 ? "" : "head.";
  std::string text = wrapped(fmt::format("{}\n{} (a slot is {}Q tile @ rank)\n",
                                         describe(table.problem), printable(table.name), head),
                             terminal.width, 6);
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    if (lane.value == kLanesShown) {
      text += wrapped(fmt::format("… {} more; `stagger export -o x.table.json` writes them all\n",
                                  table.lanes() - kLanesShown),
                      terminal.width, 2);
      break;
    }
    text += lane_text(table, lane, terminal) + "\n";
  }
  return text;
}

Json tiles_json(const TileGrid& grid) {
  const TileCounts counts = grid.counts();
  return {{"full", counts.full},
          {"partial", counts.partial},
          {"empty", counts.empty},
          {"rows", tiles_mask(grid).strings("rows")}};
}

/// The tiles, and where heads have several grids those of each, with the heads' places among them.
Json grid_json(const Problem& problem) {
  Json json = {
      {"schema", "stagger.show/1"}, {"version", version()}, {"problem", problem_json(problem)}};
  const HeadGrids& grids = problem.grids;
  if (grids.all_alike()) {
    json["tiles"] = tiles_json(grids.distinct().front());
    return json;
  }
  for (const TileGrid& grid : grids.distinct())
    json["grids"].push_back(tiles_json(grid));
  json["heads"] = tiles_mask(grids).integers("heads");
  return json;
}

/// A mask without a schedule: its grid of tiles.
int show_mask(const Options& options) {
  const std::string why = "means nothing without --schedule or --table";
  reject(given_in(options, Group::timing), why);
  reject(given_of(options, "machine kernel dtype head-dim tick-ns ranks"), why);
  const Terminal terminal = terminal_of(options);
  const Problem problem = problem_of(options);
  if (options.json) {
    write_stdout(grid_json(problem).text() + "\n");
    return kHolds;
  }
  const std::string head = describe(problem) + "\n" + counts_words(problem) + "\n\n";
  write_text(wrapped(head, terminal.width, 2), terminal);
  write_stdout(sim::mask_text(problem.grids, {.width = terminal.width}));
  return kHolds;
}

int show_command(const Options& options) {
  if (!options.design.empty()) return show_design(options);
  if (options.schedule.empty() && options.table.empty()) return show_mask(options);
  const Terminal terminal = terminal_of(options);
  workbench::Source source =
      options.json ? source_of(options) : source_of(options, workbench::expect_drawable);
  const Analysis analysis = workbench::analyze(std::move(source), analysis_options(options));
  if (options.json) {
    write_stdout(std::string("{\"schema\": \"stagger.show/1\", \"version\": \"") + version() +
                 "\",\n\"table\": " + write_table_json(analysis.table) +
                 ",\n\"report\": " + report_json(analysis).text() + "}\n");
  } else {
    write_text(table_text(analysis.table, terminal) + "\n", terminal);
    write_stdout(sim::gantt_text(timeline_of(analysis), {.width = terminal.width,
                                                         .unicode = terminal.unicode,
                                                         .color = terminal.color,
                                                         .max_rows = kLanesShown}));
    if (!analysis.ok()) write_text(report_text(analysis, terminal), terminal);
  }
  return exit_code(analysis);
}

}  // namespace

extern const Command kShow;
const Command kShow{
    .name = "show",
    .summary = "One schedule: its table and its Gantt chart in the terminal; or a mask's tiles",
    .examples =
        "  stagger show --mask full --n 4 --schedule shift\n"
        "  stagger show --mask causal --n 8 --heads 2 --schedule descending \\\n"
        "      --model overlap\n"
        "  stagger show --table mine.table.json\n"
        "  stagger show --mask causal --n 8 --heads 4 --design two-pass\n"
        "  stagger show --mask 'causal & document:lengths=3+5'\n"
        "  stagger show --mask-file block_mask.npz\n",
    .run = show_command,
};

}  // namespace stagger::cli
