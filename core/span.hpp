#pragma once

#include "core/problem.hpp"

#include <cstdint>
#include <string>

namespace stagger {

/// How many heads of a group best share a chain, and why.
struct SpanRule {
  std::int32_t span = 1;
  std::string why;
};

/// The largest span whose longest chain is no longer than an SM's share of the tasks: the more
/// heads a chain has, the less K, V, dK and dV move, but the coarser is what the SMs have to pack.
/// It is free where there are two chains an SM, too. 1 if no chain is that short. O(KV tiles).
[[nodiscard]] SpanRule span_rule(const Problem& problem);

}  // namespace stagger
