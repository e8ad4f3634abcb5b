#pragma once

#include "core/problem.hpp"
#include "dag/bounds.hpp"

namespace stagger::dag {

/// Lower bounds in the slot model, in rounds: a task takes one, the tasks of a chain take one round
/// after the other, no two tasks of a dQ tile the same, and where parts are combined in order no
/// two chains of a KV tile end in one.
///
/// work, chain and packing as in the chain model; degree the contributions to one dQ tile; dkv the
/// ends of a KV tile's chains one after the other;
/// matching: of a set of chains no more can run at once than a matching of their live tiles has
/// edges, so they are packed on that many SMs. Sets tried: the chains of at least d tasks of one
/// head or of all, and the components of one head. O(kv_tiles * live tiles) and the packings;
/// matchings only up to 2^20 tiles a head. Once `stop` is true no more sets are tried. Source:
/// König 1916 (degree); dag/README.md.
[[nodiscard]] Bounds slot_bounds(
    const Problem& problem, const Stop& stop = [] { return false; });

}  // namespace stagger::dag
