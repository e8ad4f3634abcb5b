// How often searches ask whether to stop, what they have when the answer is yes, and how far an
// effort goes, kept in tests/golden/search-stops.txt: a search that asks less often makes its
// caller wait, one that goes on answers too late, and nothing else would tell.

#include "core/table_digest.hpp"
#include "schedules/search/chain_search.hpp"
#include "schedules/search/dice.hpp"
#include "schedules/search/edge_coloring.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/local_search.hpp"
#include "schedules/search/optimize.hpp"
#include "schedules/search/packing.hpp"
#include "schedules/search/round_cnf.hpp"
#include "schedules/search/sat.hpp"
#include "schedules/search/windows.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace stagger::search {
namespace {

Problem causal_problem(std::int64_t tiles, std::int64_t heads, std::int64_t sms) {
  return make_problem(make_mask("causal"), {tiles, tiles}, {}, heads, sms);
}

std::string kept_words(const Table& table) {
  std::ostringstream text;
  text << std::hex << table_digest(table);
  return text.str();
}

std::string kept_words(const LocalSearchResult& found) {
  return found.makespan < 0 ? "none"
                            : std::to_string(found.makespan) + " " + kept_words(found.table);
}

std::string kept_words(const ChainLanes& lanes) {
  std::ostringstream text;
  for (const std::vector<Chain>& lane : lanes) {
    text << "|";
    for (const Chain& chain : lane)
      text << " " << chain.head.value << "/" << chain.kv.value;
  }
  return test::text_digest(text.str());
}

/// A search that may be stopped, and what it has then in words.
using Stopped = std::function<std::string(const Stop& stop)>;

/// How often it asks, and what comes of it when the answer is yes at the first, at the second, half
/// way and at the last time.
std::string asked(const std::string& name, const Stopped& search) {
  std::int64_t all = 0;
  std::ostringstream text;
  const std::string whole = search([&] { return ++all < 0; });
  text << name << " asks " << all << ": " << whole << "\n";
  for (const std::int64_t at : std::set<std::int64_t>{1, 2, all / 2, all}) {
    std::int64_t questions = 0;
    if (at < 1 || at > all) continue;
    text << name << " stopped at " << at << ": " << search([&] { return ++questions >= at; });
    text << ", asked " << questions << "\n";
  }
  return text.str();
}

std::string asked_of_lists(const Problem& problem, const Timing& timing, QOrder q) {
  const ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
  const auto words = [](const std::optional<Table>& table) {
    return table ? kept_words(*table) : "none";
  };
  return asked("list",
               [&](const Stop& stop) {
                 return words(list_schedule(problem, timing,
                                            {.chains = ChainOrder::longest_by_head, .q = q}, stop));
               }) +
         asked("lanes",
               [&](const Stop& stop) {
                 return words(list_schedule(problem, timing, lanes, q, stop));
               }) +
         asked("windows", [&](const Stop& stop) {
           return kept_words(windowed_table(problem, timing, {.stop = stop}).table);
         });
}

std::string asked_of_packing(const Problem& problem, Ticks more) {
  const std::vector<Chain> chains = chains_of(problem);
  const Ticks least = (problem.tasks() + problem.sms - 1) / problem.sms;
  const std::string packing = asked("packing", [&](const Stop& stop) {
    return kept_words(pack_chains(chains, problem.sms, least + more, {.nodes = 500, .stop = stop}));
  });
  ChainLanes lanes = pack_chains(chains, problem.sms, least);
  Dice dice(5);
  for (std::vector<Chain>& lane : lanes)
    dice.shuffle(lane);
  return packing + asked("colouring", [&](const Stop& stop) {
           const auto times = color_edges(problem, lanes, 3, 2'000, stop);
           return times ? kept_words(table_of(problem, *times, "colouring")) : "none";
         });
}

TEST_CASE("searches ask whether to stop as often as kept, and have then what is kept") {
  std::ostringstream text;
  // Above 65,536 places looked at, and above 64 tasks coloured.
  text << asked_of_lists(causal_problem(80, 2, 12), {.compute = 3, .reduce = 2},
                         QOrder::most_awaited);
  text << asked_of_lists(causal_problem(70, 3, 30),
                         {.model = Model::overlap, .compute = 1, .reduce = 4}, QOrder::descending);
  // Partial tiles are ready sooner: once a chain's last is taken nothing is as soon.
  text << asked_of_lists(causal_problem(140, 3, 20),
                         {.compute = 9, .compute_partial = 4, .reduce = 2}, QOrder::ascending);
  text << asked_of_packing(causal_problem(9, 2, 7), 0)
       << asked_of_packing(causal_problem(40, 5, 16), 0)
       << asked_of_packing(causal_problem(31, 3, 9), 1);
  const Timing timing{.compute = 4, .reduce = 2, .latency = 1};
  for (const auto& [tiles, heads, sms] :
       {std::array{5, 2, 4}, std::array{8, 3, 6}, std::array{4, 1, 6}}) {
    const Problem problem = causal_problem(tiles, heads, sms);
    const auto options = [&](const Stop& stop) {
      return LocalSearchOptions{
          .seed = 9, .moves = 25, .plays = 300, .stop = stop, .makespan = [&](const Table& table) {
            return makespan_of(table, timing).value_or(-1);
          }};
    };
    const Arrangement start{pack_chains(chains_of(problem), problem.sms, 0), QOrder::ascending};
    text << asked("local search", [&](const Stop& stop) {
      return kept_words(local_search(problem, timing, start, options(stop)));
    });
    text << asked("polishing", [&](const Stop& stop) {
      return kept_words(
          polish(list_schedule(problem, timing, start.lanes, start.q), timing, options(stop)));
    });
  }
  text << asked("exhaustive search", [&](const Stop& stop) {
    const ChainSearch found =
        search_chains(causal_problem(5, 1, 3), timing, 1'000, 0, 20'000, stop);
    return std::to_string(found.nodes) + " " + std::to_string(found.makespan) +
           (found.complete ? " whole" : " cut");
  });
  CHECK(test::golden_difference("search-stops.txt", text.str()) == "");
}

/// What a whole search finds, and by what.
std::string ended(const Problem& problem, const Timing& timing, std::int64_t effort,
                  const Stop& stop) {
  SearchOptions options;
  options.seed = 4;
  options.effort = effort;
  options.stop = stop;
  std::int64_t told = 0;
  options.progress = [&](const std::string&, const Optimum&) { ++told; };
  const Optimum found =
      optimize(problem, {.timing = timing}, work_bound(problem, timing), std::nullopt, options);
  return kept_words(found.best->table) + " " + std::to_string(found.best->makespan) + " by " +
         found.found_by + (found.stopped ? ", stopped" : "") + ", told " + std::to_string(told);
}

TEST_CASE("whole searches ask as often as kept, and go as far as their effort lets them") {
  std::ostringstream text;
  const auto add = [&](const Problem& problem, const Timing& timing, std::int64_t effort) {
    text << asked("effort " + std::to_string(effort),
                  [&](const Stop& stop) { return ended(problem, timing, effort, stop); });
  };
  const Timing writers{.model = Model::overlap, .compute = 3, .reduce = 5};
  // No questions to a SAT solver: none without effort, none where parts are combined in order.
  add(causal_problem(6, 3, 4), {.compute = 3, .reduce = 4, .latency = 1}, 0);
  add(causal_problem(9, 2, 5), writers, 0);
  Problem grouped = test::tiles_problem({"pfff", ".pff", "..pf", "...p"}, 6, 5);
  grouped.heads_kv = 3;
  grouped = with_span(std::move(grouped), 1, Combine::ordered);
  add(grouped, {.compute = 3, .reduce = 2, .latency = 1, .reduce_kv = 3}, 1);
  add(grouped, writers, 2);
  // So long that an effort of 1 buys few rules, few moves and no solver.
  add(causal_problem(110, 4, 40), writers, 1);
  add(causal_problem(190, 2, 60),
      {.model = Model::overlap, .compute = 2, .reduce = 3, .latency = 4}, 1);
  CHECK(test::golden_difference("search-efforts.txt", text.str()) == "");
}

TEST_CASE("an effort buys a thousand evictions of a colouring") {
  std::ostringstream text;
  struct Row {
    std::int64_t tiles, heads, sms;
  };
  // Which of eight shuffles is coloured first differs between 100, 1,000 and 4,000 evictions.
  for (const auto& [tiles, heads, sms] :
       {Row{8, 3, 4}, Row{14, 1, 9}, Row{16, 1, 11}, Row{18, 1, 10}, Row{18, 1, 12}, Row{18, 3, 5},
        Row{20, 1, 15}}) {
    for (const std::int64_t effort : {0, 1, 4}) {
      const Problem problem = causal_problem(tiles, heads, sms);
      bool coloured = false;  // nothing but colouring, which is what the slot model begins with
      SearchOptions options;
      options.effort = effort;
      options.progress = [&](const std::string& phase, const Optimum&) {
        coloured = coloured || phase == "list scheduling";
      };
      options.stop = [&] { return coloured; };
      const Optimum found =
          optimize(problem, {.timing = {}, .slot_model = true}, {1, "none"}, std::nullopt, options);
      text << tiles << " effort " << effort << ": " << found.best->makespan << " by "
           << found.found_by << " " << kept_words(found.best->table) << "\n";
    }
  }
  CHECK(test::golden_difference("search-colourings.txt", text.str()) == "");
}

TEST_CASE("a search goes through its phases in order: windows for heads in ticks alone") {
  const auto phases_of = [](std::int64_t heads, bool slot_model) {
    std::string phases;
    SearchOptions options;
    options.effort = 0;
    options.stop = [] { return false; };
    std::string last;
    options.progress = [&](const std::string& phase, const Optimum&) {
      if (phase != last) phases += phase + "; ";
      last = phase;
    };
    const Optimum found =
        optimize(causal_problem(5, heads, 3), {.timing = {.latency = 2}, .slot_model = slot_model},
                 {1, "none"}, std::nullopt, options);
    CHECK(found.proof == ProofKind::none);
    return phases;
  };
  CHECK(phases_of(3, true) ==
        "dealing chains in turn; edge colouring; list scheduling; packing; rounds by SAT; local "
        "search; rounds by SAT; ");
  CHECK(phases_of(3, false) ==
        "dealing chains in turn; list scheduling; windows; packing; edge colouring; rounds by SAT; "
        "exhaustive search; local search; ");
  CHECK(phases_of(1, false) ==
        "dealing chains in turn; list scheduling; packing; edge colouring; rounds by SAT; "
        "exhaustive search; local search; ");
}

TEST_CASE("rounds are refuted one by one, each in words, and what cannot help is not asked") {
  if (test::skipped_without_sat_solver()) return;
  const auto said = [](const char* row, Ticks bound) {
    std::string words;
    SearchOptions options;
    options.effort = 1;
    options.stop = [] { return false; };
    options.progress = [&](const std::string&, const Optimum& so_far) {
      if (!so_far.detail.empty()) words += so_far.detail + "; ";
    };
    const Problem problem = test::tiles_problem({row}, 1, 1);
    const Optimum found = optimize(problem, {.timing = {}, .slot_model = true}, {bound, "none"},
                                   std::nullopt, options);
    return words + found.detail;
  };
  CHECK(said("ff", 1) == "SAT: 1 round does not suffice; SAT: 1 round does not suffice");
  CHECK(said("fff", 1) ==
        "SAT: 1 round does not suffice; SAT: 2 rounds do not suffice; SAT: 2 rounds do not "
        "suffice");
  CHECK(said("fff", 2) == "SAT: 2 rounds do not suffice; SAT: 2 rounds do not suffice");
  // Three rounds of two ticks are what is known: no answer of a solver is shorter. Of the two
  // questions the first is the search's own, the second that of the phase behind.
  std::int64_t questions = 0;
  bool asks = false;
  SearchOptions options;
  options.effort = 1;
  options.progress = [&](const std::string& phase, const Optimum&) {
    asks = phase == "rounds by SAT";
  };
  options.stop = [&] {
    questions += asks ? 1 : 0;
    return false;
  };
  const Timing timing{.compute = 1, .reduce = 1};
  static_cast<void>(optimize(test::tiles_problem({"fff"}, 1, 1), {.timing = timing}, {5, "none"},
                             std::nullopt, options));
  CHECK(questions == 2);
}

TEST_CASE("questions to a solver are as large as the rounds that are known, not the ticks") {
  if (test::skipped_without_sat_solver()) return;
  const Problem problem = causal_problem(8, 3, 6);
  const Timing timing{.compute = 5, .reduce = 1, .latency = 2};
  std::int64_t questions = 0;
  bool asks = false;
  std::optional<Ticks> known;
  SearchOptions options;
  options.effort = 1;
  options.progress = [&](const std::string& phase, const Optimum& so_far) {
    asks = phase == "rounds by SAT";
    if (asks) known = so_far.best->makespan;
  };
  options.stop = [&] {
    questions += asks ? 1 : 0;
    return known.has_value() && !asks;
  };
  static_cast<void>(optimize(problem, {.timing = timing}, {100, "none"}, std::nullopt, options));
  REQUIRE(known.has_value());
  const auto literals = [&](Ticks rounds) {
    return RoundCnf::literals(problem, static_cast<std::int32_t>(rounds));
  };
  // An effort of 1 buys a million.
  REQUIRE(literals(*known / 6) < 1'000'000);
  REQUIRE(literals(*known * 6) > 1'000'000);
  CHECK(questions > 2);  // the solver's too
}

TEST_CASE("rounds of a long table are counted with a question a million steps") {
  // A chain is a step, and another for the chain after it on its lane: 2 SMs with 700,000 chains of
  // one task each make 2,799,998 steps, and 2^20 steps go by between two questions.
  const std::int32_t chains = 700'000;
  Problem problem = test::tiles_problem({"f"}, 2 * chains, 2);
  std::vector<std::vector<Slot>> lanes(2);
  for (Head head{0}; head.value < problem.heads; ++head)
    lanes[static_cast<std::size_t>(head.value % 2)].push_back({{head, KvTile{0}, QTile{0}}, 0});
  const Table table = table_of(problem, lanes);
  std::int64_t questions = 0;
  const auto answered = [&](std::int64_t at) {
    questions = 0;
    return rounds_of(table, [&] { return ++questions >= at; });
  };
  CHECK(answered(1'000) == chains);
  CHECK(questions == 2);
  CHECK_FALSE(answered(2).has_value());
  CHECK(questions == 2);
}

TEST_CASE("rounds are counted chain by chain in the order in which chains wait") {
  // SM i waits for SM i + 1 all along: by number, each pass would move all SMs below by a round.
  const std::int32_t sms = 256;
  const std::int32_t heads = 64;
  const Problem problem = make_problem(make_mask("full"), {.q = 2, .kv = sms}, {}, heads, sms);
  std::vector<std::vector<Slot>> lanes(static_cast<std::size_t>(sms));
  for (KvTile kv{0}; kv.value < sms; ++kv.value) {
    for (Head head{0}; head.value < heads; ++head.value) {
      for (QTile q{0}; q.value < 2; ++q.value)
        lanes[static_cast<std::size_t>(kv.value)].push_back({{head, kv, q}, sms - 1 - kv.value});
    }
  }
  std::int64_t questions = 0;
  const Stop stop = [&] { return ++questions < 0; };
  CHECK(rounds_of(table_of(problem, lanes), stop) == 2 * heads + sms - 1);
  CHECK(questions == 0);
}

TEST_CASE("a table is there in the slot model too, however long it is and soon the search ends") {
  const Problem problem = test::tiles_problem({"f"}, 1'400'000, 2);
  SearchOptions options;
  options.stop = [] { return true; };
  const Optimum found =
      optimize(problem, {.timing = {}, .slot_model = true}, {1, "none"}, std::nullopt, options);
  REQUIRE(found.best.has_value());
  CHECK(found.best->makespan == 700'000);
}

TEST_CASE("a list that nobody stops is made however many places it looks at") {
  const Problem problem = causal_problem(80, 2, 12);
  const ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
  std::int64_t questions = 0;
  const auto asked_table =
      list_schedule(problem, {}, lanes, QOrder::most_awaited, [&] { return ++questions < 0; });
  REQUIRE(questions > 0);
  CHECK(list_schedule(problem, {}, lanes, QOrder::most_awaited).slots == asked_table->slots);
}

TEST_CASE("a formula is taken in with a question every 262,144 literals") {
  if (test::skipped_without_sat_solver()) return;
  constexpr std::int64_t kOften = 262'144;
  const auto taken_in = [](std::int64_t literals, std::int64_t at) {
    Cnf cnf;
    cnf.variables = 1;
    for (std::int64_t clause = 0; clause < literals / 2; ++clause) {
      cnf.literals.push_back(1);
      cnf.literals.push_back(0);
      ++cnf.clauses;
    }
    std::int64_t questions = 0;
    return solve(cnf, {.conflicts = -1, .stop = [&] { return ++questions == at; }}).verdict;
  };
  CHECK(taken_in(2 * kOften + 2, 3) == Satisfiable::unknown);
  CHECK(taken_in(kOften + 2, 2) == Satisfiable::unknown);
  CHECK(taken_in(kOften, 1) == Satisfiable::unknown);
  CHECK(taken_in(2, 1) == Satisfiable::unknown);
  CHECK(taken_in(2, 0) == Satisfiable::yes);
}

}  // namespace
}  // namespace stagger::search
