#include "core/table.hpp"

namespace stagger {

Problem on_resident_sms(Problem problem, std::int32_t residency) {
  problem.sms = resident_lanes(problem, residency);
  return problem;
}

Table existing_tasks(const Table& table) {
  Table known;
  known.name = table.name;
  known.problem = table.problem;
  known.dispatch = table.dispatch;
  known.dkv_ranks = table.dkv_ranks;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (const Slot& slot : table.lane(lane)) {
      if (table.problem.contains(slot.task)) known.slots.push_back(slot);
    }
    known.end_lane();
  }
  return known;
}

void use_kv_index_ranks(Table& table) {
  for (Slot& slot : table.slots)
    slot.rank = slot.task.kv.value;
}

}  // namespace stagger
