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
  std::int64_t longest = 0;
  std::int64_t live = 0;
  for (KvTile kv{0}; kv.value < problem.grid.kv_tiles(); ++kv) {
    longest = std::max<std::int64_t>(longest, problem.grid.chain_length(kv));
    live += problem.grid.chain_length(kv) > 0 ? 1 : 0;
  }
  const std::int32_t group = problem.group();
  if (group == 1) return {.span = 1, .why = "no heads share K and V"};
  const auto fits = [&](std::int32_t span) {
    return span * longest * problem.sms <= problem.tasks();
  };
  std::int32_t span = group;
  while (span > 1 && (group % span != 0 || !fits(span)))
    --span;
  SpanRule rule{.span = span, .why = compared(span * longest, problem)};
  if (span < group) {
    std::int32_t next = span + 1;
    while (group % next != 0)
      ++next;
    rule.why += "; with " + std::to_string(next) + " heads a chain would have " +
                std::to_string(next * longest);
  } else if (problem.heads_kv * live < 2 * std::int64_t{problem.sms}) {
    rule.why += ", but fewer than two chains an SM: packing may cost something";
  } else {
    rule.why += ", and at least two chains an SM: free";
  }
  return rule;
}

}  // namespace stagger
