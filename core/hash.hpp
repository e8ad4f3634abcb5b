#pragma once

#include <cstdint>

namespace stagger {

/// FNV-1a by words, 64 bits: for digests of tables, which are no secret.
class Hash {
 public:
  void add(std::int32_t word) {
    value_ = (value_ ^ static_cast<std::uint32_t>(word)) * 0x100000001b3;
    value_ ^= value_ >> 32;  // so that also low bits depend on high ones
  }
  void add_long(std::uint64_t words) {
    add(static_cast<std::int32_t>(static_cast<std::uint32_t>(words)));
    add(static_cast<std::int32_t>(static_cast<std::uint32_t>(words >> 32)));
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace stagger
