// What buffers, pairs of tiles and bytes cost a design, and the unit that its timeline says.

#include "core/timeline.hpp"
#include "tests/designs/played.hpp"
#include "tests/support/catch.hpp"
#include "workbench/designs/analysis.hpp"
#include "workbench/designs/design.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace stagger::designs {
namespace {

/// The request in ns, with a device memory of `rate` bytes a ns.
Request timed(Request request, std::int64_t rate) {
  request.model.clock = workbench::Clock::ns;
  request.model.timing.compute = 901;
  request.model.timing.reduce = 333;
  request.model.timing.memory = Memory{.l2 = 1'000'000, .rate = rate};
  return request;
}

TEST_CASE("buffers that cost more time than their workers save are not the best") {
  int fewer = 0;
  for (const std::int64_t heads : {1, 3, 6}) {
    for (const std::int64_t rate : {1, 10, 100, 4'000}) {
      const Request request = timed(
          request_of(make_problem(make_mask("causal"), {1100, 1100}, {128, 128}, heads, 16)), rate);
      const Analysis best = analyze(select("split-best"), request);
      Ticks least = std::numeric_limits<Ticks>::max();
      Ticks least_of_lanes = least;
      for (int buffers = 1; buffers <= 9; ++buffers) {
        const Analysis each = analyze(select("split:buffers=" + std::to_string(buffers)), request);
        least = std::min(least, each.takes());
        least_of_lanes = std::min(least_of_lanes, each.makespan);
      }
      CAPTURE(heads, rate, best.plan.note);
      CHECK(best.takes() == least);
      fewer += best.makespan > least_of_lanes ? 1 : 0;
    }
  }
  CHECK(fewer > 2);
}

TEST_CASE("dQ buffers are cleared and read as they are stored, rounded up") {
  Request request = request_of(make_problem(make_mask("full"), {100, 100}, {64, 64}, 3, 6));
  request.head_dim = 80;
  request.element_bytes = 2;
  const Plan plan = designs::plan(select("split:buffers=2"), request);
  const std::int64_t stored = 4 * 2 * 3 * 128 * 96;
  CHECK(plan.workspace_bytes == stored);
  CHECK(plan.passes[0].bytes == stored);
  CHECK(plan.passes[2].bytes == stored + 2 * 3 * 100 * 80);
}

TEST_CASE("a pair of KV tiles takes as long as the dearer of those that are live") {
  const auto takes = [](const char* rows, Ticks partial) {
    Request request =
        request_of(make_problem(parse_mask(std::string("tiles:rows=") + rows), {1, 2}, {}, 1, 2));
    request.model.timing.compute = 10;
    request.model.timing.compute_partial = partial;
    request.model.timing.reduce = 2;
    return analyze(select("cluster"), request).makespan;
  };
  CHECK(takes("f+f", 1) == 11);
  CHECK(takes("f+.", 1) == 11);
  CHECK(takes(".+f", 30) == 11);
  CHECK(takes("f+p", 1) == 11);
  CHECK(takes("f+p", 30) == 31);
  CHECK(takes("p+.", 30) == 31);
}

TEST_CASE("clusters take longer the slower device memory is, by any rate") {
  Ticks before = std::numeric_limits<Ticks>::max();
  for (const std::int64_t rate : {1, 2, 3, 4, 5, 7}) {
    Request request = request_of(make_problem(make_mask("full"), {256, 256}, {64, 64}, 2, 4));
    request.schedule = schedules::select("shift");
    request.model.timing.memory = Memory{
        .l2 = 1, .rate = rate, .tile = {.q = 4000, .dq = 3000, .kv = 5000, .gradient = 7000}};
    const Ticks takes = analyze(select("cluster"), request).makespan;
    CAPTURE(rate, takes);
    CHECK(takes < before);
    before = takes;
  }
}

TEST_CASE("a design's timeline ends when its kernels do, in whole ns or in parts of a tick") {
  for (const char* name : {"split", "two-pass", "two-pass:launches=2", "cluster"}) {
    CAPTURE(name);
    const Problem problem = causal(6, 2, 4);
    const Analysis ns = analyze(select(name), timed(request_of(problem), 1'000'000));
    const Timeline timed_line = timeline_of(ns, problem);
    CHECK(ns.plan.units > 1);
    CHECK(timed_line.clock == "ns");
    CHECK(timed_line.makespan <= ns.makespan);
    CHECK(timed_line.makespan >= ns.makespan - std::ssize(ns.stages));
    CHECK(timed_line.lower_bound <= timed_line.makespan);
    for (const Interval& interval : timed_line.intervals)
      REQUIRE(interval.end <= timed_line.makespan);
    Request odd = request_of(problem);
    odd.model.timing.compute = 4;
    odd.model.timing.reduce = 1;
    const Analysis parts = analyze(select(name), odd);
    const Timeline line = timeline_of(parts, problem);
    CHECK(line.clock == "ticks/" + std::to_string(parts.plan.units));
    CHECK((line.makespan + parts.plan.units - 1) / parts.plan.units == parts.makespan);
  }
}

}  // namespace
}  // namespace stagger::designs
