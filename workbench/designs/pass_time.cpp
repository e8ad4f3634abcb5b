#include "workbench/designs/pass_time.hpp"

#include "core/checked.hpp"

#include <algorithm>

namespace stagger::designs {

Ticks pass_ns(const Pass& pass, std::int64_t rate) {
  return std::max(divide_up(pass.bytes, rate), pass.launches * kShortestPassNs) +
         pass.launches * kLaunchNs;
}

}  // namespace stagger::designs
