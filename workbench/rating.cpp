#include "workbench/rating.hpp"

#include "sim/memory.hpp"
#include "sim/simulate.hpp"

namespace stagger::workbench {

std::optional<search::Rating> played_rating(const Table& table, const Timing& timing) {
  const sim::Simulation simulation = sim::simulate(table, timing);
  if (!simulation.complete) return std::nullopt;
  if (!timing.memory) return search::Rating{simulation.makespan, simulation.makespan};
  const sim::MemoryPlay play = sim::play_memory(table, timing);
  return search::Rating{play.makespan,
                        search::cost_of(play.makespan, play.in_flight, *timing.memory)};
}

}  // namespace stagger::workbench
