#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::schedules {

/// Values of a schedule's parameters by name; complete after select().
using Parameters = std::map<std::string, std::int64_t, std::less<>>;

/// One parameter, given as `name:key=value`: an integer, or one of a few words.
struct Parameter {
  const char* name;
  const char* meaning;
  std::int64_t fallback;
  std::int64_t least;
  std::int64_t most;
  std::span<const char* const> words = {};   ///< if not empty, the value is a word's place
  std::span<const std::int64_t> tried = {};  ///< what else is worth trying where L2 counts

  /// The value as it is given.
  [[nodiscard]] std::string spelled(std::int64_t value) const;
};

/// In which order a chain goes through its heads.
enum class HeadOrder {
  q_major,     ///< all heads of a Q tile, then the next Q tile
  head_major,  ///< all Q tiles of a head, then the next head
};

inline constexpr const char* kHeadOrderNames[] = {"q-major", "head-major"};
inline constexpr std::int64_t kHeadOrdersTried[] = {1};

/// The parameter that every schedule has beside its own.
inline constexpr Parameter kHeadOrder = {.name = "order",
                                         .meaning = "of a chain's heads and Q tiles",
                                         .fallback = 0,
                                         .least = 0,
                                         .most = 1,
                                         .words = kHeadOrderNames,
                                         .tried = kHeadOrdersTried};

inline constexpr const char* kSearchedHeadOrderNames[] = {"best", "q-major", "head-major"};

/// In its place where either order is searched for.
inline constexpr Parameter kSearchedHeadOrder = {
    .name = kHeadOrder.name,
    .meaning = "of a chain's heads and Q tiles, if it has several; best: what the model says",
    .fallback = 0,
    .least = 0,
    .most = 2,
    .words = kSearchedHeadOrderNames};

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

/// Whether a search is to end with the best that it has; empty: never. Asked from any thread.
using Stop = std::function<bool()>;

/// The rule that makes a table: one file a schedule, listed in registry.cpp.
struct Schedule {
  const char* name;
  const char* summary;
  const char* source;
  const char* preconditions;
  Dispatch dispatch;
  std::span<const Parameter> parameters = {};
  std::span<const Formula> formulas = {};
  /// Why the schedule does not apply to this problem, nullopt if it does: judged by shape, not by
  /// the mask's name. nullptr: it applies to every problem.
  std::optional<std::string> (*unsupported)(const Problem&, const Parameters&) = nullptr;
  /// Appends the lanes. Requires a problem that the schedule applies to, with a head for every part
  /// (problem_of_parts()): what it makes is lifted to several heads a chain (lift.hpp).
  void (*build)(const Problem&, const Parameters&, Table&) = nullptr;
  /// What is built to be lifted to several heads a chain, where that is another table; nullptr:
  /// what `build` builds.
  void (*build_to_lift)(const Problem&, const Parameters&, Table&) = nullptr;
  /// In the place of `build`: appends lanes that are searched for in the timing model.
  void (*search)(const Problem&, const Timing&, const Parameters&, const Stop&, Table&) = nullptr;
  /// Whether `search` takes chains of several heads too, head by head: head-major order is searched
  /// for then, not lifted to, so that its table cannot hang under immediate release; and unless an
  /// order is asked for it is the one whose table costs less in the timing model.
  bool searches_heads = false;
  /// Whether a slot within a chain begins another run of Q tiles, each of which head-major order
  /// takes head by head; nullptr: a chain is one run.
  bool (*begins_run)(const Table& parts, std::int64_t slot) = nullptr;

  /// Whether its table depends on the timing model.
  [[nodiscard]] bool searches() const { return search != nullptr; }
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

/// Returns the schedule with its parameters at their defaults and, where an L2 cache counts, with
/// every value that is worth trying of each.
[[nodiscard]] std::vector<Selection> variants(const Schedule& schedule, bool l2_counts);

/// Why the schedule does not apply to a problem; nullopt if it does.
[[nodiscard]] std::optional<std::string> why_unsupported(const Selection& selection,
                                                         const Problem& problem);

/// Returns the variants of all schedules that do not search and apply to a problem, in the order of
/// all().
[[nodiscard]] std::vector<Selection> unsearched(const Problem& problem, bool l2_counts);

/// The schedule's table for a problem. Throws Error{unsupported} with the reason if it does not
/// apply, and what check_timing() throws. O(tasks) unless the schedule searches, which it does
/// until `stop` says so.
[[nodiscard]] Table build(const Selection& selection, const Problem& problem,
                          const Timing& timing = {}, const Stop& stop = {});

/// Whether the paper's assumptions hold: chain model, partial tiles like full ones, no latency,
/// launch or epilogue, no time for parts that are reduced into dK and dV in order, immediate
/// release, every SM there, at least one SM per KV tile.
[[nodiscard]] bool paper_setting(const Problem& problem, const Timing& timing);

/// The formula that claims this problem's makespan, nullptr if none does. Formulas speak of a
/// schedule with its parameters at their defaults, and of its table before it is lifted: of parts,
/// whose tasks take as long as those of their heads together.
[[nodiscard]] const Formula* claim(const Selection& selection, const Problem& problem,
                                   const Timing& timing);

/// Twice what a formula gives for a problem, and its text, with what m, c and r are where they are
/// not the problem's.
[[nodiscard]] Ticks twice_ticks(const Formula& formula, const Problem& problem,
                                const Timing& timing);
/// Whether a formula is exact for a problem that has its shape, in the paper's setting.
[[nodiscard]] bool in_domain(const Formula& formula, const Problem& problem, const Timing& timing);
[[nodiscard]] std::string text_of(const Formula& formula, const Problem& problem);

}  // namespace stagger::schedules
