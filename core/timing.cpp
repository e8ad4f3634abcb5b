#include "core/timing.hpp"

#include "core/error.hpp"

#include <string>
#include <utility>

namespace stagger {
namespace {

constexpr Ticks kLongest = Ticks{1} << 62;

void expect_fits(const char* what, Ticks each, std::int64_t count, Ticks& room) {
  if (each != 0 && count > room / each) {
    throw Error(ErrorKind::limit, std::string("model time could exceed 2^62 ticks: ") +
                                      std::to_string(count) + " times " + what + " " +
                                      std::to_string(each));
  }
  room -= each * count;
}

}  // namespace

void check_timing(const Timing& timing, std::int64_t tasks, std::int64_t chains) {
  for (const auto& [name, ticks] :
       {std::pair{"compute", timing.compute},
        std::pair{"compute-partial", timing.compute_of(TileKind::partial)},
        std::pair{"reduce", timing.reduce}, std::pair{"latency", timing.latency},
        std::pair{"launch", timing.launch}, std::pair{"epilogue", timing.epilogue}}) {
    if (ticks < 0) throw Error(ErrorKind::usage, std::string(name) + " must be 0 or more ticks");
  }
  if (timing.shortest_compute() == 0 && timing.reduce == 0) {
    throw Error(ErrorKind::usage, "compute and reduce cannot both be 0 ticks");
  }
  if (timing.residency < 0) throw Error(ErrorKind::usage, "residency must be 1 or more SMs");
  Ticks room = kLongest;
  expect_fits("compute", timing.longest_compute(), tasks, room);
  expect_fits("reduce", timing.reduce, tasks, room);
  expect_fits("latency", timing.latency, tasks, room);
  expect_fits("launch", timing.launch, chains, room);
  expect_fits("epilogue", timing.epilogue, chains, room);
}

void check_timing(const Timing& timing, const Problem& problem) {
  check_timing(timing, problem.tasks(), std::int64_t{problem.heads} * problem.grid.kv_tiles());
}

}  // namespace stagger
