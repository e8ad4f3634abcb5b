#pragma once

#include "tests/support/random.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace stagger::test {

/// What a kernel does at a lock, in plain numbers.
struct LockStep {
  int semaphore = 0;
  int wait = -1;  ///< the value that it waits for; -1: none
  int add = 1;
  bool reduces = true;
  int head = 0;
  int kv = 0;
  int q = 0;
};

/// A kernel's protocol, as its author knows it: what each of its CTAs does, in launch order. Shares
/// nothing with the library's tickets but the file.
struct LockKernel {
  std::vector<std::vector<LockStep>> programs = {};
  std::vector<int> initial = {};  ///< what semaphores show at first
  int residency = 1;              ///< programs at once
  bool delayed = false;           ///< releases come when the chain's next reduction begins
  bool cooperative = false;       ///< refused where not all programs are resident
};

/// As `stagger.tickets/1`.
[[nodiscard]] std::string tickets_json(const LockKernel& kernel);

/// What became of a kernel in one order of events: whether it hung, and in which order the KV tiles
/// were added to each (head, q).
struct LockEnd {
  bool hung = false;
  std::map<std::pair<int, int>, std::vector<int>> sums = {};
};

/// Runs a kernel with so many programs resident, each event drawn among those that can happen.
[[nodiscard]] LockEnd run_locks(const LockKernel& kernel, int residency, Random& random);

/// What many orders of events show of a kernel.
struct LockRuns {
  bool hangs = false;          ///< on its machine
  bool hangs_smaller = false;  ///< on some machine of fewer SMs, or its own
  bool bits_differ = false;    ///< some sum is added up in more than one order
  bool adds_twice = false;     ///< some tile is in a sum two times
};
[[nodiscard]] LockRuns run_often(const LockKernel& kernel, Random& random);

}  // namespace stagger::test
