#pragma once

#include "core/json.hpp"
#include "workbench/formula_sweep.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// Schema `stagger.formulas/1`; `complete` is whether every case was checked.
[[nodiscard]] Json formulas_json(const std::vector<workbench::SweptFormula>& results,
                                 bool complete = true);

/// Every formula, where it claims to be exact and whether it is.
[[nodiscard]] std::string formulas_text(const std::vector<workbench::SweptFormula>& results,
                                        bool complete = true);

}  // namespace stagger::cli
