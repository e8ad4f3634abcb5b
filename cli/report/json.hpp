#pragma once

#include "cli/expect.hpp"
#include "core/json.hpp"
#include "workbench/comparison.hpp"

#include <span>

namespace stagger::cli {

/// Schema `stagger.report/1`; what was expected is listed if something was.
[[nodiscard]] Json report_json(const workbench::Analysis& analysis,
                               std::span<const Judgement> judgements = {});

/// A row of a comparison for programs: an analysis without the steps of its critical path, and with
/// a reason if the schedule does not apply.
[[nodiscard]] Json row_json(const workbench::Comparison& comparison,
                            const workbench::ComparisonRow& row);

/// What became of an --expect: `{"text", "holds", "values"}`.
[[nodiscard]] Json judgements_json(std::span<const Judgement> judgements);

}  // namespace stagger::cli
