#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace stagger {

/// Launches work on a thread of its own, or where the system has none when its result is asked for.
inline constexpr std::launch kBesideIfPossible = std::launch::async | std::launch::deferred;

/// How work that may be done beside other work of O(tasks) is launched: on a core of its own where
/// it is worth a thread, some milliseconds, else when its result is asked for.
[[nodiscard]] inline std::launch beside(std::int64_t tasks) {
  constexpr std::int64_t kThreadTasks = 100'000;
  return tasks < kThreadTasks ? std::launch::deferred : kBesideIfPossible;
}

/// How many of so many threads make tables of so many tasks at a time: one where a thread is not
/// worth it, and no more than some 500 MB of tables have room for. 0 threads: as many as the
/// machine has.
[[nodiscard]] inline int tables_at_a_time(std::int64_t threads, std::int64_t tasks) {
  constexpr std::int64_t kWorthIt = 1'000;
  constexpr std::int64_t kMostTasks = 30'000'000;
  if (tasks < kWorthIt) return 1;
  if (threads <= 0) threads = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  return static_cast<int>(
      std::clamp<std::int64_t>(kMostTasks / tasks, 1, std::max<std::int64_t>(threads, 1)));
}

/// Takes `make(0)`, `make(1)` … `make(count - 1)` in that order, made by so many threads at a time:
/// what is taken does not depend on their number. Those that are made at a time are all made before
/// the first of them is taken, so `make` may read what `take` writes. Throws what they throw.
template <class Make, class Take>
void make_beside(std::size_t count, int threads, Make make, Take take) {
  const auto at_a_time = static_cast<std::size_t>(std::max(threads, 1));
  for (std::size_t begin = 0; begin < count; begin += at_a_time) {
    const std::size_t end = std::min(count, begin + at_a_time);
    std::vector<std::future<decltype(make(begin))>> rest;
    for (std::size_t index = begin + 1; index < end; ++index)
      rest.push_back(std::async(kBesideIfPossible, make, index));
    std::vector<decltype(make(begin))> made;
    made.push_back(make(begin));
    for (auto& each : rest)
      made.push_back(each.get());
    for (auto& each : made)
      take(std::move(each));
  }
}

}  // namespace stagger
