#include "tests/fuzz/corpus.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"

#include <string_view>

namespace stagger::test {
namespace {

// What the fuzzers begin with, and what they once found, is read by every build.
TEST_CASE("every text of the corpora is read, or refused in words") {
  for (const Reader& reader : readers()) {
    int read = 0;
    for (const auto& [file, text] : corpus_of(reader)) {
      CAPTURE(file);
      try {
        reader.read(text);
        ++read;
      } catch (const Error& error) {
        CHECK(std::string_view(error.what()) != "");
      }
    }
    CAPTURE(reader.name);
    CHECK(read > 0);
  }
}

}  // namespace
}  // namespace stagger::test
