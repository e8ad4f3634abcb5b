// Head blocks: heads in pairs, and one triple if their number is odd, fill the SMs of a causal mask
// without a collision and without a gap, for any number of KV tiles and heads.
//
//   causal, n = 5, three heads on 5 SMs. A box is a Q tile; the head changes at the bar.
//         round  0 1 2 3 4 5 6 7 8
//   SM 0         4|4 3 2 1|0 1 2 3 4 …    lengths a = 1, b = 3, c = 5
//
// The columns of such a picture must not show a Q tile twice for one head. Count Q tiles from the
// last, p = n-1-q, so that a chain of b tasks has p = 0 … b-1, whichever its KV tile. Then
//   - if the chains of a head end in different rounds, p descending never collides:
//     round = end-1-p, and equal rounds for one p would mean equal ends;
//   - if they start in different rounds, p ascending never collides: round = start+p.
// So only the lengths on each SM have to add up.
//   one head   length b on SM n-b, all start at 0 (ends differ)
//   pairs      lengths b and n+1-b: the first head starts at 0 (ends differ), the second ends at
//              n+1 (starts differ)
//   triples    h = ceil(n/2), T = ceil(3(n+1)/2) = 2n+2-h
//                SM i = 1 … h          a = i      b = i+n-h   c = n+2-2i   sum T
//                SM h+j, j = 1 … n-h   a = h+j    b = j       c = n+1-2j   sum n+h+1 <= T
//              a is 1 … n, b is n-h+1 … n and 1 … n-h, c is every number of n's parity and every
//              other one. The first head starts at 0 (ends a differ), the second starts at a
//              (starts differ), the third ends at T (starts differ).
// With m heads: floor(m/2) pairs of n+1 rounds, one of them exchanged for a triple if m is odd, is
// ceil(m(n+1)/2) rounds; m n(n+1)/2 tasks on n SMs need as many. One head alone needs its longest
// chain, n rounds.
// No round is shared and a reduction ends with its round, so no one waits in the chain model
// either. Source: none known; the paper's symmetric shift needs even n and even m.

#include "core/text.hpp"
#include "schedules/schedule.hpp"
#include "schedules/shape.hpp"

#include <algorithm>

namespace stagger::schedules::head_blocks {
namespace {

std::optional<std::string> unsupported(const Problem& problem, const Parameters&) {
  if (!problem.grids.all_alike()) return kUnlikeHeads;
  if (!is_square_causal(problem.common_grid())) {
    return "needs a square causal mask: KV tile i live from Q tile i to the last";
  }
  if (problem.sms != problem.kv_tiles()) {
    return "needs as many SMs as KV tiles; there are " + counted(problem.sms, "SM") + " and " +
           std::to_string(problem.kv_tiles()) + " KV tiles";
  }
  return std::nullopt;
}

/// Adds the chains of one SM. Ranks are the order of the rounds that the essay derives.
class Block {
 public:
  Block(std::int32_t n, Table& table) : n_(n), table_(table) {}

  /// Starts with the block: Q ascending; the shorter a chain, the earlier it is at a Q tile.
  void first(Head head, std::int32_t length) {
    const std::int32_t kv = n_ - length;
    for (std::int32_t q = kv; q < n_; ++q)
      append(head, kv, q, q - kv);
  }

  /// Starts where the first head's chain ends: the longest h come first, each group from the
  /// shorter to the longer.
  void middle(Head head, std::int32_t length) {
    const std::int32_t half = (n_ + 1) / 2;
    const std::int32_t kv = n_ - length;
    for (std::int32_t q = n_ - 1; q >= kv; --q) {
      append(head, kv, q, kv < half ? std::min(q, half - 1) - kv : half + q - kv);
    }
  }

  /// Ends with the block: Q descending; the longer a chain, the earlier it is at a Q tile.
  void last(Head head, std::int32_t length) {
    const std::int32_t kv = n_ - length;
    for (std::int32_t q = n_ - 1; q >= kv; --q)
      append(head, kv, q, kv);
  }

 private:
  void append(Head head, std::int32_t kv, std::int32_t q, std::int32_t rank) {
    table_.slots.push_back({{head, KvTile{kv}, QTile{q}}, rank});
  }

  std::int32_t n_;
  Table& table_;
};

void build(const Problem& problem, const Parameters&, Table& table) {
  const std::int32_t n = problem.kv_tiles();
  const std::int32_t m = problem.heads;
  const std::int32_t paired = m % 2 == 0 ? m : std::max(m - 3, 0);
  const std::int32_t half = (n + 1) / 2;
  Block block(n, table);
  for (std::int32_t sm = 0; sm < n; ++sm) {
    for (Head head{0}; head.value < paired; head.value += 2) {
      block.first(head, n - sm);
      block.last(Head{head.value + 1}, sm + 1);
    }
    const std::int32_t row = sm + 1;
    if (m == 1) {
      block.first(Head{0}, n - sm);
    } else if (m % 2 == 1) {
      const bool upper = row <= half;
      block.first(Head{paired}, row);
      block.middle(Head{paired + 1}, upper ? row + n - half : row - half);
      block.last(Head{paired + 2}, upper ? n + 2 - 2 * row : n + 1 - 2 * (row - half));
    }
    table.end_lane();
  }
}

Ticks twice_makespan(const Problem& problem, const Timing& timing) {
  const Ticks n = problem.kv_tiles();
  const Ticks rounds = std::max(n, (problem.heads * (n + 1) + 1) / 2);
  return 2 * rounds * (timing.compute + timing.reduce);
}

constexpr Formula kFormulas[] = {
    {.name = "T_blocks",
     .text = "max(n, ceil(m(n+1)/2))(c+r)",
     .source = "schedules/head_blocks.cpp",
     .domain = "square causal masks, S = n, any n and m",
     .shape = is_square_causal,
     .in_domain = [](const Problem& problem,
                     const Timing&) { return problem.sms == problem.kv_tiles(); },
     .twice_ticks = twice_makespan},
};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "head-blocks",
    .summary = "heads in pairs and one triple fill the SMs: optimal for any n and m",
    .source = "Stagger",
    .preconditions = "square causal mask, as many SMs as KV tiles",
    .dispatch = Dispatch::static_,
    .formulas = kFormulas,
    .unsupported = unsupported,
    .build = build,
};

}  // namespace stagger::schedules::head_blocks
