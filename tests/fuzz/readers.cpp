#include "tests/fuzz/readers.hpp"

#include "cli/commands.hpp"
#include "cli/config.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/formats/mask_export.hpp"
#include "core/formats/mask_import.hpp"
#include "core/tiling.hpp"
#include "dag/verify.hpp"
#include "schedules/search/round_files.hpp"
#include "sim/gantt_svg.hpp"
#include "sim/gantt_text.hpp"
#include "sim/gantt_tikz.hpp"
#include "sim/overlay.hpp"
#include "sim/perfetto_trace.hpp"
#include "sim/trace_json.hpp"
#include "workbench/analysis.hpp"
#include "workbench/archive.hpp"
#include "workbench/block/overlap_calibration.hpp"
#include "workbench/block/sweep.hpp"
#include "workbench/block/transformer.hpp"
#include "workbench/prediction.hpp"
#include "workbench/tickets/document.hpp"
#include "workbench/tickets/lint.hpp"

#include <optional>
#include <stdexcept>
#include <string>

namespace stagger::test {
namespace {

constexpr std::int64_t kPlayed = 5'000;  ///< tasks, tiles or intervals: what takes no time

void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

bool is_small(const Problem& problem) {
  return problem.tasks() <= kPlayed && problem.sms <= kPlayed && problem.heads <= kPlayed &&
         std::int64_t{problem.kv_tiles()} * problem.q_tiles() <= kPlayed;
}

/// Analyses a table, where the makespan is computed twice, and draws it.
void use(Table table) {
  if (!is_small(table.problem) || std::ssize(table.slots) > kPlayed) return;
  if (table.lanes() > kPlayed) return;
  const workbench::Analysis analysis =
      workbench::analyze({.table = std::move(table), .model = {}, .selection = {}},
                         {.limit = 100, .always_build_graph = true});
  if (analysis.table.lanes() > 0) {
    static_cast<void>(sim::gantt_text(workbench::timeline_of(analysis)));
  }
}

void read_table(std::string_view text) {
  Table table = read_table_json(text, "table");
  const std::string json = write_table_json(table);
  expect(write_table_json(read_table_json(json, "again")) == json, "a table changes in JSON");
  use(std::move(table));
}

void read_csv(std::string_view text) {
  static const Problem cells = make_problem(make_mask("causal"), {4, 4}, {}, 2, 3);
  Table table = read_table_csv(text, "cells", &cells);
  const std::string csv = write_table_csv(table);
  expect(write_table_csv(read_table_csv(csv, "again", nullptr)) == csv, "a table changes in CSV");
  use(std::move(table));
}

/// Tiles a mask, at the size that it implies itself or at a small one.
void tile_mask(const Mask& mask) {
  Lengths lengths = mask.family->implied == nullptr ? Lengths{} : mask.family->implied(mask);
  if (lengths.q == 0) lengths.q = 13;
  if (lengths.kv == 0) lengths.kv = 12;
  if (lengths.q > kPlayed || lengths.kv > kPlayed) return;
  const std::int64_t tile = mask.family->tiles != nullptr ? 1 : 3;
  const TileGrid grid = stagger::tile(mask, lengths, {tile, tile});
  const Mask tiles = read_mask_json(write_mask_json(grid), "again");
  if (grid.q_tiles() == 0 || grid.kv_tiles() == 0) return;
  expect(stagger::tile(tiles, {grid.q_tiles(), grid.kv_tiles()}, {}) == grid, "a mask changes");
}

void read_mask(std::string_view text) {
  tile_mask(read_mask_json(text, "mask"));
}

void read_mask_words(std::string_view text) {
  const Mask mask = parse_mask(text);
  const std::string words = mask_words(mask);
  expect(mask_words(parse_mask(words)) == words, "a mask changes in words");
  tile_mask(mask);
}

/// Tensors of a mask are written again in every layout that holds it, and in one read as the same
/// tiles.
void read_tensors(std::string_view text) {
  const formats::ImportedMask imported = formats::read_mask_file(text, "tensors", {});
  Lengths lengths = imported.lengths;
  if (lengths.q == 0) lengths.q = 13;
  if (lengths.kv == 0) lengths.kv = 12;
  if (lengths.q > kPlayed || lengths.kv > kPlayed) return;
  const TileShape shape = imported.shape.q > 0 ? imported.shape : TileShape{3, 3};
  const std::int64_t heads = std::max<std::int64_t>(mask_heads(imported.mask), 1);
  if (heads > kPlayed) return;
  const Problem problem = make_problem(imported.mask, lengths, shape, heads, 1);
  if (!is_small(problem)) return;
  for (const formats::ExportFormat& format : formats::export_formats()) {
    try {
      std::vector<std::string> notes;
      const formats::Bundle bundle =
          formats::export_mask(problem, format, format.ragged, nullptr, notes);
      const std::string bytes = formats::write_bundle(bundle, "x.npz");
      const formats::ImportedMask again =
          formats::read_mask_file(bytes, "again", {.lengths = lengths, .shape = shape});
      expect(make_problem(again.mask, again.lengths, shape, heads, 1).grids ==
                 formats::by_rule(problem, format.ragged),
             "a mask changes as tensors");
    } catch (const Error& error) {
      expect(error.kind() == ErrorKind::unsupported || error.kind() == ErrorKind::limit,
             "what is written is not read");
    }
  }
}

/// Tickets are played on machines of every kind, and what hangs is made smaller.
void read_tickets(std::string_view text) {
  constexpr std::size_t kLinted = 200;  // steps: what is minimized is played so often, squared
  tickets::Document document = tickets::read_document(text, "tickets");
  if (document.tickets.steps.size() > kPlayed) return;
  static_cast<void>(tickets::locate(document, text, document.found.take()));
  if (document.tickets.steps.size() > kLinted) return;
  const tickets::LintRequest requests[] = {{.minimize = true},
                                           {.residency = 1},
                                           {.release = Release::delayed},
                                           {.dispatch = Dispatch::static_}};
  for (const tickets::LintRequest& request : requests) {
    const tickets::Linted linted = tickets::lint(text, "tickets", request);
    expect(linted.places.size() == linted.findings.size(), "a finding has no place");
  }
}

void read_timeline(std::string_view text) {
  const Timeline timeline = read_timeline_json(text, "timeline");
  const std::string json = write_timeline_json(timeline);
  expect(write_timeline_json(read_timeline_json(json, "again")) == json, "a timeline changes");
  static_cast<void>(sim::gantt_text(timeline));
  static_cast<void>(sim::gantt_text(timeline, {.width = 20, .unicode = false, .max_rows = 3}));
  static_cast<void>(sim::trace_json(timeline));
  static_cast<void>(sim::perfetto_trace(timeline));
  static_cast<void>(sim::gantt_tikz(timeline));
  static_cast<void>(sim::gantt_svg(timeline));
  static_cast<void>(sim::gantt_svg(sim::overlay({timeline, timeline}, 3)));
}

/// A config is read for every command, or refused by each; the last one's refusal counts.
void read_config(std::string_view text) {
  std::optional<Error> refused;
  bool read = false;
  for (const cli::Command* command : cli::commands()) {
    try {
      static_cast<void>(cli::config_values(text, "config", *command));
      read = true;
    } catch (const Error& error) {
      refused = error;
    }
  }
  if (!read) throw Error(*refused);
}

void read_run_file(std::string_view text) {
  workbench::MeasuredRuns runs = workbench::read_runs(text, "runs");
  for (const workbench::MeasuredRun& run : runs.runs)
    static_cast<void>(workbench::said_prediction(run));
  static_cast<void>(workbench::predict_runs(std::move(runs), std::nullopt));
}

void read_profile(std::string_view text) {
  const Machine machine = read_machine_json(text, "machine");
  const std::string json = write_machine_json(machine);
  expect(write_machine_json(read_machine_json(json, "again")) == json, "a profile changes");
  static const Problem problem = make_problem(make_mask("causal"), {512, 512}, {64, 128}, 2, 3);
  for (const KernelTimes& times : machine.kernels) {
    workbench::TimeModel model = workbench::time_model_of(machine, times, problem, {});
    Table table = workbench::source_of(schedules::select("ascending"), problem, model).table;
    static_cast<void>(workbench::analyze(
        {.table = std::move(table), .model = std::move(model), .selection = {}}));
  }
}

void read_known(std::string_view text) {
  const auto archive = workbench::read_archive(text, "archive");
  const std::string json = workbench::write_archive(archive);
  expect(workbench::write_archive(workbench::read_archive(json, "again")) == json,
         "an archive changes");
}

void read_solution(std::string_view text) {
  static const Problem problem = make_problem(make_mask("causal"), {3, 3}, {}, 2, 3);
  const Table table = search::read_round_solution(text, "answer", problem, 7);
  static_cast<void>(dag::verify(table, {}));
}

void read_model(std::string_view text) {
  static_cast<void>(block::read_transformer(text, "model"));
}

void read_overlap(std::string_view text) {
  static_cast<void>(block::read_calibration(text, "calibration"));
}

void read_sweep(std::string_view text) {
  static_cast<void>(block::parse_sweep(text));
}

constexpr Reader kReaders[] = {
    {"archive", read_known},   {"config", read_config},     {"csv", read_csv},
    {"mask", read_mask},       {"model", read_model},       {"overlap", read_overlap},
    {"profile", read_profile}, {"run", read_run_file},      {"solution", read_solution},
    {"sweep", read_sweep},     {"table", read_table},       {"tensors", read_tensors},
    {"tickets", read_tickets}, {"timeline", read_timeline}, {"words", read_mask_words}};

}  // namespace

std::span<const Reader> readers() {
  return kReaders;
}

}  // namespace stagger::test
