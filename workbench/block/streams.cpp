#include "workbench/block/streams.hpp"

#include "core/json.hpp"
#include "workbench/block/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stagger::block {
namespace {

constexpr const char* kKindNames[] = {"gemm", "rng", "attention"};

double end_of(const std::vector<Stream>& streams) {
  double end = 0;
  for (const Stream& stream : streams) {
    for (const Span& span : stream.spans)
      end = std::max(end, span.end_ms);
  }
  return end;
}

/// The four GEMMs between two attentions, in their order, from the start on.
std::vector<Span> gemms(double ms) {
  constexpr std::pair<const char*, int> kParts[] = {
      {"projection", 1}, {"FFN up", 4}, {"FFN down", 4}, {"QKV", 3}};
  std::vector<Span> spans;
  int done = 0;
  for (const auto& [name, part] : kParts) {
    spans.push_back({name, SpanKind::gemm, ms * done / 12, ms * (done + part) / 12});
    done += part;
  }
  return spans;
}

/// What a cell of a line of text shows: the stream at the middle of the cell's time.
std::string cell(const Stream& stream, double ms, bool unicode) {
  for (const Span& span : stream.spans) {
    if (ms < span.start_ms || ms >= span.end_ms) continue;
    constexpr const char* kCells[] = {"█", "▒", "░"};
    constexpr const char* kPlain[] = {"G", "r", "A"};
    return (unicode ? kCells : kPlain)[static_cast<std::size_t>(span.kind)];
  }
  return unicode ? "·" : ".";
}

}  // namespace

std::vector<Stream> streams_of(const Overlap& overlap) {
  const Ways& ways = overlap.ways;
  std::vector<Stream> streams(3);
  streams[0] = {"baseline", gemms(overlap.gemm.ms)};
  streams[0].spans.push_back(
      {"attention with RNG", SpanKind::attention, overlap.gemm.ms, ways.baseline});
  streams[1] = {"overlap, GEMMs", gemms(ways.gemm_slowed)};
  const double ready = ways.overlap - ways.attention_dropping;
  streams[1].spans.push_back({"attention, dropping", SpanKind::attention, ready, ways.overlap});
  const double beside = ways.rng_exposed > 0 ? ways.gemm_slowed : ways.rng_slowed;
  streams[2] = {"overlap, RNG", {{"RNG beside GEMMs", SpanKind::rng, 0, beside}}};
  if (ways.rng_exposed > 0) {
    streams[2].spans.push_back({"RNG alone", SpanKind::rng, beside, ways.rng_slowed});
  }
  return streams;
}

std::string streams_svg(const std::string& title, const std::vector<Stream>& streams) {
  constexpr double kWidth = 960;
  constexpr double kLeft = 120;
  constexpr double kRight = 936;
  constexpr double kPitch = 44;
  const double bottom = 44 + kPitch * static_cast<double>(streams.size());
  const double end = end_of(streams);
  const auto x = [&](double ms) { return kLeft + (kRight - kLeft) * ms / end; };
  Svg svg(kWidth, bottom + 44, title);
  svg.text(16, 22, "start", title, "font-size=\"13\" font-weight=\"bold\"");
  double y = 40;
  for (const Stream& stream : streams) {
    svg.text(kLeft - 8, y + 21, "end", stream.name);
    for (const Span& span : stream.spans) {
      const double width = x(span.end_ms) - x(span.start_ms);
      svg.rect(x(span.start_ms), y, width, kPitch - 10,
               fmt::format("fill=\"{}\" stroke=\"white\"",
                           color(span.kind == SpanKind::rng         ? 1
                                 : span.kind == SpanKind::attention ? 2
                                                                    : 0)));
      if (width < 7 * static_cast<double>(span.name.size())) continue;
      const char* ink = span.kind == SpanKind::rng ? "black" : "white";
      svg.text(x(span.start_ms) + width / 2, y + 21, "middle", span.name,
               fmt::format("fill=\"{}\"", ink));
    }
    const double last = stream.spans.back().end_ms;
    svg.line(x(last), y - 3, x(last), y + kPitch - 7, "stroke=\"black\"");
    y += kPitch;
  }
  svg.line(kLeft, bottom, kRight, bottom, "stroke=\"black\"");
  const double step = round_step(end, 10);
  for (int mark = 0; mark * step <= end * (1 + 1e-9); ++mark) {
    svg.line(x(mark * step), bottom, x(mark * step), bottom + 5, "stroke=\"black\"");
    svg.text(x(mark * step), bottom + 17, "middle", fmt::format("{:g}", mark * step),
             "font-size=\"10\"");
  }
  svg.text(kRight, bottom + 33, "end", "ms", "font-size=\"10\"");
  return svg.finish();
}

std::string streams_tikz(const std::vector<Stream>& streams, const std::string& heading) {
  constexpr double kCentimetres = 14;
  constexpr const char* kFills[] = {"blue!60!black", "orange!80!white", "green!50!black"};
  constexpr const char* kInks[] = {"white", "black", "white"};
  const double end = end_of(streams);
  const auto x = [&](double ms) { return kCentimetres * ms / end; };
  std::string text =
      "\\documentclass[tikz]{standalone}\n\\begin{document}\n"
      "\\begin{tikzpicture}[font=\\scriptsize]\n";
  if (!heading.empty()) text += "\\node[above right] at (0,0.6) {" + heading + "};\n";
  double y = 0;
  for (const Stream& stream : streams) {
    text += fmt::format("\\node[left] at (0,{:.2f}) {{{}}};\n", y + 0.3, stream.name);
    for (const Span& span : stream.spans) {
      const auto kind = static_cast<std::size_t>(span.kind);
      const double width = x(span.end_ms) - x(span.start_ms);
      text += fmt::format("\\fill[{},draw=white] ({:.3f},{:.2f}) rectangle ({:.3f},{:.2f});\n",
                          kFills[kind], x(span.start_ms), y, x(span.end_ms), y + 0.6);
      if (width < 0.15 * static_cast<double>(span.name.size())) continue;
      text += fmt::format("\\node[text={}] at ({:.3f},{:.2f}) {{{}}};\n", kInks[kind],
                          x(span.start_ms) + width / 2, y + 0.3, span.name);
    }
    y -= 0.8;
  }
  text += fmt::format("\\draw (0,{0:.2f}) -- ({1:.3f},{0:.2f});\n", y + 0.6, kCentimetres);
  const double step = round_step(end, 10);
  for (int mark = 0; mark * step <= end * (1 + 1e-9); ++mark) {
    text += fmt::format("\\draw ({0:.3f},{1:.2f}) -- ++(0,-0.1) node[below] {{{2:g}}};\n",
                        x(mark * step), y + 0.6, mark * step);
  }
  return text +
         fmt::format("\\node[below left] at ({:.3f},{:.2f}) {{ms}};\n", kCentimetres, y + 0.2) +
         "\\end{tikzpicture}\n\\end{document}\n";
}

std::string streams_text(const std::vector<Stream>& streams, int width, bool unicode) {
  constexpr int kName = 16;
  const int cells = std::max(10, width - kName - 12);
  const double end = end_of(streams);
  std::string text;
  for (const Stream& stream : streams) {
    text += fmt::format("{:<{}}", stream.name, kName);
    for (int at = 0; at < cells; ++at)
      text += cell(stream, (at + 0.5) * end / cells, unicode);
    text += fmt::format(" {:.3f} ms\n", stream.spans.back().end_ms);
  }
  return text + (unicode ? "█ GEMM  ▒ RNG  ░ attention\n" : "G GEMM  r RNG  A attention\n");
}

std::string streams_trace(const std::string& title, const std::vector<Stream>& streams) {
  std::string events;
  const auto add = [&](const Json& event) {
    events += (events.empty() ? "\n" : ",\n") + event.line();
  };
  const auto us = [](double ms) { return std::round(1e6 * ms) / 1e3; };
  for (std::size_t stream = 0; stream < streams.size(); ++stream) {
    add({{"ph", "M"},
         {"pid", stream},
         {"name", "process_name"},
         {"args", Json({{"name", streams[stream].name}})}});
    for (const Span& span : streams[stream].spans) {
      add({{"ph", "X"},
           {"pid", stream},
           {"tid", 0},
           {"ts", us(span.start_ms)},
           {"dur", us(span.end_ms) - us(span.start_ms)},
           {"name", span.name},
           {"cat", kKindNames[static_cast<std::size_t>(span.kind)]}});
    }
  }
  const Json other = {
      {"schema", "stagger.trace/1"}, {"title", title}, {"clock", "ns"}, {"note", "predicted"}};
  return "{\"displayTimeUnit\": \"ns\",\n\"otherData\": " + other.line() + ",\n\"traceEvents\": [" +
         events + "\n]}\n";
}

}  // namespace stagger::block
