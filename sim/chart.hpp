#pragma once

#include "core/time_unit.hpp"
#include "core/timeline.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace stagger::sim {

/// What a box of a Gantt chart shows.
enum class BoxStyle {
  compute,
  reduce,
  busy,      ///< several phases that are too narrow to tell apart
  overhead,  ///< launch or epilogue
};

/// A box of a Gantt chart. Along the time axis in parts of the makespan, 0 … 1.
struct Box {
  std::int32_t row = 0;  ///< the SM's, or one of them
  BoxStyle style = BoxStyle::compute;
  std::int32_t head = 0;
  double begin = 0;
  double end = 0;
  std::string label;  ///< Q tile of a compute phase, dK of a reduction into dK and dV, else empty
};

/// Where the critical path goes from one SM to another. Hops that are closer together than
/// `resolution` are one line over all their rows.
struct Hop {
  std::int32_t from_row = 0;
  std::int32_t to_row = 0;
  double from = 0;
  double to = 0;
};

/// An arrow of a critical path from one row to another.
struct CriticalArrow {
  const Interval* from = nullptr;
  const Interval* to = nullptr;
  std::size_t number = 0;  ///< from 1, ascending
};

/// Returns where the marked critical path goes from SM to SM, by time; of an overlay where each
/// timeline's own does. O(intervals log intervals).
[[nodiscard]] std::vector<CriticalArrow> critical_arrows(const Timeline& timeline);

/// A wait at the end of a row that never ends, as the table hangs.
struct EndlessWait {
  std::int32_t row = 0;
  Ticks begin = 0;
};

/// Returns the waits that no reduction ends, by row; none if the timeline does not hang. Requires a
/// drawable timeline.
[[nodiscard]] std::vector<EndlessWait> endless_waits(const Timeline& timeline);

/// A timeline made ready to draw, for SVG and TikZ alike.
struct Chart {
  std::vector<Box> boxes;     ///< by row and time
  std::vector<Box> critical;  ///< outlines: what of the boxes is on the critical path
  std::vector<Hop> hops;
  std::vector<EndlessWait> endless;
  std::vector<Ticks> axis;       ///< round times up to the makespan, from 0
  bool split_rows = false;       ///< compute above, reductions below: they overlap in time
  bool combines = false;         ///< there are reductions into dK and dV
  bool merged = false;           ///< boxes narrower than `resolution` were merged into busy ones
  std::int32_t heads_shown = 0;  ///< heads in the legend: at most the colours there are
};

/// Lays a timeline out; `resolution` is the narrowest box worth drawing, in parts of the makespan.
/// Waits that end are left as gaps. Requires a drawable timeline. O(intervals log intervals).
[[nodiscard]] Chart chart_of(const Timeline& timeline, double resolution);

/// Lays a timeline out at a resolution coarse enough for at most `most_shapes` boxes, outlines and
/// hops (one box and one outline a row at worst). Throws Error{limit} if it has too many rows.
[[nodiscard]] Chart chart_within(const Timeline& timeline, double resolution,
                                 std::size_t most_shapes);

/// Whether the timeline can be drawn: its intervals are by SM, layer and start, and lie in
/// 0 … makespan.
[[nodiscard]] bool drawable(const Timeline& timeline);

/// The rows that a picture has at most. More are slow to draw, and to look at.
inline constexpr std::int64_t kMostRows = 1 << 14;
/// Throws Error{limit} if a picture, or a `what`, of so many rows is too large.
void expect_few(std::int64_t rows, const char* what = "picture");

/// Round times 0, step, 2 step … up to the makespan, about `count` of them, 0 alone if there is
/// room for none; the step is 1, 2 or 5 times a power of ten.
[[nodiscard]] std::vector<Ticks> axis_of(Ticks makespan, int count);

/// A head's colour, as rrggbb; colours repeat after kHeadColors.size() heads.
/// Source: the palette of Okabe and Ito, for colour-blind readers.
inline constexpr std::array<const char*, 7> kHeadColors = {"56b4e9", "e69f00", "009e73", "f0e442",
                                                           "cc79a7", "0072b2", "d55e00"};
/// A head's colour for its reductions: darker.
inline constexpr std::array<const char*, 7> kReduceColors = {"2a7fb0", "a06e00", "00664a", "a89c1c",
                                                             "94496f", "004c78", "963f00"};

[[nodiscard]] inline std::size_t color_of(std::int32_t head) {
  return static_cast<std::size_t>(head) % kHeadColors.size();
}

/// What a picture's times are written in: its axis and its words alike.
[[nodiscard]] inline TimeUnit unit_of(const Timeline& timeline) {
  return stagger::unit_of(timeline.clock, timeline.makespan);
}

/// The tags of an overlay's timelines whose ends are dotted lines: `p ends`, `1, 2 end`.
[[nodiscard]] std::string dotted_ends(const Timeline& overlay);
/// That of the last one, whose end is a solid line.
[[nodiscard]] std::string solid_end(const Timeline& overlay);

/// What the rows of an overlay are, from above: `p predicted: 24.38 µs`, `m measured on NVIDIA
/// H200: 25.00 µs (+2.5 %)`, each but the first with its difference to that. The unit's name is
/// given.
[[nodiscard]] std::vector<std::string> layer_lines(const Timeline& overlay, const char* unit);

}  // namespace stagger::sim
