#pragma once

#include "core/json.hpp"
#include "core/json_value.hpp"
#include "core/machine.hpp"
#include "core/table.hpp"
#include "core/timeline.hpp"

#include <string>
#include <string_view>

namespace stagger {

// Files (README, "Files"). Readers throw Error{invalid_input}, naming the path of what is wrong
// (`/lanes/3/0`), on malformed JSON, an unknown schema, an unknown, repeated or missing key, a
// value of another type or out of range, and above core/limits.hpp. `source` names the text in
// messages.

/// Reads and writes the `problem` of a table, a report or a run.
[[nodiscard]] Problem read_problem(const JsonValue& problem);
[[nodiscard]] Json problem_json(const Problem& problem);

/// The problem with chains as the `dkv` of a table or a run has them: its `span` and `combine`.
[[nodiscard]] Problem read_chains(const JsonValue& dkv, Problem problem);

/// Reads schemas `stagger.table/1` and, with what heads share, `stagger.table/2`; the second is
/// written where heads share K and V. The table may be wrong in every way that dag::verify finds;
/// only what cannot be represented is refused.
[[nodiscard]] Table read_table_json(std::string_view text, const std::string& source);
[[nodiscard]] std::string write_table_json(const Table& table);

/// One row per lane, a cell `head:kv:q:rank` a slot; empty cells are skipped. A first row that
/// begins with the cell `stagger.table/1` (or 2) holds the problem as `key=value` cells; without it
/// the problem must come from elsewhere (else Error{usage}) and the dispatch is static.
[[nodiscard]] Table read_table_csv(std::string_view text, const std::string& source,
                                   const Problem* problem);
[[nodiscard]] std::string write_table_csv(const Table& table);
/// Whether a CSV has such a first row, of whichever number.
[[nodiscard]] bool is_table_csv(std::string_view text);

/// Reads a mask description; `"schema": "stagger.mask/1"` may be there.
[[nodiscard]] Mask read_mask_json(std::string_view text, const std::string& source);
/// Reads one that is part of another document.
[[nodiscard]] Mask read_mask_json(const JsonValue& description);
/// A mask description without its schema.
[[nodiscard]] Json mask_json(const Mask& mask);
/// Writes any grid as the `tiles` mask, several of them as a mask by head, with its schema.
[[nodiscard]] std::string write_mask_json(const HeadGrids& grids);

/// Reads and writes schema `stagger.timeline/1`. Reading orders the intervals by SM and start.
[[nodiscard]] Timeline read_timeline_json(std::string_view text, const std::string& source);
[[nodiscard]] std::string write_timeline_json(const Timeline& timeline);

/// Reads and writes schema `stagger.machine/1`. Two entries of one key are refused.
[[nodiscard]] Machine read_machine_json(std::string_view text, const std::string& source);
[[nodiscard]] std::string write_machine_json(const Machine& machine);
/// Reads and writes an entry of its `kernels`.
[[nodiscard]] KernelTimes read_kernel_times(const JsonValue& entry);
[[nodiscard]] std::string write_kernel_times(const KernelTimes& times);

}  // namespace stagger
