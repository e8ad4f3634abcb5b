#pragma once

#include "tests/support/lock_kernels.hpp"

#include <vector>

namespace stagger::test {

// Kernels as people write them, drawn with their masks and machines.

/// A number of [least, most].
[[nodiscard]] inline int draw(Random& random, int least, int most) {
  return static_cast<int>(random.between(least, most));
}

/// Whether tiles are live, by head, KV tile and Q tile.
using Live = std::vector<std::vector<std::vector<bool>>>;
[[nodiscard]] Live drawn_live(Random& random, int heads, int kv_tiles, int q_tiles, bool all);
/// Q tile q sees the KV tiles q - left to q.
[[nodiscard]] Live window_live(int kv_tiles, int left);

/// A machine that holds `least` to all of the programs.
void draw_machine(Random& random, LockKernel& kernel, int least = 1);

/// A CTA for each (head, KV tile), launched by KV tile upwards or downwards, which waits for its
/// rank among the live tiles of each Q tile in the order of the launch. Q tiles come in any order.
[[nodiscard]] LockKernel ranked(Random& random, const Live& live);
/// Likewise, of a mask of `least` KV tiles or more.
[[nodiscard]] LockKernel ranked_any(Random& random, int least = 2);

/// What a kernel does at tiles that are not live, whose lock values are KV tiles' numbers.
enum class Dead {
  turns,    ///< waits, and advances the semaphore
  passed,   ///< those that a window has passed advance it without a wait, behind the loop
  nothing,  ///< skips them
};
[[nodiscard]] LockKernel numbered(Random& random, const Live& live, Dead dead);

/// DASH's shift: program s takes Q tile (s + k) mod n at step k, which is its rank there.
[[nodiscard]] LockKernel shift(Random& random, int size);

/// KV blocks of several groups of CTAs, launched downwards, of which the last block has fewer.
struct Blocks {
  int blocks, groups, own;
};
[[nodiscard]] Blocks drawn_blocks(Random& random);
/// The first group of the last block adds for those that are not there, if it is `bridged`; with
/// `rounded`, values count those.
[[nodiscard]] LockKernel in_blocks(Random& random, const Blocks& size, bool bridged, bool rounded);

/// Heads of a group add into dK and dV in turn, a chain behind the other; a head whose KV tile is
/// empty passes its turn on.
[[nodiscard]] LockKernel grouped(Random& random, int heads, int kv_tiles);

}  // namespace stagger::test
