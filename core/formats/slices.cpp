#include "core/formats/slices.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace stagger::formats {
namespace {

/// A slice that the next query's keys may go on: by how much its ends have moved with each query.
struct OpenSlice {
  std::int64_t query = 0;  ///< its first
  KeyRange first;
  KeyRange last;
  std::int64_t rows = 1;
  std::int64_t begin_step = 0;
  std::int64_t end_step = 0;

  /// Takes the next query's range, if it goes on as the ones before.
  bool takes(const KeyRange& range) {
    const std::int64_t begin = range.begin - last.begin;
    const std::int64_t end = range.end - last.end;
    const bool goes_on = rows == 1 ? (begin == 0 || begin == 1) && (end == 0 || end == 1)
                                   : begin == begin_step && end == end_step;
    if (!goes_on) return false;
    begin_step = begin;
    end_step = end;
    last = range;
    ++rows;
    return true;
  }
};

class Slicer {
 public:
  void add(std::int64_t query, std::span<const KeyRange> ranges) {
    std::vector<OpenSlice> next;
    std::size_t place = 0;
    for (const KeyRange& range : ranges) {
      while (place < open_.size() && open_[place].last.begin + 1 < range.begin)
        close(open_[place++]);
      if (place < open_.size() && open_[place].takes(range)) {
        next.push_back(open_[place++]);
      } else {
        next.push_back({.query = query, .first = range, .last = range});
      }
    }
    for (; place < open_.size(); ++place)
      close(open_[place]);
    open_ = std::move(next);
  }

  Slices slices() {
    for (const OpenSlice& slice : open_)
      close(slice);
    std::ranges::stable_sort(closed_, [](const OpenSlice& left, const OpenSlice& right) {
      return std::pair(left.query, left.first.begin) < std::pair(right.query, right.first.begin);
    });
    Slices slices;
    for (const OpenSlice& slice : closed_) {
      slices.q.insert(slices.q.end(), {slice.query, slice.query + slice.rows});
      slices.kv.insert(slices.kv.end(), {slice.first.begin, slice.last.end});
      slices.types.push_back(2 * slice.begin_step + slice.end_step);
    }
    return slices;
  }

 private:
  void close(const OpenSlice& slice) { closed_.push_back(slice); }

  std::vector<OpenSlice> open_;
  std::vector<OpenSlice> closed_;
};

}  // namespace

Slices slices_of(const KeyRanges& rows) {
  Slicer slicer;
  for (std::int64_t query = 0; query < rows.queries(); ++query)
    slicer.add(query, rows.of(query));
  return slicer.slices();
}

}  // namespace stagger::formats
