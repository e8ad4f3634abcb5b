#include "core/table.hpp"

namespace stagger {

void use_kv_index_ranks(Table& table) {
  for (Slot& slot : table.slots)
    slot.rank = slot.task.kv.value;
}

}  // namespace stagger
