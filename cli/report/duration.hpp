#pragma once

#include "workbench/time_model.hpp"

#include <string>

namespace stagger::cli {

/// `108 ticks`; of nanoseconds `812 ns`, `41.27 us`, `3.412 ms`.
[[nodiscard]] std::string duration(Ticks ticks, workbench::Clock clock);

/// The same for a column whose unit is known: `108`, `41.27 us`.
[[nodiscard]] std::string short_duration(Ticks ticks, workbench::Clock clock);

/// `12.5 %`, of a part and a positive whole.
[[nodiscard]] std::string percent(Ticks part, Ticks whole);

}  // namespace stagger::cli
