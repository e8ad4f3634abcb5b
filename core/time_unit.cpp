#include "core/time_unit.hpp"

#include <cstdint>

namespace stagger {
namespace {

/// The digits of a number that is not negative, a comma before every third from the end.
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t left = digits.size(); left > 3;) {
    left -= 3;
    digits.insert(left, ",");
  }
  return digits;
}

}  // namespace

std::string TimeUnit::number(Ticks time) const {
  std::uint64_t scale = 1;
  for (int decimal = 0; decimal < decimals; ++decimal)
    scale *= 10;
  // A whole number of steps of the last digit: a unit is at least `scale` ticks.
  const std::uint64_t step = static_cast<std::uint64_t>(ticks) / scale;
  const std::uint64_t size =
      time < 0 ? 0 - static_cast<std::uint64_t>(time) : static_cast<std::uint64_t>(time);
  const std::uint64_t steps = size / step + (size % step * 2 >= step ? 1 : 0);
  std::string text = (time < 0 ? "-" : "") + grouped(steps / scale);
  if (decimals == 0) return text;
  return text + "." + std::to_string(scale + steps % scale).substr(1);
}

std::string TimeUnit::mark(Ticks time) const {
  std::string text = number(time);
  if (decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string TimeUnit::text(Ticks time) const {
  return number(time) + " " + (time == ticks ? one : name);
}

TimeUnit unit_of_ns(Ticks longest) {
  if (longest < 10'000) return {.name = "ns", .one = "ns", .ascii = "ns"};
  if (longest < 100'000'000) {
    return {.name = "µs", .one = "µs", .ascii = "us", .ticks = 1'000, .decimals = 2};
  }
  return {.name = "ms", .one = "ms", .ascii = "ms", .ticks = 1'000'000, .decimals = 3};
}

TimeUnit unit_of(const std::string& clock, Ticks longest) {
  return clock == "ns" ? unit_of_ns(longest) : TimeUnit{};
}

}  // namespace stagger
