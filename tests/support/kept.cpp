#include "tests/support/kept.hpp"

#include <algorithm>

namespace stagger::test {
namespace {

constexpr std::string_view kKept[] = {
    "ascending",     "descending",     "shift", "symmetric-shift", "head-blocks", "grid-ascending",
    "lpt-ascending", "lpt-descending", "spt",   "fa4-sparse",      "balanced",    "windowed",
    "optimal",
};

bool is_kept(const schedules::Schedule* schedule) {
  return std::ranges::find(kKept, schedule->name) != std::end(kKept);
}

}  // namespace

std::vector<const schedules::Schedule*> kept_schedules() {
  std::vector<const schedules::Schedule*> kept;
  for (const schedules::Schedule* schedule : schedules::all()) {
    if (is_kept(schedule)) kept.push_back(schedule);
  }
  return kept;
}

bool is_kept(std::string_view name) {
  name = name.substr(0, name.find(':'));
  const auto all = schedules::all();
  const auto found = std::ranges::find(all, name, [](const auto* each) { return each->name; });
  return found == all.end() || is_kept(*found);
}

}  // namespace stagger::test
