#pragma once

#include "schedules/search/sat.hpp"

#include <iostream>

namespace stagger::test {

/// Says why a case has nothing to try in this build, and returns true. CTest then calls it skipped,
/// by what this says; Catch2 2 knows only passed and failed.
[[nodiscard]] inline bool skipped(const char* why) {
  std::cout << "SKIPPED: " << why << "\n";
  return true;
}

[[nodiscard]] inline bool skipped_without_sat_solver() {
  return !search::has_sat_solver() && skipped("no SAT solver in this build (libcadical-dev)");
}

}  // namespace stagger::test
