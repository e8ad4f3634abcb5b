// Windowed: the table of `optimal` for a window of heads, repeated for all of them
// (search/windows.hpp). Where the fp32 dQ tiles of all heads together do not fit into the L2 cache,
// a reduction of a table that has them all in flight goes to memory; those of a window stay near.
// How many heads fit is the device's business: the timing model knows no memory.

#include "core/limits.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/windows.hpp"

namespace stagger::schedules::windowed {
namespace {

constexpr Parameter kParameters[] = {
    {.name = "heads",
     .meaning = "heads of a window",
     .fallback = 16,
     .least = 1,
     .most = kMaxHeads},
    {.name = "effort",
     .meaning = "how long it searches for a window's table; `stagger optimize` has 100",
     .fallback = 3,
     .least = 0,
     .most = 100'000},
};

void build(const Problem& problem, const Timing& timing, const Parameters& parameters,
           Table& table) {
  Table built = search::windowed(problem, timing,
                                 {.heads = static_cast<std::int32_t>(parameters.at("heads")),
                                  .effort = parameters.at("effort"),
                                  .stop = [] { return false; }});
  table.slots = std::move(built.slots);
  table.lane_begin = std::move(built.lane_begin);
}

}  // namespace

extern const Schedule kSchedule;
constinit const Schedule kSchedule{
    .name = "windowed",
    .summary = "the best table a short search finds for a window of heads, repeated",
    .source = "Stagger",
    .preconditions = "any mask",
    .dispatch = Dispatch::static_,
    .searches = true,
    .parameters = kParameters,
    .build = build,
};

}  // namespace stagger::schedules::windowed
