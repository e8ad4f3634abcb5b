#include "core/table_digest.hpp"

namespace stagger {
namespace {

/// Names by first appearance, apart for every head.
class Names {
 public:
  Names(std::int32_t heads, std::int32_t tiles)
      : tiles_(tiles), names_(std::int64_t{heads} * tiles, -1), next_(heads) {}

  std::int32_t of(Head head, std::int32_t tile) {
    std::int32_t& name = names_[std::int64_t{head.value} * tiles_ + tile];
    if (name < 0) name = next_[head]++;
    return name;
  }

 private:
  std::int32_t tiles_;
  IndexVector<std::int64_t, std::int32_t> names_;  ///< by (head, tile)
  IndexVector<Head, std::int32_t> next_;
};

/// FNV-1a, by words.
class Hash {
 public:
  void add(std::int32_t word) {
    value_ = (value_ ^ static_cast<std::uint32_t>(word)) * 0x100000001b3;
    value_ ^= value_ >> 32;  // so that also low bits depend on high ones
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

std::uint64_t table_digest(const Table& table) {
  const Problem& problem = table.problem;
  Names heads(1, problem.heads);
  Names kv(problem.heads, problem.grid.kv_tiles());
  Names q(problem.heads, problem.grid.q_tiles());
  Hash hash;
  hash.add(static_cast<std::int32_t>(table.dispatch));
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    hash.add(static_cast<std::int32_t>(table.lane(lane).size()));
    for (const Slot& slot : table.lane(lane)) {
      const Task& task = slot.task;
      hash.add(heads.of(Head{0}, task.head.value));
      hash.add(kv.of(task.head, task.kv.value));
      hash.add(q.of(task.head, task.q.value));
      hash.add(slot.rank);
      hash.add(static_cast<std::int32_t>(problem.grid.kind(task.kv, task.q)));
    }
  }
  return hash.value();
}

}  // namespace stagger
