#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

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
using KvHead = Index<struct KvHeadKind>;  ///< K and V that a group of heads shares
using Part = Index<struct PartKind>;      ///< heads of one KV head whose tasks share chains
using KvTile = Index<struct KvTileKind>;  ///< `n_block` in FlashAttention's kernels
using QTile = Index<struct QTileKind>;    ///< `m_block` in FlashAttention's kernels
using Sm = Index<struct SmKind>;          ///< a streaming multiprocessor
using Lane = Index<struct LaneKind>;      ///< an SM's program (static) or a CTA's (in-order)

/// The place of an index in a container of the standard library, which counts unsigned. Requires
/// index >= 0.
template <std::integral Integer>
[[nodiscard]] constexpr std::size_t at(Integer index) {
  return static_cast<std::size_t>(index);
}
template <class Kind>
[[nodiscard]] constexpr std::size_t at(Index<Kind> index) {
  return at(index.value);
}

/// A vector with one entry for every index of a kind: `ends[lane]` compiles for a Lane and for no
/// other index. Where the index is an integer, like a slot of a table, any integer will do. Sizes
/// are of any integer type. Indexing costs what it costs in a std::vector, and checks as little.
template <class I, class T>
class IndexVector : public std::vector<T> {
  using Base = std::vector<T>;
  template <class J>
  static constexpr bool kIndexes = std::same_as<I, J> || (std::integral<I> && std::integral<J>);

 public:
  using Base::Base;
  IndexVector() = default;
  IndexVector(Base values) : Base(std::move(values)) {}
  explicit IndexVector(std::integral auto size) : Base(at(size)) {}
  IndexVector(std::integral auto size, const T& value) : Base(at(size), value) {}

  template <class J>
  [[nodiscard]] typename Base::reference operator[](J index) requires kIndexes<J> {
    return Base::operator[](at(index));
  }
  template <class J>
  [[nodiscard]] typename Base::const_reference operator[](J index) const requires kIndexes<J> {
    return Base::operator[](at(index));
  }

  using Base::assign;
  void assign(std::integral auto size, const T& value) { Base::assign(at(size), value); }
  void resize(std::integral auto size) { Base::resize(at(size)); }
  void reserve(std::integral auto size) { Base::reserve(at(size)); }
};

}  // namespace stagger
