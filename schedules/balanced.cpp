// Balanced: whole chains are packed so that no SM has more tasks than it must, then every SM takes,
// whenever it is free, the Q tile of its chain whose reduction can start soonest in the timing
// model asked for (search/list_scheduling.hpp); of equals the next one round from its KV tile's
// place, as in shift. Source: P || Cmax for the lanes (Graham 1969), list scheduling for the Q
// order.

#include "schedules/schedule.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/packing.hpp"

#include <algorithm>

namespace stagger::schedules::balanced {
namespace {

void search_lanes(const Problem& problem, const Timing& timing, const Parameters&, const Stop&,
                  Table& table) {
  const std::int32_t sms = resident_lanes(problem, timing.residency);
  const Ticks least = (problem.tasks() + sms - 1) / sms;
  const auto lanes = search::pack_chains(search::chains_of(problem), sms, least);
  table.take_lanes(search::list_schedule(problem, timing, lanes, search::QOrder::cyclic));
}

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "balanced",
    .summary = "chains packed evenly, then the Q tile that can reduce soonest",
    .source = "Stagger",
    .preconditions = "any mask",
    .dispatch = Dispatch::static_,
    .search = search_lanes,
    .searches_heads = true,
};

}  // namespace stagger::schedules::balanced
