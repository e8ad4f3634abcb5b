#include "core/text.hpp"

#include "core/error.hpp"

#include <iterator>

namespace stagger {

std::string decimal_bytes(std::int64_t bytes) {
  STAGGER_EXPECTS(bytes >= 0);
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1'000) return counted(bytes, "byte");
  std::size_t unit = 0;
  std::int64_t size = 1'000;
  const auto tenths = [&] { return bytes / (size / 10) + (bytes % (size / 10) * 2 >= size / 10); };
  while (tenths() >= 10'000 && unit + 1 < std::size(kUnits)) {
    size *= 1'000;
    ++unit;
  }
  return std::to_string(tenths() / 10) + "." + std::to_string(tenths() % 10) + " " + kUnits[unit];
}

}  // namespace stagger
