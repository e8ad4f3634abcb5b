#include "core/time_unit.hpp"

#include "core/error.hpp"

#include <charconv>
#include <cstdint>
#include <system_error>

namespace stagger {
namespace {

/// Digits behind the point that a part of 1 / `parts` needs, 3 at most.
int decimals_of(Ticks parts) {
  int decimals = 0;
  for (Ticks scale = 1; decimals < 3 && scale % parts != 0; scale *= 10)
    ++decimals;
  return decimals;
}

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
  const std::uint64_t size =
      time < 0 ? 0 - static_cast<std::uint64_t>(time) : static_cast<std::uint64_t>(time);
  const auto one = static_cast<std::uint64_t>(ticks);
  // Steps of the last digit, rounded, which may make one more whole.
  const std::uint64_t steps = (size % one * 2 * scale + one) / (2 * one);
  std::string text = (time < 0 ? "-" : "") + grouped(size / one + steps / scale);
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

std::string clock_of_parts(Ticks parts) {
  return parts == 1 ? "ticks" : "ticks/" + std::to_string(parts);
}

Ticks parts_of(const std::string& clock) {
  if (clock == "ticks") return 1;
  if (!clock.starts_with("ticks/")) return 0;
  Ticks parts = 0;
  const char* const end = clock.data() + clock.size();
  const auto [rest, error] = std::from_chars(clock.data() + 6, end, parts);
  const bool is_one = error == std::errc{} && rest == end && parts > 1 && parts <= kMostParts;
  return is_one && clock == clock_of_parts(parts) ? parts : 0;
}

TimeUnit unit_of(const std::string& clock, Ticks longest) {
  if (clock == "ns") return unit_of_ns(longest);
  const Ticks parts = parts_of(clock);
  STAGGER_EXPECTS(parts > 0);
  return {.ticks = parts, .decimals = decimals_of(parts)};
}

}  // namespace stagger
