#pragma once

#include "core/index.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace stagger {

/// Keys [begin, end) that one query sees.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const KeyRange&, const KeyRange&) = default;
};

/// The keys that each query sees: ranges upwards, with keys between them that it does not see.
class KeyRanges {
 public:
  KeyRanges() = default;

  /// One range each, by query; none where it is empty. Most masks are that.
  explicit KeyRanges(std::vector<KeyRange> rows) : one_each_(true), ranges_(std::move(rows)) {}

  /// Adds a range to the query under construction, merged with one that it touches or overlaps.
  /// Requires that none added to it begins later. Throws Error{limit} above kMaxKeyRanges.
  void add(const KeyRange& range);
  void end_query() { begin_.push_back(std::ssize(ranges_)); }

  [[nodiscard]] std::int64_t queries() const {
    return one_each_ ? std::ssize(ranges_) : std::ssize(begin_) - 1;
  }
  [[nodiscard]] std::span<const KeyRange> of(std::int64_t query) const {
    const std::int64_t begin = one_each_ ? query : begin_[at(query)];
    const std::int64_t end = one_each_ ? query + 1 : begin_[at(query + 1)];
    const std::span<const KeyRange> own = std::span(ranges_).subspan(at(begin), at(end - begin));
    return one_each_ && own.front().begin >= own.front().end ? own.first(0) : own;
  }

 private:
  bool one_each_ = false;
  std::vector<KeyRange> ranges_;
  std::vector<std::int64_t> begin_ = {0};  ///< by query, and one more; unless one each
};

/// The keys in some of several ranges, or in all: both are sorted, and so is what is returned.
void add_intersection(std::span<const KeyRange> left, std::span<const KeyRange> right,
                      std::vector<KeyRange>& both);
void add_union(std::span<const KeyRange> left, std::span<const KeyRange> right,
               std::vector<KeyRange>& either);

}  // namespace stagger
