#include "tests/fuzz/corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace stagger::test {

std::vector<CorpusText> corpus_of(const Reader& reader) {
  const std::filesystem::path folder = STAGGER_SOURCE_DIR "/tests/fuzz/corpus";
  std::vector<CorpusText> texts;
  for (const auto& entry : std::filesystem::directory_iterator(folder / reader.name)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    texts.push_back({.file = entry.path().filename().string(), .text = text.str()});
  }
  std::ranges::sort(texts, {}, &CorpusText::file);
  return texts;
}

}  // namespace stagger::test
