#pragma once

#include <cstdint>
#include <future>

namespace stagger {

/// Launches work on a thread of its own, or where the system has none when its result is asked for.
inline constexpr std::launch kBesideIfPossible = std::launch::async | std::launch::deferred;

/// How work that may be done beside other work of O(tasks) is launched: on a core of its own where
/// it is worth a thread, some milliseconds, else when its result is asked for.
[[nodiscard]] inline std::launch beside(std::int64_t tasks) {
  constexpr std::int64_t kThreadTasks = 100'000;
  return tasks < kThreadTasks ? std::launch::deferred : kBesideIfPossible;
}

}  // namespace stagger
