#include "core/table_digest.hpp"

#include "core/hash.hpp"

namespace stagger {
namespace {

/// Names by first appearance, apart for every owner.
class Names {
 public:
  Names(std::int32_t owners, std::int32_t things)
      : things_(things), names_(std::int64_t{owners} * things, -1), next_(owners) {}

  std::int32_t of(std::int32_t owner, std::int32_t thing) {
    std::int32_t& name = names_[std::int64_t{owner} * things_ + thing];
    if (name < 0) name = next_[owner]++;
    return name;
  }

 private:
  std::int32_t things_;
  IndexVector<std::int64_t, std::int32_t> names_;  ///< by (owner, thing)
  IndexVector<std::int64_t, std::int32_t> next_;
};

/// What the table promises of dK and dV, and which part each head is of in the order of first
/// slots. Nothing where heads share nothing: as before there were groups.
void add_groups(const Table& table, Hash& hash) {
  const Problem& problem = table.problem;
  if (problem.group() == 1) return;
  hash.add(problem.group());
  hash.add(problem.span);
  hash.add(static_cast<std::int32_t>(problem.combine));
  Names kv_heads(1, problem.heads_kv);
  Names parts(problem.heads_kv, problem.group_parts());
  for (const auto& [task, rank] : table.slots) {
    const Part part = problem.part_of(task.head);
    const KvHead kv_head = problem.kv_head_of(part);
    hash.add(kv_heads.of(0, kv_head.value));
    hash.add(parts.of(kv_head.value, part.value % problem.group_parts()));
    if (problem.combine == Combine::ordered) hash.add(table.dkv_rank(part, task.kv));
  }
}

}  // namespace

std::uint64_t table_digest(const Table& table) {
  const Problem& problem = table.problem;
  Names heads(1, problem.heads);
  Names kv(problem.heads_kv, problem.kv_tiles());
  Names q(problem.heads, problem.q_tiles());
  Hash hash;
  add_groups(table, hash);
  hash.add(static_cast<std::int32_t>(table.dispatch));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    hash.add(static_cast<std::int32_t>(table.lane(lane).size()));
    for (const Slot& slot : table.lane(lane)) {
      const Task& task = slot.task;
      hash.add(heads.of(0, task.head.value));
      hash.add(kv.of(problem.kv_head_of(task.head).value, task.kv.value));
      hash.add(q.of(task.head.value, task.q.value));
      hash.add(slot.rank);
      hash.add(static_cast<std::int32_t>(problem.kind(task)));
    }
  }
  return hash.value();
}

}  // namespace stagger
