// Cyclic shift: SM s starts with Q tile s and goes round, so that no two SMs reduce into the same
// dQ tile at once.
//
//   full, n = 4, one head; a box is a Q tile     accumulation order of Q tile 2: SMs 2, 1, 0, 3
//   SM 0  0 1 2 3                                (the SM that starts with it first, then
//   SM 1  1 2 3 0                                leftwards, cyclically)
//   SM 2  2 3 0 1
//   SM 3  3 0 1 2
//
// With more KV tiles than SMs, all KV tiles of all heads are dealt to the SMs in rounds (waves): a
// wave holds `width` KV tiles of a head, of which `before` came in earlier waves. Within a wave
// the shift is by the place in the wave, and ranks start at `before`.
//
// No bubble while width <= n_q. At width = n_q + 1 two SMs start with Q tile 0 and one waits; above
// that the published single subtraction leaves the Q range, so we refuse. CTAs wait for CTAs
// launched later: the whole wave must be resident, and with a delayed release full waves deadlock
// (theorem B of schedules/README.md); `verify` and the simulator show both.
// Source: DASH section 3.4, Figure 6; the waves are those of its public code, with the real number
// of SMs in place of its constant 132.

#include "schedules/schedule.hpp"
#include "schedules/shape.hpp"
#include "schedules/wave.hpp"

#include <algorithm>

namespace stagger::schedules::shift {
namespace {

std::int32_t widest_wave(const Problem& problem) {
  return std::min(problem.kv_tiles(), problem.sms);
}

std::optional<std::string> unsupported(const Problem& problem, const Parameters&) {
  if (!problem.grids.all_alike()) return kUnlikeHeads;
  if (!is_full(problem.common_grid())) return "needs a full mask; this one has empty tiles";
  if (widest_wave(problem) > problem.q_tiles() + 1) {
    return "needs at most n_q + 1 KV tiles of a head at once; here " +
           std::to_string(widest_wave(problem)) + " run beside each other over " +
           std::to_string(problem.q_tiles()) + " Q tiles";
  }
  return std::nullopt;
}

void append_chain(const Problem& problem, const Wave& wave, Head head, KvTile kv, Table& table) {
  const std::int32_t q_tiles = problem.q_tiles();
  for (std::int32_t step = 0; step < q_tiles; ++step) {
    const std::int32_t q = (wave.place + step) % q_tiles;
    const std::int32_t turn = (std::min(q, wave.width - 1) - wave.place + wave.width) % wave.width;
    table.slots.push_back({{head, kv, QTile{q}}, wave.before + turn});
  }
}

void build(const Problem& problem, const Parameters&, Table& table) {
  const std::int32_t kv_tiles = problem.kv_tiles();
  for (std::int32_t sm = 0; sm < problem.sms; ++sm) {
    for (std::int64_t dealt = sm; dealt < std::int64_t{problem.heads} * kv_tiles;
         dealt += problem.sms) {
      const Head head{static_cast<std::int32_t>(dealt / kv_tiles)};
      const KvTile kv{static_cast<std::int32_t>(dealt % kv_tiles)};
      append_chain(problem, wave_of(head, kv.value, kv_tiles, problem.sms), head, kv, table);
    }
    table.end_lane();
  }
}

bool fits(const Problem& problem, const Timing& timing) {
  return problem.sms == problem.kv_tiles() &&
         (problem.kv_tiles() <= problem.q_tiles() || timing.reduce == 0);
}

Ticks shift_makespan(const Problem& problem, const Timing& timing) {
  return Ticks{2} * problem.heads * problem.q_tiles() * (timing.compute + timing.reduce);
}

constexpr Formula kFormulas[] = {
    {.name = "T_full_opt",
     .text = "m n_q(c+r)",
     .source = "DASH §3.4",
     .domain = "full masks, S = n_kv <= n_q (or r = 0), all m, c",
     .shape = is_full,
     .in_domain = fits,
     .twice_ticks = shift_makespan},
};

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "shift",
    .summary = "cyclic Q order: SM i starts with Q tile i; optimal for full masks",
    .source = "DASH §3.4",
    .preconditions = "full mask; at most n_q + 1 KV tiles of a head at once",
    .dispatch = Dispatch::static_,
    .formulas = kFormulas,
    .unsupported = unsupported,
    .build = build,
};

}  // namespace stagger::schedules::shift
