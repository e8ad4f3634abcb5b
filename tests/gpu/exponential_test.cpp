#include "gpu/numerics/exponential.hpp"

#include "gpu/numerics/lse.hpp"
#include "tests/support/catch.hpp"

#include <cmath>
#include <limits>

namespace stagger::gpu {
namespace {

TEST_CASE("exponential is exp rounded to float, to half a unit in the last place") {
  double worst = 0;
  std::int64_t cases = 0;
  for (float x = -110; x < 80; x += 0.00137F) {
    const float got = exponential(x);
    const double want = std::exp(double{x});
    const float rounded = static_cast<float>(want);
    const double unit =
        double{std::nextafter(rounded, std::numeric_limits<float>::infinity())} - double{rounded};
    worst = std::max(worst, std::abs(double{got} - want) / unit);
    ++cases;
  }
  CAPTURE(worst);
  CHECK(worst < 0.501);
  CHECK(cases > 100'000);
}

TEST_CASE("exponential of 0, of minus infinity and of what is not a number") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(exponential(0.0F) == 1.0F);
  CHECK(exponential(-0.0F) == 1.0F);
  CHECK(exponential(-kInfinity) == 0.0F);
  CHECK(exponential(-1000.0F) == 0.0F);
  CHECK(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("P is 0 for a query that sees nothing, whichever infinity its lse is") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float lse : {kInfinity, -kInfinity}) {
    for (const float score : {-kInfinity, -100.0F, 0.0F, 100.0F})
      CHECK(std::exp2(score - base_2_lse(lse)) == 0);
  }
  for (const float lse : {-700.0F, -0.5F, 0.0F, 3.25F, 700.0F})
    CHECK(base_2_lse(lse) == lse * 1.44269504F);
  CHECK(std::isnan(base_2_lse(std::nanf(""))));
}

}  // namespace
}  // namespace stagger::gpu
