#include "core/least_squares.hpp"

#include "tests/support/catch.hpp"

#include <array>
#include <random>

namespace stagger {
namespace {

TEST_CASE("parameters come back from the equations that they fulfil") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(-1, 1);
  for (int round = 0; round < 50; ++round) {
    const std::array<double, 3> wanted = {any(random), 100 * any(random), any(random)};
    LeastSquares<3> squares;
    for (int equation = 0; equation < 7; ++equation) {
      const std::array<double, 3> x = {any(random), any(random), any(random)};
      squares.add(x, x[0] * wanted[0] + x[1] * wanted[1] + x[2] * wanted[2]);
    }
    const std::array<double, 3> found = squares.solution();
    for (std::size_t index = 0; index < 3; ++index)
      CHECK(found[index] == Approx(wanted[index]).margin(1e-9));
  }
}

TEST_CASE("what no parameters fulfil is met in the mean, and one that is in no equation is 0") {
  LeastSquares<2> squares;
  for (const double y : {1.0, 2.0, 6.0})
    squares.add({1, 0}, y);
  CHECK(squares.solution()[0] == Approx(3));
  CHECK(squares.solution()[1] == 0);
  // No other value leaves less.
  LeastSquares<2> line;
  const std::array<std::array<double, 2>, 4> points = {{{0, 1}, {1, 3}, {2, 2}, {5, 9}}};
  for (const auto& [x, y] : points)
    line.add({1, x}, y);
  const auto left = [&](double offset, double slope) {
    double sum = 0;
    for (const auto& [x, y] : points)
      sum += (offset + slope * x - y) * (offset + slope * x - y);
    return sum;
  };
  const auto [offset, slope] = line.solution();
  for (const double step : {-0.01, 0.01}) {
    CHECK(left(offset, slope) < left(offset + step, slope));
    CHECK(left(offset, slope) < left(offset, slope + step));
  }
}

}  // namespace
}  // namespace stagger
