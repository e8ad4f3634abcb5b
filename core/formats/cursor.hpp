#pragma once

#include "core/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stagger::formats {

/// Bytes of a file, taken from a place on; whoever asks beyond the end gets Error{invalid_input}.
class Cursor {
 public:
  Cursor(std::string_view bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {}

  [[nodiscard]] std::size_t place() const { return place_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - place_; }

  void go_to(std::uint64_t place) {
    if (place > bytes_.size()) {
      reject("byte " + std::to_string(place) + " is beyond the end of the file (" +
             std::to_string(bytes_.size()) + " bytes)");
    }
    place_ = static_cast<std::size_t>(place);
  }
  [[nodiscard]] std::string_view take(std::uint64_t count) {
    if (count > left()) {
      reject("cut short: " + std::to_string(count) + " bytes from byte " + std::to_string(place_) +
             " on, of which " + std::to_string(left()) + " are there");
    }
    const std::string_view taken = bytes_.substr(place_, static_cast<std::size_t>(count));
    place_ += taken.size();
    return taken;
  }
  /// A little-endian number of so many bytes, 8 at most.
  [[nodiscard]] std::uint64_t number(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view bytes = take(count);
    for (std::size_t index = 0; index < count; ++index)
      value |= std::uint64_t{static_cast<unsigned char>(bytes[index])} << (8 * index);
    return value;
  }
  [[noreturn]] void reject(const std::string& what) const {
    throw Error(ErrorKind::invalid_input, source_ + ": " + what);
  }

 private:
  std::string_view bytes_;
  std::string source_;
  std::size_t place_ = 0;
};

/// Appends a number as so many bytes, little-endian.
inline void put_number(std::string& bytes, std::uint64_t value, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index)
    bytes += static_cast<char>(value >> (8 * index) & 0xFF);
}

}  // namespace stagger::formats
