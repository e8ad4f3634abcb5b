#pragma once

#include "core/machine.hpp"
#include "workbench/block/overlap_calibration.hpp"
#include "workbench/block/transformer.hpp"

#include <string>

namespace stagger::cli {

// What --model, --calibration and --machine take: the name of a file of configs/ that is built in,
// or a file. What has a `.` or a `/` is a file, as `-` is, standard input; another word is a name:
// `h200` is the built-in profile, `./h200` what lies here. All throw Error{usage} for a name that
// there is none of, with those there are, and Error{io}.

[[nodiscard]] block::Transformer find_model(const std::string& name);
[[nodiscard]] block::Calibration find_calibration(const std::string& name);
[[nodiscard]] Machine find_machine(const std::string& name);

}  // namespace stagger::cli
