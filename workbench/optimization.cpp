#include "workbench/optimization.hpp"

#include "core/beside.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "dag/slot_bounds.hpp"
#include "dag/slot_path.hpp"
#include "dag/verify.hpp"
#include "schedules/lift.hpp"
#include "schedules/schedule.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/round_files.hpp"
#include "workbench/advice.hpp"
#include "workbench/rating.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace stagger::workbench {
namespace {

using search::Incumbent;
using search::Optimum;
using search::Rating;

constexpr double kHeadByHead = 0.5;  ///< of a search's time
constexpr const char* kHeads = ", head by head";

/// The time that a search has, from now on: until its limit, or until it is told to end.
class Deadline {
 public:
  explicit Deadline(const OptimizationRequest& request)
      : limit_(request.time_limit), stop_(request.stop) {}

  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  [[nodiscard]] double seconds_left() const { return limit_ - seconds(); }

  /// Whether this share of the time is over.
  [[nodiscard]] bool passed(double share = 1) const {
    return (stop_ && stop_()) || seconds() >= share * limit_;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double limit_;
  std::function<bool()> stop_;
};

class Search {
 public:
  /// Requires a checked timing.
  Search(const OptimizationRequest& request, dag::Bounds bounds, const Deadline& deadline)
      : request_(request),
        deadline_(deadline),
        threads_(static_cast<int>(request.threads > 0 ? request.threads
                                                      : std::thread::hardware_concurrency())) {
    result_.problem = request.problem;
    result_.model = request.model;
    result_.slot_model = request.slot_model;
    result_.bounds = std::move(bounds);
  }

  Optimization run() {
    find_best_named();
    if (request_.answer) import_answer(*request_.answer);
    const search::SearchOptions options{
        .seed = request_.seed,
        .threads = threads_,
        .effort = request_.effort,
        .stop = [this] { return stopped(); },
        .progress =
            [this](const std::string& phase, const Optimum& so_far) {
              tell(phase, so_far.lower_bound.ticks, so_far.best ? &*so_far.best : nullptr);
            },
        .proof_file = request_.slot_model ? request_.proof_file : std::string()};
    const dag::Bound& bound = result_.bounds.best;
    result_.optimum =
        result_.problem.span == 1
            ? search::optimize(result_.problem,
                               {.timing = timing(), .slot_model = request_.slot_model},
                               {bound.ticks, bound.by}, std::move(known_), options)
            : search_parts(options);
    consider_searched();
    const auto& best = result_.optimum.best;
    if (best) {
      tell("verifying what was found", result_.optimum.lower_bound.ticks, &*best);
      check(*best);
      result_.found_by = result_.optimum.found_by.empty() ? known_by_ : result_.optimum.found_by;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Timing& timing() const { return result_.model.timing; }

  [[nodiscard]] bool stopped() const { return deadline_.passed(); }

  void tell(std::string phase, Ticks lower_bound, const Incumbent* best) const {
    if (!request_.progress) return;
    request_.progress({.phase = std::move(phase),
                       .lower_bound = lower_bound,
                       .best = best == nullptr ? std::nullopt : std::optional(best->makespan)});
  }

  struct NamedTable {
    Table table;
    std::optional<Rating> rating;  ///< absent: it does not run to the end
  };

  /// The named schedule that costs least in the model asked for is the table to beat.
  void find_best_named() {
    const bool l2_counts = !request_.slot_model && timing().memory;
    const std::vector<schedules::Selection> selections =
        schedules::unsearched(result_.problem, l2_counts);
    make_beside(
        selections.size(), tables_at_a_time(threads_, result_.problem.tasks()),
        [&](std::size_t index) { return named_table(selections[index]); },
        [&](std::optional<NamedTable> made) {
          if (made) take_named(std::move(*made));
        });
  }

  /// Nothing if there is a table and no time left.
  [[nodiscard]] std::optional<NamedTable> named_table(const schedules::Selection& selection) const {
    if (known_ && stopped()) return std::nullopt;
    Table table = schedules::build(selection, result_.problem, timing());
    const std::optional<Rating> rating = rating_of(table);
    return NamedTable{std::move(table), rating};
  }

  void take_named(NamedTable&& made) {
    auto& best = result_.best_named;
    tell("schedule " + made.table.name, result_.bounds.best.ticks, known_ ? &*known_ : nullptr);
    if (!made.rating) return;
    const Rating& rating = *made.rating;
    if (!best || rating.makespan < best->makespan)
      best = {made.table.name, rating.makespan, result_.problem.span, request_.model.passes};
    if (known_ && known_->cost <= rating.cost) return;
    known_by_ = "schedule " + made.table.name;
    known_ = {std::move(made.table), rating.makespan, rating.cost};
  }

  /// What schedules find that search is a table to beat, too, where that takes little time: they
  /// begin with other tables, and where heads share K and V they know the heads and not the parts
  /// alone.
  void consider_searched() {
    constexpr std::int64_t kQuick = 5'000;  // tasks
    Optimum& found = result_.optimum;
    if (request_.slot_model || !found.best || result_.problem.tasks() > kQuick) return;
    const std::string optimal =
        request_.effort < 3 ? "optimal:effort=" + std::to_string(request_.effort) : "optimal";
    for (const std::string& name : {std::string("windowed"), std::string("balanced"), optimal}) {
      const schedules::Selection selection = schedules::select(name);
      if (found.proof != search::ProofKind::none) return;
      if (stopped()) break;
      if (schedules::why_unsupported(selection, result_.problem)) continue;
      tell("schedule " + selection.text, found.lower_bound.ticks, &*found.best);
      Table table =
          schedules::build(selection, result_.problem, timing(), [this] { return stopped(); });
      const std::optional<Rating> rating = rating_of(table);
      if (!rating || rating->cost >= found.best->cost) continue;
      found.best = {std::move(table), rating->makespan, rating->cost};
      found.found_by = "schedule " + selection.text;
      settle(found);
    }
    found.stopped = found.stopped || (found.proof == search::ProofKind::none && stopped());
  }

  /// A table whose makespan is the lower bound is proved, whatever found it.
  static void settle(Optimum& found) {
    const bool proved = found.best && found.best->makespan == found.lower_bound.ticks;
    found.proof = proved ? search::ProofKind::bound : search::ProofKind::none;
    found.detail =
        proved ? "the makespan is the " + std::string(found.lower_bound.by) + " bound" : "";
    found.stopped = found.stopped && !proved;
  }

  /// Where chains are of several heads they are searched for head by head, for a part of the time,
  /// and then with a head for every part. What is proved of parts is not proved of their heads,
  /// which need not stay together: the bound is that of the heads, and rounds are refuted of them.
  Optimum search_parts(const search::SearchOptions& options) {
    if (!request_.slot_model) go_head_by_head(options);
    Optimum found = is_proved() ? Optimum{} : lifted(options);
    if (known_ && (!found.best || known_->cost <= found.best->cost)) {
      found.best = std::move(known_);
      found.found_by.clear();
    }
    const dag::Bound& least = result_.bounds.best;
    found.lower_bound = {least.ticks, least.by};
    settle(found);
    found.proof_written = false;
    const bool proved = found.proof != search::ProofKind::none;
    if (proved || found.stopped || !request_.slot_model) return found;
    Optimum whole = search::optimize(result_.problem, {.timing = timing(), .slot_model = true},
                                     found.lower_bound, std::move(found.best), options);
    if (whole.found_by.empty()) whole.found_by = std::move(found.found_by);
    return whole;
  }

  /// Whether the table to beat is as long as the lower bound.
  [[nodiscard]] bool is_proved() const {
    return known_ && known_->makespan == result_.bounds.best.ticks;
  }

  /// Puts what is found head by head in the place of the table to beat.
  void go_head_by_head(const search::SearchOptions& options) {
    if (is_proved() || (known_ && stopped())) return;
    search::SearchOptions of_heads = options;
    of_heads.stop = [this] { return deadline_.passed(kHeadByHead); };
    of_heads.progress = [this](const std::string& phase, const Optimum& so_far) {
      tell(phase + kHeads, so_far.lower_bound.ticks, so_far.best ? &*so_far.best : nullptr);
    };
    const dag::Bound& bound = result_.bounds.best;
    Optimum found = search::optimize(result_.problem, {.timing = timing()}, {bound.ticks, bound.by},
                                     std::move(known_), of_heads);
    known_ = std::move(found.best);
    if (!found.found_by.empty()) known_by_ = found.found_by + kHeads;
  }

  /// Searches with a head for every part, whose tasks take as long as those of its heads, and lifts
  /// what is found to q-major order, in which all heads of a chain are in flight at a time.
  Optimum lifted(search::SearchOptions options) {
    const Problem& problem = result_.problem;
    const Problem parts = problem_of_parts(problem);
    const Timing timing_of_part = schedules::timing_of_parts(timing(), problem.span);
    const search::Objective of_parts{.timing = timing_of_part, .slot_model = request_.slot_model};
    options.proof_file.clear();
    const dag::Bound bound =
        bounds_of(parts, timing_of_part, request_.slot_model, options.stop).best;
    Optimum found =
        search::optimize(parts, of_parts, {bound.ticks, bound.by}, std::nullopt, options);
    if (!found.best) return found;
    Table table =
        schedules::lift(std::move(found.best->table), problem, schedules::HeadOrder::q_major);
    const std::optional<Rating> rating = rating_of(table);
    found.best.reset();
    if (rating) found.best = {std::move(table), rating->makespan, rating->cost};
    return found;
  }

  /// A solver's answer is a table to beat like any other.
  void import_answer(const SolverAnswer& answer) {
    const std::int64_t rounds =
        answer.rounds > 0 ? answer.rounds : dag::slot_bounds(result_.problem).best.ticks;
    if (rounds > kMaxTasks) throw Error(ErrorKind::limit, "--rounds is too large");
    Table table = search::read_round_solution(answer.text, answer.source, result_.problem,
                                              static_cast<std::int32_t>(rounds));
    table.name = "imported";
    STAGGER_EXPECTS(dag::verify(table, {}).verdict == dag::Verdict::ok);
    const std::optional<Rating> rating = rating_of(table);
    if (!rating) return;
    result_.imported = rating->makespan;
    if (known_ && rating->cost >= known_->cost) return;
    known_ = {std::move(table), rating->makespan, rating->cost};
    known_by_ = "the imported solution";
  }

  /// In the model asked for, nullopt if it does not run to the end in it.
  [[nodiscard]] std::optional<Rating> rating_of(const Table& table) const {
    if (request_.slot_model) {
      // Lanes in launch order are no schedule of the slot model, which has no dispatch.
      if (table.dispatch != Dispatch::static_) return std::nullopt;
      const auto rounds = search::rounds_of(table, [this] { return known_ && stopped(); });
      return rounds ? std::optional(Rating{*rounds, *rounds}) : std::nullopt;
    }
    return played_rating(table, timing());
  }

  /// A table found takes the same road as any other: verified, and played by code that the search
  /// does not share.
  void check(const Incumbent& found) const {
    STAGGER_EXPECTS(dag::verify(found.table, request_.slot_model ? Timing{} : timing()).verdict ==
                    dag::Verdict::ok);
    if (request_.slot_model) {
      STAGGER_EXPECTS(dag::slot_path(found.table) == found.makespan);
    } else {
      const std::optional<Rating> played = rating_of(found.table);
      STAGGER_EXPECTS(played && played->makespan == found.makespan && played->cost == found.cost);
    }
    STAGGER_EXPECTS(found.makespan >= result_.optimum.lower_bound.ticks);
  }

  const OptimizationRequest& request_;
  const Deadline& deadline_;
  int threads_;
  Optimization result_;
  std::optional<Incumbent> known_;  ///< the better of the best named and the imported
  std::string known_by_;            ///< which of them it is
};

/// The spans to search, the problem's own first.
std::vector<std::int32_t> spans_of(const OptimizationRequest& request) {
  const Problem& problem = request.problem;
  std::vector<std::int32_t> spans = {problem.span};
  for (std::int32_t span = problem.group(); request.any_span && span >= 1; --span) {
    if (problem.group() % span == 0 && span != problem.span) spans.push_back(span);
  }
  return spans;
}

/// The one of two named schedules whose whole pass takes less, the first of equals.
std::optional<Optimization::Named> better_named(const std::optional<Optimization::Named>& one,
                                                const std::optional<Optimization::Named>& other) {
  if (!one || !other) return one ? one : other;
  return other->whole() < one->whole() ? other : one;
}

/// What is asked for, of another span.
OptimizationRequest with_span(const OptimizationRequest& request, std::int32_t span) {
  OptimizationRequest other = request;
  other.problem = stagger::with_span(request.problem, span, request.problem.grouping().combine);
  if (request.model_of) other.model = request.model_of(other.problem);
  return other;
}

/// The one of two spans by whose table a whole pass costs less, the first of equals; it has the
/// other one among its others then.
Optimization better(Optimization known, Optimization found) {
  const auto named = better_named(known.best_named, found.best_named);
  const bool is_found = found.optimum.best && found.optimum.best->cost + found.model.passes <
                                                  known.optimum.best->cost + known.model.passes;
  if (is_found) std::swap(known, found);
  std::vector<Optimization> others = std::exchange(is_found ? found.others : known.others, {});
  if (found.optimum.best) others.push_back(std::move(found));
  known.best_named = named;
  known.others = std::move(others);
  return known;
}

/// The best of all spans that are asked for, each of which has its part of the time that is left.
Optimization search_spans(const OptimizationRequest& request, const Deadline& deadline) {
  const std::vector<std::int32_t> spans = spans_of(request);
  std::optional<Optimization> best;
  search::ProvenBound least;  // of a whole pass
  for (std::size_t index = 0; index < spans.size(); ++index) {
    OptimizationRequest each = spans.size() > 1 ? with_span(request, spans[index]) : request;
    each.time_limit = deadline.seconds_left() / static_cast<double>(spans.size() - index);
    const Deadline own(each);
    const Timing& timing = each.model.timing;
    check_timing(timing, each.problem);
    // The slot model has no dispatch: its SMs are those that are there.
    if (each.slot_model) {
      each.problem = on_resident_sms(std::move(each.problem), timing.residency);
    }
    dag::Bounds bounds =
        bounds_of(each.problem, timing, each.slot_model, [&] { return own.passed(0.5); });
    const Ticks passes = each.model.passes;
    search::ProvenBound proven{bounds.best.ticks, bounds.best.by};
    if (!best || proven.ticks + passes < best->optimum.best->makespan + best->model.passes) {
      Optimization found = Search(each, std::move(bounds), own).run();
      proven = found.optimum.lower_bound;
      best = best ? better(std::move(*best), std::move(found)) : std::move(found);
      if (!best->optimum.best) return std::move(*best);
    }
    if (index == 0 || proven.ticks + passes < least.ticks)
      least = {proven.ticks + passes, proven.by};
  }
  least.ticks = std::max<Ticks>(least.ticks - best->model.passes, 0);
  if (best->optimum.lower_bound.ticks > least.ticks) {
    best->optimum.lower_bound = least;
    best->optimum.proof = search::ProofKind::none;
    best->optimum.detail.clear();
  }
  return std::move(*best);
}

}  // namespace

dag::Bounds bounds_of(const Problem& problem, const Timing& timing, bool slot_model,
                      const dag::Stop& stop) {
  return slot_model ? dag::slot_bounds(problem, stop)
                    : dag::lower_bounds(problem, timing, Dispatch::static_, stop);
}

const char* Optimization::status() const {
  if (!optimum.best) return "infeasible";
  return optimum.proof == search::ProofKind::none ? "feasible" : "optimal";
}

const char* Optimization::proof() const {
  constexpr const char* kNames[] = {"none", "bound", "search"};
  return kNames[static_cast<int>(optimum.proof)];
}

Optimization optimize(const OptimizationRequest& request) {
  const Deadline deadline(request);
  Optimization found = search_spans(request, deadline);
  if (request.advises) found.advice = advise(found, [&] { return deadline.passed(); });
  found.seconds = deadline.seconds();
  return found;
}

}  // namespace stagger::workbench
