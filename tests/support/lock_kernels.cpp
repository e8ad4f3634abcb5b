#include "tests/support/lock_kernels.hpp"

#include "core/index.hpp"

#include <algorithm>
#include <set>

namespace stagger::test {
namespace {

std::string step_json(const LockStep& step) {
  const std::string wait = step.wait < 0 ? "null" : std::to_string(step.wait);
  return "[" + std::to_string(step.semaphore) + "," + wait + "," + std::to_string(step.add) + "," +
         (step.reduces ? "1" : "0") + "," + std::to_string(step.head) + "," +
         std::to_string(step.kv) + "," + std::to_string(step.q) + "]";
}

constexpr auto kNobody = static_cast<std::size_t>(-1);

/// One run. Events are drawn among those that can happen, or, where a program is held back, those
/// of the others come first, in the order of the launch.
class LockRun {
 public:
  LockRun(const LockKernel& kernel, int residency, Random& random, std::size_t held)
      : kernel_(kernel),
        residency_(residency),
        random_(random),
        shown_(kernel.initial),
        next_(kernel.programs.size(), 0),
        owed_(kernel.programs.size(), -1),
        held_(held) {}

  LockEnd run() {
    for (;;) {
      const std::vector<std::size_t> ready = programs_that_can_move();
      const bool launches = launched_ < next_.size() && running() < residency_;
      if (launches && (held_ != kNobody || ready.empty() || random_.chance(2))) {
        ++launched_;
      } else if (ready.empty()) {
        break;
      } else {
        move(held_ == kNobody ? ready[at(random_.between(0, std::ssize(ready) - 1))]
                              : ready.front());
      }
    }
    end_.hung = launched_ < next_.size() || running() > 0;
    return end_;
  }

 private:
  [[nodiscard]] bool over(std::size_t program) const {
    return next_[program] == kernel_.programs[program].size();
  }
  [[nodiscard]] int running() const {
    int count = 0;
    for (std::size_t program = 0; program < launched_; ++program)
      count += over(program) ? 0 : 1;
    return count;
  }
  /// In the order of the launch, the one that is held back last.
  [[nodiscard]] std::vector<std::size_t> programs_that_can_move() const {
    std::vector<std::size_t> ready;
    for (std::size_t program = 0; program < launched_; ++program) {
      if (program != held_ && can_move(program)) ready.push_back(program);
    }
    if (held_ != kNobody && can_move(held_)) ready.push_back(held_);
    return ready;
  }
  [[nodiscard]] bool can_move(std::size_t program) const {
    if (program >= launched_ || over(program)) return false;
    const LockStep& step = kernel_.programs[program][next_[program]];
    return step.wait < 0 || shown_[at(step.semaphore)] == step.wait;
  }
  void add(const LockStep& step) { shown_[at(step.semaphore)] += step.add; }

  void move(std::size_t program) {
    const std::vector<LockStep>& steps = kernel_.programs[program];
    const std::size_t place = next_[program]++;
    const LockStep& step = steps[place];
    if (!step.reduces) return add(step);
    if (owed_[program] >= 0) add(steps[at(owed_[program])]);
    owed_[program] = -1;
    end_.sums[{step.head, step.q}].push_back(step.kv);
    const auto of_chain = [&](const LockStep& other) {
      return other.head == step.head && other.kv == step.kv;
    };
    const auto rest = steps.begin() + static_cast<std::ptrdiff_t>(place) + 1;
    const auto chain_end = std::find_if_not(rest, steps.end(), of_chain);
    const bool more =
        std::any_of(rest, chain_end, [](const LockStep& each) { return each.reduces; });
    if (kernel_.delayed && more) {
      owed_[program] = static_cast<std::int64_t>(place);
    } else {
      add(step);
    }
  }

  const LockKernel& kernel_;
  int residency_;
  Random& random_;
  std::vector<int> shown_;          ///< by semaphore
  std::vector<std::size_t> next_;   ///< by program: its next step
  std::vector<std::int64_t> owed_;  ///< by program: a step whose addition is held back; -1: none
  std::size_t held_;                ///< the program that is held back, or kNobody
  std::size_t launched_ = 0;
  LockEnd end_;
};

}  // namespace

std::string tickets_json(const LockKernel& kernel) {
  std::string programs;
  for (const std::vector<LockStep>& steps : kernel.programs) {
    std::string listed;
    for (const LockStep& step : steps)
      listed += (listed.empty() ? "" : ",") + step_json(step);
    programs += (programs.empty() ? "" : ",\n  ") + std::string("[") + listed + "]";
  }
  std::string initial;
  for (const int value : kernel.initial)
    initial += (initial.empty() ? "" : ",") + std::to_string(value);
  return std::string("{\"schema\": \"stagger.tickets/1\", \"name\": \"drawn\", \"dispatch\": \"") +
         (kernel.cooperative ? "static" : "in-order") +
         "\", \"residency\": " + std::to_string(kernel.residency) + ", \"release\": \"" +
         (kernel.delayed ? "delayed" : "immediate") + "\",\n \"initial\": [" + initial +
         "], \"semaphores\": " + std::to_string(kernel.initial.size()) + ", \"programs\": [\n  " +
         programs + "]}\n";
}

LockEnd run_locks(const LockKernel& kernel, int residency, Random& random) {
  return LockRun(kernel, residency, random, kNobody).run();
}

LockRuns run_often(const LockKernel& kernel, Random& random) {
  constexpr int kDrawn = 20;
  constexpr int kSmaller = 4;
  std::vector<LockEnd> ends;
  for (int run = 0; run < kDrawn; ++run)
    ends.push_back(run_locks(kernel, kernel.residency, random));
  for (std::size_t held = 0; held < kernel.programs.size(); ++held)
    ends.push_back(LockRun(kernel, kernel.residency, random, held).run());
  LockRuns runs;
  const LockEnd* ended = nullptr;
  for (const LockEnd& end : ends) {
    runs.hangs = runs.hangs || end.hung;
    if (end.hung) continue;
    runs.bits_differ = runs.bits_differ || (ended != nullptr && ended->sums != end.sums);
    ended = &end;
    for (const auto& [tile, kv_tiles] : end.sums) {
      const std::set<int> once(kv_tiles.begin(), kv_tiles.end());
      runs.adds_twice = runs.adds_twice || once.size() < kv_tiles.size();
    }
  }
  runs.hangs_smaller = runs.hangs;
  for (int residency = 1; residency < kernel.residency; ++residency) {
    for (int run = 0; run < kSmaller; ++run)
      runs.hangs_smaller = runs.hangs_smaller || run_locks(kernel, residency, random).hung;
  }
  return runs;
}

}  // namespace stagger::test
