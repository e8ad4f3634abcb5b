#include "core/timing.hpp"

#include "core/as_played.hpp"
#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/table.hpp"
#include "core/text.hpp"

#include <string>
#include <utility>

namespace stagger {
namespace {

constexpr Ticks kLongestTime = Ticks{1} << 60;

/// Whether so many tasks and chains one after the other, on every SM at once, fit Ticks.
bool fits(const Timing& whole, std::int64_t tasks, std::int64_t chains, const Problem& problem) {
  const Timing timing = as_played(whole);
  Checked hand_over = Checked(timing.latency);
  if (timing.memory) {
    // What is drawn of the spread is below 22 times that (sim/spread.hpp), and the two tiles that a
    // task waits for come at worst one latency after the other.
    hand_over = hand_over + timing.memory->congestion + Checked(22) * timing.memory->spread +
                Checked(2) * timing.memory->latency;
  }
  // In a dip no compute phase takes more than twice as long.
  const std::int64_t slowed = timing.memory && timing.memory->dip_loss > 0 ? 2 : 1;
  const Checked task = Checked(slowed) * timing.longest_compute() + timing.reduce + hand_over;
  Checked ends = Checked(timing.launch) + timing.epilogue;
  if (problem.combine == Combine::ordered) ends = ends + timing.reduce_kv + hand_over;
  if (timing.memory) ends = ends + Checked(2) * timing.memory->latency;
  ends = ends + timing.next_lane.value_or(0);
  return (problem.sms * (task * whole.steps * tasks + ends * chains)).within(kLongestTime);
}

void check_sum(const Timing& timing, std::int64_t tasks, std::int64_t chains,
               const Problem& problem) {
  if (fits(timing, tasks, chains, problem)) return;
  std::string of_memory;
  std::string of_lanes;
  if (timing.next_lane) of_lanes = " and next-lane " + std::to_string(*timing.next_lane);
  const Memory memory = timing.memory.value_or(Memory{});
  for (const auto& [name, ticks] :
       {std::pair{"congestion", memory.congestion}, std::pair{"spread", memory.spread},
        std::pair{"memory-latency", memory.latency}, std::pair{"dip-loss", memory.dip_loss}}) {
    if (ticks > 0) of_memory += ", " + std::string(name) + " " + std::to_string(ticks);
  }
  throw Error(ErrorKind::limit, "model time could exceed 2^60 ticks: " + counted(tasks, "task") +
                                    " of compute " + std::to_string(timing.longest_compute()) +
                                    ", reduce " + std::to_string(timing.reduce) + " and latency " +
                                    std::to_string(timing.latency) + of_memory + " and " +
                                    counted(chains, "chain") + " of launch " +
                                    std::to_string(timing.launch) + " and epilogue " +
                                    std::to_string(timing.epilogue) + of_lanes +
                                    ", counted for each of " + counted(problem.sms, "SM"));
}

/// Throws unless all that tasks and chains touch, read and written back by one channel, fits Ticks.
void check_traffic(const Memory& memory, const Problem& problem) {
  const TileBytes& tile = memory.tile;
  const Checked adds = Checked(divide_up(memory.add_permille, 1000));
  const Checked task = (adds + 2) * tile.dq + tile.q;
  const Checked chain = (adds + 2) * tile.gradient + tile.kv;
  const Checked bytes = task * problem.tasks() + chain * problem.chains();
  if ((bytes * kMemoryChannels).within(kLongestTime)) return;
  throw Error(ErrorKind::limit,
              "a memory could move more than 2^56 bytes: " + std::to_string(problem.tasks()) +
                  " tasks of " + std::to_string(tile.q) + " and twice " + std::to_string(tile.dq) +
                  " bytes, and what additions take");
}

/// Throws unless steps are some, and those of all tasks no more than a table may have tasks.
void check_steps(std::int64_t steps, const Problem& problem) {
  if (steps < 1 || steps > kMaxSteps) {
    throw Error(ErrorKind::usage, "steps must be 1 to " + std::to_string(kMaxSteps));
  }
  const std::int64_t grid = std::int64_t{problem.kv_tiles()} * problem.q_tiles();
  const bool fits = problem.tasks() * steps + problem.chains() <= kMaxTasks &&
                    problem.q_tiles() * steps <= kMaxTiles && grid * steps <= kMaxGridTiles;
  if (steps == 1 || fits) return;
  throw Error(ErrorKind::limit, describe(problem) + ", " + std::to_string(steps) +
                                    " steps each: above the limits of " +
                                    std::to_string(kMaxTasks) + " tasks and chains and " +
                                    std::to_string(kMaxTiles) + " Q tiles");
}

}  // namespace

bool Timing::drains(Dispatch dispatch) const {
  return model == Model::overlap && (dispatch == Dispatch::static_ || next_lane);
}

Ticks Timing::lane_gap(Dispatch dispatch) const {
  return dispatch == Dispatch::in_order && drains(dispatch) ? *next_lane : 0;
}

void check_timing(const Timing& timing, const Problem& problem) {
  const Memory memory = timing.memory.value_or(Memory{});
  for (const auto& [name, ticks] :
       {std::pair{"compute", timing.compute},
        std::pair{"compute-partial", timing.compute_of(TileKind::partial)},
        std::pair{"reduce", timing.reduce}, std::pair{"latency", timing.latency},
        std::pair{"launch", timing.launch}, std::pair{"epilogue", timing.epilogue},
        std::pair{"reduce-kv", timing.reduce_kv},
        std::pair{"next-lane", timing.next_lane.value_or(0)},
        std::pair{"congestion", memory.congestion}, std::pair{"spread", memory.spread},
        std::pair{"memory-latency", memory.latency}, std::pair{"dip", memory.dip},
        std::pair{"dip-loss", memory.dip_loss}}) {
    if (ticks < 0) throw Error(ErrorKind::usage, std::string(name) + " must be 0 or more ticks");
  }
  if (timing.shortest_compute() == 0 && timing.reduce == 0) {
    const std::string name = timing.compute == 0 ? "compute" : "compute-partial";
    throw Error(ErrorKind::usage, name + " and reduce cannot both be 0 ticks");
  }
  check_steps(timing.steps, problem);
  if (timing.steps > 1 && timing.release == Release::delayed) {
    throw Error(ErrorKind::usage,
                "steps and a delayed release are not known together: a step's "
                "lock would wait for the next task's");
  }
  if (timing.residency < 0) throw Error(ErrorKind::usage, "residency must be 1 or more SMs");
  check_sum(timing, problem.tasks(), problem.chains(), problem);
  if (memory.add_permille < 0 || memory.add_permille > kMostAddPermille) {
    throw Error(ErrorKind::usage, "add-permille must be 0 to " + std::to_string(kMostAddPermille));
  }
  if (memory.dip_loss > memory.dip / 2) {
    throw Error(ErrorKind::usage, "dip-loss must be at most half of dip: it is " +
                                      std::to_string(memory.dip_loss) + " of " +
                                      std::to_string(memory.dip));
  }
  if (timing.memory) check_traffic(memory, problem);
}

void check_timing(const Timing& timing, const Table& table) {
  check_timing(timing, table.problem);
  const std::int64_t slots = std::ssize(table.slots);
  const std::int64_t tasks = std::max(table.problem.tasks(), slots);
  // There are no more chains than slots: they are counted only where that does not suffice.
  if (fits(timing, tasks, std::max(table.problem.chains(), slots), table.problem)) return;
  std::int64_t chains = 0;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot)
      chains += table.begins_chain(lane, slot) ? 1 : 0;
  }
  check_sum(timing, tasks, std::max(table.problem.chains(), chains), table.problem);
}

}  // namespace stagger
