#include "gpu/check/dropout.hpp"

#include "core/error.hpp"
#include "core/index.hpp"
#include "gpu/check/pair_dropout.hpp"
#include "gpu/check/pieces.hpp"

#include <algorithm>
#include <cmath>

namespace stagger::gpu {

DropoutRule dropout_rule(const DropoutOptions& options) {
  STAGGER_EXPECTS(options.bits == 8 || options.bits == 16 || options.bits == 32);
  STAGGER_EXPECTS(options.rounds >= 0);
  if (!(options.probability >= 0 && options.probability < 1)) {
    throw Error(ErrorKind::usage, "dropout's probability must be from 0 to below 1");
  }
  const double kept = std::ldexp(1 - options.probability, options.bits);
  return {.key = dropout_key(options.seed, options.offset),
          .rounds = options.rounds,
          .bits = options.bits,
          .threshold = static_cast<std::uint64_t>(std::max(std::llround(kept), 1LL))};
}

double kept_part(const DropoutRule& rule) {
  return std::ldexp(static_cast<double>(rule.threshold), -rule.bits);
}

double keep_scale(const DropoutRule& rule) {
  return 1 / kept_part(rule);
}

Dropout make_dropout(const DropoutOptions& options, const DropoutLayout& layout) {
  Dropout dropout{.rule = dropout_rule(options), .stored = {}};
  if (options.mask_bits == MaskBits::generated) return dropout;
  const DropoutRule rule = dropout.rule;
  std::vector<std::uint32_t>& stored = dropout.stored;
  stored.resize(at(layout.words(1)));
  in_pieces(stored.size(), [&stored, rule, layout](std::size_t begin, std::size_t end) {
    const auto of_row = at(layout.words_of_row());
    const auto queries = at(layout.seq_q);
    for (std::size_t place = begin; place < end; ++place) {
      const std::size_t row = place / of_row;
      stored[place] = keep_word(rule,
                                {.head = static_cast<std::uint32_t>(row / queries),
                                 .query = static_cast<std::uint32_t>(row % queries)},
                                static_cast<std::uint32_t>(place % of_row));
    }
  });
  return dropout;
}

DropoutWords dropout_words(const Dropout& dropout, const DropoutLayout& layout) {
  return {.rule = dropout.rule,
          .layout = layout,
          .stored = dropout.stored.empty() ? nullptr : dropout.stored.data(),
          .scale = static_cast<float>(keep_scale(dropout.rule))};
}

double pair_weight(const Dropout& dropout, std::int32_t head, std::int64_t query,
                   std::int64_t key) {
  const DropoutRow row{.head = static_cast<std::uint32_t>(head),
                       .query = static_cast<std::uint32_t>(query)};
  return keeps_pair(dropout.rule, row, static_cast<std::uint64_t>(key)) ? keep_scale(dropout.rule)
                                                                        : 0;
}

}  // namespace stagger::gpu
