#include "sim/trace_json.hpp"

#include "core/json_value.hpp"
#include "sim/chart.hpp"

#include <fmt/format.h>

#include <vector>

namespace stagger::sim {
namespace {

int thread_of(Phase phase) {
  return phase == Phase::wait || phase == Phase::reduce || phase == Phase::reduce_kv ? 1 : 0;
}

class Trace {
 public:
  explicit Trace(const Timeline& timeline)
      : timeline_(timeline), nanoseconds_(timeline.clock == "ns") {}

  std::string write() {
    expect_few(timeline_.rows());
    for (std::int32_t row = 0; row < timeline_.rows(); ++row)
      name_row(row);
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
    if (!nanoseconds_) return "model time: one tick is shown as one microsecond";
    if (!timeline_.layers.empty()) return "predicted and measured";
    return timeline_.device.empty() ? "predicted" : "measured, device " + timeline_.device;
  }

  /// A process per SM; in an overlay, per SM and timeline.
  void name_row(std::int32_t row) {
    std::string process = fmt::format("SM {:03}", row / timeline_.rows_per_sm());
    if (!timeline_.layers.empty()) {
      process += " " + timeline_.layers[at(row % timeline_.rows_per_sm())].name;
    }
    add(fmt::format(
        "{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}", row,
        json_quote(process)));
    add(
        fmt::format("{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_sort_index\",\"args\":"
                    "{{\"sort_index\":{0}}}}}",
                    row));
    for (const auto& [thread, name] : {std::pair{0, "compute"}, std::pair{1, "writer"}}) {
      add(
          fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":"
                      "{{\"name\":\"{}\"}}}}",
                      row, thread, name));
    }
  }

  void add_phase(const Interval& interval) {
    const auto& [head, kv, q] = interval.task;
    add(fmt::format(
        "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{} h{} kv{} q{}\","
        "\"cat\":\"{}\",\"args\":{{\"head\":{},\"kv\":{},\"q\":{},\"rank\":{},\"phase\":\"{}\"{}}}}"
        "}",
        timeline_.row_of(interval), thread_of(interval.phase), time(interval.start),
        time(interval.end - interval.start), phase_name(interval.phase), head.value, kv.value,
        q.value, phase_name(interval.phase), head.value, kv.value, q.value, interval.rank,
        phase_name(interval.phase), interval.critical ? ",\"critical\":true" : ""));
  }

  /// Arrows along the critical path, from SM to SM.
  void add_flows() {
    const std::vector<const Interval*> path = critical_intervals(timeline_);
    for (std::size_t place = 1; place < path.size(); ++place) {
      if (timeline_.row_of(*path[place - 1]) == timeline_.row_of(*path[place])) continue;
      add_flow("s", place, *path[place - 1], path[place - 1]->start);
      add_flow("f\",\"bp\":\"e", place, *path[place], path[place]->start);
    }
  }

  void add_flow(const char* phase, std::size_t id, const Interval& interval, Ticks at) {
    add(
        fmt::format("{{\"ph\":\"{}\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"name\":\"critical "
                    "path\",\"cat\":\"critical\"}}",
                    phase, id, timeline_.row_of(interval), thread_of(interval.phase), time(at)));
  }

  const Timeline& timeline_;
  bool nanoseconds_;
  std::string events_;
};

}  // namespace

std::string trace_json(const Timeline& timeline) {
  return Trace(timeline).write();
}

}  // namespace stagger::sim
