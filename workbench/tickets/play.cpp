// Where nothing races, what can run depends on no order: running a step never takes away another's
// chance. So one play finds all that can run; and since raising the residency only enlarges that,
// one play that launches one more program whenever nothing moves finds the smallest residency too.
// Where steps race (two wait for one value, or one adds without waiting) the play is one order of
// events of several: what hangs in it can hang.

#include "workbench/tickets/play.hpp"

#include "core/error.hpp"
#include "core/shortest_cycle.hpp"
#include "workbench/tickets/notation.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::tickets {
namespace {

constexpr std::int64_t kNone = -1;
constexpr std::size_t kStarvedListed = 100;
constexpr std::int64_t kCycleSearch = std::int64_t{1} << 22;  ///< edges looked at, at most

/// Which reductions add only when the next one of their chain begins.
std::vector<bool> held_back(const Tickets& tickets) {
  std::vector<bool> held(tickets.steps.size(), false);
  if (tickets.release == Release::immediate) return held;
  for (Program program{0}; program.value < tickets.programs(); ++program) {
    std::int64_t next = kNone;  // the next reduction behind, within the same chain
    for (std::int64_t step = tickets.end_of(program) - 1; step >= tickets.begin_of(program);
         --step) {
      if (next != kNone && tickets.steps[step].chain != tickets.steps[next].chain) next = kNone;
      if (!tickets.steps[step].reduces) continue;
      held[at(step)] = next != kNone;
      next = step;
    }
  }
  return held;
}

class Play {
 public:
  explicit Play(const Tickets& tickets, std::int64_t without = kNone)
      : tickets_(tickets),
        without_(without),
        held_back_(held_back(tickets)),
        value_(tickets.initial),
        next_(tickets.program_begin.begin(), tickets.program_begin.end() - 1),
        pending_(tickets.programs(), kNone) {}

  Outcome run() {
    outcome_.residency = tickets_.resident();
    std::int32_t resident = 1;
    while (true) {
      launch(resident);
      if (ended_ == tickets_.programs() || launched_ == tickets_.programs()) break;
      if (resident == outcome_.residency) report();
      ++resident;
    }
    const bool all_end = ended_ == tickets_.programs();
    if (all_end) outcome_.residency_needed = resident;
    outcome_.hangs = !all_end || resident > std::max(outcome_.residency, 1);
    if (!all_end && !reported_) report();
    return std::move(outcome_);
  }

  Held run_without() {
    launch(std::max(tickets_.resident(), 1));
    Held held{.value = value_[tickets_.steps[without_].semaphore],
              .done = std::vector<bool>(tickets_.steps.size(), false)};
    for (Program program{0}; program.value < launched_; ++program) {
      for (std::int64_t step = tickets_.begin_of(program); step < next_[program]; ++step)
        held.done[at(step)] = true;
    }
    return held;
  }

 private:
  void launch(std::int32_t resident) {
    while (launched_ < tickets_.programs() && launched_ - ended_ < resident) {
      go_on(Program{launched_++});
      while (!playable_.empty()) {
        const Program program = playable_.back();
        playable_.pop_back();
        go_on(program);
      }
    }
  }

  void go_on(Program program) {
    std::int64_t& next = next_[program];
    for (; next < tickets_.end_of(program); ++next) {
      const Step& step = tickets_.steps[next];
      if (next == without_) return;
      if (step.waits() && value_[step.semaphore] != step.wait) {
        if (step.wait > value_[step.semaphore]) {
          waiting_[{step.semaphore, step.wait}].push_back(program);
        }
        return;
      }
      if (step.reduces && pending_[program] != kNone) {
        add(tickets_.steps[std::exchange(pending_[program], kNone)]);
      }
      if (held_back_[at(next)]) {
        pending_[program] = next;
      } else {
        add(step);
      }
    }
    ++ended_;
  }

  void add(const Step& step) {
    if (step.add == 0) return;
    std::int64_t& value = value_[step.semaphore];
    value += step.add;
    const auto found = waiting_.find({step.semaphore, value});
    if (found == waiting_.end()) return;
    playable_.insert(playable_.end(), found->second.begin(), found->second.end());
    waiting_.erase(found);
  }

  // ---- what hangs -----------------------------------------------------------------------------

  void report() {
    reported_ = true;
    index_remaining();
    for (Program program{0}; program.value < launched_; ++program) {
      if (ended(program) || outcome_.starved.size() >= kStarvedListed) continue;
      std::int64_t budget = kCycleSearch;
      bool promised = false;
      each_wait(program, budget, [&](const Stuck&) {
        promised = true;
        return false;
      });
      if (!promised) outcome_.starved.push_back(stuck(program));
    }
    outcome_.cycle = shortest_cycle();
  }

  [[nodiscard]] bool ended(Program program) const {
    return next_[program] == tickets_.end_of(program);
  }

  /// Notes the additions that have not come, by semaphore.
  void index_remaining() {
    remaining_.assign(tickets_.semaphores(), {});
    for (Program program{0}; program.value < tickets_.programs(); ++program) {
      outcome_.stuck_steps += tickets_.end_of(program) - next_[program];
      if (pending_[program] != kNone) note(pending_[program], program);
      for (std::int64_t step = next_[program]; step < tickets_.end_of(program); ++step)
        note(step, program);
    }
  }
  void note(std::int64_t step, Program program) {
    if (tickets_.steps[step].add == 0) return;
    remaining_[tickets_.steps[step].semaphore].push_back({step, program});
  }

  [[nodiscard]] Stuck stuck(Program program) const {
    Stuck stuck{.program = program};
    if (program.value >= launched_) return stuck;
    stuck.step = next_[program];
    stuck.value = value_[tickets_.steps[stuck.step].semaphore];
    return stuck;
  }

  /// Calls `visit` for every way in which a program waits for another, until it says no or the
  /// budget is spent.
  template <class Visit>
  void each_wait(Program program, std::int64_t& budget, Visit visit) const {
    Stuck wait = stuck(program);
    if (wait.step == kNone) {
      for (Program holder{0}; holder.value < launched_ && --budget > 0; ++holder) {
        if (ended(holder)) continue;
        wait.for_program = holder;
        if (!visit(wait)) return;
      }
      return;
    }
    const Step& step = tickets_.steps[wait.step];
    if (!step.waits() || wait.value > step.wait) return;
    for (const auto& [before, holder] : remaining_[step.semaphore]) {
      if (--budget <= 0) return;
      const Step& adds = tickets_.steps[before];
      const bool helps =
          before != wait.step && (!adds.waits() || pending_[holder] == before ||
                                  (adds.wait >= wait.value && adds.wait < step.wait));
      if (!helps) continue;
      wait.for_step = before;
      wait.for_program = holder;
      if (!visit(wait)) return;
    }
  }

  /// As far as the budget goes.
  [[nodiscard]] std::vector<Stuck> shortest_cycle() const {
    return ShortestCycle<Stuck, &Stuck::program, &Stuck::for_program>(tickets_.programs(),
                                                                      kCycleSearch)
        .search(
            Program{launched_}, [&](Program program) { return !ended(program); },
            [&](Program program, std::int64_t& budget, auto visit) {
              each_wait(program, budget, visit);
            });
  }

  const Tickets& tickets_;
  std::int64_t without_;
  std::vector<bool> held_back_;
  IndexVector<Semaphore, std::int64_t> value_;
  IndexVector<Program, std::int64_t> next_;
  IndexVector<Program, std::int64_t> pending_;  ///< a reduction whose addition has not come
  std::map<std::pair<Semaphore, std::int64_t>, std::vector<Program>> waiting_;
  std::vector<Program> playable_;
  std::int32_t launched_ = 0;
  std::int32_t ended_ = 0;
  bool reported_ = false;
  struct Remaining {
    std::int64_t step;
    Program program;
  };
  IndexVector<Semaphore, std::vector<Remaining>> remaining_;
  Outcome outcome_;
};

/// `P1 (head 0, kv 1)`; programs of one chain have its name.
std::string program_name(const Tickets& tickets, Program program) {
  std::string name = "program " + std::to_string(program.value);
  const std::span<const Step> steps = tickets.program(program);
  if (steps.empty()) return name;
  const Task& task = steps.front().task;
  return name + " (head " + std::to_string(task.head.value) + ", kv " +
         std::to_string(task.kv.value) + ")";
}

std::string describe(const Tickets& tickets, const Stuck& stuck) {
  const std::string name = program_name(tickets, stuck.program);
  if (stuck.step == kNone) {
    return name + " is not launched: it waits for a place, and program " +
           std::to_string(stuck.for_program.value) + " holds one";
  }
  const Step& step = tickets.steps[stuck.step];
  std::string text = name + " is at " + notation(tickets, step, step.task.kv) + ", and semaphore " +
                     std::to_string(step.semaphore.value) + " shows " + std::to_string(stuck.value);
  if (stuck.value > step.wait) return text + ": that value has passed";
  if (stuck.for_step == kNone) return text + ": no step ever brings " + std::to_string(step.wait);
  const Step& first = tickets.steps[stuck.for_step];
  text += ": " + notation(tickets, first, first.task.kv) + " must come first, and that is ";
  if (stuck.for_program == stuck.program) {
    return text + (stuck.for_step > stuck.step ? "behind it" : "released only behind it");
  }
  return text + "in program " + std::to_string(stuck.for_program.value);
}

}  // namespace

Outcome play(const Tickets& tickets) {
  return Play(tickets).run();
}

Held play_without(const Tickets& tickets, std::int64_t step) {
  STAGGER_EXPECTS(step >= 0 && step < std::ssize(tickets.steps));
  return Play(tickets, step).run_without();
}

std::vector<std::string> describe(const Tickets& tickets, const std::vector<Stuck>& stuck) {
  std::vector<std::string> lines;
  lines.reserve(stuck.size());
  for (const Stuck& one : stuck)
    lines.push_back(describe(tickets, one));
  return lines;
}

}  // namespace stagger::tickets
