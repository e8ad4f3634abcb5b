#pragma once

#include "cli/expect.hpp"
#include "workbench/analysis.hpp"

#include <vector>

namespace stagger::cli {

/// The numbers of a report that --expect can ask for.
[[nodiscard]] std::vector<ExpectName> number_names();

/// Their values. Requires an analysis that is ok.
[[nodiscard]] Values numbers_of(const workbench::Analysis& analysis);

}  // namespace stagger::cli
