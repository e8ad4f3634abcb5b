#include "core/waiting.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <vector>

namespace stagger {
namespace {

/// Who waits for what, in the order in which they came.
struct Waiter {
  Lane lane;
  std::int64_t lock = 0;
  std::int32_t value = 0;
};

TEST_CASE("whoever waits for a value is found by it, and of several the last to come") {
  test::Random random(test::seed(51));
  std::int64_t taken = 0;
  std::int64_t in_vain = 0;
  std::int64_t several = 0;
  for (int round = 0; round < 200; ++round) {
    const auto lanes = static_cast<std::int32_t>(random.between(1, 40));
    Waiting<Lane> waiting(lanes);
    std::vector<Waiter> waiters;
    const std::int64_t far = random.chance(2) ? 0 : (std::int64_t{1} << 28) - 2;
    for (int step = 0; step < 300; ++step) {
      const std::int64_t lock = far + random.between(0, 1);
      const auto value = static_cast<std::int32_t>(random.between(0, 5));
      const Lane lane{static_cast<std::int32_t>(random.between(0, lanes - 1))};
      const auto waits = [&](const Waiter& waiter) { return waiter.lane == lane; };
      if (random.chance(2) && std::ranges::none_of(waiters, waits)) {
        waiting.add(lane, lock, value);
        waiters.push_back({lane, lock, value});
        continue;
      }
      const auto is_asked = [&](const Waiter& waiter) {
        return waiter.lock == lock && waiter.value == value;
      };
      const auto last = std::find_if(waiters.rbegin(), waiters.rend(), is_asked);
      several += std::ranges::count_if(waiters, is_asked) > 1 ? 1 : 0;
      const Lane expected = last == waiters.rend() ? Waiting<Lane>::kNobody : last->lane;
      CAPTURE(round, step);
      REQUIRE(waiting.take(lock, value) == expected);
      ++(last == waiters.rend() ? in_vain : taken);
      if (last != waiters.rend()) waiters.erase(std::next(last).base());
    }
  }
  CHECK(taken > 1'000);
  CHECK(in_vain > 1'000);
  CHECK(several > 1'000);
}

}  // namespace
}  // namespace stagger
