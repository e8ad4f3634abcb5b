#pragma once

#include "core/table.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger {

/// A lane whose next task cannot reduce, and what it waits for.
struct Wait {
  Lane lane;
  bool launched = true;    ///< false: the lane itself waits for an SM
  Task task = {};          ///< the lane's next task
  bool dkv = false;        ///< it waits to reduce its chain into dK and dV, not its dQ tile
  KvHead kv_head = {};     ///< the task's
  std::int32_t rank = 0;   ///< the lock value it waits for
  std::int32_t value = 0;  ///< the lock value it sees
  bool promised = true;    ///< false: no task ever brings the value
  Task for_task = {};      ///< the task whose release it needs (if promised)
  std::int32_t for_rank = 0;
  Lane for_lane = {};  ///< where that is (if promised); the SM's holder (if not launched)
};

/// The waits as sentences in a kernel engineer's words, one a line.
[[nodiscard]] std::vector<std::string> describe(const std::vector<Wait>& waits, Dispatch dispatch);

}  // namespace stagger
