#include "core/table.hpp"

namespace stagger {

Problem on_resident_sms(Problem problem, std::int32_t residency) {
  problem.sms = resident_lanes(problem, residency);
  return problem;
}

void use_kv_index_ranks(Table& table) {
  for (Slot& slot : table.slots)
    slot.rank = slot.task.kv.value;
}

}  // namespace stagger
