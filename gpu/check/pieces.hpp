#pragma once

#include "core/beside.hpp"

#include <algorithm>
#include <cstddef>
#include <future>
#include <thread>
#include <vector>

namespace stagger::gpu {

/// Calls fill(begin, end) for pieces of [0, size) on as many threads as the machine has cores, if
/// there are enough elements to be worth it.
template <class Fill>
void in_pieces(std::size_t size, Fill fill) {
  constexpr std::size_t kLeast = 1 << 20;  // of a piece
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t pieces = std::clamp<std::size_t>(size / kLeast, 1, cores);
  std::vector<std::future<void>> others;
  for (std::size_t piece = 1; piece < pieces; ++piece) {
    others.push_back(
        std::async(kBesideIfPossible, fill, size * piece / pieces, size * (piece + 1) / pieces));
  }
  fill(std::size_t{0}, size / pieces);
  for (std::future<void>& other : others)
    other.get();
}

}  // namespace stagger::gpu
