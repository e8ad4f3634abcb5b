#include "tests/support/tickets.hpp"

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace stagger::test {
namespace {

using tickets::Step;
using tickets::Tickets;

using Order = std::vector<std::pair<Task, std::int64_t>>;

/// All that the future depends on, and the orders of additions so far.
struct State {
  std::vector<std::int64_t> at;     ///< by program
  std::vector<std::int64_t> owed;   ///< by program: a step whose addition is held back, or -1
  std::vector<std::int64_t> value;  ///< by semaphore
  std::size_t launched = 0;
  std::map<std::pair<std::int32_t, std::int32_t>, Order> orders;  ///< by (head, q)
  friend auto operator<=>(const State&, const State&) = default;
};

class Explorer {
 public:
  explicit Explorer(const Tickets& tickets) : tickets_(tickets) {
    for (std::int32_t program = 0; program < tickets.programs(); ++program) {
      programs_.emplace_back(tickets.program(tickets::Program{program}).begin(),
                             tickets.program(tickets::Program{program}).end());
    }
  }

  EveryEnd run() {
    State first;
    first.at.assign(programs_.size(), 0);
    first.owed.assign(programs_.size(), -1);
    first.value.assign(tickets_.initial.begin(), tickets_.initial.end());
    explore(first);
    result_.one_order = ends_.size() < 2;
    return result_;
  }

 private:
  [[nodiscard]] bool over(const State& state, std::size_t program) const {
    return state.at[program] == static_cast<std::int64_t>(programs_[program].size());
  }

  void explore(const State& state) {
    if (!seen_.insert(state).second) return;
    bool moved = false;
    std::size_t running = 0;
    for (std::size_t program = 0; program < state.launched; ++program)
      running += over(state, program) ? 0 : 1;
    const auto room = static_cast<std::size_t>(tickets_.residency == 0 ? tickets_.programs()
                                                                       : tickets_.residency);
    if (state.launched < programs_.size() && running < room) {
      State next = state;
      ++next.launched;
      explore(next);
      moved = true;
    }
    for (std::size_t program = 0; program < state.launched; ++program) {
      if (over(state, program)) continue;
      const Step& step = programs_[program][static_cast<std::size_t>(state.at[program])];
      const auto semaphore = static_cast<std::size_t>(step.semaphore.value);
      if (step.waits() && state.value[semaphore] != step.wait) continue;
      explore(after(state, program));
      moved = true;
    }
    if (!moved) note(state);
  }

  /// The state in which a program has done its next step.
  [[nodiscard]] State after(State state, std::size_t program) const {
    const std::vector<Step>& steps = programs_[program];
    const auto index = static_cast<std::size_t>(state.at[program]);
    const Step& step = steps[index];
    const auto add = [&](const Step& by) {
      state.value[static_cast<std::size_t>(by.semaphore.value)] += by.add;
    };
    if (step.reduces) {
      if (state.owed[program] >= 0) add(steps[static_cast<std::size_t>(state.owed[program])]);
      state.owed[program] = -1;
      state.orders[{step.task.head.value, step.task.q.value}].emplace_back(
          step.task, static_cast<std::int64_t>(program * 1000 + index));
    }
    bool another = false;  // a reduction of the same chain, before another chain begins
    for (std::size_t next = index + 1; next < steps.size() && steps[next].chain == step.chain;
         ++next)
      another = another || steps[next].reduces;
    if (step.reduces && another && tickets_.release == Release::delayed) {
      state.owed[program] = static_cast<std::int64_t>(index);
    } else {
      add(step);
    }
    ++state.at[program];
    return state;
  }

  void note(const State& state) {
    for (std::size_t program = 0; program < programs_.size(); ++program) {
      if (over(state, program)) continue;
      result_.can_hang = true;
      return;
    }
    result_.can_end = true;
    ends_.insert(state.orders);
  }

  const Tickets& tickets_;
  std::vector<std::vector<Step>> programs_;
  std::set<State> seen_;
  std::set<std::map<std::pair<std::int32_t, std::int32_t>, Order>> ends_;
  EveryEnd result_;
};

}  // namespace

EveryEnd every_end(const Tickets& tickets) {
  return Explorer(tickets).run();
}

tickets::Tickets nearly_right_tickets(Random& random) {
  tickets::Tickets tickets;
  const std::int64_t semaphores = random.between(1, 4);
  tickets.initial.assign(semaphores, random.chance(8) ? 1 : 0);
  tickets.residency = static_cast<std::int32_t>(random.between(0, 3));
  tickets.release = random.chance(3) ? Release::delayed : Release::immediate;
  tickets.dispatch = random.chance(3) ? Dispatch::static_ : Dispatch::in_order;
  std::vector<std::int32_t> next(at(semaphores), 0);
  const std::int64_t programs = random.between(1, 6);
  for (std::int64_t program = 0; program < programs; ++program) {
    std::vector<std::int32_t> tiles(at(semaphores));
    for (std::int64_t q = 0; q < semaphores; ++q)
      tiles[at(q)] = static_cast<std::int32_t>(q);
    random.shuffle(tiles);
    for (const std::int32_t q : tiles) {
      if (random.chance(5)) continue;
      tickets::Step step{.semaphore = tickets::Semaphore{q}, .wait = next[at(q)]++};
      step.task = {Head{0}, KvTile{static_cast<std::int32_t>(program)}, QTile{q}};
      if (random.chance(20)) step.wait = tickets::kNoWait;
      if (random.chance(20)) step.wait = static_cast<std::int32_t>(random.between(-1, 7));
      if (random.chance(20)) step.add = static_cast<std::int32_t>(random.between(0, 3));
      if (random.chance(20)) step.reduces = false;
      if (random.chance(30)) step.task.head = Head{1};
      step.chain = tickets::chain_of(step.task);
      tickets.steps.push_back(step);
    }
    tickets.end_program();
  }
  return tickets;
}

}  // namespace stagger::test
