#pragma once

#include "tests/fuzz/readers.hpp"

#include <string>
#include <vector>

namespace stagger::test {

/// A text that the fuzzers begin with, or that they once found.
struct CorpusText {
  std::string file;
  std::string text;
};

/// The texts of tests/fuzz/corpus/READER, by name.
[[nodiscard]] std::vector<CorpusText> corpus_of(const Reader& reader);

}  // namespace stagger::test
