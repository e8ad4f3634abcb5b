#pragma once

#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace stagger::search {

/// What is minimised.
struct Objective {
  Timing timing;
  bool slot_model = false;  ///< that instead: the makespan is in rounds
};

/// A table and its makespan: ticks, or rounds in the slot model.
struct Incumbent {
  Table table;
  Ticks makespan = 0;
  Ticks cost = makespan;  ///< that it is chosen by: rating.hpp
};

/// A lower bound that was proved elsewhere, and what proves it.
struct ProvenBound {
  Ticks ticks = 0;
  std::string by;
};

/// A bound for searches that were given no better one: an SM's share of the tasks, or the longest
/// chain, each task as short as there is one. O(KV tiles).
[[nodiscard]] ProvenBound work_bound(const Problem& problem, const Timing& timing);

enum class ProofKind {
  none,    ///< the best table found, not proved best
  bound,   ///< its makespan is the lower bound
  search,  ///< nothing shorter was found by a search that leaves nothing out
};

struct Optimum {
  std::optional<Incumbent> best;  ///< absent: no table was found
  std::string found_by = {};      ///< the phase that found it; empty: it was known
  ProvenBound lower_bound;        ///< the best known; raised by searches that fail
  ProofKind proof = ProofKind::none;
  std::string detail;          ///< what proves it, in words
  bool proof_written = false;  ///< to `proof_file`
  bool stopped = false;
};

struct SearchOptions {
  std::uint64_t seed = 1;
  int threads = 1;
  /// Scales the work of the heuristics; the same value gives the same table.
  std::int64_t effort = 100;
  std::function<bool()> stop;  ///< asked often, from any thread
  /// Told of every phase and improvement.
  std::function<void(const std::string& phase, const Optimum& so_far)> progress;
  std::string proof_file;  ///< DRAT proof of the last number of rounds refuted, if not empty
};

/// Looks for the table with the smallest makespan, or, with a memory, cost: list scheduling with
/// several rules, whole chains packed and ordered, "do T rounds suffice?" as a SAT problem, an
/// exhaustive search if the problem is small, and local search; each only while the best is above
/// the lower bound. `known` is a table to beat, absent if none. A table that is found has a lane
/// for every SM of the problem, and tasks on those that are there; the slot model too has no more
/// SMs than those. Throws what check_timing() throws. Where chains are of several heads lists,
/// windows, packings and local search go head by head; edge colouring and the exhaustive search
/// have one head a chain, and of the slot model only "do T rounds suffice?" is asked, of the known
/// table. The result is the same for the same options, whatever the number of threads, unless
/// `stop` cut it short.
[[nodiscard]] Optimum optimize(const Problem& problem, const Objective& objective,
                               const ProvenBound& lower_bound, std::optional<Incumbent> known,
                               const SearchOptions& options);

}  // namespace stagger::search
