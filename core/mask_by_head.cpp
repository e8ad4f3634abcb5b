// Masks of which each is for some of the heads.

#include "core/error.hpp"
#include "core/mask_rules.hpp"

#include <string>

namespace stagger {

std::int64_t mask_heads(const Mask& mask) {
  if (mask.family == nullptr || !mask.family->by_head) return 0;
  const std::vector<std::int64_t>& heads = mask.integers("heads");
  return heads.empty() ? std::ssize(mask.masks("of")) : std::ssize(heads);
}

std::int32_t mask_place(const Mask& mask, Head head) {
  const std::int64_t count = mask_heads(mask);
  STAGGER_EXPECTS(count > 0);
  const std::vector<std::int64_t>& heads = mask.integers("heads");
  const std::int64_t place = head.value % count;
  return static_cast<std::int32_t>(heads.empty() ? place : heads[at(place)]);
}

const Mask& mask_of(const Mask& mask, Head head) {
  return mask.family->by_head ? mask.masks("of")[at(mask_place(mask, head))] : mask;
}

void check_mask_heads(const Mask& mask, std::int32_t heads) {
  if (heads % mask_heads(mask) == 0) return;
  throw Error(ErrorKind::usage, "masks for " + std::to_string(mask_heads(mask)) +
                                    " heads, over and over, are none for " + std::to_string(heads));
}

void expect_not_by_head(const Mask& mask) {
  if (!mask.family->by_head) return;
  throw Error(ErrorKind::unsupported, "heads have masks of their own: that is for one mask of all");
}

}  // namespace stagger
