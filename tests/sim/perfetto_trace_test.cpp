// The native trace, decoded by a reader that knows protocol buffers alone, against the timeline.

#include "sim/perfetto_trace.hpp"

#include "core/error.hpp"
#include "sim/trace_json.hpp"
#include "tests/sim/drawn.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagger::sim {
namespace {

/// A message's fields in their order: numbers, or bytes.
struct Field {
  std::uint64_t number;
  std::uint64_t value = 0;
  std::string_view bytes = {};
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE_FALSE(bytes.empty());
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields_of(std::string_view bytes) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    const std::uint64_t tag = take_varint(bytes);
    Field field{.number = tag >> 3};
    std::size_t size = 0;
    if (tag % 8 == 0) {
      field.value = take_varint(bytes);
    } else if (tag % 8 == 1) {
      size = 8;
      for (std::size_t byte = 0; byte < 8; ++byte)
        field.value |= std::uint64_t{static_cast<unsigned char>(bytes.at(byte))} << 8 * byte;
    } else {
      REQUIRE(tag % 8 == 2);
      size = take_varint(bytes);
    }
    REQUIRE(size <= bytes.size());
    if (tag % 8 == 2) field.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    fields.push_back(field);
  }
  return fields;
}

Field only(const std::vector<Field>& fields, std::uint64_t number) {
  Field found{.number = 0};
  for (const Field& field : fields) {
    if (field.number != number) continue;
    REQUIRE(found.number == 0);
    found = field;
  }
  return found;
}

/// What a viewer makes of a trace: slices by the names of their tracks, and arrows.
struct Seen {
  std::vector<std::string> slices;
  std::vector<std::pair<std::string, std::string>> arrows;
  std::string root;
};

/// Fails where a viewer would drop something.
Seen seen_in(const std::string& trace) {
  Seen seen;
  std::map<std::uint64_t, std::string> tracks;
  struct Open {
    std::string name;
    std::uint64_t begin;
    std::vector<std::uint64_t> out = {}, in = {};
  };
  std::map<std::uint64_t, std::vector<Open>> open;
  std::map<std::uint64_t, std::string> leaves, arrives;
  std::uint64_t now = 0;
  for (const Field& packet : fields_of(trace)) {
    REQUIRE(packet.number == 1);
    const std::vector<Field> fields = fields_of(packet.bytes);
    if (const Field descriptor = only(fields, 60); descriptor.number != 0) {
      const std::vector<Field> track = fields_of(descriptor.bytes);
      const std::uint64_t parent = only(track, 5).value;
      const std::string name(only(track, 2).bytes);
      REQUIRE((parent == 0 || tracks.contains(parent)));
      if (parent == 0) seen.root = name;
      const std::string path = parent <= 1 ? name : tracks.at(parent) + "/" + name;
      REQUIRE(tracks.emplace(only(track, 1).value, path).second);
      CHECK(only(track, 11).value == 3);
      CHECK(only(track, 15).value == 2);
      continue;
    }
    REQUIRE(only(fields, 10).value != 0);
    REQUIRE(only(fields, 8).value >= now);
    now = only(fields, 8).value;
    const std::vector<Field> event = fields_of(only(fields, 11).bytes);
    const std::uint64_t uuid = only(event, 11).value;
    REQUIRE(tracks.contains(uuid));
    if (only(event, 9).value == 1) {
      Open slice{.name = std::string(only(event, 23).bytes), .begin = now};
      if (const Field flow = only(event, 47); flow.number != 0) slice.out.push_back(flow.value);
      if (const Field flow = only(event, 48); flow.number != 0) slice.in.push_back(flow.value);
      open[uuid].push_back(slice);
      continue;
    }
    REQUIRE(only(event, 9).value == 2);
    REQUIRE_FALSE(open[uuid].empty());
    const Open slice = open[uuid].back();
    open[uuid].pop_back();
    seen.slices.push_back(tracks.at(uuid) + " " + slice.name + " " + std::to_string(slice.begin) +
                          "-" + std::to_string(now));
    for (const std::uint64_t id : slice.out)
      REQUIRE(leaves.emplace(id, seen.slices.back()).second);
    for (const std::uint64_t id : slice.in)
      REQUIRE(arrives.emplace(id, seen.slices.back()).second);
  }
  for (const auto& [track, slices] : open)
    CHECK(slices.empty());
  CHECK(leaves.size() == arrives.size());
  for (const auto& [id, slice] : leaves)
    seen.arrows.emplace_back(slice, arrives.at(id));
  std::ranges::sort(seen.slices);
  return seen;
}

/// The same of the timeline itself.
std::vector<std::string> slices_of(const Timeline& timeline) {
  std::vector<std::string> slices;
  const Ticks unit = timeline.clock == "ns" ? 1 : 1000;
  for (const Interval& interval : timeline.intervals) {
    const bool writes = interval.phase == Phase::wait || interval.phase == Phase::reduce ||
                        interval.phase == Phase::reduce_kv;
    const std::string sm = std::to_string(1000 + interval.sm.value).substr(1);
    slices.push_back(
        "SM " + sm + (writes ? "/dQ " : "/compute ") + phase_name(interval.phase) + " h" +
        std::to_string(interval.task.head.value) + " kv" + std::to_string(interval.task.kv.value) +
        " q" + std::to_string(interval.task.q.value) + " " + std::to_string(interval.start * unit) +
        "-" + std::to_string(interval.end * unit));
  }
  std::ranges::sort(slices);
  return slices;
}

TEST_CASE("a viewer sees every interval of a timeline in its own track") {
  test::Random random(test::seed(11));
  std::size_t slices = 0;
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Timeline drawn = drawn_timeline(random, 5);
    const Seen seen = seen_in(perfetto_trace(drawn));
    CHECK(seen.slices == slices_of(drawn));
    CHECK(seen.root == "drawn (predicted, 1 tick shown as 1 µs)");
    slices += seen.slices.size();
    Timeline in_parts = drawn;
    in_parts.clock = "ticks/2";
    CHECK(seen_in(perfetto_trace(in_parts)).root == "drawn (predicted, 1/2 tick shown as 1 µs)");
  }
  CHECK(slices > 1000);
}

TEST_CASE(
    "arrows of a trace go along the critical path from SM to SM, and measured times are exact") {
  Timeline timeline{.clock = "ns", .device = "D", .sms = 2, .heads = 1, .makespan = 12};
  const Task first{Head{0}, KvTile{0}, QTile{0}};
  const Task second{Head{0}, KvTile{1}, QTile{0}};
  timeline.intervals = {
      {.sm = Sm{0}, .task = first, .phase = Phase::compute, .start = 0, .end = 5, .critical = true},
      {.sm = Sm{0}, .task = first, .phase = Phase::reduce, .start = 5, .end = 8, .critical = true},
      {.sm = Sm{1}, .task = second, .phase = Phase::compute, .start = 0, .end = 8},
      {.sm = Sm{1}, .task = second, .phase = Phase::wait, .start = 8, .end = 8},
      {.sm = Sm{1},
       .task = second,
       .phase = Phase::reduce,
       .start = 8,
       .end = 12,
       .rank = 1,
       .critical = true}};
  const Seen seen = seen_in(perfetto_trace(timeline));
  CHECK(seen.slices == slices_of(timeline));
  CHECK(seen.arrows == std::vector<std::pair<std::string, std::string>>{
                           {"SM 000/dQ reduce h0 kv0 q0 5-8", "SM 001/dQ reduce h0 kv1 q0 8-12"}});
  CHECK(seen.root.ends_with("(measured, device D)"));
  timeline.clock = "ticks";
  timeline.intervals.back().end = timeline.makespan = Ticks{1} << 60;
  CHECK_THROWS_AS(perfetto_trace(timeline), Error);
}

TEST_CASE("what overlaps on an SM is in threads of its own, in both traces") {
  const Task task{Head{0}, KvTile{0}, QTile{0}};
  Timeline timeline{.clock = "ns", .device = "D", .sms = 2, .heads = 1, .makespan = 12};
  const auto add = [&](std::int32_t sm, Phase phase, Ticks start, Ticks end) {
    timeline.intervals.push_back(
        {.sm = Sm{sm}, .task = task, .phase = phase, .start = start, .end = end});
  };
  add(0, Phase::compute, 0, 5);
  add(0, Phase::compute, 3, 8);
  add(0, Phase::compute, 5, 9);
  add(1, Phase::reduce, 0, 5);
  add(1, Phase::reduce, 1, 5);
  add(1, Phase::reduce, 4, 6);
  const std::string name = " h0 kv0 q0 ";
  CHECK(seen_in(perfetto_trace(timeline)).slices ==
        std::vector<std::string>{
            "SM 000/compute 2 compute" + name + "3-8", "SM 000/compute compute" + name + "0-5",
            "SM 000/compute compute" + name + "5-9", "SM 001/dQ 2 reduce" + name + "1-5",
            "SM 001/dQ 3 reduce" + name + "4-6", "SM 001/dQ reduce" + name + "0-5"});
  const std::string json = trace_json(timeline);
  for (const char* part :
       {R"("pid":0,"tid":2,"name":"thread_name","args":{"name":"compute 2"})",
        R"("pid":1,"tid":3,"name":"thread_name","args":{"name":"writer 3"})",
        R"("pid":0,"tid":2,"ts":0.003,"dur":0.005)", R"("pid":0,"tid":0,"ts":0.005,"dur":0.004)",
        R"("pid":1,"tid":3,"ts":0.004,"dur":0.002)"}) {
    CAPTURE(part);
    CHECK(json.find(part) != std::string::npos);
  }
}

}  // namespace
}  // namespace stagger::sim
