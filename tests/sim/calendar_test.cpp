#include "sim/calendar.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <vector>

namespace stagger::sim {
namespace {

TEST_CASE("of actors due at one time the first is first, and who is taken is not due") {
  Calendar due(3, 10);
  CHECK(due.take() == Calendar::kNobody);
  for (const std::int32_t actor : {2, 0, 1})
    due.add(actor, 7);
  for (std::int32_t actor = 0; actor < 3; ++actor) {
    CHECK(due.take() == actor);
    CHECK(due.now() == 7);
  }
  CHECK(due.take() == Calendar::kNobody);
}

TEST_CASE("the first of a calendar is the least of all, whatever was added and however late") {
  test::Random random(test::seed(74));
  constexpr Ticks kNever = INT64_MAX;
  std::int64_t ties = 0;
  std::int64_t late = 0;
  for (int round = 0; round < 400; ++round) {
    const auto actors = static_cast<std::int32_t>(random.between(1, 300));
    const Ticks usual = random.between(0, 200);
    // Within the pages, or beyond them by little or by much.
    const Ticks longest = random.chance(2) ? 20 : random.chance(2) ? 3 * usual + 100 : 1 << 20;
    Calendar due(actors, usual);
    std::vector<Ticks> times(at(actors), kNever);
    for (int step = 0; step < 600; ++step) {
      const auto actor = static_cast<std::int32_t>(random.between(0, actors - 1));
      if (times[at(actor)] == kNever) {
        times[at(actor)] = due.now() + random.between(0, longest);
        late += times[at(actor)] - due.now() > usual ? 1 : 0;
        due.add(actor, times[at(actor)]);
      }
      if (!random.chance(2)) continue;
      const auto least = std::ranges::min_element(times);
      CAPTURE(round, step, actors, usual, longest);
      REQUIRE(due.take() == least - times.begin());
      REQUIRE(due.now() == *least);
      ties += std::ranges::count(times, *least) > 1 ? 1 : 0;
      *least = kNever;
      if (std::ranges::count(times, kNever) == actors) REQUIRE(due.take() == Calendar::kNobody);
    }
  }
  CHECK(ties > 5'000);
  CHECK(late > 5'000);
}

TEST_CASE("the first of a set from a number on is found wherever it is") {
  test::Random random(test::seed(75));
  for (const std::size_t size : {1, 63, 64, 65, 4'096, 10'000}) {
    BitSet set(size);
    std::vector<bool> holds(size, false);
    for (int step = 0; step < 300; ++step) {
      const std::size_t number = at(random.between(0, static_cast<std::int64_t>(size) - 1));
      holds[number] = random.chance(2);
      if (holds[number]) {
        set.insert(number);
      } else {
        set.erase(number);
      }
      const std::size_t from = at(random.between(0, static_cast<std::int64_t>(size) - 1));
      std::size_t first = from;
      while (first < size && !holds[first])
        ++first;
      CAPTURE(size, step, from);
      REQUIRE(set.first_from(from) == first);
    }
  }
}

}  // namespace
}  // namespace stagger::sim
