#include "sim/tournament.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <vector>

namespace stagger::sim {
namespace {

TEST_CASE("of SMs due at one time the first is first, and who is dropped is not due") {
  Tournament due(3);
  CHECK(due.time() == Tournament::kNever);
  for (const std::int32_t sm : {2, 0, 1})
    due.hasten({sm}, 7);
  for (std::int32_t sm = 0; sm < 3; ++sm) {
    CHECK(due.first() == Sm{sm});
    CHECK(due.time() == 7);
    due.drop_first();
  }
  CHECK(due.time() == Tournament::kNever);
}

TEST_CASE("the first of a tournament is the least of all, whatever was hastened and dropped") {
  test::Random random(test::seed(74));
  std::int64_t ties = 0;
  for (int round = 0; round < 300; ++round) {
    const auto sms = static_cast<std::int32_t>(random.between(1, 40));
    Tournament due(sms);
    std::vector<Ticks> times(at(sms), Tournament::kNever);
    for (int step = 0; step < 200; ++step) {
      const auto sm = static_cast<std::int32_t>(random.between(0, sms - 1));
      const Ticks time = random.between(0, 30);
      if (time <= times[at(sm)]) due.hasten({sm}, times[at(sm)] = time);
      const auto least = std::ranges::min_element(times);
      CAPTURE(round, step);
      REQUIRE(due.time() == *least);
      if (*least == Tournament::kNever) continue;
      REQUIRE(due.first().value == least - times.begin());
      ties += std::ranges::count(times, *least) > 1 ? 1 : 0;
      if (!random.chance(3)) continue;
      due.drop_first();
      *least = Tournament::kNever;
    }
  }
  CHECK(ties > 5'000);
}

}  // namespace
}  // namespace stagger::sim
