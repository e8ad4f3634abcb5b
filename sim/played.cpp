#include "sim/played.hpp"

namespace stagger::sim {

std::vector<Lane> Played::lanes_before() const {
  constexpr Lane kNone{-1};
  std::vector<Lane> before(simulation_->lanes.size(), kNone);
  std::vector<Lane> last(at(sms()), kNone);
  for (Lane lane{0}; lane.value < table_->lanes(); ++lane) {
    if (run(lane).start < 0) continue;
    Lane& on_sm = last[at(run(lane).sm.value)];
    before[at(lane.value)] = on_sm;
    if (!table_->lane(lane).empty()) on_sm = lane;
  }
  return before;
}

}  // namespace stagger::sim
