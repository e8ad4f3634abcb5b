#include "core/key_ranges.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <string>

namespace stagger {

void KeyRanges::add(const KeyRange& range) {
  if (range.begin >= range.end) return;
  STAGGER_EXPECTS(!one_each_);
  if (std::ssize(ranges_) > begin_.back() && range.begin <= ranges_.back().end) {
    STAGGER_EXPECTS(range.begin >= ranges_.back().begin);
    ranges_.back().end = std::max(ranges_.back().end, range.end);
    return;
  }
  if (std::ssize(ranges_) >= kMaxKeyRanges) {
    throw Error(ErrorKind::limit, "a mask of more than " + std::to_string(kMaxKeyRanges) +
                                      " ranges of keys, over all queries");
  }
  ranges_.push_back(range);
}

void add_intersection(std::span<const KeyRange> left, std::span<const KeyRange> right,
                      std::vector<KeyRange>& both) {
  while (!left.empty() && !right.empty()) {
    const KeyRange common = {std::max(left.front().begin, right.front().begin),
                             std::min(left.front().end, right.front().end)};
    if (common.begin < common.end) both.push_back(common);
    (left.front().end < right.front().end ? left : right) =
        (left.front().end < right.front().end ? left : right).subspan(1);
  }
}

void add_union(std::span<const KeyRange> left, std::span<const KeyRange> right,
               std::vector<KeyRange>& either) {
  while (!left.empty() || !right.empty()) {
    const bool from_left =
        right.empty() || (!left.empty() && left.front().begin <= right.front().begin);
    std::span<const KeyRange>& from = from_left ? left : right;
    const KeyRange next = from.front();
    from = from.subspan(1);
    if (!either.empty() && next.begin <= either.back().end) {
      either.back().end = std::max(either.back().end, next.end);
    } else {
      either.push_back(next);
    }
  }
}

}  // namespace stagger
