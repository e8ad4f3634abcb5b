#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::schedules {

/// Values of a schedule's parameters by name; complete after select().
using Parameters = std::map<std::string, std::int64_t, std::less<>>;

/// One integer parameter, given as `name:key=value`.
struct Parameter {
  const char* name;
  const char* meaning;
  std::int64_t fallback;
  std::int64_t least;
  std::int64_t most;
};

/// A closed form for a schedule's makespan, and where it is exact.
struct Formula {
  const char* name;  ///< the paper's symbol
  const char* text;  ///< in n, m, c, r (n_q, n_kv where they differ)
  const char* source;
  const char* domain;  ///< in words, beyond the setting of paper_setting()
  /// The mask shape the formula speaks of.
  bool (*shape)(const TileGrid&);
  /// Whether (m, n, c, r) lies where the formula is exact.
  bool (*in_domain)(const Problem&, const Timing&);
  /// Twice the formula's value, so that m(n+1)(c+r)/2 stays an integer.
  Ticks (*twice_ticks)(const Problem&, const Timing&);
};

/// The rule that makes a table: one file a schedule, listed in registry.cpp.
struct Schedule {
  const char* name;
  const char* summary;
  const char* source;
  const char* preconditions;
  Dispatch dispatch;
  bool searches = false;  ///< its table depends on the timing model
  std::span<const Parameter> parameters = {};
  std::span<const Formula> formulas = {};
  /// Why the schedule does not apply to this problem, nullopt if it does: judged by shape, not by
  /// the mask's name. nullptr: it applies to every problem.
  std::optional<std::string> (*unsupported)(const Problem&, const Parameters&) = nullptr;
  /// Appends the lanes; only one that `searches` asks for the timing. Requires a problem that the
  /// schedule applies to.
  void (*build)(const Problem&, const Timing&, const Parameters&, Table&) = nullptr;
};

/// Every schedule, in the order `stagger list schedules` prints.
[[nodiscard]] std::span<const Schedule* const> all();

/// A schedule with its parameters.
struct Selection {
  const Schedule* schedule = nullptr;
  Parameters parameters;
  std::string text;  ///< as it was given
};

/// Reads `name` or `name:key=value,key=value`. Throws Error{usage}, naming what is known.
[[nodiscard]] Selection select(std::string_view text);

/// Why the schedule does not apply to a problem; nullopt if it does.
[[nodiscard]] std::optional<std::string> why_unsupported(const Selection& selection,
                                                         const Problem& problem);

/// The schedule's table for a problem. Throws Error{unsupported} with the reason if it does not
/// apply, and what check_timing() throws. O(tasks) unless the schedule searches.
[[nodiscard]] Table build(const Selection& selection, const Problem& problem,
                          const Timing& timing = {});

/// Whether the paper's assumptions hold: chain model, partial tiles like full ones, no latency,
/// launch or epilogue, immediate release, every SM there, at least one SM per KV tile.
[[nodiscard]] bool paper_setting(const Problem& problem, const Timing& timing);

/// The formula that claims this problem's makespan, nullptr if none does. Formulas speak of a
/// schedule with its parameters at their defaults.
[[nodiscard]] const Formula* claim(const Selection& selection, const Problem& problem,
                                   const Timing& timing);

}  // namespace stagger::schedules
