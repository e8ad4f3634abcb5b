// Dropout of a table's run.

#include "cli/rows.hpp"

#include <array>

namespace stagger::cli {
namespace {

constexpr std::array kMaskBitsWords = {
    Named<gpu::MaskBits>{"generated", gpu::MaskBits::generated, "made where they are needed"},
    Named<gpu::MaskBits>{"stored", gpu::MaskBits::stored, "read, a word for 32 keys of a query"}};
constexpr std::array kRandomBits = {Named<std::int64_t>{"8", 8}, Named<std::int64_t>{"16", 16},
                                    Named<std::int64_t>{"32", 32}};
constexpr Range kSeeds = {.least = 0};

}  // namespace

std::vector<OptionRow> dropout_rows() {
  constexpr Group kGroup = Group::run;
  constexpr const char* kOne = "run";
  constexpr const char* kNeeds = "dropout";
  return {
      {.name = "dropout",
       .metavar = "P",
       .meaning = "drop elements of P with this probability, and scale what is kept",
       .target = &Options::dropped,
       .commands = kOne,
       .group = kGroup,
       .fallback = "nothing is dropped"},
      {.name = "mask-bits",
       .metavar = "WHERE",
       .meaning = "where the backward pass has the bits of dropout from",
       .target = one_of<kMaskBitsWords, &Options::mask_bits>(),
       .commands = kOne,
       .group = kGroup,
       .fallback = "generated",
       .needs = kNeeds},
      {.name = "dropout-seed",
       .metavar = "SEED",
       .meaning = "what the bits of dropout are drawn from",
       .target = &Options::dropout_seed,
       .commands = kOne,
       .group = kGroup,
       .fallback = "1",
       .range = kSeeds,
       .needs = kNeeds},
      {.name = "dropout-offset",
       .metavar = "N",
       .meaning = "the call's place among those of the seed",
       .target = &Options::dropout_offset,
       .commands = kOne,
       .group = kGroup,
       .fallback = "0",
       .range = kSeeds,
       .needs = kNeeds},
      {.name = "philox",
       .metavar = "ROUNDS",
       .meaning = "rounds of Philox-4x32",
       .target = &Options::philox,
       .commands = kOne,
       .group = kGroup,
       .fallback = "7",
       .range = {.least = 1, .most = 64},
       .needs = kNeeds},
      {.name = "bits",
       .metavar = "BITS",
       .meaning = "random bits that decide on an element",
       .target = one_of<kRandomBits, &Options::bits>(),
       .commands = kOne,
       .group = kGroup,
       .fallback = "8",
       .needs = kNeeds},
  };
}

}  // namespace stagger::cli
