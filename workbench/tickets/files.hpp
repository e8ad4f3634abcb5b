#pragma once

#include "core/json_place.hpp"
#include "core/json_value.hpp"
#include "workbench/tickets/tickets.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {

// Schema `stagger.tickets/1` (README, "Files"). Readers throw Error{invalid_input} with the place
// of what cannot be represented, and Error{limit} above core/limits.hpp; what is merely wrong is
// for the rules.

inline constexpr std::int64_t kMaxSemaphores = std::int64_t{1} << 24;
inline constexpr std::int64_t kMaxPrograms = std::int64_t{1} << 24;

[[nodiscard]] Tickets read_tickets(const JsonValue& root);
[[nodiscard]] std::string write_tickets_json(const Tickets& tickets);

/// Rows `program,step,sem,wait,add,reduce,head,kv,q` in order, below a row with those names; an
/// empty `wait` is none. A row before that, of `stagger.tickets/1` and cells like
/// `dispatch=static`, says the rest. `lines` is given the line of each step.
[[nodiscard]] Tickets read_tickets_csv(std::string_view text, const std::string& file,
                                       std::vector<std::int64_t>& lines);
[[nodiscard]] std::string write_tickets_csv(const Tickets& tickets);

/// Lock values as an array, a row for each KV tile in launch order, a column for each Q tile; an
/// empty cell, `.` or -1 where a tile is not live. Every row is a program that goes through its
/// tiles from left to right. A first row of names is passed over. `places` is given each step's.
[[nodiscard]] Tickets read_lock_values(std::string_view text, const std::string& file,
                                       std::vector<TextRange>& places);

}  // namespace stagger::tickets
