#pragma once

#include "workbench/analysis.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagger::workbench {

/// Whether every head of a schedule's table is added up in one order, which is that of a KV head
/// alone on as many SMs as it has KV tiles: then a row of a batch has the bits that it has alone,
/// on any SMs on which that holds. `timing` is what a schedule that searches is asked for. O(tasks)
/// unless it searches.
[[nodiscard]] bool is_batch_invariant(const schedules::Selection& selection, const Table& table,
                                      const Timing& timing = {});

/// A schedule's table on the most SMs on which it is batch invariant, of all of the problem's and
/// multiples of a head's units, which are its KV tiles or half of them; absent if it is on none.
/// `timing` is what a schedule that searches is asked for.
[[nodiscard]] std::optional<Table> invariant_table(const schedules::Selection& selection,
                                                   const Problem& problem,
                                                   const Timing& timing = {});

/// The table of invariant_table() as a source. Throws Error{unsupported} with the reason if there
/// is none.
[[nodiscard]] Source invariant_source_of(schedules::Selection selection, const Problem& problem,
                                         TimeModel model = {});

/// Why a schedule has no batch-invariant table for a problem. Requires that it has none.
[[nodiscard]] std::string why_not_invariant(const schedules::Selection& selection,
                                            const Problem& problem);

/// In how many orders the heads of a table are added up, and where they are one.
struct OrderReport {
  std::uint64_t digest = 0;   ///< as of a plan with heads of `head_dim`
  std::int64_t head_dim = 0;  ///< elements
  std::int32_t distinct = 0;  ///< different orders among the heads
  /// Absent for a table from elsewhere, and where heads have masks of their own.
  std::optional<bool> invariant = std::nullopt;
  std::optional<std::int64_t> sms = std::nullopt;  ///< it is not, but would be on so many
};

/// What is known of the orders of a table that is right, for heads of so many elements. No other
/// numbers of SMs are tried for a schedule that searches.
[[nodiscard]] OrderReport orders_of(const Analysis& analysis, std::int64_t head_dim);
/// That for the head_dim of the machine profile's entry, else 64.
[[nodiscard]] OrderReport orders_of(const Analysis& analysis);

/// Numbers of SMs, from one to twice a head's KV tiles: those that a schedule applies to, and those
/// of them on which it is batch invariant.
struct SteadySms {
  std::int64_t kv_tiles = 0;
  std::vector<std::int64_t> applies = {};
  std::vector<std::int64_t> invariant = {};
};

/// Found by building the schedule on eight KV and Q tiles, causal and full, for one to five heads;
/// absent for one that searches.
[[nodiscard]] std::optional<SteadySms> steady_sms_of(const schedules::Schedule& schedule);

}  // namespace stagger::workbench
