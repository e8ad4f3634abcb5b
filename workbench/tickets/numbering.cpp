// Kernels that compute a lock value as their KV tile's number, counted from one end or the other,
// are right where every tile is live, and hang elsewhere. Which tiles are skipped tells why.

#include "workbench/tickets/rules.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::tickets {
namespace {

/// The Q tiles that a chain reduces into.
struct Reach {
  std::int32_t first = 0;
  std::int32_t last = 0;
};
using Reaches = std::map<std::pair<Head, KvTile>, Reach>;

Reaches reaches_of(const Tickets& tickets) {
  Reaches reaches;
  for (const Step& step : tickets.steps) {
    if (!step.waits()) continue;
    const std::int32_t q = step.task.q.value;
    const auto [reach, is_new] = reaches.try_emplace({step.task.head, step.task.kv}, Reach{q, q});
    reach->second.first = std::min(reach->second.first, q);
    reach->second.last = std::max(reach->second.last, q);
  }
  return reaches;
}

/// Whether each KV tile of a head reaches as far as the one before or farther, on both ends, and
/// shares a Q tile with it.
bool is_window(const Reaches& reaches) {
  const std::pair<const std::pair<Head, KvTile>, Reach>* before = nullptr;
  for (const auto& reach : reaches) {
    const bool follows = before != nullptr && before->first.first == reach.first.first;
    if (follows &&
        (reach.second.first < before->second.first || reach.second.last < before->second.last ||
         reach.second.first > before->second.last)) {
      return false;
    }
    before = &reach;
  }
  return true;
}

class Numbers {
 public:
  Numbers(const Tickets& tickets, const Chains& chains) : tickets_(tickets), chains_(chains) {}

  Numbering run() {
    for (const Step& step : tickets_.steps)
      result_.kv_tiles = std::max(result_.kv_tiles, std::int64_t{step.task.kv.value} + 1);
    for (const Broken& broken : chains_.broken()) {
      if (broken.fault != Fault::twice) look_at(broken.semaphore);
    }
    if (seen_ && ascending_) {
      result_.kind = Numbering::Kind::ascending;
    } else if (seen_ && descending_) {
      result_.kind = Numbering::Kind::descending;
    }
    if (result_.kind != Numbering::Kind::none) result_.skipped = skipped();
    return result_;
  }

 private:
  void look_at(Semaphore semaphore) {
    for (const std::int64_t index : chains_.waits(semaphore)) {
      const Step& step = tickets_.steps[index];
      const std::int64_t sum = std::int64_t{step.wait} + step.task.kv.value;
      if (!seen_) result_.top = sum;
      seen_ = true;
      ascending_ = ascending_ && step.wait == step.task.kv.value;
      descending_ = descending_ && sum == result_.top;
    }
  }

  [[nodiscard]] Numbering::Skipped skipped() const {
    const Reaches reaches = reaches_of(tickets_);
    bool all_empty = true;
    bool contiguous = true;
    for (const Broken& broken : chains_.broken()) {
      if (broken.fault == Fault::twice) continue;
      const std::span<const std::int64_t> waits = chains_.waits(broken.semaphore);
      std::int64_t expected = 0;
      for (const std::int64_t index : waits) {
        const Step& step = tickets_.steps[index];
        contiguous = contiguous && (index == waits.front() || step.wait == expected);
        all_empty = all_empty && !reaches_between(reaches, step.task.head, expected, step.wait);
        expected = std::int64_t{step.wait} + 1;
      }
    }
    if (all_empty) return Numbering::Skipped::empty;
    if (!contiguous) return Numbering::Skipped::holes;
    return is_window(reaches) ? Numbering::Skipped::window : Numbering::Skipped::empty;
  }

  /// Whether a chain of the head has one of the numbers [begin, end).
  [[nodiscard]] bool reaches_between(const Reaches& reaches, Head head, std::int64_t begin,
                                     std::int64_t end) const {
    const bool descends = result_.kind == Numbering::Kind::descending;
    const std::int64_t first = descends ? result_.top - end + 1 : begin;
    const std::int64_t last = descends ? result_.top - begin : end - 1;
    if (first >= result_.kv_tiles) return false;
    const KvTile nearest{static_cast<std::int32_t>(std::max<std::int64_t>(first, 0))};
    const auto reach = reaches.lower_bound({head, nearest});
    return reach != reaches.end() && reach->first.first == head &&
           reach->first.second.value <= last;
  }

  const Tickets& tickets_;
  const Chains& chains_;
  bool seen_ = false;
  bool ascending_ = true;
  bool descending_ = true;
  Numbering result_;
};

}  // namespace

Numbering numbering_of(const Tickets& tickets, const Chains& chains) {
  return Numbers(tickets, chains).run();
}

}  // namespace stagger::tickets
