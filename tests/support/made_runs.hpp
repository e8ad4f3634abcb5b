#pragma once

#include "workbench/execution.hpp"

#include <cstdint>
#include <optional>

namespace stagger::test {

/// Descending on a causal mask of three tiles and two heads.
[[nodiscard]] workbench::Source causal_source(workbench::TimeModel model = {});

/// A CPU run of two threads, whose times go up by slot as no run's do, and whose errors, digests
/// and names are made up: the same everywhere.
[[nodiscard]] workbench::Execution made_run(workbench::Source source,
                                            gpu::Mode mode = gpu::Mode::deterministic,
                                            bool judged = true);

/// The execution as if on a GPU that there is not.
[[nodiscard]] workbench::Execution on_gpu(workbench::Execution execution);

/// A profile's model in ns, with a memory.
[[nodiscard]] workbench::TimeModel toy_model();

/// What a profile speaks of: a GPU's run in ns, with all lanes there.
[[nodiscard]] workbench::Execution predicted_run(std::optional<std::int64_t> untimed,
                                                 std::optional<std::int64_t> rested);

}  // namespace stagger::test
