#include "core/huge_pages.hpp"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include <memory>

namespace stagger {

void prefer_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr std::size_t kPage = std::size_t{1} << 21;
  if (std::align(kPage, kPage, begin, bytes) != nullptr)
    madvise(begin, bytes / kPage * kPage, MADV_HUGEPAGE);
#endif
}

}  // namespace stagger
