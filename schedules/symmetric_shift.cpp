// Symmetric shift: a causal mask's KV tiles i and n-1-i share an SM, so every SM has the same work,
// and the two triangles fold into a square that a cyclic shift fills without a collision.
//
//   causal, n = 8, one head on 4 SMs. A box is a Q tile; the KV tile changes at the bar.
//            rectangle   upper triangle | lower triangle
//   SM 0  3 4 5 6 7      0 1 2          | 7               KV 0, then KV 7
//   SM 1  4 5 6 7 3      1 2            | 7 6             KV 1, then KV 6
//   SM 2  5 6 7 3 4      2              | 7 6 5           KV 2, then KV 5
//   SM 3  6 7 3 4 5                     | 7 6 5 4         KV 3, then KV 4
//
// Phase 1 goes round the rectangle that all KV tiles of the first half share; phase 2 takes the
// rest of the long chain top-down and then the short chain bottom-up.
// Pairs are dealt to the SMs in waves (wave.hpp), as in shift. Ranks of a Q tile, in order:
//   1. contributions of earlier waves: every long tile, and the short ones that reach the Q tile
//   2. this wave's long tiles: cyclically in the rectangle, from the last that reaches it down in
//      the triangle
//   3. this wave's short tiles, from the last pair down
// With several heads a chain (lift.cpp) the rectangle begins one Q tile later, 4 5 6 7 here: every
// long tile then has a triangle, and head-major order, which takes rectangle and triangle head by
// head, is free of collisions too. For head a and Q tile q, a long tile of pair p is in the
// triangle in round a*n/2 + q - (a+1)p behind the rectangles, a short one in a round that falls
// with p likewise: no two pairs meet.
//
// Item 1 is counted, not derived: the public code computes it in a way that is wrong when a head
// straddles waves and the last KV tile is ragged.
// Source: DASH section 3.4, Figure 7, and its public code for waves and for several Q tiles per KV
// tile. The paper writes KV blocks for what Figure 7 shows as Q tiles.

#include "schedules/schedule.hpp"
#include "schedules/shape.hpp"
#include "schedules/wave.hpp"

#include <algorithm>

namespace stagger::schedules::symmetric_shift {
namespace {

std::optional<std::string> unsupported(const Problem& problem, const Parameters&) {
  if (!problem.grids.all_alike()) return kUnlikeHeads;
  const std::optional<Staircase> stairs = staircase(problem.common_grid());
  if (!stairs) {
    return "needs a causal mask: KV tile i live from Q tile a + b*i to the last, a >= 0, b >= 1";
  }
  if (problem.kv_tiles() % 2 == 1) {
    return "needs an even number of KV tiles to pair them; there are " +
           std::to_string(problem.kv_tiles());
  }
  return std::nullopt;
}

/// Where the rectangle of a wave begins, which its long tiles go round.
enum class Corner {
  diagonal,  ///< with the last long tile's first Q tile: all that the long tiles share
  square,    ///< after that Q tile, so that every long tile has a triangle
};

/// How far the KV tiles of a staircase reach down.
class Reach {
 public:
  Reach(const TileGrid& grid, const Staircase& stairs)
      : stairs_(stairs), last_(grid.q_tiles(), -1) {
    for (std::int32_t q = stairs.offset; q < grid.q_tiles(); ++q)
      last_[QTile{q}] = std::min((q - stairs.offset) / stairs.ratio, grid.kv_tiles() - 1);
  }

  [[nodiscard]] std::int32_t first_q(std::int32_t kv) const {
    return stairs_.offset + stairs_.ratio * kv;
  }
  /// The last KV tile that contributes to a Q tile; -1 if none does.
  [[nodiscard]] std::int32_t last_kv(std::int32_t q) const { return last_[QTile{q}]; }

 private:
  Staircase stairs_;
  IndexVector<QTile, std::int32_t> last_;
};

/// The Q range of one wave: long tiles share Q tiles [rectangle, q_tiles).
class Fold {
 public:
  Fold(const TileGrid& grid, const Reach& reach, const Wave& wave, Corner corner)
      : kv_tiles_(grid.kv_tiles()),
        q_tiles_(grid.q_tiles()),
        reach_(reach),
        wave_(wave),
        rectangle_(reach.first_q(wave.before + wave.width - (corner == Corner::diagonal ? 1 : 0))) {
  }

  void append_long(Head head, std::int32_t pair, Table& table) const {
    const std::int32_t height = q_tiles_ - rectangle_;  // at least half the Q tiles: >= width
    for (std::int32_t turn = wave_.place; turn < height; ++turn) {
      append(head, pair, rectangle_ + turn, std::min(turn, wave_.width - 1) - wave_.place, table);
    }
    for (std::int32_t turn = 0; turn < wave_.place; ++turn)
      append(head, pair, rectangle_ + turn, wave_.width - wave_.place + turn, table);
    for (std::int32_t q = reach_.first_q(pair); q < rectangle_; ++q)
      append(head, pair, q, reach_.last_kv(q) - pair, table);
  }

  void append_short(Head head, std::int32_t pair, Table& table) const {
    const std::int32_t kv = kv_tiles_ - 1 - pair;
    for (std::int32_t q = q_tiles_ - 1; q >= reach_.first_q(kv); --q) {
      append(head, kv, q, wave_.width + (wave_.width - 1 - wave_.place), table);
    }
  }

 private:
  /// Contributions to a Q tile from this head's earlier waves: `before` long tiles, and as many of
  /// the short tiles n-1, n-2, … as reach up to it. A Q tile that a long tile of this wave sees is
  /// seen by all long tiles before.
  [[nodiscard]] std::int32_t earlier(std::int32_t q) const {
    return wave_.before + std::max(0, reach_.last_kv(q) - (kv_tiles_ - 1 - wave_.before));
  }

  void append(Head head, std::int32_t kv, std::int32_t q, std::int32_t turn, Table& table) const {
    table.slots.push_back({{head, KvTile{kv}, QTile{q}}, earlier(q) + turn});
  }

  std::int32_t kv_tiles_;
  std::int32_t q_tiles_;
  const Reach& reach_;
  Wave wave_;
  std::int32_t rectangle_;
};

void fold(const Problem& problem, Corner corner, Table& table) {
  const TileGrid& grid = problem.common_grid();
  const Reach reach(grid, *staircase(grid));
  const std::int32_t pairs = problem.kv_tiles() / 2;
  for (std::int32_t sm = 0; sm < problem.sms; ++sm) {
    for (std::int64_t dealt = sm; dealt < std::int64_t{problem.heads} * pairs;
         dealt += problem.sms) {
      const Head head{static_cast<std::int32_t>(dealt / pairs)};
      const auto pair = static_cast<std::int32_t>(dealt % pairs);
      const Fold fold(grid, reach, wave_of(head, pair, pairs, problem.sms), corner);
      fold.append_long(head, pair, table);
      fold.append_short(head, pair, table);
    }
    table.end_lane();
  }
}

void build(const Problem& problem, const Parameters&, Table& table) {
  fold(problem, Corner::diagonal, table);
}

void build_to_lift(const Problem& problem, const Parameters&, Table& table) {
  fold(problem, Corner::square, table);
}

/// The triangle of a long tile comes after its square and begins with its first Q tile.
bool begins_run(const Table& parts, std::int64_t slot) {
  const TileGrid& grid = parts.problem.common_grid();
  const Task& task = parts.slots[slot].task;
  const bool is_long = task.kv.value < grid.kv_tiles() / 2;
  return is_long && (task.q.value == 0 || !grid.live(task.kv, QTile{task.q.value - 1}));
}

bool balanced(const Problem& problem, const Timing&) {
  return problem.heads % 2 == 0 && problem.sms == problem.kv_tiles() && problem.kv_tiles() % 2 == 0;
}

Ticks symmetric_makespan(const Problem& problem, const Timing& timing) {
  return problem.heads * (Ticks{problem.kv_tiles()} + 1) * (timing.compute + timing.reduce);
}

bool pairs_fill(const Problem& problem, const Timing&) {
  return problem.sms == problem.kv_tiles() && problem.kv_tiles() % 2 == 0;
}

Ticks two_heads_at_once(const Problem& problem, const Timing& timing) {
  return Ticks{2} * ((problem.heads + 1) / 2) * (problem.kv_tiles() + 1) *
         (timing.compute + timing.reduce);
}

constexpr Formula kFormulas[] = {
    {.name = "T_causal_opt",
     .text = "m(n+1)(c+r)/2",
     .source = "DASH §3.4",
     .domain = "square causal masks, S = n, even n, even m",
     .shape = is_square_causal,
     .in_domain = balanced,
     .twice_ticks = symmetric_makespan},
    {.name = "T_symmetric",
     .text = "ceil(m/2)(n+1)(c+r)",
     .source = "schedules/symmetric_shift.cpp",
     .domain = "square causal masks, S = n, even n, any m",
     .shape = is_square_causal,
     .in_domain = pairs_fill,
     .twice_ticks = two_heads_at_once},
};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "symmetric-shift",
    .summary = "KV tiles i and n-1-i share an SM; the folded triangles are shifted cyclically",
    .source = "DASH §3.4",
    .preconditions = "causal mask, an even number of KV tiles, n_q a multiple per KV tile",
    .dispatch = Dispatch::static_,
    .formulas = kFormulas,
    .unsupported = unsupported,
    .build = build,
    .build_to_lift = build_to_lift,
    .begins_run = begins_run,
};

}  // namespace stagger::schedules::symmetric_shift
