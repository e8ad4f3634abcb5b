// Which tiles of a problem are live.

#include "cli/rows.hpp"
#include "core/formats/mask_import.hpp"
#include "core/mask.hpp"

#include <array>

namespace stagger::cli {
namespace {

constexpr std::array kYesNo = {Named<bool>{"true", true}, Named<bool>{"false", false}};

std::vector<Word> mask_words() {
  std::vector<Word> words;
  for (const MaskFamily& family : mask_families())
    words.push_back({family.name, family.summary});
  return words;
}

std::vector<Word> mask_format_words() {
  std::vector<Word> words = {{"stagger", "a mask description of ours"}};
  for (const formats::MaskFormat& format : formats::mask_formats())
    words.push_back({format.name, format.summary});
  return words;
}

}  // namespace

std::vector<OptionRow> mask_rows() {
  constexpr Group kGroup = Group::problem;
  return {
      {.name = "mask",
       .metavar = "MASK",
       .meaning = "which tiles are live, as `stagger list masks` shows them",
       .target = &Options::mask,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "causal",
       .proposed = mask_words,
       .replaces = "mask-file mask-format mask-head mask-causal"},
      {.name = "mask-file",
       .metavar = "FILE",
       .meaning = "a mask from a file: ours (JSON), or a format of `stagger list masks`; - for "
                  "standard input",
       .target = &Options::mask_file,
       .commands = kOnProblems,
       .group = kGroup,
       .excludes = "mask",
       .replaces = "mask"},
      {.name = "mask-format",
       .metavar = "FORMAT",
       .meaning = "what the mask's file is",
       .target = &Options::mask_format,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "by what is in it",
       .proposed = mask_format_words,
       .needs = "mask-file"},
      {.name = "mask-head",
       .metavar = "HEAD",
       .meaning = "one of the file's masks for all heads: batch * heads + head",
       .target = &Options::mask_head,
       .commands = kOnProblems,
       .group = kGroup,
       .range = {.least = 0},
       .needs = "mask-file"},
      {.name = "mask-causal",
       .metavar = "BOOL",
       .meaning = "whether the mask is causal too, where its file does not say",
       .target = one_of<kYesNo, &Options::mask_causal>(),
       .commands = kOnProblems,
       .group = kGroup,
       .needs = "mask-file"},
  };
}

}  // namespace stagger::cli
