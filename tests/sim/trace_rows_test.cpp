#include "sim/trace_rows.hpp"

#include "tests/support/catch.hpp"

#include <cstdint>
#include <vector>

namespace stagger::sim {
namespace {

TEST_CASE("what overlaps in a row is in threads of its own") {
  const auto threads = [](const std::vector<Interval>& intervals) {
    return threads_of({.sms = 1, .heads = 1, .intervals = intervals}).of;
  };
  const auto compute = [](Ticks start, Ticks end) {
    return Interval{.sm = Sm{0}, .task = {}, .start = start, .end = end};
  };
  using Places = std::vector<std::int32_t>;
  CHECK(threads({compute(0, 10), compute(10, 12)}) == Places{0, 0});
  CHECK(threads({compute(0, 10), compute(4, 12), compute(11, 13)}) == Places{0, 2, 0});
  // An empty one where another has begun just now is no overlap; within another it is.
  CHECK(threads({compute(0, 10), compute(0, 0)}) == Places{0, 0});
  CHECK(threads({compute(0, 10), compute(4, 4)}) == Places{0, 2});
  // What writes is in the row's second thread.
  Interval reduction = compute(4, 6);
  reduction.phase = Phase::reduce;
  CHECK(threads({compute(0, 10), reduction}) == Places{0, 1});
}

}  // namespace
}  // namespace stagger::sim
