#include "cli/report/overlap.hpp"

#include "cli/report/json.hpp"
#include "cli/report/words.hpp"
#include "core/printable.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "workbench/block/streams.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using block::Overlap;

/// A GEMM of the calibration, what it leaves of an SM, and the end of an RNG kernel of one CTA an
/// SM that was launched behind it.
struct RoomRow {
  const block::CtaSize* gemm = nullptr;
  block::Room room;
};

std::vector<RoomRow> rooms_of(const block::Calibration& calibration) {
  std::vector<RoomRow> rows;
  if (!calibration.rng_kernel) return rows;
  for (const block::CtaSize& gemm : calibration.gemms)
    rows.push_back({&gemm, room_of(calibration.sm, gemm, *calibration.rng_kernel)});
  return rows;
}

/// When the RNG would end that is launched behind GEMMs without room, one CTA for each SM.
std::optional<double> crowded_ms(const OverlapReport& report, const Overlap& point) {
  const block::Calibration& calibration = report.calibration;
  if (!calibration.rng_kernel) return std::nullopt;
  const std::int64_t ctas = block::resident_ctas(calibration.sm, *calibration.rng_kernel);
  if (ctas == 0) return std::nullopt;
  return block::crowded(point.gemm.ms, point.rng_alone.ms, calibration.sm.count,
                        calibration.sm.count, ctas);
}

Json borders_json(const block::Borders& borders) {
  Json losing = Json::array();
  for (const block::XRange& range : borders.losing)
    losing.push_back({{"from", range.from}, {"to", range.to}});
  return {{"region_2", borders.region2},
          {"region_3", borders.region3},
          {"exposed", borders.exposed},
          {"break_even", borders.break_even},
          {"losing", std::move(losing)}};
}

/// What the calibration's RNG is priced for; absent: it does not say.
std::optional<std::int64_t> priced_bits(const OverlapReport& report) {
  return rng_of(report.calibration, report.rng.rounds, report.rng.bits).bits;
}

/// `loses up to 420.3 and from 1355.3`.
std::string losing_words(const std::vector<block::XRange>& losing) {
  if (losing.empty()) return "loses nowhere";
  std::string text;
  for (const block::XRange& range : losing) {
    if (range.from == 0 && !range.to) return "loses everywhere";
    text += text.empty() ? "loses" : " and";
    if (range.from > 0) text += fmt::format(" from {:.1f}", range.from);
    if (range.to) text += fmt::format("{} to {:.1f}", range.from > 0 ? "" : " up", *range.to);
  }
  return text;
}

Json peak_json(const block::Borders& borders) {
  return {{"x", borders.peak_x}, {"speedup", borders.peak_speedup}};
}

Json dropout_json(const OverlapReport& report) {
  const block::Representable can = block::representable(report.dropout, report.rng.bits);
  return {{"probability", report.dropout}, {"bits", report.rng.bits},
          {"threshold", can.threshold},    {"kept", can.kept},
          {"dropped", can.dropped},        {"bias", can.bias}};
}

Json backward_json(const Overlap& point) {
  if (!point.backward) return {};
  return {{"gemm_ms", point.backward->gemm_ms},
          {"attention_ms", point.backward->attention_ms},
          {"fused_ms", point.backward->fused_ms},
          {"attention_dropping_ms", point.backward->dropping_ms}};
}

Json point_json(const OverlapReport& report, const Overlap& point) {
  return {{"batch", point.shape.batch},
          {"heads", point.shape.heads},
          {"head_dim", point.shape.head_dim},
          {"seq", point.shape.seq},
          {"x", point.x},
          {"elements", point.elements},
          {"mask_bytes", point.mask_bytes},
          {"layers", report.layers},
          {"mask_bytes_all_layers",
           static_cast<double>(point.mask_bytes) * static_cast<double>(report.layers)},
          {"gemm_ms", point.gemm.ms},
          {"gemm_limiter", point.gemm.by},
          {"attention_ms", point.attention.ms},
          {"attention_limiter", point.attention.by},
          {"rng_ms", point.rng_alone.ms},
          {"rng_limiter", point.rng_alone.by},
          {"fused_ms", point.fused_ms},
          {"gemm_slowed_ms", point.ways.gemm_slowed},
          {"rng_slowed_ms", point.ways.rng_slowed},
          {"rng_exposed_ms", point.ways.rng_exposed},
          {"attention_dropping_ms", point.ways.attention_dropping},
          {"backward", backward_json(point)},
          {"baseline_ms", point.baseline_ms},
          {"overlap_ms", point.overlap_ms},
          {"speedup", point.speedup()},
          {"region", point.region},
          {"crowded_ms", crowded_ms(report, point)}};
}

Json streams_json(const Overlap& point) {
  Json json = Json::array();
  for (const block::Stream& stream : block::streams_of(point)) {
    Json spans = Json::array();
    for (const block::Span& span : stream.spans) {
      spans.push_back({{"name", span.name}, {"start_ms", span.start_ms}, {"end_ms", span.end_ms}});
    }
    json.push_back({{"name", stream.name}, {"pass", "forward"}, {"spans", std::move(spans)}});
  }
  return json;
}

Json rooms_json(const OverlapReport& report) {
  Json json = Json::array();
  for (const RoomRow& row : rooms_of(report.calibration)) {
    json.push_back({{"gemm", row.gemm->name},
                    {"tflops", row.gemm->tflops},
                    {"registers_left", row.room.registers},
                    {"shared_bytes_left", row.room.shared_bytes},
                    {"rng_ctas_that_fit", row.room.ctas}});
  }
  return json;
}

class OverlapText {
 public:
  OverlapText(const OverlapReport& report, const Terminal& terminal)
      : report_(report), terminal_(terminal) {}

  [[nodiscard]] std::string text() const {
    std::string text = wrapped(heading(), terminal_.width, 6) + "\n";
    if (report_.x) {
      text += fmt::format("S({:g}) = {:.4f}, in region {}\n", *report_.x, report_.x_speedup,
                          report_.borders.region_of(*report_.x));
    } else {
      text += report_.swept ? sweep() : point(report_.points.front());
    }
    return text + "\n" + wrapped(borders() + dropout() + rooms(), terminal_.width, 2);
  }

 private:
  [[nodiscard]] std::string heading() const {
    return fmt::format("{}\ncalibration {} ({})\n", overlap_title(report_),
                       printable(report_.calibration.name), printable(report_.calibration.device));
  }

  [[nodiscard]] std::string sweep() const {
    std::string text =
        line({"heads", "tokens", "x", "baseline ms", "overlap ms", "speedup", "region", "mask MB"});
    for (const Overlap& point : report_.points) {
      const double mask_mb =
          1e-6 * static_cast<double>(point.mask_bytes) * static_cast<double>(report_.layers);
      text += line({std::to_string(point.shape.heads), grouped(point.shape.seq),
                    fmt::format("{:.1f}", point.x), milliseconds(point.baseline_ms),
                    milliseconds(point.overlap_ms), fmt::format("{:.4f}", point.speedup()),
                    std::to_string(point.region), fmt::format("{:.1f}", mask_mb)});
    }
    return text;
  }

  /// As many cells of a sweep's row, from the first, as the terminal has room for.
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const {
    constexpr std::array<std::size_t, 8> kWidths = {6, 8, 8, 11, 11, 8, 6, 11};
    std::string text;
    for (std::size_t column = 0; column < columns_that_fit(kWidths, terminal_.width, 4); ++column)
      text += fmt::format("{}{:>{}}", column == 0 ? "" : " ", cells[column], kWidths[column]);
    return text + "\n";
  }

  [[nodiscard]] std::string row(const char* what, double ms, const std::string& note) const {
    const std::string line = fmt::format("  {:<35} {:>10} ms{}\n", what, milliseconds(ms),
                                         note.empty() ? "" : "  " + printable(note));
    return wrapped(line, terminal_.width, 4);
  }

  [[nodiscard]] std::string point(const Overlap& point) const {
    const block::Ways& ways = point.ways;
    std::string text = "alone\n" + row("GEMMs", point.gemm.ms, point.gemm.by) +
                       row("attention", point.attention.ms, point.attention.by) +
                       row("RNG", point.rng_alone.ms, point.rng_alone.by) +
                       row("attention that makes its bits", point.fused_ms, "") +
                       "beside each other\n" + row("GEMMs", ways.gemm_slowed, "") +
                       row("RNG", ways.rng_slowed,
                           ways.rng_exposed > 0
                               ? fmt::format("behind the GEMMs: {}", milliseconds(ways.rng_exposed))
                               : "") +
                       row("attention that reads bits", ways.attention_dropping, "");
    if (point.backward) {
      text += "backward\n" + row("GEMMs", point.backward->gemm_ms, "") +
              row("attention", point.backward->attention_ms, "") +
              row("attention that makes its bits again", point.backward->fused_ms, "") +
              row("attention that reads bits", point.backward->dropping_ms, "");
    }
    text += point.backward ? "both passes\n" : "forward\n";
    text += row("baseline", point.baseline_ms, "") + row("overlap", point.overlap_ms, "");
    text += wrapped(fmt::format("\nspeedup {:.4f}, in region {} (x = {:.4g} tokens a head)\n",
                                point.speedup(), point.region, point.x),
                    terminal_.width, 2);
    text += point.backward ? "\nforward pass\n" : "\n";
    text += block::streams_text(block::streams_of(point), terminal_.width, terminal_.unicode);
    return text + "\n" + wrapped(memory(point), terminal_.width, 2);
  }

  [[nodiscard]] std::string memory(const Overlap& point) const {
    const auto mb = 1e-6 * static_cast<double>(point.mask_bytes);
    std::string text = fmt::format("bits: {} {}, {:.1f} MB a layer", grouped(point.elements),
                                   does(point.elements, "element", "elements"), mb);
    if (report_.layers > 1) {
      text += fmt::format(", {:.1f} MB for {} layers", mb * static_cast<double>(report_.layers),
                          report_.layers);
    }
    return text + "\n";
  }

  [[nodiscard]] std::string borders() const {
    const block::Borders& borders = report_.borders;
    std::string text = fmt::format(
        "by x = tokens / heads: region 2 from {:.1f} (the RNG, slowed, takes half of the GEMMs' "
        "time), region 3 from {:.1f} (all of it); bits are waited for from {:.1f}; {}",
        borders.region2, borders.region3, borders.exposed, report_.both() ? "of both passes " : "");
    text += borders.peak_x
                ? fmt::format("largest at {}: {:.4f}", *borders.peak_x, borders.peak_speedup)
                : fmt::format("rises for ever, to {:.4f}", borders.peak_speedup);
    return text + "; " + losing_words(borders.losing) + "\n";
  }

  [[nodiscard]] std::string dropout() const {
    const block::Representable can = block::representable(report_.dropout, report_.rng.bits);
    const double off = std::round(10'000 * can.bias) / 100 + 0.0;  // no -0.00
    std::string text = fmt::format(
        "p = {:g} with {}: keeps {} of 2^{} values, so drops {:.6g}; scaled by 1 / (1 - p), "
        "sums are off by {:+.2f} %\n",
        report_.dropout, counted(report_.rng.bits, "bit"), can.threshold, report_.rng.bits,
        can.dropped, off);
    if (!priced_bits(report_)) {
      text +=
          "the calibration does not say for how many bits its RNG is: times are the same for "
          "any\n";
    }
    return text;
  }

  [[nodiscard]] std::string rooms() const {
    std::string text;
    for (const auto& [gemm, room] : rooms_of(report_.calibration)) {
      text += fmt::format("room: {} ({:g} TFLOP/s) leaves {} and {} of an SM: {} of the RNG\n",
                          printable(gemm->name), gemm->tflops, counted(room.registers, "register"),
                          counted(room.shared_bytes, "byte"), counted(room.ctas, "CTA"));
    }
    if (report_.points.size() != 1) return text;
    if (const auto crowded = crowded_ms(report_, report_.points.front())) {
      text += fmt::format(
          "launched behind GEMMs without room, one CTA an SM, the RNG ends after {} ms: its "
          "CTAs crowd on the first SMs that free up\n",
          milliseconds(*crowded));
    }
    return text;
  }

  const OverlapReport& report_;
  const Terminal& terminal_;
};

}  // namespace

std::string overlap_title(const OverlapReport& report) {
  std::string text = "dropout bits behind GEMMs: ";
  if (!report.points.empty()) {
    const block::DropoutShape& shape = report.points.front().shape;
    if (shape.batch > 1) text += fmt::format("batch {}, ", grouped(shape.batch));
    if (!report.swept) {
      text += fmt::format("{}, {} {}, ", counted(shape.heads, "head"), grouped(shape.seq),
                          does(shape.seq, "token", "tokens"));
    }
  }
  return text + fmt::format("head_dim {}, Philox {}, {}", report.head_dim, report.rng.rounds,
                            counted(report.rng.bits, "bit"));
}

Json overlap_json(const OverlapReport& report, std::span<const Judgement> judgements) {
  Json json = {{"schema", "stagger.overlap/1"},
               {"version", version()},
               {"calibration", Json({{"name", report.calibration.name},
                                     {"device", report.calibration.device},
                                     {"source", report.calibration.source}})},
               {"pass", report.both() ? "both" : "forward"},
               {"philox", report.rng.rounds},
               {"bits", report.rng.bits},
               {"priced_bits", priced_bits(report)}};
  if (report.x) {
    json["x"] = *report.x;
    json["head_dim"] = report.head_dim;
    json["speedup"] = report.x_speedup;
    json["region"] = report.borders.region_of(*report.x);
  } else if (!report.swept) {
    json.append(point_json(report, report.points.front()));
    json["streams"] = streams_json(report.points.front());
  } else {
    json["sweep"] = Json::array();
    for (const Overlap& point : report.points)
      json["sweep"].push_back(point_json(report, point));
  }
  json["borders"] = borders_json(report.borders);
  json["peak"] = peak_json(report.borders);
  json["dropout"] = dropout_json(report);
  json["room"] = rooms_json(report);
  if (!judgements.empty()) json["expectations"] = judgements_json(judgements);
  return json;
}

std::string overlap_text(const OverlapReport& report, const Terminal& terminal) {
  return OverlapText(report, terminal).text();
}

}  // namespace stagger::cli
