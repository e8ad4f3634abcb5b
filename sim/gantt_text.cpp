#include "sim/gantt_text.hpp"

#include "core/printable.hpp"
#include "sim/chart.hpp"
#include "sim/in_flight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <sstream>
#include <vector>

namespace stagger::sim {
namespace {

constexpr std::size_t kPhases = std::size(kPhaseNames);

/// What a column shows.
struct Cell {
  char32_t glyph = U' ';
  std::int32_t head = -1;  ///< for its colour; -1 = none
};

std::string utf8(char32_t glyph) {
  if (glyph < 0x80) return {static_cast<char>(glyph)};
  if (glyph < 0x800) {
    return {static_cast<char>(0xc0 | (glyph >> 6)), static_cast<char>(0x80 | (glyph & 0x3f))};
  }
  return {static_cast<char>(0xe0 | (glyph >> 12)), static_cast<char>(0x80 | ((glyph >> 6) & 0x3f)),
          static_cast<char>(0x80 | (glyph & 0x3f))};
}

class Text {
 public:
  Text(const Timeline& timeline, const TextOptions& options)
      : timeline_(timeline),
        options_(options),
        unit_(unit_of(timeline)),
        split_(chart_of(timeline, 0).split_rows),
        endless_(endless_waits(timeline)),
        layers_(timeline.rows_per_sm()),
        label_(static_cast<int>(std::to_string(std::max(timeline.sms - 1, 0)).size()) +
               (layers_ > 1 ? 6 : 5)),
        columns_(std::max(options.width, 20) - label_ - 1) {
    // Several columns a tick if there is room, else several ticks a column.
    const Ticks makespan = std::max<Ticks>(timeline.makespan, 1);
    per_tick_ = std::clamp<Ticks>(columns_ / makespan, 1, 4);
    per_column_ = (makespan - 1) / columns_ + 1;
    if (per_column_ > 1) per_tick_ = 1;
  }

  std::string draw() {
    const std::int32_t sms = timeline_.sms;
    const std::int32_t shown = options_.max_rows > 0 ? std::min(options_.max_rows, sms) : sms;
    const std::int32_t head = shown < sms ? (shown + 1) / 2 : sms;
    expect_few(std::int64_t{shown} * layers_);
    for (std::int32_t row = 0; row < head * layers_; ++row)
      draw_row(row);
    if (shown < sms) text_ += fmt::format("{} {} more SMs\n", glyph(U'…', '~'), sms - shown);
    for (std::int32_t row = (sms - (shown - head)) * layers_; row < sms * layers_; ++row)
      draw_row(row);
    curve_ = in_flight_curve(timeline_, shown_columns());
    if (!curve_.empty()) draw_curve();
    return text_ + axis() + footer();
  }

 private:
  [[nodiscard]] const char* unit_name() const {
    return options_.unicode ? unit_.name : unit_.ascii;
  }
  [[nodiscard]] std::string glyph(char32_t unicode, char ascii) const {
    return options_.unicode ? utf8(unicode) : std::string(1, ascii);
  }
  [[nodiscard]] char32_t pick(char32_t unicode, char ascii) const {
    return options_.unicode ? unicode : static_cast<char32_t>(ascii);
  }
  [[nodiscard]] std::int64_t column(Ticks time) const {
    return per_column_ > 1 ? time / per_column_ : time * per_tick_;
  }

  /// `SM 12  `; of an overlay `SM 12 p ` and `      m `.
  [[nodiscard]] std::string label_of(std::int32_t row) const {
    if (layers_ == 1) return fmt::format("SM {:<{}}", row, label_ - 3);
    const auto layer = static_cast<std::size_t>(row % layers_);
    return fmt::format("{:<{}}{} ", layer == 0 ? fmt::format("SM {}", row / layers_) : "",
                       label_ - 2, timeline_.layers[layer].tag);
  }

  [[nodiscard]] std::span<const Interval> intervals_of(std::int32_t row) const {
    const auto by_row = [&](const Interval& interval) { return timeline_.row_of(interval); };
    const auto begin = std::ranges::lower_bound(timeline_.intervals, row, {}, by_row);
    return {begin, std::ranges::upper_bound(timeline_.intervals, row, {}, by_row)};
  }

  void draw_row(std::int32_t row_of) {
    const std::string label = label_of(row_of);
    const std::span<const Interval> intervals = intervals_of(row_of);
    if (!split_) {
      row(label, intervals, [](Phase) { return true; });
      return;
    }
    const auto writes = [](Phase phase) {
      return phase == Phase::reduce || phase == Phase::reduce_kv || phase == Phase::wait;
    };
    row(label, intervals, [&](Phase phase) { return !writes(phase); });
    row(std::string(static_cast<std::size_t>(label_), ' '), intervals, writes);
  }

  /// The columns up to the makespan.
  [[nodiscard]] int shown_columns() const {
    const Ticks makespan = std::max<Ticks>(timeline_.makespan, 1);
    return static_cast<int>(std::clamp<Ticks>(
        per_column_ > 1 ? (makespan - 1) / per_column_ + 1 : makespan * per_tick_, 1, columns_));
  }

  /// dQ tiles in flight, in eighths of the most.
  void draw_curve() {
    std::vector<Cell> cells;
    for (const std::int64_t bytes : curve_.columns) {
      const auto part = static_cast<double>(bytes) / static_cast<double>(curve_.most);
      const auto eighths = static_cast<std::int32_t>(std::ceil(8 * part));
      const char32_t bar =
          pick(U'▁' + static_cast<char32_t>(eighths - 1), static_cast<char>('0' + eighths));
      cells.push_back({eighths == 0 ? U' ' : bar, -1});
    }
    text_ += fmt::format("{:<{}}", "dQ", label_) + paint(cells) + "\n";
  }

  /// What happens within one column, by phase.
  struct Column {
    std::array<double, kPhases> ticks = {};  ///< not integers: a measured timeline's may overflow
    std::array<const Interval*, kPhases> last = {};
  };

  /// One row: every column shows the phase that has most of its ticks; a reduction wins a tie.
  template <class Wanted>
  void row(const std::string& label, std::span<const Interval> intervals, Wanted wanted) {
    std::vector<Column> columns(static_cast<std::size_t>(columns_));
    for (const Interval& interval : intervals) {
      if (wanted(interval.phase) && interval.start < interval.end) spread(interval, columns);
    }
    std::vector<Cell> cells(columns.size());
    std::transform(columns.begin(), columns.end(), cells.begin(),
                   [&](const Column& column) { return cell_of(column); });
    if (!intervals.empty() && wanted(Phase::wait) && is_endless(intervals.front())) {
      cells[at(std::min<std::int64_t>(column(timeline_.makespan), columns_ - 1))] = {
          pick(U'×', 'x'), -1};
    }
    for (const Interval& interval : intervals) {
      if (wanted(interval.phase) && interval.phase == Phase::compute) write_q(interval, cells);
    }
    text_ += label + paint(cells) + "\n";
  }

  /// Whether what waits at the end of an interval's row waits for ever.
  [[nodiscard]] bool is_endless(const Interval& interval) const {
    return std::ranges::binary_search(endless_, timeline_.row_of(interval), {}, &EndlessWait::row);
  }

  /// Adds an interval to the columns that it touches.
  void spread(const Interval& interval, std::vector<Column>& columns) const {
    const auto phase = static_cast<std::size_t>(interval.phase);
    const std::int64_t end = std::min<std::int64_t>(column(interval.end - 1) + per_tick_, columns_);
    for (std::int64_t at = column(interval.start); at < end; ++at) {
      Column& touched = columns[static_cast<std::size_t>(at)];
      const Ticks begin = at * per_column_ / per_tick_;
      const Ticks from = std::max(interval.start, begin);
      const Ticks to = begin + std::min(interval.end - begin, per_column_);
      touched.ticks[phase] += static_cast<double>(to - from);
      touched.last[phase] = &interval;
    }
  }

  [[nodiscard]] Cell cell_of(const Column& column) const {
    constexpr Phase kByImportance[] = {Phase::reduce, Phase::reduce_kv, Phase::compute,
                                       Phase::wait,   Phase::launch,    Phase::epilogue};
    const Interval* shown = nullptr;
    double most = 0;
    for (const Phase phase : kByImportance) {
      const auto at = static_cast<std::size_t>(phase);
      if (column.ticks[at] <= most) continue;
      most = column.ticks[at];
      shown = column.last[at];
    }
    return shown == nullptr ? Cell{} : cell_of(*shown);
  }

  [[nodiscard]] Cell cell_of(const Interval& interval) const {
    const std::int32_t head = interval.task.head.value;
    switch (interval.phase) {
      case Phase::compute:
        return {head % 2 == 0 ? pick(U'░', '-') : pick(U'▒', '='), head};
      case Phase::reduce:
        return {pick(U'█', '#'), head};
      case Phase::reduce_kv:
        return {pick(U'▓', '%'), head};
      case Phase::wait:
        return {pick(U'·', '.'), -1};
      case Phase::launch:
        return {U'<', -1};
      case Phase::epilogue:
        break;
    }
    return {U'>', -1};
  }

  /// The Q tile at the start of its compute phase, if that has a column to spare.
  void write_q(const Interval& interval, std::vector<Cell>& cells) const {
    const std::string digits = std::to_string(interval.task.q.value);
    const std::int64_t first = column(interval.start);
    const std::int64_t room = (interval.end - interval.start) / per_column_ * per_tick_;
    if (room < std::ssize(digits) || first + std::ssize(digits) > columns_) return;
    if (room == std::ssize(digits) && room > 1) return;  // two numbers would run together
    for (std::size_t at = 0; at < digits.size(); ++at) {
      cells[static_cast<std::size_t>(first) + at] = {static_cast<char32_t>(digits[at]),
                                                     interval.task.head.value};
    }
  }

  /// The cells as text, without trailing blanks, coloured by head if asked for.
  [[nodiscard]] std::string paint(const std::vector<Cell>& cells) const {
    constexpr int kAnsi[] = {36, 33, 32, 93, 35, 34, 31};
    std::size_t length = cells.size();
    while (length > 0 && cells[length - 1].glyph == U' ')
      --length;
    std::string line;
    std::int32_t head = -1;
    for (std::size_t at = 0; at < length; ++at) {
      if (options_.color && cells[at].head != head) {
        head = cells[at].head;
        line += head < 0 ? "\033[0m" : fmt::format("\033[{}m", kAnsi[color_of(head)]);
      }
      line += utf8(cells[at].glyph);
    }
    return head >= 0 ? line + "\033[0m" : line;
  }

  [[nodiscard]] std::string axis() const {
    std::string marks(static_cast<std::size_t>(columns_) + 1, ' ');
    std::string numbers = marks;
    // As many marks as leave room for their numbers.
    const std::size_t digits = unit_.mark(timeline_.makespan).size();
    const auto times = axis_of(timeline_.makespan, columns_ / (static_cast<int>(digits) + 3));
    for (const Ticks time : times) {
      const auto at = static_cast<std::size_t>(std::min<std::int64_t>(column(time), columns_));
      marks[at] = '|';
      const std::string number = unit_.mark(time);
      if (at + number.size() <= numbers.size()) numbers.replace(at, number.size(), number);
    }
    const std::string indent(static_cast<std::size_t>(label_), ' ');
    const auto trimmed = [](std::string line) {
      line.erase(line.find_last_not_of(' ') + 1);
      return line + "\n";
    };
    return trimmed(indent + marks) + trimmed(indent + numbers);
  }

  /// Words, broken into lines of the width.
  [[nodiscard]] std::string footer() const {
    std::vector<std::string> parts = layer_lines(timeline_, unit_name());
    for (std::string& part : parts)  // it names devices
      part = options_.unicode ? printable(part) : printable_ascii(part);
    if (parts.empty()) {
      parts = {fmt::format("{} {} {}", timeline_.end_words(), unit_.number(timeline_.makespan),
                           unit_name())};
    }
    if (timeline_.lower_bound > 0) {
      parts.push_back("lower bound " + unit_.number(timeline_.lower_bound));
    }
    if (per_column_ > 1) {
      parts.push_back(fmt::format("{} {} a column", unit_.number(per_column_), unit_name()));
    }
    parts.push_back(fmt::format("{} {} compute (even, odd heads; number: Q tile)", glyph(U'░', '-'),
                                glyph(U'▒', '=')));
    parts.push_back(glyph(U'█', '#') + " reduce");
    const bool combines = std::ranges::any_of(timeline_.intervals, [](const Interval& interval) {
      return interval.phase == Phase::reduce_kv;
    });
    if (combines) parts.push_back(glyph(U'▓', '%') + " reduce into dK, dV");
    parts.push_back(glyph(U'·', '.') + " wait");
    if (!endless_.empty()) parts.push_back(glyph(U'×', 'x') + " waits for ever");
    if (!curve_.empty()) parts.push_back(curve_.words);
    std::string text;
    std::size_t used = 0;
    for (const std::string& part : parts) {
      if (used > 0 && used + 2 + columns_of(part) <= width()) {
        text += "; ";
        used += 2;
      } else if (used > 0) {
        text += "\n";
        used = 0;
      }
      add_words(part, text, used);
    }
    return text + "\n";
  }

  /// Appends words to a text whose last line has `used` columns, and breaks lines between them.
  void add_words(const std::string& words, std::string& text, std::size_t& used) const {
    std::istringstream stream(words);
    bool first = true;
    for (std::string word; stream >> word; first = false) {
      if (!first && used + 1 + columns_of(word) > width()) {
        text += "\n";
        used = 0;
      } else if (!first) {
        text += " ";
        ++used;
      }
      text += word;
      used += columns_of(word);
    }
  }

  [[nodiscard]] std::size_t width() const {
    return static_cast<std::size_t>(label_) + static_cast<std::size_t>(columns_) + 1;
  }

  /// Columns of a text: its code points.
  static std::size_t columns_of(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
    }));
  }

  const Timeline& timeline_;
  const TextOptions& options_;
  TimeUnit unit_;
  bool split_;
  std::vector<EndlessWait> endless_;
  std::int32_t layers_;  ///< rows of an SM
  int label_;
  int columns_;
  InFlightCurve curve_;
  Ticks per_tick_ = 1;    ///< columns a tick
  Ticks per_column_ = 1;  ///< ticks a column
  std::string text_;
};

}  // namespace

std::string gantt_text(const Timeline& timeline, const TextOptions& options) {
  return Text(timeline, options).draw();
}

}  // namespace stagger::sim
