#pragma once

#include "workbench/block/overlap.hpp"

#include <string>
#include <vector>

namespace stagger::block {

enum class SpanKind { gemm, rng, attention };

/// A kernel on a stream, from when to when.
struct Span {
  std::string name;
  SpanKind kind = SpanKind::gemm;
  double start_ms = 0;
  double end_ms = 0;
};

/// A stream of kernels: those of one run one after the other.
struct Stream {
  std::string name;
  std::vector<Span> spans;
};

/// Returns the forward pass both ways: the one stream of the baseline, and the two streams of the
/// overlap, GEMMs beside the RNG and attention behind both. The RNG behind the GEMMs' end, where it
/// is at full speed, is a span of its own.
[[nodiscard]] std::vector<Stream> streams_of(const Overlap& overlap);

/// The streams as a picture, in SVG and in TikZ (a heading is LaTeX), as lines of text (of so many
/// columns), and for Perfetto and chrome://tracing: a process a stream.
[[nodiscard]] std::string streams_svg(const std::string& title, const std::vector<Stream>& streams);
[[nodiscard]] std::string streams_tikz(const std::vector<Stream>& streams,
                                       const std::string& heading = "");
[[nodiscard]] std::string streams_text(const std::vector<Stream>& streams, int width, bool unicode);
[[nodiscard]] std::string streams_trace(const std::string& title,
                                        const std::vector<Stream>& streams);

}  // namespace stagger::block
