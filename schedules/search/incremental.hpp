#pragma once

#include "core/rank_places.hpp"
#include "core/table.hpp"
#include "core/timing.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stagger::search {

/// The times of a static table under changes: a change is played on from the tasks that it touches,
/// and only as far as times move. O(tasks that move * log), and the SMs for the makespan.
class IncrementalPlay {
 public:
  /// Requires a table that runs to its end in the timing model (makespan_of), with every lane
  /// resident that has tasks. Keeps a reference to both.
  IncrementalPlay(Table& table, const Timing& timing);

  [[nodiscard]] Ticks makespan() const { return makespan_; }
  /// Slots played for changes so far: the work done.
  [[nodiscard]] std::int64_t played() const { return played_; }

  /// Exchanges the Q tiles of two slots of one chain, `first` < `second`, if the makespan stays
  /// within `limit`; else the table and the times are as before. Whether it did. A few changes that
  /// would stay within it are undone too: those during whose play some time is beyond it for a
  /// while.
  bool exchange_q(std::size_t first, std::size_t second, Ticks limit);

  /// Exchanges the ranks of a slot and of the one before it in its accumulation, under the same
  /// limit. Requires a rank above 0.
  bool exchange_ranks(std::size_t slot, Ticks limit);

 private:
  struct Times {
    Ticks handed = 0;  ///< chain model: end of the compute phase; overlap model: hand-over
    Ticks start = 0;   ///< of the reduction
    friend bool operator==(const Times&, const Times&) = default;
  };
  struct Change {
    std::size_t slot;
    Times before;
  };

  [[nodiscard]] bool first_of_lane(std::size_t slot) const { return lane_first_[slot]; }
  [[nodiscard]] bool begins(std::size_t slot) const;
  [[nodiscard]] bool ends(std::size_t slot) const;
  [[nodiscard]] Ticks free_after(std::size_t slot) const;
  [[nodiscard]] Ticks turn_after(std::size_t slot) const;
  [[nodiscard]] Times times_of(std::size_t slot) const;
  [[nodiscard]] Ticks end_of_lanes() const;
  [[nodiscard]] std::ptrdiff_t next_in_accumulation(std::size_t slot) const;
  void swap_q(std::size_t first, std::size_t second);
  void swap_ranks(std::size_t slot, std::size_t other);
  void touch(std::size_t slot);
  bool play_on(Ticks limit);
  void undo();

  Table& table_;
  const Timing& timing_;
  bool overlap_;
  bool weightless_;  ///< a cycle of waits may take no time, and is looked for
  RankPlaces places_;
  std::vector<bool> lane_first_;
  std::vector<std::size_t> slot_of_;  ///< by rank
  std::vector<Times> times_;          ///< by slot
  Ticks makespan_ = 0;
  std::int64_t played_ = 0;
  std::vector<std::size_t> touched_;
  std::vector<Change> changes_;
};

}  // namespace stagger::search
