#pragma once

#include "schedules/search/sat.hpp"

#include <iostream>

namespace stagger::test {

/// Whether a case has nothing to try in this build. CTest then calls it skipped, by what this says;
/// Catch2 2 knows only passed and failed.
[[nodiscard]] inline bool skipped_without_sat_solver() {
  if (search::has_sat_solver()) return false;
  std::cout << "SKIPPED: no SAT solver in this build (libcadical-dev)\n";
  return true;
}

}  // namespace stagger::test
