#pragma once

#include "core/index.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace stagger {

/// The search for a shortest cycle among waits. A `Wait` names who waits, `.*kFrom`, and for whom,
/// `.*kFor`, both indices of one kind. Breadth-first from every node: O(nodes × waits), but never
/// more steps than the budget.
template <class Wait, auto kFrom, auto kFor>
class ShortestCycle {
  using Node = std::remove_cvref_t<decltype(std::declval<Wait>().*kFrom)>;

 public:
  /// For nodes 0 … nodes-1.
  ShortestCycle(std::int32_t nodes, std::int64_t budget)
      : budget_(budget), from_(nodes, Node{-1}), steps_(nodes, 0), by_(nodes) {}

  /// The shortest cycle through any of the nodes before `end` that `is_stuck(node)`; empty: none.
  /// `each_wait(node, budget, visit)` calls visit(wait) for what a node waits for until that says
  /// no, and takes what it looks at from the budget.
  template <class IsStuck, class EachWait>
  std::vector<Wait> search(Node end, IsStuck is_stuck, EachWait each_wait) {
    std::vector<Wait> best;
    for (Node start{0}; start < end && budget_ > 0; ++start) {
      if (!is_stuck(start)) continue;
      std::vector<Wait> cycle = through(start, best.size(), each_wait);
      if (!cycle.empty()) best = std::move(cycle);
      if (best.size() == 1) break;
    }
    return best;
  }

  /// Whether the budget sufficed: only then is what was found a shortest one.
  [[nodiscard]] bool complete() const { return budget_ > 0; }

 private:
  /// A shortest cycle through a node, if it is shorter than `bound` waits (0: any).
  template <class EachWait>
  std::vector<Wait> through(Node start, std::size_t bound, EachWait each_wait) {
    std::deque<Node> queue = {start};
    from_[start] = start;
    steps_[start] = 0;
    std::optional<Wait> closing;
    while (!queue.empty() && !closing && --budget_ > 0) {
      const Node node = queue.front();
      queue.pop_front();
      if (bound != 0 && at(steps_[node]) + 1 >= bound) break;
      each_wait(node, budget_, [&](const Wait& wait) {
        const Node next = wait.*kFor;
        if (next == start) closing = wait;
        if (from_[next] == start) return !closing;
        from_[next] = start;
        steps_[next] = steps_[node] + 1;
        by_[next] = wait;
        queue.push_back(next);
        return true;
      });
    }
    if (!closing) return {};
    std::vector<Wait> cycle = {*closing};
    while (cycle.back().*kFrom != start)
      cycle.push_back(by_[cycle.back().*kFrom]);
    std::reverse(cycle.begin(), cycle.end());
    return cycle;
  }

  std::int64_t budget_;
  /// What was reached, by which wait and in how many steps. It is kept from one start to the next:
  /// an entry counts for the start that it was reached from.
  IndexVector<Node, Node> from_;
  IndexVector<Node, std::int32_t> steps_;
  IndexVector<Node, Wait> by_;
};

}  // namespace stagger
