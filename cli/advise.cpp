#include "cli/commands.hpp"
#include "cli/designs.hpp"
#include "cli/files.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/report/designs.hpp"
#include "core/error.hpp"
#include "core/nearest.hpp"
#include "workbench/designs/advice.hpp"

#include <algorithm>

namespace stagger::cli {
namespace {

/// Both sides of tiles are one word in comparisons of designs.
constexpr const char* kTiles = "tiles";

/// The words that one stands for.
std::vector<std::string> bits_meant_by(const std::string& word) {
  if (word == kTiles) return {designs::bits::kTileQ, designs::bits::kTileKv};
  return {word};
}

/// The words of a list joined by commas.
std::vector<std::string> steady_of(const std::string& list) {
  const std::vector<std::string> known = {designs::bits::kSms,
                                          designs::bits::kBatch,
                                          designs::bits::kTileQ,
                                          designs::bits::kTileKv,
                                          designs::bits::kSplits,
                                          designs::bits::kRanks,
                                          designs::bits::kTiming,
                                          designs::bits::kPairs,
                                          designs::bits::kGemm,
                                          designs::bits::kWorkspace,
                                          kTiles};
  std::vector<std::string> words;
  for (std::size_t begin = 0; !list.empty() && begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string word = list.substr(begin, end - begin);
    if (std::ranges::count(known, word) == 0) {
      throw Error(ErrorKind::usage, "--steady: " + unknown_name("word", word, known));
    }
    for (const std::string& meant : bits_meant_by(word)) {
      if (std::ranges::count(words, meant) > 0) {
        throw Error(ErrorKind::usage, "--steady: '" + meant + "' is given twice");
      }
      words.push_back(meant);
    }
    begin = end + 1;
  }
  return words;
}

int advise_command(const Options& options) {
  designs::AdviceRequest request{.request = design_request(options),
                                 .steady = steady_of(options.steady)};
  Progress progress;
  request.progress = [&](double fraction) { progress.show("asking the model", fraction); };
  request.stop = interruption();
  const designs::Advice advice = designs::advise(request);
  progress.end();
  if (options.json) {
    write_stdout(advice_json(advice));
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(advice_text(advice, terminal), terminal);
  }
  return advice.reasons.empty() ? kViolated : kHolds;
}

}  // namespace

extern const Command kAdvise;
const Command kAdvise{
    .name = "advise",
    .summary = "Which deterministic design to take for a problem, why, and where it turns",
    .examples =
        "  stagger advise --mask causal --n 16 --heads 8 --sms 16\n"
        "  stagger advise --mask causal --seq 8192 --tile-q 128 --tile-kv 128 --heads 32 \\\n"
        "      --sms 132 --steady sms,batch\n"
        "  stagger advise --mask causal --seq 8192 --tile-q 64 --tile-kv 128 --heads 8 \\\n"
        "      --machine h200 --kernel hopper --dtype bf16 --head-dim 128\n",
    .run = advise_command,
};

}  // namespace stagger::cli
