#include "core/span.hpp"

#include <algorithm>

namespace stagger {
namespace {

/// `chains of 32 tasks, an SM's share is 36`.
std::string compared(std::int64_t chain, const Problem& problem) {
  return "chains of up to " + std::to_string(chain) + " tasks, an SM's share is " +
         std::to_string(problem.tasks() / problem.sms);
}

}  // namespace

SpanRule span_rule(const Problem& problem) {
  const std::int32_t group = problem.group();
  if (group == 1) return {.span = 1, .why = "no heads share K and V"};
  std::int64_t longest = 0;
  for (const TileGrid& grid : problem.grids.distinct()) {
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
      longest = std::max<std::int64_t>(longest, grid.chain_length(kv));
  }
  const auto fits = [&](std::int32_t span) {
    return span * longest * problem.sms <= problem.tasks();
  };
  const auto alike = [&](std::int32_t span) { return problem.grids.alike_in_parts(span); };
  std::int32_t span = group;
  while (span > 1 && (group % span != 0 || !alike(span) || !fits(span)))
    --span;
  SpanRule rule{.span = span, .why = compared(span * longest, problem)};
  if (span < group) {
    std::int32_t next = span + 1;
    while (group % next != 0)
      ++next;
    rule.why += alike(next) ? "; with " + std::to_string(next) + " heads a chain would have " +
                                  std::to_string(next * longest)
                            : "; of " + std::to_string(next) + " heads some have other masks";
  } else if (problem.grids.of_parts(group).live_chains(problem.heads_kv) <
             2 * std::int64_t{problem.sms}) {
    rule.why += ", but fewer than two chains an SM: packing may cost something";
  } else {
    rule.why += ", and at least two chains an SM: free";
  }
  return rule;
}

}  // namespace stagger
