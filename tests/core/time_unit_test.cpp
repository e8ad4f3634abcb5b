#include "core/time_unit.hpp"

#include "tests/support/catch.hpp"

#include <limits>

namespace stagger {
namespace {

TEST_CASE("ticks are written as they are, thousands apart") {
  const TimeUnit ticks;
  CHECK(ticks.text(0) == "0 ticks");
  CHECK(ticks.text(1) == "1 tick");
  CHECK(ticks.number(999) == "999");
  CHECK(ticks.number(1'000) == "1,000");
  CHECK(ticks.number(123'456) == "123,456");
  CHECK(ticks.number(-1'234'567) == "-1,234,567");
  CHECK(ticks.number(std::numeric_limits<Ticks>::max()) == "9,223,372,036,854,775,807");
  CHECK(ticks.number(std::numeric_limits<Ticks>::min()) == "-9,223,372,036,854,775,808");
  CHECK(ticks.mark(1'000) == "1,000");
}

TEST_CASE("nanoseconds are written in a unit that suits the longest of them") {
  CHECK(unit_of_ns(0).text(0) == "0 ns");
  CHECK(unit_of_ns(9'999).text(9'999) == "9,999 ns");
  const TimeUnit micro = unit_of_ns(10'000);
  CHECK(micro.text(10'000) == "10.00 µs");
  CHECK(micro.number(9) == "0.01");
  CHECK(micro.number(5) == "0.01");  // a half is rounded up
  CHECK(micro.number(4) == "0.00");
  CHECK(micro.number(99'999'995) == "100,000.00");
  const TimeUnit milli = unit_of_ns(100'000'000);
  CHECK(milli.text(1'234'567'890) == "1,234.568 ms");
  CHECK(milli.number(-1'500) == "-0.002");
}

TEST_CASE("marks of an axis have no zeros behind them") {
  const TimeUnit micro = unit_of_ns(50'000);
  CHECK(micro.mark(20'000) == "20");
  CHECK(micro.mark(2'500) == "2.5");
  CHECK(micro.mark(0) == "0");
  CHECK(micro.mark(1'000'000) == "1,000");
}

TEST_CASE("a clock has its units") {
  CHECK(unit_of("ticks", 1'000'000).text(1'000'000) == "1,000,000 ticks");
  CHECK(unit_of("ns", 1'000'000).text(1'000'000) == "1,000.00 µs");
}

}  // namespace
}  // namespace stagger
