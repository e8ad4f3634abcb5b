#include "workbench/designs/dependence.hpp"

#include "core/hash.hpp"
#include "core/tiling.hpp"
#include "workbench/designs/plan.hpp"

#include <algorithm>
#include <utility>

namespace stagger::designs {
namespace {

/// What a head's dQ tiles, and its chains' dK and dV, are added in the order of: by head, a sum of
/// hashes, so that the lanes' order does not matter.
IndexVector<Head, std::uint64_t> orders_of(const Table& table) {
  IndexVector<Head, std::uint64_t> orders(table.problem.heads, 0);
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::int32_t place = 0;
    for (std::int64_t slot = table.begin_of(lane); slot < table.end_of(lane); ++slot) {
      place = table.begins_chain(lane, slot) ? 0 : place + 1;
      const auto& [task, rank] = table.slots[slot];
      Hash hash;
      for (const std::int32_t word : {task.kv.value, task.q.value, rank, place})
        hash.add(word);
      orders[task.head] += hash.value();
    }
  }
  return orders;
}

/// The problem on other SMs, with other KV heads.
Problem changed(const Problem& problem, std::int64_t sms, std::int64_t heads_kv) {
  Problem other = problem;
  other.sms = static_cast<std::int32_t>(sms);
  other.heads_kv = static_cast<std::int32_t>(heads_kv);
  other.heads = other.heads_kv * problem.group();
  return other;
}

class Probe {
 public:
  Probe(const schedules::Selection& selection, const Problem& problem)
      : selection_(selection), orders_(orders_of(schedules::build(selection, problem))) {}

  /// Whether a head that both have is added in another order.
  [[nodiscard]] bool differs(const Problem& other) const {
    if (schedules::why_unsupported(selection_, other)) return false;
    const auto orders = orders_of(schedules::build(selection_, other));
    const auto common = static_cast<std::ptrdiff_t>(std::min(orders.size(), orders_.size()));
    return !std::equal(orders.begin(), orders.begin() + common, orders_.begin());
  }

 private:
  const schedules::Selection& selection_;
  IndexVector<Head, std::uint64_t> orders_;
};

/// The problem with few enough tasks for some tables: in larger tiles, with fewer heads.
Problem probed(Problem problem) {
  constexpr std::int64_t kMostTiles = std::int64_t{1} << 14;
  constexpr std::int64_t kMostTasks = std::int64_t{1} << 20;
  const bool tokens = !is_of_tiles(problem.mask);
  while (tokens && problem.common_grid().live_tiles() > kMostTiles) {
    problem.shape.q *= 2;
    problem.shape.kv *= 2;
    problem.grids = tile(problem.mask, problem.lengths, problem.shape);
  }
  while (problem.heads_kv > 1 && problem.tasks() > kMostTasks) {
    problem = changed(problem, problem.sms, problem.heads_kv / 2);
  }
  return problem;
}

}  // namespace

std::array<std::int64_t, 5> other_counts(std::int64_t count) {
  return {std::max<std::int64_t>(count - 1, 1), count + 1, std::max<std::int64_t>(count / 2, 1),
          2 * count, 1};
}

void Dependence::add_to(std::vector<const char*>& words) const {
  if (sms) words.push_back(bits::kSms);
  if (heads) words.push_back(bits::kBatch);
  if (timing) words.push_back(bits::kTiming);
}

Dependence dependence_of(const schedules::Selection& selection, const Problem& problem) {
  if (selection.schedule->searches()) return {.sms = true, .heads = true, .timing = true};
  const Problem base = probed(problem);
  if (schedules::why_unsupported(selection, base)) return {.sms = true, .heads = true};
  const Probe probe(selection, base);
  return {.sms = std::ranges::any_of(
              other_counts(base.sms),
              [&](std::int64_t sms) { return probe.differs(changed(base, sms, base.heads_kv)); }),
          .heads = std::ranges::any_of(other_counts(base.heads_kv), [&](std::int64_t heads) {
            return probe.differs(changed(base, base.sms, heads));
          })};
}

}  // namespace stagger::designs
