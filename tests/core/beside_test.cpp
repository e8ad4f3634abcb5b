#include "core/beside.hpp"

#include "tests/support/catch.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace stagger {
namespace {

TEST_CASE("what is made beside is taken in order, whatever the number of threads") {
  for (const int threads : {-1, 0, 1, 2, 3, 7, 50}) {
    for (std::size_t count : {0, 1, 2, 6, 7, 8}) {
      std::vector<std::size_t> taken;
      std::vector<std::size_t> known(count, 99);
      make_beside(
          count, threads,
          [&](std::size_t index) {
            known[index] = taken.size();
            return 10 * index;
          },
          [&](std::size_t made) { taken.push_back(made); });
      CAPTURE(threads, count);
      REQUIRE(taken.size() == count);
      const std::size_t at_a_time = threads < 1 ? 1 : static_cast<std::size_t>(threads);
      for (std::size_t index = 0; index < count; ++index) {
        REQUIRE(taken[index] == 10 * index);
        // What is made at a time knows what was taken of those before, and all of that.
        REQUIRE(known[index] == index / at_a_time * at_a_time);
      }
    }
  }
}

TEST_CASE("tables are made at a time where it is worth it and there is room for them") {
  CHECK(tables_at_a_time(8, 0) == 1);
  CHECK(tables_at_a_time(8, 999) == 1);
  CHECK(tables_at_a_time(8, 1'000) == 8);
  CHECK(tables_at_a_time(8, 5'000'000) == 6);
  CHECK(tables_at_a_time(3, 5'000'000) == 3);
  CHECK(tables_at_a_time(8, std::int64_t{1} << 40) == 1);
  CHECK(tables_at_a_time(0, 1'000) >= 1);
  CHECK(tables_at_a_time(-1, 1'000) >= 1);
}

TEST_CASE("what making or taking throws comes out, and nothing is taken after it") {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::size_t> taken;
    const auto run = [&](std::size_t bad, bool made) {
      taken.clear();
      make_beside(
          6, threads,
          [&](std::size_t index) {
            if (made && index == bad) throw std::runtime_error("made");
            return index;
          },
          [&](std::size_t index) {
            if (!made && index == bad) throw std::runtime_error("taken");
            taken.push_back(index);
          });
    };
    CAPTURE(threads);
    CHECK_THROWS_AS(run(3, true), std::runtime_error);
    for (const std::size_t index : taken)
      CHECK(index < 3);
    CHECK_THROWS_AS(run(3, false), std::runtime_error);
    CHECK(taken == std::vector<std::size_t>{0, 1, 2});
  }
}

}  // namespace
}  // namespace stagger
