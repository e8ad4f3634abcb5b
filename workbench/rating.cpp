#include "workbench/rating.hpp"

#include "sim/memory.hpp"
#include "sim/simulate.hpp"

namespace stagger::workbench {

std::optional<search::Rating> played_rating(const Table& table, const Timing& timing) {
  const sim::Simulation simulation = sim::simulate(table, timing);
  if (!simulation.complete) return std::nullopt;
  if (!timing.memory) return search::Rating{simulation.makespan, simulation.makespan};
  const auto cost_of = [](const sim::MemoryPlay& play, const Memory& memory) {
    return search::cost_of(play.makespan, play.in_flight, memory);
  };
  const sim::MemoryPlay own = sim::play_memory(table, timing);
  const auto cost_by = [&](const Timing& other) {
    return cost_of(sim::play_memory(table, other), *other.memory);
  };
  return search::Rating{own.makespan, search::mean_cost(timing, std::ssize(table.slots),
                                                        cost_of(own, *timing.memory), cost_by)};
}

}  // namespace stagger::workbench
