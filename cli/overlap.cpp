#include "cli/report/overlap.hpp"

#include "cli/builtin.hpp"
#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "workbench/block/streams.hpp"
#include "workbench/block/sweep.hpp"
#include "workbench/block/transformer.hpp"

#include <array>
#include <string>
#include <vector>

namespace stagger::cli {
namespace {

/// `--expect` can ask for these.
constexpr std::array kOverlapNames = {
    ExpectName{"speedup", "of the overlap; of a sweep, the least"},
    ExpectName{"region", "1, 2 or 3; of a sweep, the last point's"},
    ExpectName{"x", "tokens / heads, likewise"},
    ExpectName{"peak_speedup", "the largest at a whole x, or what it rises to"},
};

/// Replaces the limiters of that unit by one rate.
void put_rate(std::vector<block::Limiter>& limiters, const std::optional<double>& tflops) {
  if (!tflops) return;
  for (block::Limiter& limiter : limiters) {
    if (limiter.unit == block::LimitUnit::flops) limiter.rate = *tflops;
  }
}

void expect_rate(const char* option, const std::optional<double>& value, double least) {
  if (!value || (*value >= least && *value <= 1e9)) return;
  throw Error(ErrorKind::usage, "--" + std::string(option) + " is not within " +
                                    (least < 1 ? "0.000001" : "1") + " and 1000000000");
}

block::Calibration calibration_of(const Options& options) {
  block::Calibration calibration = find_calibration(options.calibration);
  expect_rate("gemm-tflops", options.gemm_tflops, 1e-6);
  expect_rate("attn-tflops", options.attn_tflops, 1e-6);
  expect_rate("room", options.room, 1);
  put_rate(calibration.gemm, options.gemm_tflops);
  put_rate(calibration.attention, options.attn_tflops);
  if (options.room) calibration.slowdown.room = *options.room;
  return calibration;
}

block::DropoutShape shape_of(const Options& options) {
  block::DropoutShape shape{.batch = options.batch.value_or(1), .head_dim = options.attention_dim};
  if (!options.sweep.empty()) return shape;
  if (!options.attention_heads || !options.seq) {
    throw Error(ErrorKind::usage,
                "the shape is missing: give --heads and --seq, or --sweep, or --x");
  }
  shape.heads = *options.attention_heads;
  shape.seq = *options.seq;
  return shape;
}

OverlapReport overlap_report(const Options& options) {
  if (!(options.dropout < 1)) throw Error(ErrorKind::usage, "--dropout is not below 1");
  OverlapReport report{.calibration = calibration_of(options),
                       .rng = {.rounds = options.philox, .bits = options.bits},
                       .head_dim = options.attention_dim,
                       .layers = options.layers,
                       .dropout = options.dropout,
                       .swept = !options.sweep.empty()};
  const bool both = options.passes == Passes::both;
  const block::Ratios ratios =
      block::ratios_of(report.calibration, report.rng, report.head_dim, both);
  report.borders = block::borders_of(ratios, report.calibration.slowdown);
  if (options.x) {
    expect_rate("x", options.x, 1e-6);
    report.x = options.x;
    report.x_speedup = block::speedup_at(ratios, report.calibration.slowdown, *options.x);
  } else if (report.swept) {
    report.points = block::sweep(block::parse_sweep(options.sweep), shape_of(options), report.rng,
                                 report.calibration, both);
  } else {
    report.points = {block::overlap_of(shape_of(options), report.rng, report.calibration, both)};
  }
  return report;
}

/// What is above a picture: streams are of the forward pass, whatever passes count.
std::string picture_title(const OverlapReport& report) {
  const bool part = !report.swept && report.both();
  return overlap_title(report) + ", calibration " + report.calibration.name +
         (part ? ", forward pass" : "");
}

/// The picture that the extension asks for.
std::string picture(const Options& options, const OverlapReport& report) {
  const std::string& file = options.output;
  const std::string title = picture_title(report);
  if (report.x) throw Error(ErrorKind::usage, "--output: a ratio alone has no picture");
  if (file == "-" || file.ends_with(".svg")) {
    return report.swept
               ? block::sweep_svg(title, block::parse_sweep(options.sweep), shape_of(options),
                                  report.rng, report.calibration, options.passes == Passes::both)
               : block::streams_svg(title, block::streams_of(report.points.front()));
  }
  if (report.swept) {
    throw Error(ErrorKind::usage, file + ": a sweep's picture is an svg");
  }
  const std::vector<block::Stream> streams = block::streams_of(report.points.front());
  if (file.ends_with(".txt")) {
    const Terminal terminal = terminal_of(options);
    return (report.both() ? "forward pass\n" : "") +
           block::streams_text(streams, terminal.width, terminal.unicode);
  }
  if (file.ends_with(".tex"))
    return block::streams_tikz(streams, report.both() ? "forward pass" : "");
  if (file.ends_with(".trace.json")) return block::streams_trace(title, streams);
  throw Error(ErrorKind::usage,
              file + ": the extension is no known format; known: svg, tex, txt, trace.json");
}

Values values_of(const OverlapReport& report) {
  double speedup = report.x_speedup;
  double x = report.x.value_or(0);
  int region = report.borders.region_of(x);
  if (!report.x) {
    speedup = report.points.front().speedup();
    for (const block::Overlap& point : report.points)
      speedup = std::min(speedup, point.speedup());
    x = report.points.back().x;
    region = report.points.back().region;
  }
  return {{"speedup", millionths(speedup)},
          {"region", exact(region)},
          {"x", millionths(x)},
          {"peak_speedup", millionths(report.borders.peak_speedup)}};
}

int overlap_command(const Options& options) {
  const std::vector<Expectation> expectations = expectations_of(options.expect, kOverlapNames);
  check_standard_output(options);
  const OverlapReport report = overlap_report(options);
  const Values values = expectations.empty() ? Values{} : values_of(report);
  const std::vector<Judgement> judgements = judge(expectations, &values);
  if (!options.output.empty()) write_file(options.output, picture(options, report));
  if (options.output == "-") return all_hold(judgements) ? kHolds : kViolated;
  if (options.json) {
    write_stdout(overlap_json(report, judgements).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(overlap_text(report, terminal), terminal);
  }
  return all_hold(judgements) ? kHolds : kViolated;
}

}  // namespace

extern const Command kOverlap;
const Command kOverlap{
    .name = "overlap",
    .summary = "Dropout bits made behind GEMMs and not in attention: what that is predicted to buy",
    .examples =
        "  stagger overlap --heads 64 --seq 4096\n"
        "  stagger overlap --x 148\n"
        "  stagger overlap --heads 64 --seq 8192 --calibration h200-fa2 --philox 5 \\\n"
        "      --gemm-tflops 1330 --pass both --layers 80\n"
        "  stagger overlap --sweep seq=2048:65536,heads=48,96 -o sweep.svg\n"
        "  stagger overlap --heads 48 --seq 16384 -o streams.trace.json \\\n"
        "      --expect 'speedup >= 1.05'\n",
    .run = overlap_command,
    .names = [] { return std::vector(kOverlapNames.begin(), kOverlapNames.end()); },
};

}  // namespace stagger::cli
