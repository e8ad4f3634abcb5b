// Requests of stagger_json with a few bytes changed, in this process: each is refused or answered
// by JSON, and under a sanitizer nothing falls. `requests COUNT [SEED]`.

#include "core/error.hpp"
#include "core/json_value.hpp"
#include "workbench/stagger.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

namespace {

// Without files, searches and runs: what is asked here is quick.
constexpr std::array kRequests = {
    R"({"command": "analyze", "options": {"n": 4, "heads": 2, "schedule": "spt", "limit": 3}})",
    R"({"command": "analyze", "options": {"mask": {"kind": "tiles", "rows": ["ff", ".p"]},)"
    R"( "schedule": "descending", "expect": ["makespan <= 99"]}})",
    R"({"command": "analyze", "options": {"n": 6, "sms": 4, "schedule": "symmetric-shift",)"
    R"( "invariant": true}})",
    R"({"command": "compare", "options": {"mask": "full", "n": 3, "baseline": "spt",)"
    R"( "schedules": "shift,spt:swizzle=2"}})",
    R"({"command": "show", "options": {"mask": "sliding:left=2,right=0 & document:lengths=2+3",)"
    R"( "n": 5}, "id": "x"})",
    R"({"command": "advise", "options": {"n": 4, "heads": 4, "steady": "sms"}})",
    R"({"command": "formulas", "options": {"n": "1..3", "heads": "1..2"}})",
    R"({"command": "list", "options": {"topic": "schedules"}})",
    R"({"command": "block", "options": {"model": "mistral-7b"}})",
    R"({"command": "cancel", "id": "x"})",
    R"({"command": "version"})"};

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {}

  /// Makes some bytes of a request others, and no number longer than two digits.
  std::string request() {
    std::string text = kRequests[below(kRequests.size())];
    for (std::size_t changes = below(4); changes > 0; --changes)
      change(text);
    if (below(16) == 0) text.resize(below(text.size() + 1));
    for (char& letter : text) {
      if (letter == '\0') letter = ' ';
    }
    return shortened(text);
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }

  void change(std::string& text) {
    constexpr std::string_view kLikely = "{}[]\",:0123456789-+.&|= \\eul\n\x7f\xc3\xff";
    const std::size_t at = below(text.size());
    const char letter =
        below(4) == 0 ? static_cast<char>(below(256)) : kLikely[below(kLikely.size())];
    switch (below(3)) {
      case 0:
        text[at] = letter;
        break;
      case 1:
        text.insert(at, 1, letter);
        break;
      default:
        text.erase(at, 1 + below(3));
    }
    if (text.empty()) text = " ";
  }

  static std::string shortened(const std::string& text) {
    std::string kept;
    int digits = 0;
    for (const char letter : text) {
      digits = letter >= '0' && letter <= '9' ? digits + 1 : 0;
      // 2e9 has few digits, too.
      const bool power = (letter == 'e' || letter == 'E') && !kept.empty() && kept.back() >= '0' &&
                         kept.back() <= '9';
      if (digits <= 2 && !power) kept += letter;
    }
    return kept;
  }

  std::mt19937_64 random_;
};

/// Whether a request is answered as it should be: refused with words, or by JSON with an exit code
/// that is no internal error.
bool is_answered(const std::string& request, std::int64_t& responses) {
  char* response = nullptr;
  const std::int32_t code = stagger_json(request.c_str(), &response);
  if (code != STAGGER_OK) return code != STAGGER_E_INTERNAL && stagger_last_error()[0] != '\0';
  ++responses;
  const std::string text = response;
  stagger_free(response);
  try {
    const stagger::JsonDocument document(text, "response");
    return document.root().at("exit_code").integer(0, 130) != 70;
  } catch (const stagger::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 1000;
  const char* const turned = std::getenv("STAGGER_TEST_SEED");
  const std::string seed = argc > 2 ? argv[2] : turned != nullptr ? turned : "1";
  Storm storm(std::strtoull(seed.c_str(), nullptr, 10));
  std::int64_t responses = 0;
  for (std::int64_t number = 0; number < count; ++number) {
    const std::string request = storm.request();
    if (is_answered(request, responses)) continue;
    std::printf("seed %s, request %lld: %s\n", seed.c_str(), static_cast<long long>(number),
                request.c_str());
    return 1;
  }
  std::printf("seed %s: %lld requests, %lld answered\n", seed.c_str(),
              static_cast<long long>(count), static_cast<long long>(responses));
  return responses > 0 && (count < 100 || responses < count) ? 0 : 1;
}
