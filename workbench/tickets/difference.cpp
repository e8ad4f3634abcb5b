#include "workbench/tickets/difference.hpp"

#include <algorithm>
#include <compare>
#include <iterator>
#include <tuple>
#include <utility>

namespace stagger::tickets {
namespace {

constexpr std::int64_t kGone = -1;

/// What a step is known by in both tickets.
auto name_of(const Step& step) {
  return std::tuple(step.task.head, step.task.kv, step.task.q, step.reduces);
}

/// The steps by name, those of one name in their order.
std::vector<std::int64_t> by_name(const Tickets& tickets) {
  std::vector<std::int64_t> order(tickets.steps.size());
  for (std::int64_t step = 0; step < std::ssize(order); ++step)
    order[at(step)] = step;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t left, std::int64_t right) {
    return name_of(tickets.steps[left]) < name_of(tickets.steps[right]);
  });
  return order;
}

/// The step of `after` that is the same, by step of `before`; kGone: it is not there.
IndexVector<std::int64_t, std::int64_t> same_steps(const Tickets& before, const Tickets& after) {
  IndexVector<std::int64_t, std::int64_t> same(std::ssize(before.steps), kGone);
  const std::vector<std::int64_t> ours = by_name(before);
  const std::vector<std::int64_t> theirs = by_name(after);
  auto their = theirs.begin();
  for (const std::int64_t our : ours) {
    const auto name = name_of(before.steps[our]);
    while (their != theirs.end() && name_of(after.steps[*their]) < name)
      ++their;
    if (their != theirs.end() && name_of(after.steps[*their]) == name) same[our] = *their++;
  }
  return same;
}

/// The program of each step and its place there, by step.
std::vector<StepAt> places_of(const Tickets& tickets) {
  std::vector<StepAt> places;
  places.reserve(tickets.steps.size());
  for (Program program{0}; program.value < tickets.programs(); ++program) {
    for (std::int64_t step = tickets.begin_of(program); step < tickets.end_of(program); ++step)
      places.push_back({program, step - tickets.begin_of(program)});
  }
  return places;
}

/// Marks a longest ascending part of `values`, by patience: the end of the shortest such part of
/// each length, and behind which each came. O(n log n).
std::vector<bool> longest_ascending(const std::vector<std::int64_t>& values) {
  std::vector<std::size_t> ends;
  std::vector<std::size_t> behind(values.size(), values.size());
  for (std::size_t index = 0; index < values.size(); ++index) {
    const auto end = std::lower_bound(
        ends.begin(), ends.end(), values[index],
        [&](std::size_t left, std::int64_t value) { return values[left] < value; });
    if (end != ends.begin()) behind[index] = *std::prev(end);
    if (end == ends.end()) {
      ends.push_back(index);
    } else {
      *end = index;
    }
  }
  std::vector<bool> kept(values.size(), false);
  for (std::size_t index = ends.empty() ? values.size() : ends.back(); index < values.size();
       index = behind[index]) {
    kept[index] = true;
  }
  return kept;
}

/// What is added to a sum, and at which turn of its order; of those without a turn, at which place.
struct Addend {
  std::int64_t sum = 0;
  std::int64_t turn = 0;
  std::int64_t place = 0;
  std::int64_t what = 0;

  friend auto operator<=>(const Addend&, const Addend&) = default;
};

std::int64_t pair(std::int32_t high, std::int32_t low) {
  return (std::int64_t{high} << 32) + static_cast<std::uint32_t>(low);
}

/// The KV tiles of every dQ tile, by the value that they wait for; those that wait for none as they
/// come.
std::vector<Addend> dq_sums(const Tickets& tickets) {
  std::vector<Addend> addends;
  for (std::int64_t place = 0; place < std::ssize(tickets.steps); ++place) {
    const Step& step = tickets.steps[place];
    if (!step.reduces) continue;
    addends.push_back({.sum = pair(step.task.head.value, step.task.q.value),
                       .turn = step.wait,
                       .place = step.waits() ? 0 : place,
                       .what = step.task.kv.value});
  }
  return addends;
}

/// The Q tiles of every chain, as they come; and of parts that are combined, the heads by the value
/// that they wait for.
std::vector<Addend> dkv_sums(const Tickets& tickets) {
  std::vector<Addend> addends;
  for (std::int64_t place = 0; place < std::ssize(tickets.steps); ++place) {
    const Step& step = tickets.steps[place];
    if (step.reduces) {
      addends.push_back({.sum = step.chain,
                         .turn = place,
                         .what = pair(step.task.head.value, step.task.q.value)});
    } else if (step.task.q.value < 0) {
      addends.push_back({.sum = -1 - std::int64_t{step.semaphore.value},
                         .turn = step.wait,
                         .what = step.task.head.value});
    }
  }
  return addends;
}

/// How many sums are not added up of the same in the same order.
std::int64_t orders_apart(std::vector<Addend> before, std::vector<Addend> after) {
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  const auto end_of = [](auto begin, auto end, std::int64_t sum) {
    return std::find_if(begin, end, [&](const Addend& addend) { return addend.sum != sum; });
  };
  std::int64_t apart = 0;
  auto ours = before.cbegin();
  auto theirs = after.cbegin();
  while (ours != before.cend() || theirs != after.cend()) {
    const bool mine = theirs == after.cend() || (ours != before.cend() && ours->sum <= theirs->sum);
    const std::int64_t sum = mine ? ours->sum : theirs->sum;
    const auto our_end = end_of(ours, before.cend(), sum);
    const auto their_end = end_of(theirs, after.cend(), sum);
    if (!std::equal(ours, our_end, theirs, their_end, [](const Addend& left, const Addend& right) {
          return left.what == right.what;
        })) {
      ++apart;
    }
    ours = our_end;
    theirs = their_end;
  }
  return apart;
}

class Comparison {
 public:
  Comparison(const Tickets& before, const Tickets& after)
      : before_(before),
        after_(after),
        same_(same_steps(before, after)),
        from_(places_of(before)),
        to_(places_of(after)) {}

  Difference run() {
    find_first();
    find_removed_and_added();
    find_moved();
    for (std::int64_t step = 0; step < std::ssize(same_); ++step) {
      if (same_[step] == kGone) continue;
      const Step& our = before_.steps[step];
      const Step& their = after_.steps[same_[step]];
      if (our.wait != their.wait || our.add != their.add) {
        difference_.retimed.push_back(change(step, same_[step]));
      }
    }
    difference_.dq_orders = orders_apart(dq_sums(before_), dq_sums(after_));
    difference_.dkv_orders = orders_apart(dkv_sums(before_), dkv_sums(after_));
    return std::move(difference_);
  }

 private:
  [[nodiscard]] StepChange change(std::int64_t before, std::int64_t after) const {
    StepChange change;
    if (before != kGone) {
      change.before = before_.steps[before];
      change.from = from_[at(before)];
    }
    if (after != kGone) {
      change.after = after_.steps[after];
      change.to = to_[at(after)];
    }
    return change;
  }

  [[nodiscard]] bool alike(std::int64_t ours, std::int64_t theirs) const {
    const Step& our = before_.steps[ours];
    const Step& their = after_.steps[theirs];
    return name_of(our) == name_of(their) && our.wait == their.wait && our.add == their.add &&
           our.semaphore == their.semaphore;
  }

  void find_first() {
    const std::int32_t programs = std::max(before_.programs(), after_.programs());
    for (Program program{0}; program.value < programs; ++program) {
      const auto [ours, our_end] = range(before_, program);
      const auto [theirs, their_end] = range(after_, program);
      for (std::int64_t place = 0; ours + place < our_end || theirs + place < their_end; ++place) {
        const std::int64_t our = ours + place < our_end ? ours + place : kGone;
        const std::int64_t their = theirs + place < their_end ? theirs + place : kGone;
        if (our != kGone && their != kGone && alike(our, their)) continue;
        difference_.first = change(our, their);
        difference_.first->from = difference_.first->to = {program, place};
        return;
      }
    }
  }

  static std::pair<std::int64_t, std::int64_t> range(const Tickets& tickets, Program program) {
    if (program.value >= tickets.programs()) return {0, 0};
    return {tickets.begin_of(program), tickets.end_of(program)};
  }

  void find_removed_and_added() {
    std::vector<bool> known(after_.steps.size(), false);
    for (std::int64_t step = 0; step < std::ssize(same_); ++step) {
      if (same_[step] == kGone) {
        difference_.removed.push_back(change(step, kGone));
      } else {
        known[at(same_[step])] = true;
      }
    }
    for (std::int64_t step = 0; step < std::ssize(after_.steps); ++step) {
      if (!known[at(step)]) difference_.added.push_back(change(kGone, step));
    }
  }

  void find_moved() {
    for (Program program{0}; program.value < before_.programs(); ++program) {
      std::vector<std::int64_t> places;  // in `after`, of steps that stay in the program
      for (std::int64_t step = before_.begin_of(program); step < before_.end_of(program); ++step) {
        if (stays(step, program)) places.push_back(same_[step]);
      }
      const std::vector<bool> kept = longest_ascending(places);
      std::size_t index = 0;
      for (std::int64_t step = before_.begin_of(program); step < before_.end_of(program); ++step) {
        if (same_[step] == kGone) continue;
        if (!stays(step, program) || !kept[index++]) {
          difference_.moved.push_back(change(step, same_[step]));
        }
      }
    }
  }
  [[nodiscard]] bool stays(std::int64_t step, Program program) const {
    return same_[step] != kGone && to_[at(same_[step])].program == program;
  }

  const Tickets& before_;
  const Tickets& after_;
  IndexVector<std::int64_t, std::int64_t> same_;
  std::vector<StepAt> from_;
  std::vector<StepAt> to_;
  Difference difference_;
};

}  // namespace

Difference difference(const Tickets& before, const Tickets& after) {
  return Comparison(before, after).run();
}

}  // namespace stagger::tickets
