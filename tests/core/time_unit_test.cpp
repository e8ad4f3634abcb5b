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

TEST_CASE("parts of a tick are written as ticks, with the digits that they need") {
  CHECK(clock_of_parts(1) == "ticks");
  CHECK(clock_of_parts(5) == "ticks/5");
  for (const Ticks parts : {1, 2, 3, 5, 10, 999})
    CHECK(parts_of(clock_of_parts(parts)) == parts);
  for (const char* clock : {"", "tick", "ticks/", "ticks/0", "ticks/1", "ticks/-2", "ticks/05",
                            "ticks/5 ", "ticks/9999999999", "ns", "ns/2"})
    CHECK(parts_of(clock) == 0);
  CHECK(unit_of("ticks/2", 9).text(9) == "4.5 ticks");
  CHECK(unit_of("ticks/2", 9).text(2) == "1.0 tick");
  CHECK(unit_of("ticks/2", 9).mark(8) == "4");
  CHECK(unit_of("ticks/5", 9).number(11) == "2.2");
  CHECK(unit_of("ticks/4", 9).number(3) == "0.75");
  CHECK(unit_of("ticks/3", 9).number(2) == "0.667");
  // What is rounded up may be one more whole.
  CHECK(unit_of("ticks/10000", 9).number(9'999) == "1.000");
  CHECK(unit_of("ticks/3", 9).number(std::numeric_limits<Ticks>::max()) ==
        "3,074,457,345,618,258,602.333");
}

}  // namespace
}  // namespace stagger
