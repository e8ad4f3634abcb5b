#pragma once

#include "cli/terminal.hpp"
#include "workbench/invariance.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// The whole report for people.
[[nodiscard]] std::string report_text(const workbench::Analysis& analysis,
                                      const Terminal& terminal);

/// One line: `spt (in-order dispatch; FlashAttention-3)`.
[[nodiscard]] std::string schedule_line(const workbench::Summary& summary);
/// One line: `1 among 4 heads: batch invariant; digest 0123456789abcdef at head_dim 64`.
[[nodiscard]] std::string orders_line(const workbench::OrderReport& orders, std::int32_t heads);
/// One line: `head 0: 3-7 hang, 0-2 finish`.
[[nodiscard]] std::string hanging_line(const Problem& problem,
                                       const std::vector<dag::Liveness::Hanging>& hanging);
/// How many heads a chain has, how its parts come together, and what the rule says.
[[nodiscard]] std::string span_line(const Problem& problem);

}  // namespace stagger::cli
