#include "schedules/search/optimize.hpp"

#include "core/as_played.hpp"
#include "core/beside.hpp"
#include "core/text.hpp"
#include "schedules/search/chain_search.hpp"
#include "schedules/search/dice.hpp"
#include "schedules/search/edge_coloring.hpp"
#include "schedules/search/effort.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/local_search.hpp"
#include "schedules/search/packing.hpp"
#include "schedules/search/safe_table.hpp"
#include "schedules/search/sat.hpp"
#include "schedules/search/windows.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace stagger::search {
namespace {

constexpr std::array kQRules = {QOrder::cyclic, QOrder::ascending, QOrder::descending,
                                QOrder::most_awaited};
// Per unit of effort (more in effort.hpp), and at most.
constexpr std::int64_t kMoves = 100;              ///< of local search
constexpr std::int64_t kConflicts = 500;          ///< of a SAT problem
constexpr std::int64_t kLiterals = 1'000'000;     ///< of a SAT problem
constexpr std::int64_t kMostSolved = 30'000'000;  ///< of its literals: about 1 GB in the solver
constexpr std::int64_t kNodes = 50'000;           ///< of an exhaustive search
constexpr std::int64_t kMostNodes = 5'000'000;    ///< about 1 GB

class Optimizer {
 public:
  Optimizer(const Problem& problem, const Objective& objective, const ProvenBound& lower_bound,
            std::optional<Incumbent> known, const SearchOptions& options)
      : problem_(on_resident_sms(problem, objective.timing.residency)),
        sms_(problem.sms),
        objective_(objective),
        options_(options) {
    check_timing(objective.timing, problem);
    optimum_.best = std::move(known);
    optimum_.lower_bound = lower_bound;
    if (objective.slot_model) {
      rule_timing_ = {.model = Model::chain, .compute = 0, .reduce = 1};
    } else {
      rule_timing_ = objective.timing;
    }
  }

  Optimum run() {
    if (one_head() || !objective_.slot_model) search();
    if (objective_.slot_model) phase("rounds by SAT", [&] { round_search(-1); });
    conclude();
    return std::move(optimum_);
  }

 private:
  /// All searches but the last.
  void search() {
    offer_safe_table();
    rules_ = most_rules(problem_, options_.effort);
    // In the slot model lists and packings often wait within a chain, which no rounds allow.
    if (objective_.slot_model) phase("edge colouring", [&] { colorings(); });
    // With a memory windows find what is hard to beat, and what they leave of the time is enough.
    const bool windows_count = problem_.parts() > 1 && !objective_.slot_model;
    const bool windows_first = windows_count && objective_.timing.memory;
    if (windows_first) phase("windows", [&] { windows(); });
    phase("list scheduling", [&] { list_schedules(); });
    if (windows_count && !windows_first) phase("windows", [&] { windows(); });
    rules_ = most_rules(problem_, options_.effort);
    phase("packing", [&] { packings(); });
    if (one_head()) {
      if (!objective_.slot_model) phase("edge colouring", [&] { colorings(); });
      phase("rounds by SAT", [&] { round_search(kConflicts * options_.effort); });
      if (exact_fits()) phase("exhaustive search", [&] { exhaustive_search(); });
    }
    phase("local search", [&] { local_searches(); });
  }

  /// Whether every chain is of one head. Chains of several go head by head, which the searches that
  /// say when each task runs do not know.
  [[nodiscard]] bool one_head() const { return problem_.span == 1; }

  template <class Work>
  void phase(const char* name, Work work) {
    if (done()) return;
    phase_ = name;
    tell();
    work();
  }

  void tell() {
    if (options_.progress) options_.progress(phase_, optimum_);
  }

  [[nodiscard]] bool stopped() { return optimum_.stopped = optimum_.stopped || options_.stop(); }
  [[nodiscard]] bool proved() const {
    return optimum_.best && optimum_.best->makespan <= optimum_.lower_bound.ticks;
  }
  [[nodiscard]] bool done() { return proved() || stopped(); }

  /// In the model asked for; -1 if the table does not run to the end in it.
  [[nodiscard]] Rating rating(const Table& table) const {
    if (!objective_.slot_model) return rating_of(table, objective_.timing).value_or(Rating{-1, -1});
    const Ticks rounds = rounds_of(table, options_.stop).value_or(-1);
    return {rounds, rounds};
  }

  /// What a table of thousands that are tried costs, by one draw of chance.
  [[nodiscard]] Ticks cost_of_try(const Table& table) const {
    if (objective_.slot_model) return rating(table).cost;
    return rating_by_own_draw(table, objective_.timing).value_or(Rating{-1, -1}).cost;
  }

  void offer(Table table) {
    const Rating found = rating(table);
    offer(std::move(table), found);
  }
  void offer(Table table, const Rating& found) {
    if (found.cost < 0 || (optimum_.best && optimum_.best->cost <= found.cost)) return;
    table.name = "optimized";
    table.problem.sms = sms_;
    while (table.lanes() < sms_)
      table.end_lane();
    optimum_.best = {std::move(table), found.makespan, found.cost};
    optimum_.found_by = phase_;
    tell();
  }

  /// A table that is there however soon the search is stopped.
  void offer_safe_table() {
    if (optimum_.best && stopped()) return;
    Table table = safe_table(problem_);
    const bool whole = objective_.slot_model && !optimum_.best;
    if (!whole) return offer(std::move(table));
    const Ticks rounds = rounds_of(table).value_or(-1);
    offer(std::move(table), {rounds, rounds});
  }

  void list_schedules() {
    for (const ChainOrder chains : {ChainOrder::longest_by_head, ChainOrder::longest_by_kv,
                                    ChainOrder::launch_order, ChainOrder::reverse_order}) {
      for (const QOrder q : kQRules) {
        if (done()) return;
        if (rules_-- <= 0) return;
        auto table = list_schedule(problem_, rule_timing_, {chains, q}, options_.stop);
        if (!table) return;
        offer(std::move(*table));
      }
    }
  }

  void windows() {
    Table table =
        windowed_table(problem_, rule_timing_, {.threads = options_.threads, .stop = options_.stop})
            .table;
    start_ = {chain_lanes_of(table), QOrder::descending};
    const Rating found = rating(table);
    start_cost_ = found.cost;
    if (found.cost < 0) start_ = {};
    offer(std::move(table), found);
  }

  /// Whether tables may be looked for that say nothing of the order in which parts are combined.
  [[nodiscard]] bool in_any_order() const { return problem_.combine != Combine::ordered; }

  /// Lanes of whole chains: as packed, the other way round, and every other one reversed.
  [[nodiscard]] std::vector<ChainLanes> packed_lanes() const {
    const Ticks least = (problem_.tasks() + problem_.sms - 1) / problem_.sms;
    Ticks a_task = rule_timing_.compute + rule_timing_.reduce;
    if (rule_timing_.model == Model::overlap) {
      a_task = std::max(rule_timing_.compute, rule_timing_.reduce);
    }
    const Ticks target = std::max(least, optimum_.lower_bound.ticks / std::max<Ticks>(a_task, 1));
    const ChainLanes falling =
        pack_chains(chains_of(problem_), problem_.sms, target, {.stop = options_.stop});
    ChainLanes rising = falling;
    ChainLanes mixed = falling;
    for (std::size_t lane = 0; lane < falling.size(); ++lane) {
      std::reverse(rising[lane].begin(), rising[lane].end());
      if (lane % 2 == 1) std::reverse(mixed[lane].begin(), mixed[lane].end());
    }
    return {falling, rising, mixed};
  }

  void packings() {
    for (ChainLanes& lanes : packed_lanes()) {
      for (const QOrder q : kQRules) {
        if (done() || rules_-- <= 0) return;
        auto table = list_schedule(problem_, rule_timing_, lanes, q, options_.stop);
        if (!table) return;
        const Rating found = rating(*table);
        if (found.cost < 0) continue;
        if (start_.lanes.empty() || found.cost < start_cost_) {
          start_ = {lanes, q};
          start_cost_ = found.cost;
        }
        offer(std::move(*table), found);
      }
    }
  }

  /// Q orders without a collision on packed lanes whose chains are shuffled, so that the short
  /// chains of a head, which share few dQ tiles, do not meet: as long as the longest lane.
  void colorings() {
    if (!in_any_order()) return;
    constexpr int kShuffles = 8;
    ChainLanes lanes = packed_lanes().front();
    Dice dice(options_.seed);
    for (int shuffle = 0; shuffle < kShuffles; ++shuffle) {
      const bool shorter =
          !optimum_.best || longest_lane(lanes) * round_ticks() < optimum_.best->makespan;
      if (done() || !shorter) return;
      for (std::vector<Chain>& lane : lanes)
        dice.shuffle(lane);
      if (auto times = color_edges(problem_, lanes, options_.seed, options_.effort * kMoves * 10,
                                   options_.stop)) {
        offer(table_of(problem_, std::move(*times), "the edge colouring"));
      }
    }
  }

  /// Ticks of a round.
  [[nodiscard]] Ticks round_ticks() const {
    return objective_.slot_model ? 1 : objective_.timing.compute + objective_.timing.reduce;
  }

  [[nodiscard]] bool sat_fits() const {
    const bool orders_parts = objective_.slot_model || in_any_order();
    if (!has_sat_solver() || !optimum_.best || !orders_parts) return false;
    const Ticks rounds = optimum_.best->makespan / round_ticks();
    return rounds >= 1 && rounds < 100'000 &&
           RoundCnf::literals(problem_, static_cast<std::int32_t>(rounds)) <=
               std::min(kMostSolved, kLiterals * options_.effort);
  }

  /// "Do T rounds suffice?" from the bound up. In the slot model a No raises the bound; in the
  /// others a table that needs T rounds is one more candidate.
  void round_search(std::int64_t conflicts) {
    if (!sat_fits()) return;
    Ticks rounds = (optimum_.lower_bound.ticks + round_ticks() - 1) / round_ticks();
    for (rounds = std::max<Ticks>(rounds, 1); !done(); ++rounds) {
      if (rounds * round_ticks() >= optimum_.best->makespan) break;
      const RoundCnf cnf(problem_, static_cast<std::int32_t>(rounds), Symmetry::broken,
                         options_.stop);
      if (!cnf.complete()) return;
      const SatAnswer answer = solve(cnf.cnf(), {conflicts, options_.stop}, options_.proof_file);
      if (answer.verdict == Satisfiable::unknown) return;
      if (answer.verdict == Satisfiable::yes) {
        offer(table_of(problem_, cnf.times([&](int variable) {
          return static_cast<bool>(answer.model[static_cast<std::size_t>(variable)]);
        }),
                       "the SAT solver"));
        return;
      }
      optimum_.proof_written = !options_.proof_file.empty();
      if (objective_.slot_model) {
        raise_bound(rounds + 1, "SAT: " + counted(rounds, "round") +
                                    (rounds == 1 ? " does" : " do") + " not suffice");
      }
    }
  }

  void raise_bound(Ticks ticks, const std::string& detail) {
    optimum_.lower_bound = {ticks, "search"};
    optimum_.detail = detail;
    tell();
  }

  [[nodiscard]] bool exact_fits() const {
    return !objective_.slot_model && !objective_.timing.memory &&
           plays_itself(problem_, objective_.timing) && optimum_.best && in_any_order() &&
           objective_.timing.model == Model::chain &&
           objective_.timing.release == Release::immediate && problem_.tasks() <= kExactTasks &&
           problem_.q_tiles() <= kExactTasks;
  }

  void exhaustive_search() {
    ChainSearch found = search_chains(
        problem_, objective_.timing, optimum_.best->makespan, optimum_.lower_bound.ticks,
        std::min(kMostNodes, kNodes * options_.effort), [&] { return stopped(); });
    if (found.table) offer(std::move(*found.table), {found.makespan, found.makespan});
    if (found.complete && !proved()) {
      raise_bound(optimum_.best->makespan,
                  "exhaustive search of " + std::to_string(found.nodes) + " states");
    }
  }

  /// Independent runs from one start, each with its own seed; the first of the best counts, so that
  /// the number of threads does not matter.
  void local_searches() {
    constexpr std::size_t kRuns = 4;
    if (start_.lanes.empty() || options_.effort == 0) return;
    make_beside(
        kRuns, options_.threads, [this](std::size_t run) { return improve(options_.seed + run); },
        [this](Improved result) { offer(std::move(result.table), result.rating); });
  }

  struct Improved {
    Table table;
    Rating rating = {-1, -1};
  };

  [[nodiscard]] Improved improve(std::uint64_t seed) const {
    LocalSearchOptions options{
        .seed = seed,
        .moves = options_.effort * std::min<std::int64_t>(kScans / scans_of(problem_), kMoves),
        .at_least = optimum_.lower_bound.ticks,
        .stop = options_.stop,
        .makespan = [this](const Table& table) { return cost_of_try(table); }};
    LocalSearchResult arranged = local_search(problem_, rule_timing_, start_, options);
    if (arranged.makespan < 0) return {};
    if (objective_.slot_model) {
      return {std::move(arranged.table), {arranged.makespan, arranged.makespan}};
    }
    const Rating rated = rating(arranged.table);
    if (!in_any_order()) return {std::move(arranged.table), rated};
    options.plays = options_.effort * kPlays;
    LocalSearchResult polished = polish(arranged.table, objective_.timing, options);
    const Rating after = rating(polished.table);  // polishing counts phases alone
    if (after.cost > rated.cost) return {std::move(arranged.table), rated};
    return {std::move(polished.table), after};
  }

  void conclude() {
    if (!proved()) {
      (void)stopped();
      return;
    }
    const bool searched = optimum_.lower_bound.by == "search";
    optimum_.proof = searched ? ProofKind::search : ProofKind::bound;
    if (!searched) optimum_.detail = "the makespan is the " + optimum_.lower_bound.by + " bound";
    optimum_.stopped = false;
  }

  const Problem problem_;  ///< on the SMs that are there
  std::int32_t sms_;       ///< of the problem asked for: its tables have as many lanes
  const Objective& objective_;
  const SearchOptions& options_;
  Timing rule_timing_;  ///< that list scheduling uses
  Optimum optimum_;
  std::string phase_ = "dealing chains in turn";
  std::int64_t rules_ = 0;  ///< that may still be tried
  Arrangement start_;       ///< the best packing
  Ticks start_cost_ = 0;
};

}  // namespace

ProvenBound work_bound(const Problem& problem, const Timing& timing) {
  if (problem.tasks() == 0) return {0, "work"};
  const std::int64_t sms = resident_lanes(problem, timing.residency);
  std::int64_t most = (problem.tasks() + sms - 1) / sms;
  for (const TileGrid& grid : problem.grids.distinct()) {
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv)
      most = std::max<std::int64_t>(most, grid.chain_length(kv));
  }
  const bool overlap = timing.model == Model::overlap;
  const Ticks compute = timing.shortest_compute();
  const Ticks task = overlap ? std::max(compute, timing.reduce) : compute + timing.reduce;
  return {most * task, "work"};
}

Optimum optimize(const Problem& problem, const Objective& objective, const ProvenBound& lower_bound,
                 std::optional<Incumbent> known, const SearchOptions& options) {
  return Optimizer(problem, objective, lower_bound, std::move(known), options).run();
}

}  // namespace stagger::search
