#include "core/huge_pages.hpp"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include <cstdint>

namespace stagger {

void prefer_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = std::uintptr_t{1} << 21;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (address + bytes) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace stagger
