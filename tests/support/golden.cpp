#include "tests/support/golden.hpp"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>

namespace stagger::test {

std::string golden_difference(const std::string& name, const std::string& text) {
  const std::string path = std::string(STAGGER_SOURCE_DIR "/tests/golden/") + name;
  const char* const update = std::getenv("STAGGER_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return "";
  }
  std::ostringstream kept;
  kept << std::ifstream(path, std::ios::binary).rdbuf();
  if (kept.str() == text) return "";
  std::istringstream wanted(kept.str());
  std::istringstream got(text);
  std::string want;
  std::string line;
  for (int number = 1;; ++number) {
    const bool more = static_cast<bool>(std::getline(wanted, want));
    const bool still = static_cast<bool>(std::getline(got, line));
    if (!more || !still || want != line) {
      return name + ":" + std::to_string(number) + ": " + (still ? line : "(ends)") + "\n  not " +
             (more ? want : "(ends)");
    }
  }
}

std::string text_digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  std::ostringstream digits;
  digits << std::hex << std::setw(16) << std::setfill('0') << hash;
  return digits.str();
}

}  // namespace stagger::test
