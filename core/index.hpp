#pragma once

#include <compare>
#include <cstdint>

namespace stagger {

/// A 0-based index that cannot be mixed up with an index of another kind: `grid.live(kv, q)` does
/// not compile with its arguments swapped. Arithmetic goes through `value`, on purpose.
template <class Kind>
struct Index {
  std::int32_t value = 0;

  constexpr auto operator<=>(const Index&) const = default;
  constexpr Index& operator++() {
    ++value;
    return *this;
  }
};

using Head = Index<struct HeadKind>;      ///< one copy of the tile grid; the batch is folded in
using KvTile = Index<struct KvTileKind>;  ///< `n_block` in FlashAttention's kernels
using QTile = Index<struct QTileKind>;    ///< `m_block` in FlashAttention's kernels
using Sm = Index<struct SmKind>;          ///< a streaming multiprocessor
using Lane = Index<struct LaneKind>;      ///< an SM's program (static) or a CTA's (in-order)

}  // namespace stagger
