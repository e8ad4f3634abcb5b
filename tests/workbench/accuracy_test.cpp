#include "workbench/accuracy.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagger::workbench {
namespace {

TEST_CASE("median, worst and ranking, by hand") {
  const Accuracy accuracy = accuracy_of({
      {"a", "one", 1000, 1010},    // + 1 %
      {"a", "two", 1100, 1078},    // - 2 %
      {"a", "three", 1029, 1100},  // 2.9 % above one; + 6.9 %
      {"b", "one", 500, 540},      // + 8 %, another group
      {"b", "two", 515, 520},      // exactly 3 % above one: no pair
  });
  CHECK(accuracy.median_ppm == 20'000);
  CHECK(accuracy.worst_ppm == 80'000);
  CHECK(accuracy.worst == 3);
  // one < two (10 %) is predicted, three < two (6.9 %) is not.
  CHECK(accuracy.pairs == 2);
  REQUIRE(accuracy.misranked.size() == 1);
  CHECK(accuracy.misranked[0].faster == 2);
  CHECK(accuracy.misranked[0].slower == 1);
}

TEST_CASE("errors where dQ outgrows L2 and where it does not, by hand") {
  const auto run = [](Ticks predicted, std::int64_t in_flight, std::int64_t l2) {
    return Prediction{.group = "a",
                      .schedule = "one",
                      .measured = 1000,
                      .predicted = predicted,
                      .dq_in_flight = in_flight,
                      .l2 = l2};
  };
  const Accuracy accuracy = accuracy_of({
      run(900, 11, 10),   // - 10 %
      run(1010, 20, 10),  // + 1 %
      run(1003, 10, 10),  // + 0.3 %: all of it stays
      run(2000, 99, 0),   // no memory is known
      run(930, 100, 10),  // - 7 %
      run(1020, 20, 10),  // + 2 %
  });
  CHECK(accuracy.worst == 3);
  CHECK(accuracy.beyond_l2 ==
        Errors{.runs = 4, .mean_ppm = -35'000, .median_ppm = 70'000, .worst_ppm = 100'000});
  CHECK(accuracy.in_l2 ==
        Errors{.runs = 1, .mean_ppm = 3'000, .median_ppm = 3'000, .worst_ppm = 3'000});
  const Accuracy unknown = accuracy_of({run(900, 11, 0)});
  CHECK(unknown.in_l2 == Errors{});
  CHECK(unknown.beyond_l2 == Errors{});
}

TEST_CASE("two runs are ranked where one took more than three percent longer, by a tick") {
  for (const std::int64_t slower : {1029, 1030, 1031, 1035, 1040}) {
    CAPTURE(slower);
    CHECK(accuracy_of({{"a", "one", 1000, 1000}, {"a", "two", slower, slower}}).pairs ==
          (slower > 1030 ? 1 : 0));
  }
}

TEST_CASE("pairs do not depend on which run is first") {
  const std::vector<Prediction> runs = {
      {"a", "slow", 1200, 1000}, {"a", "fast", 1000, 1100}, {"a", "mean", 1100, 1300}};
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    const Accuracy accuracy = accuracy_of({runs[order[0]], runs[order[1]], runs[order[2]]});
    CHECK(accuracy.pairs == 3);
    CHECK(accuracy.misranked.size() == 2);  // slow is predicted below both others
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("a tie does not predict a difference, and a schedule is not ranked with itself") {
  const Accuracy accuracy = accuracy_of({
      {"a", "one", 1000, 1000},
      {"a", "two", 2000, 1000},
      {"a", "one", 1500, 1600},
  });
  CHECK(accuracy.pairs == 2);
  REQUIRE(accuracy.misranked.size() == 2);
  CHECK(accuracy.misranked[0].faster == 0);
  CHECK(accuracy.misranked[1].faster == 2);
}

TEST_CASE("a run whose table is not known may be of any table of its schedule") {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{7}}) {
    for (const std::uint64_t second : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{8}}) {
      CAPTURE(first, second);
      const Accuracy accuracy =
          accuracy_of({{"a", "one", 1000, 1000, first}, {"a", "one", 2000, 1000, second}});
      CHECK(accuracy.alike == (first == 7 && second == 7 ? 1 : 0));
      CHECK(accuracy.pairs == (first == 7 && second == 8 ? 1 : 0));
    }
  }
}

TEST_CASE("one table under two names is noise and no ranking") {
  const Accuracy accuracy = accuracy_of({
      {"a", "one", 1000, 1000, 7},
      {"a", "two", 1050, 1000, 7},
      {"a", "three", 1100, 1000, 8},
      {"a", "unknown", 2000, 2000, 0},
      {"b", "two", 5000, 1000, 7},
      {"a", "unknown", 8000, 8000, 0},
  });
  CHECK(accuracy.alike == 1);
  CHECK(accuracy.noise_ppm == 50'000);
  CHECK(accuracy.noise_median_ppm == 50'000);
  // three above both, unknown above all three, twice, and not above itself: that is not known
  CHECK(accuracy.pairs == 8);
  CHECK(accuracy.misranked.size() == 2);
}

}  // namespace
}  // namespace stagger::workbench
