#pragma once

#include "core/head_grids.hpp"
#include "workbench/tickets/chains.hpp"
#include "workbench/tickets/play.hpp"
#include "workbench/tickets/tickets.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {

enum class Level { note, warning, error };
inline constexpr const char* kLevelNames[] = {"note", "warning", "error"};
[[nodiscard]] constexpr const char* level_name(Level level) {
  return kLevelNames[static_cast<int>(level)];
}

struct Rule;

/// A departure from a rule, and where.
struct Finding {
  const Rule* rule = nullptr;
  Level level = Level::error;
  std::string message = {};  ///< one sentence or two, with the place in words
  std::int64_t step = -1;    ///< where it is; -1: see `pointer`
  std::int64_t other = -1;   ///< a step that has to do with it; -1: none
  std::string pointer = {};  ///< a place that is no step; empty: the whole file
};

/// Findings as rules make them: of each rule at most so many are kept, the others counted.
class Findings {
 public:
  explicit Findings(std::int64_t limit = 20) : limit_(limit) {}

  void push_back(Finding finding);
  /// Whether more of a rule would only be counted: then what is added may lack its message.
  [[nodiscard]] bool full(const Rule& rule) const;
  [[nodiscard]] bool has_error() const { return has_error_; }
  /// All that were kept, by rule, each rule's end saying how many more there are.
  [[nodiscard]] std::vector<Finding> take();

 private:
  struct Count {
    const Rule* rule;
    std::int64_t total = 0;
    Level level = Level::note;
    std::vector<Finding> kept = {};
  };
  std::int64_t limit_;
  bool has_error_ = false;
  std::vector<Count> counts_;
};

/// How a file numbers the lock values that are no order.
struct Numbering {
  enum class Kind {
    none,
    ascending,   ///< each waits for its KV tile's number
    descending,  ///< each waits for `top` less that
  };
  /// The KV tiles whose numbers nobody brings.
  enum class Skipped {
    empty,   ///< do nothing at all in their head
    window,  ///< are those that a window has passed by
    holes,   ///< others, some of them in the middle
  };
  Kind kind = Kind::none;
  std::int64_t top = 0;
  std::int64_t kv_tiles = 0;  ///< that there are: the highest that a step names, and those below
  Skipped skipped = Skipped::empty;
};

/// O(steps log steps).
[[nodiscard]] Numbering numbering_of(const Tickets& tickets, const Chains& chains);

/// What lock values were computed from.
enum class Origin {
  given,         ///< someone wrote the steps down
  block_lists,   ///< block lists and a write order made for them
  ranked_lists,  ///< likewise, and the order has the ranks of these lists, each once
};

/// All that rules look at: the tickets, and what was made of them once for all rules.
struct Facts {
  const Tickets& tickets;
  Origin origin = Origin::given;
  /// What is live in each head, where the source says so.
  const HeadGrids* grids = nullptr;
  std::int32_t heads = 0;  ///< with grids

  Chains chains;
  Races races;
  Outcome outcome;  ///< on the machine that there is
  Outcome ordered;  ///< likewise, without what is broken
  Numbering numbering;

  Facts(const Tickets& linted, Origin from, const HeadGrids* live, std::int32_t live_heads);
};

/// A small example of what a rule is about, and what becomes of it.
struct Example {
  const char* notation;
  const char* outcome;  ///< in words; the first is `hangs` if and only if it does
  std::int32_t residency = 0;
  Dispatch dispatch = Dispatch::in_order;
  Release release = Release::immediate;
  std::int64_t initial = 0;
  Origin origin = Origin::given;
};
[[nodiscard]] Tickets tickets_of(const Example& example);

/// A rule: a file each in rules/.
struct Rule {
  const char* id;
  const char* title;
  Level level;
  const char* what;                   ///< what goes wrong, and what is right
  const char* seen;                   ///< where, a line each, with links
  std::span<const Example> examples;  ///< the first breaks the rule
  void (*check)(const Facts& facts, Findings& findings);
  /// Why it is about nothing in a file; nullptr where it is. None: it is about every file.
  const char* (*beside)(const Facts& facts) = nullptr;
};

/// STG001 and on.
[[nodiscard]] std::span<const Rule* const> rules();
/// nullptr if there is none.
[[nodiscard]] const Rule* find_rule(std::string_view id);

/// Why a rule is about nothing there is; nullptr if it is about something.
[[nodiscard]] const char* why_beside(const Rule& rule, const Facts& facts);

/// Everything that the rules find, by rule. What hangs has at least one error.
void apply_rules(const Facts& facts, Findings& findings);

}  // namespace stagger::tickets
