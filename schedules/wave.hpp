#pragma once

#include "core/index.hpp"

#include <algorithm>
#include <cstdint>

namespace stagger::schedules {

/// One head's share of a wave, when the units of all heads (KV tiles, or pairs of them) are dealt
/// to the SMs in rounds. With 3 SMs and 4 units a head, waves are 0 0 0 | 0 1 1 | 1 1 (the digits
/// are heads): head 0 has width 3, then width 1 with 3 before.
struct Wave {
  std::int32_t width = 0;   ///< units of this head in this wave, 1 … SMs
  std::int32_t before = 0;  ///< units of this head in earlier waves
  std::int32_t place = 0;   ///< this unit's among the head's in the wave, 0 … width−1
};

/// The wave of unit `unit` of a head that has `units` of them.
/// Source: `get_kv_status` of the DASH code (its A, f, s), in 64 bits instead of 16.
[[nodiscard]] inline Wave wave_of(Head head, std::int32_t unit, std::int32_t units,
                                  std::int32_t sms) {
  const std::int64_t first = std::int64_t{head.value} * units;
  const std::int64_t wave_begin = (first + unit) / sms * sms;
  const std::int64_t begin = std::max(first, wave_begin);
  const std::int64_t end = std::min(first + units, wave_begin + sms);
  return {.width = static_cast<std::int32_t>(end - begin),
          .before = static_cast<std::int32_t>(begin - first),
          .place = static_cast<std::int32_t>(first + unit - begin)};
}

}  // namespace stagger::schedules
