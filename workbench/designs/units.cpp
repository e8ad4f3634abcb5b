#include "workbench/designs/units.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "workbench/designs/plan.hpp"

#include <numeric>

namespace stagger::designs {
namespace {

Ticks times(Ticks duration, Ticks factor) {
  constexpr Ticks kMost = Ticks{1} << 62;
  const Checked product = Checked(duration) * factor;
  if (!product.within(kMost)) throw Error(ErrorKind::limit, "durations are too long");
  return product.value();
}

}  // namespace

Timing scaled(const Timing& timing, Ticks factor) {
  Timing units = timing;
  if (units.memory) {
    // As many bytes a unit as were a tick, of tiles and an L2 that are as much larger.
    TileBytes& tile = units.memory->tile;
    for (std::int64_t* bytes : {&units.memory->l2, &tile.q, &tile.dq, &tile.kv, &tile.gradient})
      *bytes = times(*bytes, factor);
    for (std::int64_t* duration :
         {&units.memory->latency, &units.memory->congestion, &units.memory->spread,
          &units.memory->dip, &units.memory->dip_loss})
      *duration = times(*duration, factor);
  }
  for (Ticks* duration : {&units.compute, &units.reduce, &units.latency, &units.launch,
                          &units.epilogue, &units.reduce_kv})
    *duration = times(*duration, factor);
  if (units.next_lane) units.next_lane = times(*units.next_lane, factor);
  if (units.compute_partial) units.compute_partial = times(*units.compute_partial, factor);
  return units;
}

Units gemm_units(const Timing& timing, Ticks numerator, Ticks denominator) {
  const Ticks whole = times(kGemms, denominator);
  const Ticks compute = times(timing.compute, numerator);
  const Ticks partial = times(timing.compute_of(TileKind::partial), numerator);
  const Ticks common = std::gcd(std::gcd(compute, partial), whole);
  Units units{.timing = scaled(timing, whole / common), .per_tick = whole / common};
  units.timing.compute = compute / common;
  if (timing.compute_partial) units.timing.compute_partial = partial / common;
  return units;
}

}  // namespace stagger::designs
