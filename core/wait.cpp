#include "core/wait.hpp"

namespace stagger {
namespace {

std::string describe(const Wait& wait, const std::string& unit) {
  const std::string lane = unit + std::to_string(wait.lane.value);
  if (!wait.launched) {
    return lane + " is not launched: it waits for an SM, and " + unit +
           std::to_string(wait.for_lane.value) + " holds one";
  }
  const std::string lock = wait.dkv ? "dK, dV(KV head " + std::to_string(wait.kv_head.value) +
                                          ", kv " + std::to_string(wait.task.kv.value) + ")"
                                    : "dQ(head " + std::to_string(wait.task.head.value) + ", q " +
                                          std::to_string(wait.task.q.value) + ")";
  std::string text = lane + (wait.dkv ? " is behind " : " is at ") + describe(wait.task) +
                     " and waits for lock value " + std::to_string(wait.rank) + " of " + lock +
                     ", which shows " + std::to_string(wait.value);
  if (!wait.promised) return text + "; no task ever brings that value";
  text += (wait.dkv ? ": the chain of " : ": ") + describe(wait.for_task) + ", rank " +
          std::to_string(wait.for_rank) + ", must reduce first, and that is ";
  if (wait.for_lane != wait.lane) return text + "on " + unit + std::to_string(wait.for_lane.value);
  return text + "behind it on the same " + unit.substr(0, unit.size() - 1);
}

}  // namespace

std::vector<std::string> describe(const std::vector<Wait>& waits, Dispatch dispatch) {
  std::vector<std::string> lines;
  lines.reserve(waits.size());
  for (const Wait& wait : waits) {
    lines.push_back(describe(wait, dispatch == Dispatch::static_ ? "SM " : "CTA "));
  }
  return lines;
}

}  // namespace stagger
