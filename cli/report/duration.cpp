#include "cli/report/duration.hpp"

#include <fmt/format.h>

namespace stagger::cli {

using workbench::Clock;

std::string short_duration(Ticks ticks, Clock clock) {
  if (clock == Clock::ticks) return std::to_string(ticks);
  const auto ns = static_cast<double>(ticks);
  if (ticks < 10'000) return fmt::format("{} ns", ticks);
  if (ticks < 10'000'000) return fmt::format("{:.2f} us", 1e-3 * ns);
  return fmt::format("{:.3f} ms", 1e-6 * ns);
}

std::string duration(Ticks ticks, Clock clock) {
  return short_duration(ticks, clock) + (clock == Clock::ticks ? " ticks" : "");
}

std::string percent(Ticks part, Ticks whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace stagger::cli
