#pragma once

#include "core/timing.hpp"

#include <string>

namespace stagger {

/// How the times of a column, a line or a picture are written for people: all in one unit, with
/// thousands apart. Without more said, ticks as they are.
struct TimeUnit {
  const char* name = "ticks";   ///< "ticks", "ns", "µs" or "ms"
  const char* one = "tick";     ///< the name of exactly one
  const char* ascii = "ticks";  ///< the same where there is no µ
  Ticks ticks = 1;              ///< of the clock that make one
  int decimals = 0;             ///< 0 to 3

  /// `12,415`; of microseconds `8,413.18`, rounded.
  [[nodiscard]] std::string number(Ticks time) const;
  /// As number() writes it, without zeros at the end of a fraction.
  [[nodiscard]] std::string mark(Ticks time) const;
  /// `12,415 ticks`, `1 tick`, `8,413.18 µs`.
  [[nodiscard]] std::string text(Ticks time) const;
};

/// Nanoseconds, microseconds or milliseconds, by the longest of the times to be written.
[[nodiscard]] TimeUnit unit_of_ns(Ticks longest);

inline constexpr Ticks kMostParts = 1'000'000'000;  ///< of a tick

/// The clock of times in parts of a tick, `parts` to one: "ticks", or "ticks/5".
[[nodiscard]] std::string clock_of_parts(Ticks parts);
/// Parts of a tick that a clock counts; 0 if it is none of ticks.
[[nodiscard]] Ticks parts_of(const std::string& clock);

/// The unit for a clock's times: that of unit_of_ns() if the clock is "ns", else ticks, with up to
/// three digits of parts. Requires a clock of ns or ticks.
[[nodiscard]] TimeUnit unit_of(const std::string& clock, Ticks longest);

}  // namespace stagger
