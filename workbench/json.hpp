#pragma once

#include "core/json.hpp"
#include "core/json_value.hpp"
#include "workbench/invariance.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::workbench {

// Parts that several schemas have in common. A problem's is in core/files.hpp.

/// A problem and how many tasks it has.
[[nodiscard]] Json counted_problem_json(const Problem& problem);
/// What a run took so many partial tiles to be, of which the mask does not say the pairs.
[[nodiscard]] Json assumed_json(std::int64_t tiles);

/// Adds what a problem's heads share as a member `dkv`; nothing where they share nothing.
void add_dkv(Json& json, const Problem& problem);

/// Reads and writes a timing model; only the timing is read back. Throws Error{invalid_input}.
[[nodiscard]] Json model_json(const Problem& problem, const TimeModel& model);
[[nodiscard]] Timing read_model(const JsonValue& model, const Problem& problem);

/// In which orders a table's heads are added up, and the digest of what the bits move with.
[[nodiscard]] Json orders_json(const OrderReport& orders);
/// A digest as reports have it: sixteen digits.
[[nodiscard]] std::string hexadecimal(std::uint64_t number);

/// Where a table is from.
[[nodiscard]] Json schedule_json(const Summary& summary);

[[nodiscard]] Json task_json(const Task& task);

/// What verification found, a deadlock with its wait-for cycle.
[[nodiscard]] Json findings_json(const Summary& summary);

/// Who waits for whom, each with a sentence.
[[nodiscard]] Json waits_json(const std::vector<Wait>& waits, Dispatch dispatch);

/// Q tiles that hang, by head: `[{"head": 0, "q": [3, 4]}]`.
[[nodiscard]] Json hanging_json(const std::vector<dag::Liveness::Hanging>& hanging);
[[nodiscard]] Json hanging_json(const std::vector<dag::Liveness::HangingDkv>& hanging);

}  // namespace stagger::workbench
