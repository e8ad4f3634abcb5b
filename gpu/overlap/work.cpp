#include "gpu/overlap/work.hpp"

#include "core/error.hpp"

namespace stagger::gpu::overlap {

BitsWork bits_work(const DropoutRule& rule, std::int64_t batch, std::int64_t heads,
                   std::int64_t seq, std::uint32_t* to) {
  const DropoutLayout layout{.heads = heads, .seq_q = seq, .seq_kv = seq};
  const std::int64_t words = layout.words(batch);
  STAGGER_EXPECTS(words > 0 && words < std::int64_t{1} << 31);
  return {.rule = rule,
          .words_of_row = hopper::Divisor(static_cast<std::int32_t>(layout.words_of_row())),
          .seq = hopper::Divisor(static_cast<std::int32_t>(seq)),
          .heads = hopper::Divisor(static_cast<std::int32_t>(heads)),
          .words = static_cast<std::int32_t>(words),
          .to = to};
}

}  // namespace stagger::gpu::overlap
