#pragma once

#include "workbench/optimization.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::workbench {

/// What is known of the shortest table of a problem.
struct BestKnown {
  Ticks makespan = 0;
  Ticks lower_bound = 0;
  std::string by;       ///< what proves the bound
  std::string status;   ///< as Optimization::status()
  std::string proof;    ///< as Optimization::proof()
  std::string version;  ///< of Stagger, that found the makespan
};

/// A problem of an archive, in the model that it is searched in. A tile is a token, durations are
/// the defaults, and parts of a group's dK and dV, where there are several, are partials.
struct ArchiveEntry {
  Problem problem;
  Model model = Model::chain;
  bool slot_model = false;        ///< that instead
  std::optional<BestKnown> best;  ///< absent: not searched yet

  /// "chain", "overlap" or "slot".
  [[nodiscard]] const char* model_word() const;
};

/// Reads and writes schema `stagger.best-known/1`, an entry a line, so that a change is a line of a
/// diff. Throws Error{invalid_input} with the path of what is wrong.
[[nodiscard]] std::vector<ArchiveEntry> read_archive(std::string_view text,
                                                     const std::string& source);
[[nodiscard]] std::string write_archive(const std::vector<ArchiveEntry>& archive);

/// What a new search says of an entry.
enum class ArchiveOutcome {
  holds,
  is_new,        ///< there was no makespan
  better,        ///< a shorter table was found
  not_reached,   ///< none as short was found
  contradicted,  ///< it is below a proved bound, or a shorter one was proved impossible
  refused,       ///< it cannot be searched
};
[[nodiscard]] const char* outcome_name(ArchiveOutcome outcome);

/// Which entries are searched again, and how each of them.
struct ArchiveRequest {
  std::int64_t every = 1;           ///< each N-th, from the first on
  TimeRequest time = {};            ///< durations, where they are not the defaults
  OptimizationRequest search = {};  ///< all but the problem and the model
  std::function<void(std::size_t entry, std::size_t entries)> progress = {};  ///< before each
};

/// What a search of an archive showed.
struct ArchiveCheck {
  struct Found {
    std::size_t entry = 0;  ///< index
    ArchiveOutcome outcome = ArchiveOutcome::holds;
    Ticks makespan = 0;
    std::optional<Ticks> known;  ///< what the entry said
    std::string why;             ///< it is refused
  };
  std::vector<ArchiveEntry> archive;  ///< with what is new or better
  std::vector<Found> found;           ///< by entry searched for which a table was found, or refused
  std::int64_t optimal = 0;           ///< of those, proved optimal

  [[nodiscard]] std::int64_t count(ArchiveOutcome outcome) const;
};

/// Searches the entries again until `search.stop` says so. An entry that cannot be searched takes
/// no other with it; throws its Error where there is none that can.
[[nodiscard]] ArchiveCheck check_archive(std::vector<ArchiveEntry> archive,
                                         const ArchiveRequest& request);

}  // namespace stagger::workbench
