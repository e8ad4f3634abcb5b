#include "sim/trace_json.hpp"

#include "core/json_value.hpp"
#include "sim/chart.hpp"
#include "sim/trace_rows.hpp"

#include <fmt/format.h>

namespace stagger::sim {
namespace {

class Trace {
 public:
  explicit Trace(const Timeline& timeline)
      : timeline_(timeline), nanoseconds_(timeline.clock == "ns") {}

  std::string write() {
    expect_few(timeline_.rows(), "trace");
    threads_ = threads_of(timeline_);
    name_rows();
    for (const Interval& interval : timeline_.intervals)
      add_phase(interval);
    add_flows();
    return fmt::format(
        "{{\"displayTimeUnit\": \"ns\",\n\"otherData\": {{\"schema\": \"stagger.trace/1\", "
        "\"title\": {}, \"clock\": {}, \"note\": {}}},\n\"traceEvents\": [{}\n]}}\n",
        json_quote(timeline_.title), json_quote(timeline_.clock), json_quote(note()), events_);
  }

 private:
  void add(const std::string& event) { events_ += (events_.empty() ? "\n" : ",\n") + event; }

  /// Microseconds, exactly.
  [[nodiscard]] std::string time(Ticks ticks) const {
    if (!nanoseconds_) return std::to_string(ticks);
    return fmt::format("{}.{:03}", ticks / 1000, ticks % 1000);
  }

  [[nodiscard]] std::string note() const {
    if (!nanoseconds_) {
      return "model time: " + unit_shown(timeline_, "one") + " is shown as one microsecond";
    }
    return origin_words(timeline_);
  }

  /// A process per SM; in an overlay, per SM and timeline.
  void name_rows() {
    for (const TraceThread& thread : threads_.threads) {
      if (thread.place == 0) name_row(thread.row);
      add(
          fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":"
                      "{{\"name\":\"{}\"}}}}",
                      thread.row, thread.place, thread.name("writer")));
    }
  }

  void name_row(std::int32_t row) {
    add(fmt::format(
        "{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}", row,
        json_quote(row_name(timeline_, row))));
    add(
        fmt::format("{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_sort_index\",\"args\":"
                    "{{\"sort_index\":{0}}}}}",
                    row));
  }

  [[nodiscard]] std::int32_t thread_of(const Interval& interval) const {
    return threads_.thread_of(&interval - timeline_.intervals.data()).place;
  }

  void add_phase(const Interval& interval) {
    const auto& [head, kv, q] = interval.task;
    add(fmt::format(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{} h{} kv{} q{}\","
        "\"cat\":\"{}\",\"args\":{{\"head\":{},\"kv\":{},\"q\":{},\"rank\":{},\"phase\":\"{}\"{}}}}"
        "}",
        timeline_.row_of(interval), thread_of(interval), time(interval.start),
        time(interval.end - interval.start), phase_name(interval.phase), head.value, kv.value,
        q.value, phase_name(interval.phase), head.value, kv.value, q.value, interval.rank,
        phase_name(interval.phase), interval.critical ? ",\"critical\":true" : ""));
  }

  /// Arrows along the critical path, from SM to SM.
  void add_flows() {
    for (const CriticalArrow& arrow : critical_arrows(timeline_)) {
      add_flow("s", arrow.number, *arrow.from, arrow.from->start);
      add_flow("f\",\"bp\":\"e", arrow.number, *arrow.to, arrow.to->start);
    }
  }

  void add_flow(const char* phase, std::size_t id, const Interval& interval, Ticks at) {
    add(
        fmt::format("{{\"ph\":\"{}\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"name\":\"critical "
                    "path\",\"cat\":\"critical\"}}",
                    phase, id, timeline_.row_of(interval), thread_of(interval), time(at)));
  }

  const Timeline& timeline_;
  bool nanoseconds_;
  TraceThreads threads_;
  std::string events_;
};

}  // namespace

std::string trace_json(const Timeline& timeline) {
  return Trace(timeline).write();
}

}  // namespace stagger::sim
