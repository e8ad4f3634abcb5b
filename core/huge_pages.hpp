#pragma once

#include <cstddef>
#include <vector>

namespace stagger {

/// Asks the system for huge pages in [begin, begin + bytes), which will be written as a whole.
/// Fresh memory costs by the page, and for millions of tasks more than what is done with them.
/// Advice: a system that has none goes on with small ones.
void prefer_huge_pages(void* begin, std::size_t bytes);

/// Reserves room for `size` entries, all of which will be there.
template <class T>
void reserve_filled(std::vector<T>& entries, std::size_t size) {
  entries.reserve(size);
  prefer_huge_pages(entries.data(), entries.capacity() * sizeof(T));
}

}  // namespace stagger
