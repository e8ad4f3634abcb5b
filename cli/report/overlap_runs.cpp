#include "cli/report/overlap_runs.hpp"

#include "cli/report/words.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stagger::cli {
namespace {

using block::MeasuredOverlap;
using workbench::CrowdRun;
using workbench::OverlapRun;
using workbench::RngRun;

Json rng_runs_json(const OverlapRunsReport& report) {
  Json json = Json::array();
  for (const RngRun& run : report.runs.rng) {
    json.push_back({{"rounds", run.measured.rng.rounds},
                    {"bits", run.measured.rng.bits},
                    {"registers", run.registers},
                    {"ps", run.measured.ps}});
  }
  return json;
}

Json way_json(const char* name, const MeasuredOverlap& way, double clock_ghz) {
  const block::Slowdown found = slowdown_of(way);
  return {{"way", name},
          {"with_room_ms", way.with_room},
          {"gemms_ms", way.beside_gemms},
          {"bits_ms", way.beside_bits},
          {"overlap_ms", way.overlap},
          {"clock_ghz", clock_ghz},
          {"room", found.room},
          {"gemm", found.gemm},
          {"rng", found.rng}};
}

Json shapes_json(const OverlapRunsReport& report) {
  Json json = Json::array();
  for (const OverlapRun& run : report.runs.shapes) {
    const MeasuredOverlap& first = run.ways.front();
    const block::FitError error = error_of(report.calibration, run.ways[report.way]);
    Json ways = Json::array();
    for (std::size_t way = 0; way < run.ways.size(); ++way)
      ways.push_back(
          way_json(workbench::beside_ways()[way].name, run.ways[way], run.clocks_ghz[way]));
    json.push_back({{"heads", first.shape.heads},
                    {"head_dim", first.shape.head_dim},
                    {"seq", first.shape.seq},
                    {"gemms_ms", first.gemms},
                    {"clock_ghz", run.clock_ghz},
                    {"bits_ms", first.bits},
                    {"attention_ms", first.attention},
                    {"attention_makes_ms", first.attention_makes},
                    {"attention_reads_ms", first.attention_reads},
                    {"baseline_ms", first.baseline},
                    {"serial_ms", first.serial},
                    {"ways", std::move(ways)},
                    {"baseline_error", error.baseline},
                    {"overlap_error", error.overlap}});
  }
  return json;
}

Json crowds_json(const OverlapRunsReport& report) {
  Json json = Json::array();
  for (const CrowdRun& run : report.runs.crowds) {
    json.push_back({{"ctas", run.ctas},
                    {"ctas_per_sm", run.ctas_per_sm},
                    {"gemm_ms", run.gemm},
                    {"full_ms", run.full},
                    {"measured_ms", run.measured},
                    {"predicted_ms", run.predicted}});
  }
  return json;
}

std::string rng_text(const OverlapRunsReport& report) {
  std::string text = "bits alone       rounds  random bits  registers  ps an element\n";
  for (const RngRun& run : report.runs.rng) {
    text += fmt::format("{:>22}{:>13}{:>11}{:>15.4f}\n", run.measured.rng.rounds,
                        run.measured.rng.bits, run.registers, run.measured.ps);
  }
  return text;
}

std::string shapes_text(const OverlapRunsReport& report) {
  std::string text = fmt::format(
      "\nGEMMs, bits and attention, ms; overlap: bits made by {}; errors of the model\n"
      "heads  tokens    GEMMs   bits  attention   makes   reads  baseline           overlap      "
      "     speedup\n",
      workbench::beside_ways()[report.way].name);
  for (const OverlapRun& run : report.runs.shapes) {
    const MeasuredOverlap& way = run.ways[report.way];
    const block::FitError error = error_of(report.calibration, way);
    text += fmt::format(
        "{:>5}{:>8}{:>9.2f}{:>7.2f}{:>11.2f}{:>8.2f}{:>8.2f}{:>10.2f} ({:>+5.1f} %){:>9.2f} "
        "({:>+5.1f} %){:>8.3f}\n",
        way.shape.heads, grouped(way.shape.seq), way.gemms, way.bits, way.attention,
        way.attention_makes, way.attention_reads, way.baseline, 100 * error.baseline, way.overlap,
        100 * error.overlap, way.baseline / way.overlap);
  }
  return text;
}

std::string ways_text(const OverlapRunsReport& report) {
  std::string text = "\nways, sums over the shapes, ms\n";
  double baseline = 0;
  double serial = 0;
  for (const OverlapRun& run : report.runs.shapes) {
    baseline += run.ways.front().baseline;
    serial += run.ways.front().serial;
  }
  text += fmt::format("  {:<34}{:>11}\n  {:<34}{:>11}\n", "attention makes its bits",
                      milliseconds(baseline), "bits before GEMMs", milliseconds(serial));
  for (std::size_t way = 0; way < workbench::beside_ways().size(); ++way) {
    double sum = 0;
    for (const OverlapRun& run : report.runs.shapes)
      sum += run.ways[way].overlap;
    text += fmt::format("  {:<34}{:>11}\n",
                        fmt::format("bits by {}", workbench::beside_ways()[way].name),
                        milliseconds(sum));
  }
  return text;
}

std::string crowds_text(const OverlapRunsReport& report) {
  std::string text = "\nbits behind a GEMM that leaves no room, ms\n";
  for (const CrowdRun& run : report.runs.crowds) {
    text += fmt::format("  {:>4} CTAs, {} an SM: {} for {} predicted ({:+.1f} %)\n", run.ctas,
                        run.ctas_per_sm, milliseconds(run.measured), milliseconds(run.predicted),
                        100 * (run.predicted / run.measured - 1));
  }
  return text;
}

}  // namespace

Json overlap_runs_json(const OverlapRunsReport& report) {
  return {{"schema", "stagger.overlap-runs/1"},
          {"version", version()},
          {"calibration", block::calibration_json(report.calibration)},
          {"way", workbench::beside_ways()[report.way].name},
          {"words_checked", report.runs.words_checked},
          {"samples_checked", report.runs.samples_checked},
          {"rng", rng_runs_json(report)},
          {"shapes", shapes_json(report)},
          {"crowds", crowds_json(report)}};
}

std::string overlap_runs_text(const OverlapRunsReport& report) {
  const block::Slowdown& slowdown = report.calibration.slowdown;
  std::string text = fmt::format("device     {}\n\n", report.calibration.device) +
                     rng_text(report) + shapes_text(report) + ways_text(report) +
                     crowds_text(report);
  text += fmt::format(
      "\nGEMMs {:.0f} TFLOP/s; with room {:.4f} times as long; while bits are made {:.4f} times; "
      "bits beside them {:.3f} times\nattention {:.0f} TFLOP/s; bits that it makes expose {:.4f} "
      "ps; reading them {:.4f} times as long\nchecked: {} words of bits, {} samples\n",
      report.calibration.gemm.front().rate, slowdown.room, slowdown.gemm, slowdown.rng,
      report.calibration.attention.front().rate, report.calibration.forward.ps.value_or(0),
      slowdown.dropping, grouped(report.runs.words_checked), grouped(report.runs.samples_checked));
  return text;
}

}  // namespace stagger::cli
