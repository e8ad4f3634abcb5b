#include "sim/played.hpp"

namespace stagger::sim {

IndexVector<Lane, Lane> Played::lanes_before() const {
  constexpr Lane kNone{-1};
  IndexVector<Lane, Lane> before(table_->lanes(), kNone);
  IndexVector<Sm, Lane> last(sms(), kNone);
  for (Lane lane{0}; lane.value < table_->lanes(); ++lane) {
    if (run(lane).start < 0) continue;
    Lane& on_sm = last[run(lane).sm];
    before[lane] = on_sm;
    if (!table_->lane(lane).empty()) on_sm = lane;
  }
  return before;
}

}  // namespace stagger::sim
