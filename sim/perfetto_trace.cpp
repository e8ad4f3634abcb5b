// A file is a Trace: packets one after the other, field 1. First come the descriptors of the
// tracks, which need no time; then events in the order of their time, all of one sequence. Slices
// nest by their order in the file, so of those that meet at one time the end comes before the
// beginning.

#include "sim/perfetto_trace.hpp"

#include "core/error.hpp"
#include "core/index.hpp"
#include "sim/chart.hpp"
#include "sim/trace_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

// Numbers of fields, by message.
namespace packet {
constexpr int kTimestamp = 8, kSequence = 10, kEvent = 11, kTrack = 60;
}
namespace track {
constexpr int kUuid = 1, kName = 2, kParent = 5, kChildOrder = 11, kRank = 12, kMerge = 15;
constexpr std::uint64_t kExplicit = 3, kNoMerge = 2;
}  // namespace track
namespace event {
constexpr int kAnnotation = 4, kType = 9, kTrack = 11, kCategory = 22, kName = 23, kFlow = 47,
              kEndOfFlow = 48;
constexpr std::uint64_t kBegin = 1, kEnd = 2;
}  // namespace event
namespace annotation {
constexpr int kBool = 2, kInteger = 4, kName = 10;
}

/// A message of protocol buffers as it is written.
class Message {
 public:
  Message& number(int field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
    return *this;
  }
  Message& fixed64(int field, std::uint64_t value) {
    tag(field, 1);
    for (int byte = 0; byte < 8; ++byte)
      bytes_ += static_cast<char>(value >> 8 * byte & 0xFFU);
    return *this;
  }
  Message& text(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& part(int field, const Message& message) { return text(field, message.bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void tag(int field, std::uint64_t type) {
    varint(static_cast<std::uint64_t>(field) << 3U | type);
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U)
      bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

/// A beginning or an end of a slice.
struct SliceEnd {
  Ticks time = 0;
  std::int64_t interval = 0;
  bool begins = false;
};

/// The arrows that leave a slice and arrive at it; 0: none.
struct Flows {
  std::uint64_t out = 0;
  std::uint64_t in = 0;
};

class PerfettoTrace {
 public:
  explicit PerfettoTrace(const Timeline& timeline)
      : timeline_(timeline), nanoseconds_(timeline.clock == "ns" ? 1 : 1000) {}

  std::string write() {
    expect_few(timeline_.rows(), "trace");
    const Ticks most = std::numeric_limits<Ticks>::max() / nanoseconds_;
    if (std::ranges::any_of(timeline_.intervals,
                            [&](const Interval& each) { return each.end > most; })) {
      throw Error(ErrorKind::limit, "times of more than 2^63 ns are not written as a trace");
    }
    threads_ = threads_of(timeline_);
    name_tracks();
    find_flows();
    for (const SliceEnd& each : events())
      add(each);
    return std::move(trace_);
  }

 private:
  static constexpr std::uint64_t kRoot = 1;
  static constexpr std::uint64_t kSequence = 1;

  /// Of a row's own track; the next two are its first threads'.
  [[nodiscard]] static std::uint64_t uuid_of(std::int64_t row) {
    return kRoot + 1 + 3 * static_cast<std::uint64_t>(row);
  }

  /// Of a thread's track; those for what overlaps come behind all rows.
  [[nodiscard]] std::uint64_t uuid_of_thread(std::int64_t thread) const {
    const std::int64_t extra = thread - 2 * timeline_.rows();
    if (extra >= 0) return uuid_of(timeline_.rows()) + static_cast<std::uint64_t>(extra);
    return uuid_of(thread / 2) + 1 + static_cast<std::uint64_t>(thread % 2);
  }

  void add_packet(const Message& packet) { trace_ += Message().part(1, packet).bytes(); }

  void add_track(std::uint64_t uuid, std::uint64_t parent, std::uint64_t rank,
                 const std::string& name) {
    Message message;
    message.number(track::kUuid, uuid).text(track::kName, name);
    if (parent != 0) message.number(track::kParent, parent).number(track::kRank, rank);
    message.number(track::kChildOrder, track::kExplicit).number(track::kMerge, track::kNoMerge);
    add_packet(Message().part(packet::kTrack, message));
  }

  [[nodiscard]] std::string clock_words() const {
    if (nanoseconds_ > 1) return "predicted, " + unit_shown(timeline_, "1") + " shown as 1 µs";
    return origin_words(timeline_);
  }

  void name_tracks() {
    add_track(kRoot, 0, 0, timeline_.title + " (" + clock_words() + ")");
    for (std::int64_t place = 0; place < std::ssize(threads_.threads); ++place) {
      const TraceThread& thread = threads_.threads[at(place)];
      const std::uint64_t row = uuid_of(thread.row);
      if (thread.place == 0) {
        add_track(row, kRoot, static_cast<std::uint64_t>(thread.row),
                  row_name(timeline_, thread.row));
      }
      add_track(uuid_of_thread(place), row, static_cast<std::uint64_t>(thread.place),
                thread.name("dQ"));
    }
  }

  /// Arrows along the critical path, from SM to SM.
  void find_flows() {
    flows_.resize(timeline_.intervals.size());
    const auto flows_of = [&](const Interval* interval) -> Flows& {
      return flows_[static_cast<std::size_t>(interval - timeline_.intervals.data())];
    };
    for (const CriticalArrow& arrow : critical_arrows(timeline_)) {
      flows_of(arrow.from).out = arrow.number;
      flows_of(arrow.to).in = arrow.number;
    }
  }

  /// By time; those of a track as they follow each other there.
  [[nodiscard]] std::vector<SliceEnd> events() const {
    std::vector<SliceEnd> events;
    events.reserve(2 * timeline_.intervals.size());
    for (std::int64_t place = 0; place < std::ssize(timeline_.intervals); ++place) {
      const Interval& interval = timeline_.intervals[at(place)];
      events.push_back({.time = interval.start, .interval = place, .begins = true});
      events.push_back({.time = interval.end, .interval = place});
    }
    std::ranges::stable_sort(events, {}, &SliceEnd::time);
    return events;
  }

  void add(const SliceEnd& of) {
    const Interval& interval = timeline_.intervals[at(of.interval)];
    Message message;
    message.number(event::kType, of.begins ? event::kBegin : event::kEnd)
        .number(event::kTrack, uuid_of_thread(threads_.of[at(of.interval)]));
    if (of.begins) describe(interval, flows_[at(of.interval)], message);
    add_packet(Message()
                   .number(packet::kTimestamp, static_cast<std::uint64_t>(of.time * nanoseconds_))
                   .number(packet::kSequence, kSequence)
                   .part(packet::kEvent, message));
  }

  static void describe(const Interval& interval, const Flows& flows, Message& message) {
    const auto& [head, kv, q] = interval.task;
    message.text(event::kCategory, phase_name(interval.phase))
        .text(event::kName, fmt::format("{} h{} kv{} q{}", phase_name(interval.phase), head.value,
                                        kv.value, q.value));
    for (const auto& [name, value] : {std::pair("head", head.value), std::pair("kv", kv.value),
                                      std::pair("q", q.value), std::pair("rank", interval.rank)}) {
      message.part(
          event::kAnnotation,
          Message()
              .text(annotation::kName, name)
              .number(annotation::kInteger, static_cast<std::uint64_t>(std::int64_t{value})));
    }
    if (interval.critical) {
      message.part(event::kAnnotation,
                   Message().text(annotation::kName, "critical").number(annotation::kBool, 1));
    }
    if (flows.out != 0) message.fixed64(event::kFlow, flows.out);
    if (flows.in != 0) message.fixed64(event::kEndOfFlow, flows.in);
  }

  const Timeline& timeline_;
  Ticks nanoseconds_;  ///< of a unit of the timeline's clock
  TraceThreads threads_;
  std::vector<Flows> flows_;
  std::string trace_;
};

}  // namespace

std::string perfetto_trace(const Timeline& timeline) {
  return PerfettoTrace(timeline).write();
}

}  // namespace stagger::sim
