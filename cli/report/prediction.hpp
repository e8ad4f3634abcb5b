#pragma once

#include "cli/expect.hpp"
#include "core/json.hpp"
#include "workbench/prediction.hpp"

#include <span>
#include <string>

namespace stagger::cli {

/// Schema `stagger.prediction/1`; what was expected is listed if something was.
[[nodiscard]] Json prediction_json(const workbench::PredictedRuns& predicted,
                                   std::span<const Judgement> judgements);

/// How well the runs are predicted; `each`: with a line for every run.
[[nodiscard]] std::string prediction_text(const workbench::PredictedRuns& predicted, int width,
                                          bool each);

}  // namespace stagger::cli
