// One program for libFuzzer (scripts/fuzz): --reader=NAME says what reads its inputs.

#include "core/error.hpp"
#include "tests/fuzz/readers.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

const stagger::test::Reader* reader = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view kOption = "--reader=";
  for (int index = 1; index < *count; ++index) {
    const std::string_view word((*arguments)[index]);
    if (!word.starts_with(kOption)) continue;
    for (const stagger::test::Reader& known : stagger::test::readers()) {
      if (word.substr(kOption.size()) == known.name) reader = &known;
    }
  }
  if (reader != nullptr) return 0;
  std::fputs("--reader= is one of:", stderr);
  for (const stagger::test::Reader& known : stagger::test::readers())
    std::fprintf(stderr, " %s", known.name);
  std::fputs("\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    reader->read({reinterpret_cast<const char*>(data), size});
  } catch (const stagger::Error&) {
    // It says what is wrong: that is all that is asked for.
  }
  return 0;
}
