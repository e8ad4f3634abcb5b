#include "schedules/search/chain_search.hpp"

#include "core/error.hpp"
#include "schedules/search/chain.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

namespace stagger::search {
namespace {

constexpr std::int32_t kNone = -1;

class ChainSearcher {
 public:
  ChainSearcher(const Problem& problem, const Timing& timing, Ticks below, Ticks at_least,
                std::int64_t nodes, const std::function<bool()>& stop)
      : problem_(problem),
        timing_(timing),
        at_least_(at_least),
        most_nodes_(nodes),
        stop_(stop),
        best_(below) {
    std::map<std::vector<std::pair<QTile, Ticks>>, std::int32_t> rows;
    for (const Chain& chain : chains_of(problem)) {
      Progress progress{
          .chain = chain, .left = problem.grid_of(chain.head).live_q(chain.kv), .row = 0};
      std::vector<std::pair<QTile, Ticks>> row;
      for (const QTile q : progress.left) {
        row.emplace_back(q, task_ticks(progress, q));
        progress.ticks_left += row.back().second;
      }
      ticks_left_ += progress.ticks_left;
      progress.row = rows.emplace(row, static_cast<std::int32_t>(rows.size())).first->second;
      chains_.push_back(std::move(progress));
    }
    sms_.resize(at(resident_lanes(problem, timing.residency)));
    tiles_.resize(at(problem.heads) * at(problem.q_tiles()));
    for (const Progress& progress : chains_) {
      for (const QTile q : progress.left)
        ++tile(progress.chain.head, q).left;
    }
    tasks_left_ = problem.tasks();
    chains_left_ = std::ssize(chains_);
  }

  ChainSearch run() {
    descend();
    result_.complete = !cut_short_;
    result_.nodes = nodes_;
    result_.makespan = best_;
    return std::move(result_);
  }

 private:
  struct Progress {
    Chain chain;
    std::vector<QTile> left;
    Ticks ticks_left = 0;  ///< that their phases take
    std::int32_t row = 0;  ///< equal rows have equal numbers
    bool started = false;
  };
  struct SmState {
    Ticks free = 0;              ///< end of its last reduction, or of its last epilogue
    std::int32_t chain = kNone;  ///< the one it is at
  };
  struct DqTile {
    Ticks turn = 0;
    std::int32_t left = 0;
  };
  /// A task taken: the next reduction to start, by (start, chain).
  struct Step {
    Ticks start = 0;
    std::int32_t sm = 0;
    std::int32_t chain = 0;
    std::size_t place = 0;  ///< among the chain's tasks left
  };

  [[nodiscard]] DqTile& tile(Head head, QTile q) {
    return tiles_[at(head.value) * at(problem_.q_tiles()) + at(q.value)];
  }

  /// How long both phases of a task take.
  [[nodiscard]] Ticks task_ticks(const Progress& progress, QTile q) const {
    return timing_.compute_of(problem_, {progress.chain.head, progress.chain.kv, q}) +
           timing_.reduce;
  }

  void descend() {
    if (tasks_left_ == 0) return record();
    if (done() || hopeless() || !seen_.insert(state_key()).second) return;
    std::vector<Step> steps = next_steps();
    std::sort(steps.begin(), steps.end(), [](const Step& left, const Step& right) {
      return std::pair(left.start, left.chain) < std::pair(right.start, right.chain);
    });
    for (const Step& step : steps) {
      take(step);
      if (done()) return;
    }
  }

  /// Whether the search is over: proved, or out of nodes or time.
  [[nodiscard]] bool done() {
    if (best_ <= at_least_ || cut_short_) return true;
    ++nodes_;
    if (nodes_ >= most_nodes_ || (nodes_ % 4096 == 0 && stop_())) cut_short_ = true;
    return cut_short_;
  }

  void record() {
    Ticks end = 0;
    for (const SmState& sm : sms_)
      end = std::max(end, sm.free);
    if (end >= best_) return;
    best_ = end;
    result_.table = table();
  }

  /// Whether nothing below the best can follow: by work, by a chain, by an accumulation.
  [[nodiscard]] bool hopeless() {
    const Ticks limit = best_ - 1;
    Ticks room = 0;
    for (const SmState& sm : sms_) {
      const Ticks from =
          std::max(sm.free, last_.start - timing_.longest_compute() - timing_.launch);
      room += std::max<Ticks>(limit - from, 0);
      if (sm.chain == kNone) continue;
      const Ticks rest = chains_[at(sm.chain)].ticks_left + timing_.epilogue;
      if (sm.free + rest > limit) return true;
    }
    if (room < ticks_left_ + chains_left_ * (timing_.launch + timing_.epilogue)) {
      return true;
    }
    return std::any_of(tiles_.begin(), tiles_.end(), [&](const DqTile& dq) {
      const Ticks rest = dq.left * (timing_.reduce + timing_.latency) - timing_.latency;
      return dq.left > 0 && std::max(dq.turn, last_.start) + rest + timing_.epilogue > limit;
    });
  }

  [[nodiscard]] std::vector<Step> next_steps() {
    std::vector<Step> steps;
    std::vector<Ticks> idle;  // free times of idle SMs tried
    for (std::int32_t sm = 0; sm < std::ssize(sms_); ++sm) {
      const SmState& state = sms_[at(sm)];
      if (state.chain != kNone) {
        add_steps(sm, state.chain, state.free, steps);
        continue;
      }
      if (std::find(idle.begin(), idle.end(), state.free) != idle.end()) continue;
      idle.push_back(state.free);
      for (const std::int32_t chain : distinct_chains())
        add_steps(sm, chain, state.free + timing_.launch, steps);
    }
    return steps;
  }

  void add_steps(std::int32_t sm, std::int32_t chain, Ticks begin, std::vector<Step>& steps) {
    const Progress& progress = chains_[at(chain)];
    for (std::size_t place = 0; place < progress.left.size(); ++place) {
      const QTile q = progress.left[place];
      const Ticks computed = begin + task_ticks(progress, q) - timing_.reduce;
      const Ticks turn = tile(progress.chain.head, q).turn;
      const Step step{std::max(computed, turn), sm, chain, place};
      if (std::pair(step.start, chain) <= std::pair(last_.start, last_.chain)) continue;
      if (step.start + timing_.reduce + timing_.epilogue < best_) steps.push_back(step);
    }
  }

  /// Chains that were not started, one of each kind: of untouched heads of one grid the first, of
  /// equal rows of a head the first.
  [[nodiscard]] std::vector<std::int32_t> distinct_chains() const {
    std::vector<bool> touched(at(problem_.heads), false);
    for (const Progress& progress : chains_) {
      if (progress.started) touched[at(progress.chain.head.value)] = true;
    }
    std::vector<Head> untouched(problem_.grids.distinct().size(), Head{kNone});  // by grid
    for (Head head{problem_.heads - 1}; head.value >= 0; --head.value) {
      if (!touched[at(head)]) untouched[at(problem_.grids.place_of(head))] = head;
    }
    std::vector<std::int32_t> distinct;
    std::vector<std::pair<Head, std::int32_t>> rows;
    for (std::int32_t chain = 0; chain < std::ssize(chains_); ++chain) {
      const Progress& progress = chains_[at(chain)];
      const Head head = progress.chain.head;
      const bool first = touched[at(head)] || untouched[at(problem_.grids.place_of(head))] == head;
      if (progress.started || !first) continue;
      const std::pair row{head, progress.row};
      if (std::find(rows.begin(), rows.end(), row) != rows.end()) continue;
      rows.push_back(row);
      distinct.push_back(chain);
    }
    return distinct;
  }

  void take(const Step& step) {
    Progress& progress = chains_[at(step.chain)];
    SmState& sm = sms_[at(step.sm)];
    const QTile q = progress.left[step.place];
    DqTile& dq = tile(progress.chain.head, q);
    const SmState sm_before = sm;
    const DqTile dq_before = dq;
    const bool started_before = progress.started;
    const Step last_before = last_;

    progress.left.erase(progress.left.begin() + static_cast<std::ptrdiff_t>(step.place));
    progress.started = true;
    const Ticks ticks = task_ticks(progress, q);
    progress.ticks_left -= ticks;
    ticks_left_ -= ticks;
    const bool ends = progress.left.empty();
    sm.free = step.start + timing_.reduce + (ends ? timing_.epilogue : 0);
    sm.chain = ends ? kNone : step.chain;
    dq.turn = step.start + timing_.reduce + timing_.latency;
    --dq.left;
    --tasks_left_;
    if (!started_before) --chains_left_;
    last_ = step;
    taken_.push_back({step.sm, {progress.chain.head, progress.chain.kv, q}});
    descend();
    taken_.pop_back();
    last_ = last_before;
    if (!started_before) ++chains_left_;
    ++tasks_left_;
    dq = dq_before;
    sm = sm_before;
    progress.started = started_before;
    progress.ticks_left += ticks;
    ticks_left_ += ticks;
    progress.left.insert(progress.left.begin() + static_cast<std::ptrdiff_t>(step.place), q);
  }

  /// What the rest of a schedule depends on. Times before the last start count as that.
  [[nodiscard]] std::string state_key() {
    std::vector<std::array<Ticks, 2>> sms;
    for (const SmState& sm : sms_) {
      const Ticks ahead = timing_.longest_compute() + (sm.chain == kNone ? timing_.launch : 0);
      sms.push_back({sm.chain, std::max(sm.free, last_.start - ahead)});
    }
    std::sort(sms.begin(), sms.end());
    std::string key;
    const auto add = [&](Ticks value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    add(last_.start);
    add(last_.chain);
    for (const auto& [chain, free] : sms) {
      add(chain);
      add(free);
    }
    for (const Progress& progress : chains_) {
      std::uint64_t left = 0;
      for (const QTile q : progress.left)
        left |= std::uint64_t{1} << static_cast<unsigned>(q.value);
      key.append(reinterpret_cast<const char*>(&left), sizeof(left));
    }
    for (const DqTile& dq : tiles_)
      add(dq.left > 0 ? std::max(dq.turn, last_.start) : 0);
    return key;
  }

  [[nodiscard]] Table table() const {
    std::vector<std::vector<Slot>> lanes(at(problem_.sms));
    std::map<std::pair<Head, QTile>, std::int32_t> ranks;
    for (const auto& [sm, task] : taken_)
      lanes[at(sm)].push_back({task, ranks[{task.head, task.q}]++});
    return table_of(problem_, lanes);
  }

  struct Taken {
    std::int32_t sm = 0;
    Task task;
  };

  const Problem& problem_;
  const Timing& timing_;
  Ticks at_least_;
  std::int64_t most_nodes_;
  const std::function<bool()>& stop_;
  Ticks best_;
  std::vector<Progress> chains_;
  std::vector<SmState> sms_;
  std::vector<DqTile> tiles_;
  std::int64_t tasks_left_ = 0;
  Ticks ticks_left_ = 0;  ///< that their phases take
  std::int64_t chains_left_ = 0;
  Step last_{.start = -1, .chain = kNone};
  std::vector<Taken> taken_;
  std::unordered_set<std::string> seen_;
  std::int64_t nodes_ = 0;
  bool cut_short_ = false;
  ChainSearch result_;
};

}  // namespace

ChainSearch search_chains(const Problem& problem, const Timing& timing, Ticks below, Ticks at_least,
                          std::int64_t nodes, const std::function<bool()>& stop) {
  STAGGER_EXPECTS(timing.model == Model::chain && timing.release == Release::immediate);
  STAGGER_EXPECTS(problem.tasks() <= kExactTasks && problem.q_tiles() <= kExactTasks);
  return ChainSearcher(problem, timing, below, at_least, nodes, stop).run();
}

}  // namespace stagger::search
