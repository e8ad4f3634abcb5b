#include "workbench/designs/free_lanes.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace stagger::designs {
namespace {

using Free = std::pair<Ticks, std::int32_t>;  ///< when an SM is free, and which
using FreeSms = std::priority_queue<Free, std::vector<Free>, std::greater<>>;

FreeSms all_free(std::int32_t sms) {
  FreeSms free;
  for (std::int32_t sm = 0; sm < sms; ++sm)
    free.emplace(0, sm);
  return free;
}

const FreeLanes& lanes_of(const Stage& stage) {
  return std::get<FreeLanes>(stage.work);
}

/// Tiles of a chain's other side, as its mask and order have them.
std::vector<std::int32_t> tiles_of(const Chain& chain, TileOrder order, const TileGrid& grid) {
  const bool keeps_kv = chain.keeps == Keeps::kv;
  const auto kind = [&](std::int32_t tile) {
    return keeps_kv ? grid.kind({chain.tile}, {tile}) : grid.kind({tile}, {chain.tile});
  };
  std::vector<std::int32_t> tiles;
  for (std::int32_t tile = 0; tile < (keeps_kv ? grid.q_tiles() : grid.kv_tiles()); ++tile) {
    if (kind(tile) != TileKind::empty) tiles.push_back(tile);
  }
  if (order == TileOrder::descending) std::ranges::reverse(tiles);
  if (order == TileOrder::partial_first) {
    std::stable_partition(tiles.begin(), tiles.end(),
                          [&](std::int32_t tile) { return kind(tile) == TileKind::partial; });
  }
  return tiles;
}

/// What happens to a chain's tasks, one after the other.
class ChainClock {
 public:
  ChainClock(const Stage& stage, const Chain& chain, Ticks start)
      : timing_(stage.timing),
        problem_(stage.problem),
        chain_(chain),
        reduce_(chain.gemms == kGemms ? stage.timing.reduce : 0),
        overlaps_(stage.timing.model == Model::overlap),
        free_(start + stage.timing.launch),
        writer_free_(start) {}

  /// When a task computes and reduces.
  struct Times {
    Ticks start = {};
    Ticks computed = {};
    Ticks handed = {};
    Ticks reduced = {};
  };
  Times add(const Task& task) {
    Times times{.start = free_};
    times.computed = free_ + timing_.compute_of(problem_, task) * chain_.gemms;
    times.handed = std::max(times.computed, writer_free_);
    times.reduced = writer_free_ = times.handed + reduce_;
    free_ = overlaps_ ? times.handed : times.reduced;
    return times;
  }
  /// When its last reduction ends, and its epilogue begins.
  [[nodiscard]] Ticks reduced() const { return std::max(free_, writer_free_); }
  [[nodiscard]] Ticks end() const { return reduced() + timing_.epilogue; }

 private:
  const Timing& timing_;
  const Problem& problem_;
  const Chain& chain_;
  Ticks reduce_;
  bool overlaps_;
  Ticks free_;         ///< when the next compute phase may start
  Ticks writer_free_;  ///< the last reduction's end
};

Ticks duration_of(const Stage& stage, const Chain& chain) {
  ChainClock clock(stage, chain, 0);
  for (const Task& task : tasks_of(chain, lanes_of(stage), stage.problem))
    clock.add(task);
  return clock.end();
}

/// Chains of one tile take equally long whichever their head: each is played once.
class Durations {
 public:
  explicit Durations(const Stage& stage)
      : stage_(stage), of_kv_(stage.problem.kv_tiles(), -1), of_q_(stage.problem.q_tiles(), -1) {}

  Ticks of(const Chain& chain) {
    Ticks& known = (chain.keeps == Keeps::kv ? of_kv_ : of_q_)[chain.tile];
    if (known < 0) known = duration_of(stage_, chain);
    return known;
  }

 private:
  const Stage& stage_;
  IndexVector<std::int64_t, Ticks> of_kv_;  ///< by tile, -1 = not known yet
  IndexVector<std::int64_t, Ticks> of_q_;
};

class Drawing {
 public:
  Drawing(const Stage& stage, Timeline& timeline) : stage_(stage), timeline_(timeline) {}

  /// Adds a chain that starts on an SM; returns its end.
  Ticks add(const Chain& chain, Sm sm, Ticks start) {
    const std::vector<Task> tasks = tasks_of(chain, lanes_of(stage_), stage_.problem);
    ChainClock clock(stage_, chain, start);
    add(sm, tasks.front(), Phase::launch, start, start + stage_.timing.launch);
    for (const Task& task : tasks) {
      const ChainClock::Times times = clock.add(task);
      add(sm, task, Phase::compute, times.start, times.computed);
      add(sm, task, Phase::reduce, times.handed, times.reduced);
    }
    add(sm, tasks.back(), Phase::epilogue, clock.reduced(), clock.end());
    return clock.end();
  }

 private:
  void add(Sm sm, const Task& task, Phase phase, Ticks start, Ticks end) {
    if (start == end) return;
    timeline_.intervals.push_back(
        {.sm = sm, .task = task, .phase = phase, .start = start, .end = end});
    timeline_.makespan = std::max(timeline_.makespan, end);
  }

  const Stage& stage_;
  Timeline& timeline_;
};

}  // namespace

std::vector<Task> tasks_of(const Chain& chain, const FreeLanes& lanes, const Problem& problem) {
  const bool keeps_kv = chain.keeps == Keeps::kv;
  const std::vector<std::int32_t> tiles =
      tiles_of(chain, keeps_kv ? lanes.q_order : lanes.kv_order, problem.common_grid());
  std::vector<Task> tasks;
  for (std::int32_t head = chain.head.value; head < chain.head.value + chain.heads; ++head) {
    for (const std::int32_t tile : tiles) {
      tasks.push_back(keeps_kv ? Task{{head}, {chain.tile}, {tile}}
                               : Task{{head}, {tile}, {chain.tile}});
    }
  }
  return tasks;
}

std::vector<Ticks> lane_durations(const Stage& stage) {
  const FreeLanes& lanes = lanes_of(stage);
  Durations durations(stage);
  std::vector<Ticks> of_lanes;
  of_lanes.reserve(at(lanes.lanes()));
  for (std::int64_t lane = 0; lane < lanes.lanes(); ++lane) {
    Ticks duration = 0;
    for (std::int64_t chain = lanes.lane_begin[at(lane)]; chain < lanes.lane_begin[at(lane + 1)];
         ++chain)
      duration += durations.of(lanes.chains[at(chain)]);
    of_lanes.push_back(duration);
  }
  return of_lanes;
}

Ticks in_order_makespan(const std::vector<Ticks>& durations, std::int32_t sms) {
  STAGGER_EXPECTS(sms >= 1);
  FreeSms free = all_free(sms);
  Ticks makespan = 0;
  for (const Ticks duration : durations) {
    const auto [time, sm] = free.top();
    free.pop();
    free.emplace(time + duration, sm);
    makespan = std::max(makespan, time + duration);
  }
  return makespan;
}

std::int32_t sms_of(const Stage& stage) {
  return resident_lanes(stage.problem, stage.timing.residency);
}

void add_intervals(const Stage& stage, Ticks begin, Timeline& timeline) {
  const FreeLanes& lanes = lanes_of(stage);
  FreeSms free = all_free(sms_of(stage));
  Drawing drawing(stage, timeline);
  for (std::int64_t lane = 0; lane < lanes.lanes(); ++lane) {
    const auto [time, sm] = free.top();
    free.pop();
    Ticks now = time;
    for (std::int64_t chain = lanes.lane_begin[at(lane)]; chain < lanes.lane_begin[at(lane + 1)];
         ++chain)
      now = drawing.add(lanes.chains[at(chain)], Sm{sm}, begin + now) - begin;
    free.emplace(now, sm);
  }
}

}  // namespace stagger::designs
