#pragma once

#include "schedules/schedule.hpp"
#include "schedules/shape.hpp"

namespace stagger::schedules {

/// T_reversed, which descending and lpt-descending share.
///
/// The paper gives it for even m. Simulated for n <= 12, m <= 8, c, r <= 8 it is exact there while
/// r <= c; with r > c from the second pair of heads on each pair adds startup of its own. At r = c
/// it is exact for odd m too.
inline constexpr Formula kReversedMakespan = {
    .name = "T_reversed",
    .text = "m(n+1)(c+r)/2 + (n-1)r",
    .source = "DASH §3.3",
    .domain = "square causal masks, S = n; even m with r < c, or m = 2, or r = c, or n = 1",
    .shape = is_square_causal,
    .in_domain =
        [](const Problem& problem, const Timing& timing) {
          const bool even = problem.heads % 2 == 0;
          return problem.sms == problem.kv_tiles() &&
                 ((even && (timing.reduce < timing.compute || problem.heads == 2)) ||
                  timing.reduce == timing.compute || problem.kv_tiles() == 1);
        },
    .twice_ticks =
        [](const Problem& problem, const Timing& timing) {
          const Ticks n = problem.kv_tiles();
          return problem.heads * (n + 1) * (timing.compute + timing.reduce) +
                 2 * (n - 1) * timing.reduce;
        },
};

}  // namespace stagger::schedules
