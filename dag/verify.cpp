#include "dag/verify.hpp"

#include "core/beside.hpp"
#include "core/rank_places.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <future>
#include <vector>

namespace stagger::dag {
namespace {

constexpr std::size_t kKinds = 14;

Finding finding_at(const Table& table, Lane lane, std::int64_t slot) {
  Finding finding;
  finding.lane = lane.value;
  finding.place = slot - table.begin_of(lane);
  finding.task = table.slots[slot].task;
  finding.rank = table.slots[slot].rank;
  return finding;
}

/// Where a slot is, in a message.
std::string place_name(const Finding& where) {
  return "lane " + std::to_string(where.lane) + ", slot " + std::to_string(where.place);
}

Liveness liveness_of(const Table& table, const Timing& timing) {
  const bool in_range = std::all_of(table.slots.begin(), table.slots.end(), [&](const Slot& slot) {
    return table.problem.contains(slot.task);
  });
  if (in_range) return check_liveness(table, timing);
  return check_liveness(existing_tasks(table), timing);
}

/// The live tiles of every head that no slot has had yet, a bit each.
class OpenTiles {
 public:
  explicit OpenTiles(const Problem& problem) : q_tiles_(problem.q_tiles()), left_(problem.tasks()) {
    std::vector<std::vector<std::uint64_t>> grids;
    for (const TileGrid& grid : problem.grids.distinct())
      grids.push_back(bits_of(grid));
    head_words_ = grids.front().size();
    words_.reserve(at(problem.heads) * head_words_);
    for (Head head{0}; head.value < problem.heads; ++head) {
      const std::vector<std::uint64_t>& bits = grids[at(problem.grids.place_of(head))];
      words_.insert(words_.end(), bits.begin(), bits.end());
    }
  }

  /// How many there are.
  [[nodiscard]] std::int64_t left() const { return left_; }
  [[nodiscard]] bool contains(const Task& task) const {
    return (words_[word(task)] & bit(tile(task.kv, task.q))) != 0;
  }
  /// Takes a tile out. Returns whether it was one of them.
  bool take(const Task& task) {
    std::uint64_t& tiles = words_[word(task)];
    const std::uint64_t taken = tiles & bit(tile(task.kv, task.q));
    tiles ^= taken;
    left_ -= taken != 0 ? 1 : 0;
    return taken != 0;
  }

 private:
  [[nodiscard]] std::vector<std::uint64_t> bits_of(const TileGrid& grid) const {
    std::vector<std::uint64_t> bits((at(grid.kv_tiles()) * at(q_tiles_) + 63) / 64, 0);
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
        if (grid.live(kv, q)) bits[tile(kv, q) / 64] |= bit(tile(kv, q));
      }
    }
    return bits;
  }
  [[nodiscard]] std::size_t tile(KvTile kv, QTile q) const { return at(kv) * at(q_tiles_) + at(q); }
  [[nodiscard]] std::size_t word(const Task& task) const {
    return at(task.head) * head_words_ + tile(task.kv, task.q) / 64;
  }
  [[nodiscard]] static std::uint64_t bit(std::size_t tile) { return std::uint64_t{1} << tile % 64; }

  std::int32_t q_tiles_;
  std::int64_t left_;
  std::size_t head_words_ = 0;        ///< words of a head
  std::vector<std::uint64_t> words_;  ///< by head, then (kv, q)
};

class Verifier {
 public:
  Verifier(const Table& table, std::int64_t limit)
      : table_(table), problem_(table.problem), limit_(limit), open_(table.problem) {}

  Verification run(const Timing& timing, LockValues values) {
    // Whether a table runs to its end takes as long as all else and has nothing to do with it: a
    // second core looks at that, where it is worth a thread.
    auto liveness =
        std::async(beside(std::ssize(table_.slots)), [&] { return liveness_of(table_, timing); });
    check_lanes();
    check_tasks();
    if (in_range_) check_missing();
    result_.liveness = liveness.get();
    if (in_range_) {
      if (!has_shown_ranks(timing)) check_ranks();
      if (problem_.combine == Combine::ordered) check_dkv_ranks();
    }
    report_running(result_.liveness);
    const bool valid = result_.total == runtime_findings_;
    if (!result_.liveness.live) {
      result_.verdict = Verdict::deadlock;
    } else if (coverage_broken_ || (!valid && values == LockValues::ranks)) {
      result_.verdict = Verdict::invalid;
    }
    return std::move(result_);
  }

 private:
  void add(Finding finding) {
    ++result_.total;
    if (count_[at(static_cast<int>(finding.kind))]++ < limit_) {
      result_.findings.push_back(std::move(finding));
    }
  }

  void check_lanes() {
    if (table_.dispatch != Dispatch::static_ || table_.lanes() <= problem_.sms) return;
    coverage_broken_ = true;
    add({.kind = FindingKind::too_many_lanes,
         .message = counted(table_.lanes(), "lane") + " for " + counted(problem_.sms, "SM") +
                    "; with static dispatch lane i is SM i",
         .lane = problem_.sms});
  }

  /// Range, liveness, duplicates and contiguity, in one pass over the slots.
  void check_tasks() {
    IndexVector<std::int64_t, bool> chain_begun(problem_.chains(), false);
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot) {
        if (!problem_.contains(table_.slots[slot].task)) {
          in_range_ = false;
          report_task(FindingKind::task_out_of_range, " does not exist", lane, slot);
          continue;
        }
        if (table_.begins_chain(lane, slot)) check_chain(lane, slot, chain_begun);
        if (!open_.take(table_.slots[slot].task)) report_closed_tile(lane, slot);
      }
    }
  }

  void check_chain(Lane lane, std::int64_t slot, IndexVector<std::int64_t, bool>& begun) {
    const Task& task = table_.slots[slot].task;
    auto chain = begun[problem_.chain_place(task)];
    if (chain) {
      report_task(FindingKind::chain_split,
                  ": its chain was begun before, elsewhere; dK and dV would leave the registers",
                  lane, slot);
    }
    chain = true;
  }

  void report_closed_tile(Lane lane, std::int64_t slot) {
    const Task& task = table_.slots[slot].task;
    if (problem_.live(task)) {
      report_task(FindingKind::duplicate_task, " is in the table twice", lane, slot);
    } else {
      report_task(FindingKind::dead_task, " is an empty tile of the mask", lane, slot);
    }
  }

  void report_task(FindingKind kind, const char* what, Lane lane, std::int64_t slot) {
    coverage_broken_ = true;
    Finding finding = finding_at(table_, lane, slot);
    finding.kind = kind;
    finding.message = place_name(finding) + ": task " + describe(finding.task) + what;
    add(std::move(finding));
  }

  void check_missing() {
    if (open_.left() == 0) return;
    coverage_broken_ = true;
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
        for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
          const Task task{head, kv, q};
          if (!open_.contains(task)) continue;
          add({.kind = FindingKind::missing_task,
               .message = "task " + describe(task) + " is live and in no lane",
               .task = task});
        }
      }
    }
  }

  /// Whether a table that runs to its end shows that its ranks are right: where a reduction
  /// releases its own lock, each one had the rank that the lock showed, which counts those before;
  /// and live tasks once each are as many as there are ranks.
  [[nodiscard]] bool has_shown_ranks(const Timing& timing) const {
    return result_.liveness.live && timing.release == Release::immediate && !coverage_broken_;
  }

  /// Ranks 0 … k-1 once each for every (head, q). `taken` has a bit per (head, q, rank).
  void check_ranks() {
    const RankPlaces places(table_.problem);
    std::vector<bool> taken(places.size(), false);
    std::int64_t distinct = 0;
    for (Lane lane{0}; lane.value < table_.lanes(); ++lane) {
      for (std::int64_t slot = table_.begin_of(lane); slot < table_.end_of(lane); ++slot) {
        const auto& [task, rank] = table_.slots[slot];
        if (rank < 0 || rank >= problem_.contributions(task)) {
          report_rank(FindingKind::rank_out_of_range, lane, slot);
          continue;
        }
        auto is_taken = taken[places.of(task, rank)];
        if (is_taken) report_rank(FindingKind::rank_duplicate, lane, slot);
        distinct += is_taken ? 0 : 1;
        is_taken = true;
      }
    }
    if (distinct < problem_.tasks()) report_gaps(taken);
  }

  void report_rank(FindingKind kind, Lane lane, std::int64_t slot) {
    Finding finding = finding_at(table_, lane, slot);
    finding.kind = kind;
    finding.message = place_name(finding) + ": task " + describe(finding.task) + " has rank " +
                      std::to_string(finding.rank);
    if (kind == FindingKind::rank_duplicate) {
      finding.message += ", as another task of its dQ tile";
    } else {
      const std::int32_t ranks = problem_.contributions(finding.task);
      finding.message += ", but its dQ tile has " + std::to_string(ranks) +
                         " contributions: ranks 0 to " + std::to_string(ranks - 1);
    }
    add(std::move(finding));
  }

  void report_gaps(const std::vector<bool>& taken) {
    std::size_t place = 0;
    for (Head head{0}; head.value < problem_.heads; ++head) {
      for (QTile q{0}; q.value < problem_.q_tiles(); ++q) {
        for (std::int32_t rank = 0; rank < problem_.contributions(head, q); ++rank) {
          if (taken[place++]) continue;
          add({.kind = FindingKind::rank_gap,
               .message = "dQ(head " + std::to_string(head.value) + ", q " +
                          std::to_string(q.value) + ") has no task of rank " +
                          std::to_string(rank) + ": its lock stays " + std::to_string(rank),
               .task = {head, KvTile{-1}, q},
               .rank = rank});
        }
      }
    }
  }

  /// Ranks 0 … k-1 once each for the parts of every (KV head, kv) that have tasks.
  void check_dkv_ranks() {
    IndexVector<std::int64_t, bool> taken(problem_.chains(), false);
    for (Part part{0}; part.value < problem_.parts(); ++part) {
      for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
        const std::int32_t ranks = problem_.dkv_contributions(problem_.kv_head_of(part), kv);
        const std::int32_t rank = table_.dkv_rank(part, kv);
        const bool has_tasks = problem_.chain_length(part, kv) > 0;
        const bool owns_none = !has_tasks && (rank < 0 || table_.dkv_ranks.empty());
        if (owns_none) continue;
        if (!has_tasks || rank < 0 || rank >= ranks) {
          report_dkv_rank(FindingKind::dkv_rank_out_of_range, part, kv, rank);
          continue;
        }
        auto is_taken =
            taken[problem_.dkv_place(problem_.kv_head_of(part), kv) * problem_.group_parts() +
                  rank];
        if (is_taken) report_dkv_rank(FindingKind::dkv_rank_duplicate, part, kv, rank);
        is_taken = true;
      }
    }
    report_dkv_gaps(taken);
  }

  /// `dK, dV(KV head 0, kv 3)`.
  static std::string dkv_name(KvHead kv_head, KvTile kv) {
    return "dK, dV(KV head " + std::to_string(kv_head.value) + ", kv " + std::to_string(kv.value) +
           ")";
  }

  void report_dkv_rank(FindingKind kind, Part part, KvTile kv, std::int32_t rank) {
    const std::int32_t ranks = problem_.dkv_contributions(problem_.kv_head_of(part), kv);
    std::string message = dkv_name(problem_.kv_head_of(part), kv) + ": part " +
                          std::to_string(part.value % problem_.group_parts()) + " has rank " +
                          std::to_string(rank);
    if (kind == FindingKind::dkv_rank_duplicate) {
      message += ", as another part";
    } else if (problem_.chain_length(part, kv) == 0) {
      message += ", but no task";
    } else {
      message += ", but there are " + std::to_string(ranks) + " parts: ranks 0 to " +
                 std::to_string(ranks - 1);
    }
    add({.kind = kind,
         .message = std::move(message),
         .task = {Head{part.value * problem_.span}, kv, QTile{-1}},
         .rank = rank});
  }

  void report_dkv_gaps(const IndexVector<std::int64_t, bool>& taken) {
    for (KvHead kv_head{0}; kv_head.value < problem_.heads_kv; ++kv_head) {
      for (KvTile kv{0}; kv.value < problem_.kv_tiles(); ++kv) {
        for (std::int32_t rank = 0; rank < problem_.dkv_contributions(kv_head, kv); ++rank) {
          if (taken[problem_.dkv_place(kv_head, kv) * problem_.group_parts() + rank]) continue;
          add({.kind = FindingKind::dkv_rank_gap,
               .message = dkv_name(kv_head, kv) + " has no part of rank " + std::to_string(rank) +
                          ": its lock stays " + std::to_string(rank),
               .task = {Head{kv_head.value * problem_.group()}, kv, QTile{-1}},
               .rank = rank});
        }
      }
    }
  }

  void report_running(const Liveness& liveness) {
    if (liveness.live) return;
    const std::int64_t before = result_.total;
    report_deadlock(liveness);
    if (liveness.residency_needed > liveness.residency_available) report_co_residency(liveness);
    runtime_findings_ = result_.total - before;
  }

  void report_deadlock(const Liveness& liveness) {
    std::string message = counted(liveness.stuck_tasks, "task") +
                          (liveness.stuck_tasks == 1 ? " never runs; " : " never run; ");
    message += counted(std::ssize(liveness.hanging), "dQ tile") +
               (liveness.hanging.size() == 1 ? " is" : " are") + " never finished; ";
    if (!liveness.hanging_dkv.empty()) {
      const auto& [kv_head, kv] = liveness.hanging_dkv.front();
      message += counted(std::ssize(liveness.hanging_dkv), "KV tile") +
                 " without its dK, dV, first " + dkv_name(kv_head, kv) + "; ";
    }
    const Wait* where = nullptr;
    if (!liveness.cycle.empty()) {
      where = &liveness.cycle.front();
      message += "shortest cycle of waits: " + std::to_string(liveness.cycle.size());
    } else if (!liveness.starved.empty()) {
      where = &liveness.starved.front();
      message += "no cycle: lock values that never come";
    }
    Finding finding{.kind = FindingKind::deadlock, .message = std::move(message)};
    if (where != nullptr) {
      finding.lane = where->lane.value;
      finding.task = where->task;
      finding.rank = where->rank;
    }
    add(std::move(finding));
  }

  void report_co_residency(const Liveness& liveness) {
    add({.kind = FindingKind::co_residency,
         .message = "needs " + std::to_string(liveness.residency_needed) +
                    " CTAs resident at once, taken in launch order; there are " +
                    std::to_string(liveness.residency_available)});
  }

  const Table& table_;
  const Problem& problem_;
  std::int64_t limit_;
  OpenTiles open_;
  bool in_range_ = true;
  bool coverage_broken_ = false;  ///< wrong whatever the lock values mean
  std::int64_t runtime_findings_ = 0;
  std::array<std::int64_t, kKinds> count_{};
  Verification result_;
};

}  // namespace

const char* finding_name(FindingKind kind) {
  constexpr std::array<const char*, kKinds> kNames = {"missing-task",
                                                      "duplicate-task",
                                                      "dead-task",
                                                      "task-out-of-range",
                                                      "rank-gap",
                                                      "rank-duplicate",
                                                      "rank-out-of-range",
                                                      "chain-split",
                                                      "dkv-rank-gap",
                                                      "dkv-rank-duplicate",
                                                      "dkv-rank-out-of-range",
                                                      "too-many-lanes",
                                                      "deadlock",
                                                      "needs-co-residency"};
  return kNames[at(static_cast<int>(kind))];
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::invalid:
      return "invalid";
    case Verdict::deadlock:
      break;
  }
  return "deadlock";
}

Verification verify(const Table& table, const Timing& timing, LockValues values,
                    std::int64_t limit) {
  return Verifier(table, limit).run(timing, values);
}

}  // namespace stagger::dag
