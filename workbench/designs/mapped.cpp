#include "workbench/designs/mapped.hpp"

#include "sim/simulate.hpp"

#include <utility>
#include <vector>

namespace stagger::designs {

Problem problem_of_grid(const TileGrid& grid, std::int64_t heads, std::int64_t sms,
                        const Grouping& grouping) {
  std::vector<std::string> rows;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    std::string& row = rows.emplace_back();
    for (QTile q{0}; q.value < grid.q_tiles(); ++q)
      row += static_cast<char>(grid.kind(kv, q));
  }
  return make_problem(make_mask("tiles", {{"rows", std::move(rows)}}),
                      {.q = grid.q_tiles(), .kv = grid.kv_tiles()}, {}, heads, sms, grouping);
}

Played play_schedule(const std::optional<schedules::Selection>& given, const Problem& problem,
                     const Timing& timing) {
  if (given) return {*given, schedules::build(*given, problem, timing)};
  Played best;  // there are schedules for any mask, free of deadlock
  std::optional<Ticks> shortest;
  for (const schedules::Schedule* schedule : schedules::all()) {
    schedules::Selection selection = schedules::select(schedule->name);
    if (schedule->searches() || schedules::why_unsupported(selection, problem)) continue;
    Table table = schedules::build(selection, problem, timing);
    const sim::Simulation played = sim::simulate(table, timing);
    if (!played.complete || (shortest && played.makespan >= *shortest)) continue;
    shortest = played.makespan;
    best = {std::move(selection), std::move(table)};
  }
  return best;
}

}  // namespace stagger::designs
