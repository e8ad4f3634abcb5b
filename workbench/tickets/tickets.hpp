#pragma once

#include "core/index.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace stagger::tickets {

using Program = Index<struct ProgramKind>;      ///< what a CTA does, in launch order
using Semaphore = Index<struct SemaphoreKind>;  ///< a counter that programs wait for and add to

inline constexpr std::int64_t kAnyIndex = std::numeric_limits<std::int32_t>::max();  ///< the most
inline constexpr std::int32_t kNoWait = std::numeric_limits<std::int32_t>::min();

/// One thing that a program does: waits until a semaphore shows a value, reduces into dQ, and adds
/// to the semaphore. Each of the three may be missing.
struct Step {
  Semaphore semaphore = {};
  std::int32_t wait = kNoWait;  ///< the value that the semaphore must show; kNoWait: any
  std::int32_t add = 1;         ///< >= 0
  bool reduces = true;          ///< into dQ[head, q]
  Task task = {};
  std::int64_t chain = 0;  ///< steps with the same number share dK and dV in registers

  [[nodiscard]] bool waits() const { return wait != kNoWait; }
  friend bool operator==(const Step&, const Step&) = default;
};

/// A kernel's protocol: programs of steps on semaphores. A superset of a Table, for what other
/// people's kernels do: semaphores that do not begin at 0, that several dQ tiles share, that are
/// advanced by more than 1, or without a wait, or without a reduction.
///
/// Programs are stored one after the other: program i is steps[program_begin[i] ..
/// program_begin[i + 1]).
struct Tickets {
  std::string name = "tickets";
  Dispatch dispatch = Dispatch::in_order;
  Release release = Release::immediate;
  std::int32_t residency = 0;                         ///< programs at once; 0: all of them
  IndexVector<Semaphore, std::int64_t> initial = {};  ///< what each semaphore shows at first
  IndexVector<std::int64_t, Step> steps = {};
  IndexVector<std::int64_t, std::int64_t> program_begin = {0};  ///< ascending; programs + 1 entries

  [[nodiscard]] std::int32_t semaphores() const {
    return static_cast<std::int32_t>(initial.size());
  }
  [[nodiscard]] std::int32_t programs() const {
    return static_cast<std::int32_t>(program_begin.size()) - 1;
  }
  [[nodiscard]] std::int64_t begin_of(Program program) const {
    return program_begin[program.value];
  }
  [[nodiscard]] std::int64_t end_of(Program program) const {
    return program_begin[program.value + 1];
  }
  [[nodiscard]] std::span<const Step> program(Program program) const {
    return std::span(steps).subspan(at(begin_of(program)), at(end_of(program) - begin_of(program)));
  }
  /// The program that has a step. O(log programs).
  [[nodiscard]] Program program_of(std::int64_t step) const;
  /// Programs that can be on the machine at once.
  [[nodiscard]] std::int32_t resident() const {
    return residency == 0 || residency > programs() ? programs() : residency;
  }
  /// Ends the program under construction: every step added since the last call belongs to it.
  void end_program() { program_begin.push_back(std::ssize(steps)); }

  friend bool operator==(const Tickets&, const Tickets&) = default;
};

/// The number of the chain of a task whose kernel has a chain for each (head, KV tile).
[[nodiscard]] constexpr std::int64_t chain_of(const Task& task) {
  return (std::int64_t{task.head.value} << 32) + task.kv.value;
}

/// A table as tickets: a semaphore for every (head, q), from 0, each slot a step that waits for its
/// rank and adds 1; where parts of dK and dV are combined in order, a semaphore for every (KV head,
/// kv) too, and behind each chain a step that waits and adds without reducing into dQ (q -1).
/// Requires tasks that exist (core/table.hpp, existing_tasks).
[[nodiscard]] Tickets from_table(const Table& table);

}  // namespace stagger::tickets
