#pragma once

#include "core/checked.hpp"
#include "core/memory.hpp"
#include "core/timing.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace stagger::sim {

/// L2 and the device memory behind it: channels that move a tile each, or add to one, in the order
/// in which they were asked, an exact number of bytes a tick. Which one has a tile is drawn, as
/// addresses are spread by hashes.
class Channels {
 public:
  explicit Channels(std::int64_t rate) : rate_(rate), channels_(kMemoryChannels) {}

  /// Asks for so many bytes at `time`, not before any time asked at. Returns when they were moved.
  Ticks move(Ticks time, std::int64_t bytes) {
    const std::uint64_t draw = dice_();
    Channel& channel = channels_[(draw * channels_.size()) >> 32U];
    if (time > channel.served) channel = {.served = time};
    channel.rest += kMemoryChannels * bytes;
    channel.served += channel.rest / rate_;
    channel.rest %= rate_;
    const Ticks moved = channel.served + (channel.rest > 0 ? 1 : 0);
    idle_ = std::max(idle_, moved);
    return moved;
  }

  /// Ticks that an idle channel takes for so many bytes.
  [[nodiscard]] Ticks alone(std::int64_t bytes) const {
    return divide_up(kMemoryChannels * bytes, rate_);
  }

  /// When all that they were asked for was moved.
  [[nodiscard]] Ticks idle() const { return idle_; }

 private:
  struct Channel {
    Ticks served = 0;       ///< whole ticks of work, from time 0 on
    std::int64_t rest = 0;  ///< what is beyond them, below `rate_`
  };

  std::int64_t rate_;  ///< bytes a tick of all of them
  std::vector<Channel> channels_;
  Ticks idle_ = 0;
  std::mt19937 dice_{1};  ///< not the sequence that tiles are thrown out by
};

}  // namespace stagger::sim
