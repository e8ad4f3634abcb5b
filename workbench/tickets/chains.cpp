#include "workbench/tickets/chains.hpp"

#include "workbench/tickets/play.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace stagger::tickets {
namespace {

constexpr std::int64_t kRaceWork = std::int64_t{1} << 25;  ///< steps played to find races, at most

/// Walks along a semaphore's waits and keeps what it shows.
class Walk {
 public:
  Walk(const Tickets& tickets, Semaphore semaphore, std::span<const std::int64_t> bumps)
      : tickets_(tickets), shown_(tickets.initial[semaphore]) {
    for (const std::int64_t step : bumps)
      spare_ += tickets.steps[step].add;
    broken_.semaphore = semaphore;
  }

  /// The next steps that wait for one value. False if they wait in vain.
  bool pass(std::span<const std::int64_t> group) {
    const std::int64_t wait = tickets_.steps[group.front()].wait;
    broken_.step = group.front();
    broken_.shown = shown_;
    if (wait < shown_) return fail(Fault::past);
    if (wait - shown_ > spare_) {
      broken_.shown += spare_;
      return fail(Fault::gap);
    }
    spare_ -= wait - shown_;
    contested_ = contested_ || spare_ > 0;
    shown_ = wait;
    return add(group);
  }

  [[nodiscard]] bool contested() const { return contested_; }
  [[nodiscard]] const Broken& broken() const { return broken_; }

 private:
  bool add(std::span<const std::int64_t> group) {
    std::int64_t adder = -1;
    for (const std::int64_t step : group) {
      if (tickets_.steps[step].add == 0) continue;
      if (adder >= 0) {
        broken_.step = step;
        broken_.other = adder;
        return fail(Fault::twice);
      }
      adder = step;
      shown_ += tickets_.steps[step].add;
    }
    contested_ = contested_ || (adder >= 0 && group.size() > 1);
    return true;
  }
  bool fail(Fault fault) {
    broken_.fault = fault;
    return false;
  }

  const Tickets& tickets_;
  std::int64_t shown_;
  std::int64_t spare_ = 0;  ///< additions without a wait that have not been needed yet
  bool contested_ = false;
  Broken broken_;
};

class RaceSearch {
 public:
  RaceSearch(const Tickets& tickets, const Chains& chains) : tickets_(tickets), chains_(chains) {}

  Races run() {
    for (const Semaphore semaphore : chains_.contested()) {
      for (const std::int64_t step : chains_.waits(semaphore)) {
        if (affordable(std::ssize(tickets_.steps))) try_wait(semaphore, step);
      }
    }
    find_unordered();
    return std::move(result_);
  }

 private:
  bool affordable(std::int64_t work) {
    work_ += work;
    result_.complete = result_.complete && work_ <= kRaceWork;
    return result_.complete;
  }

  /// Whether others can bring the semaphore beyond a step's value while it is held back.
  void try_wait(Semaphore semaphore, std::int64_t step) {
    const Held held = play_without(tickets_, step);
    if (held.value <= tickets_.steps[step].wait) return;
    Race race{.step = step, .other = step, .hangs = true};
    for (const auto& candidates : {chains_.bumps(semaphore), chains_.waits(semaphore)}) {
      for (const std::int64_t other : candidates) {
        const Step& adds = tickets_.steps[other];
        const bool beyond = !adds.waits() || adds.wait == tickets_.steps[step].wait;
        if (race.other == step && other != step && beyond && adds.add > 0 && held.done[at(other)]) {
          race.other = other;
        }
      }
    }
    result_.races.push_back(race);
  }

  /// Reductions into one dQ tile that no common semaphore orders.
  void find_unordered() {
    std::map<std::pair<Head, QTile>, std::vector<std::int64_t>> tiles;
    std::map<std::pair<Head, QTile>, Semaphore> semaphore_of;
    for (std::int64_t index = 0; index < std::ssize(tickets_.steps); ++index) {
      const Step& step = tickets_.steps[index];
      if (!step.reduces) continue;
      const auto [known, is_new] =
          semaphore_of.try_emplace({step.task.head, step.task.q}, step.semaphore);
      const bool fixes_order = step.waits() && step.add > 0;
      if (!fixes_order || (!is_new && known->second != step.semaphore)) {
        tiles[{step.task.head, step.task.q}].push_back(index);
      }
    }
    for (std::int64_t index = 0; index < std::ssize(tickets_.steps) && !tiles.empty(); ++index) {
      const Step& step = tickets_.steps[index];
      if (!step.reduces) continue;
      const auto found = tiles.find({step.task.head, step.task.q});
      if (found == tiles.end()) continue;
      // Two that both stand here are a pair once, at the first of them.
      const bool here = std::ranges::binary_search(found->second, index);
      for (const std::int64_t other : found->second) {
        if (here && other < index) continue;
        if (affordable(1)) try_order(index, other);
      }
    }
  }

  /// Whether either of two reductions can come first.
  void try_order(std::int64_t step, std::int64_t other) {
    const Step& left = tickets_.steps[step];
    const Step& right = tickets_.steps[other];
    const bool ordered = left.waits() && right.waits() && left.semaphore == right.semaphore &&
                         left.wait != right.wait;
    if (step == other || ordered || tickets_.program_of(step) == tickets_.program_of(other)) return;
    if (!affordable(2 * std::ssize(tickets_.steps))) return;
    if (play_without(tickets_, step).done[at(other)] &&
        play_without(tickets_, other).done[at(step)]) {
      result_.races.push_back({.step = step, .other = other});
    }
  }

  const Tickets& tickets_;
  const Chains& chains_;
  std::int64_t work_ = 0;
  Races result_;
};

}  // namespace

Chains::Chains(const Tickets& tickets) : begin_(2 * std::int64_t{tickets.semaphores()} + 1, 0) {
  const auto part_of = [&](const Step& step) {
    return 2 * std::int64_t{step.semaphore.value} + (step.waits() ? 1 : 0);
  };
  const auto matters = [](const Step& step) { return step.waits() || step.add > 0; };
  for (const Step& step : tickets.steps)
    begin_[part_of(step) + 1] += matters(step) ? 1 : 0;
  for (std::int64_t part = 1; part < std::ssize(begin_); ++part)
    begin_[part] += begin_[part - 1];
  steps_.resize(begin_.back());
  IndexVector<std::int64_t, std::int64_t> next = begin_;
  for (std::int64_t step = 0; step < std::ssize(tickets.steps); ++step) {
    if (matters(tickets.steps[step])) steps_[next[part_of(tickets.steps[step])]++] = step;
  }
  for (Semaphore semaphore{0}; semaphore.value < tickets.semaphores(); ++semaphore) {
    const std::int64_t part = 2 * std::int64_t{semaphore.value} + 1;
    std::stable_sort(steps_.begin() + begin_[part], steps_.begin() + begin_[part + 1],
                     [&](std::int64_t left, std::int64_t right) {
                       return tickets.steps[left].wait < tickets.steps[right].wait;
                     });
    walk(tickets, semaphore);
  }
}

void Chains::walk(const Tickets& tickets, Semaphore semaphore) {
  std::span<const std::int64_t> rest = waits(semaphore);
  Walk walk(tickets, semaphore, bumps(semaphore));
  while (!rest.empty()) {
    const std::int32_t wait = tickets.steps[rest.front()].wait;
    std::size_t size = 1;
    while (size < rest.size() && tickets.steps[rest[size]].wait == wait)
      ++size;
    if (!walk.pass(rest.first(size))) {
      broken_.push_back(walk.broken());
      // A chain's own addition may come late enough for its next step to see the value before.
      if (tickets.release == Release::delayed) contested_.push_back(semaphore);
      return;
    }
    rest = rest.subspan(size);
  }
  if (walk.contested()) contested_.push_back(semaphore);
}

Races find_races(const Tickets& tickets, const Chains& chains) {
  return RaceSearch(tickets, chains).run();
}

SumOrder sum_order(const Tickets& tickets, const Chains& chains, const Races& races) {
  const auto hangs = [](const Race& race) { return race.hangs; };
  const auto twice = [](const Broken& broken) { return broken.fault == Fault::twice; };
  const bool both_see =
      tickets.release == Release::delayed && std::ranges::any_of(chains.broken(), twice);
  if (both_see || !std::ranges::all_of(races.races, hangs)) return SumOrder::any;
  return races.complete ? SumOrder::fixed : SumOrder::unknown;
}

Tickets without_broken(Tickets tickets, const Chains& chains) {
  if (chains.broken().empty()) return tickets;
  IndexVector<Semaphore, bool> is_broken(tickets.semaphores(), false);
  for (const Broken& broken : chains.broken())
    is_broken[broken.semaphore] = true;
  for (Step& step : tickets.steps) {
    if (!is_broken[step.semaphore]) continue;
    step.wait = kNoWait;
    step.add = 0;
  }
  return tickets;
}

}  // namespace stagger::tickets
