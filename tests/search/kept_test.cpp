// What every search makes of problems drawn by dice, kept in tests/golden/search-*.txt: the same
// options give the same table on every machine, so that a line that changes was changed on purpose.
// Which tables are right is said by the other tests; here are the choices among right ones.

#include "core/table_digest.hpp"
#include "schedules/search/chain_search.hpp"
#include "schedules/search/dice.hpp"
#include "schedules/search/edge_coloring.hpp"
#include "schedules/search/evaluate.hpp"
#include "schedules/search/incremental.hpp"
#include "schedules/search/list_scheduling.hpp"
#include "schedules/search/local_search.hpp"
#include "schedules/search/packing.hpp"
#include "schedules/search/round_cnf.hpp"
#include "schedules/search/round_files.hpp"
#include "schedules/search/safe_table.hpp"
#include "schedules/search/windows.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/random.hpp"

#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace stagger::search {
namespace {

bool is_never_stopped() {
  return false;
}

Ticks upto(Dice& dice, std::size_t most) {
  return static_cast<Ticks>(dice.roll(most + 1));
}

Problem drawn_problem(Dice& dice, std::size_t most) {
  const std::size_t q_tiles = 1 + dice.roll(most);
  std::vector<std::string> rows(1 + dice.roll(most));
  const std::size_t kind = dice.roll(4);
  for (std::size_t kv = 0; kv < rows.size(); ++kv) {
    for (std::size_t q = 0; q < q_tiles; ++q) {
      const char any = ".fp"[dice.roll(3)];
      rows[kv] += kind == 0 ? 'f' : kind == 1 ? (q < kv ? '.' : q == kv ? 'p' : 'f') : any;
    }
  }
  const auto sms = static_cast<std::int32_t>(1 + dice.roll(most));
  const auto heads = static_cast<std::int32_t>(1 + dice.roll(4));
  Problem problem = test::tiles_problem(rows, heads, sms);
  if (dice.roll(4) > 0) return problem;
  const auto group = static_cast<std::int32_t>(2 + dice.roll(2));
  problem.heads_kv = problem.heads;
  problem.heads *= group;
  return with_span(std::move(problem), 1, dice.roll(2) == 0 ? Combine::partials : Combine::ordered);
}

Timing drawn_timing(Dice& dice) {
  Timing timing{.model = dice.roll(2) == 0 ? Model::chain : Model::overlap,
                .compute = upto(dice, 6),
                .reduce = 1 + upto(dice, 4),
                .latency = upto(dice, 3),
                .launch = upto(dice, 2),
                .epilogue = upto(dice, 2),
                .reduce_kv = upto(dice, 5),
                .reduce_kv_async = dice.roll(3) == 0};
  if (dice.roll(2) == 0) timing.compute_partial = upto(dice, 8);
  if (dice.roll(4) == 0) timing.release = Release::delayed;
  return timing;
}

Memory drawn_memory(Dice& dice) {
  Memory memory{
      .l2 = 1 + upto(dice, 60),
      .rate = 1 + upto(dice, 8),
      .tile = {
          .q = upto(dice, 9), .dq = upto(dice, 9), .kv = upto(dice, 9), .gradient = upto(dice, 9)}};
  memory.spread = memory.l2 % 3 * 2;  // in two of three there is chance
  return memory;
}

std::string words_of(const Table& table, const Timing& timing) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << table_digest(table) << std::dec << " "
       << makespan_of(table, timing).value_or(-1);
  return text.str();
}

std::string words_of(const ChainLanes& lanes) {
  std::ostringstream text;
  for (const std::vector<Chain>& lane : lanes) {
    text << "|";
    for (const Chain& chain : lane)
      text << " " << chain.head.value << "/" << chain.kv.value;
  }
  return text.str();
}

TEST_CASE("lists, windows and safe tables are as kept") {
  Dice dice(101);
  std::ostringstream text;
  for (int round = 0; round < 40; ++round) {
    const Problem problem = drawn_problem(dice, 7);
    Timing timing = drawn_timing(dice);
    timing.residency = static_cast<std::int32_t>(upto(dice, 3));
    text << round << " safe " << words_of(safe_table(problem), timing) << "\n";
    const ListRule rule{.chains = static_cast<ChainOrder>(dice.roll(4)),
                        .q = static_cast<QOrder>(dice.roll(kQOrders)),
                        .window = static_cast<std::int32_t>(dice.roll(3))};
    text << round << " list " << words_of(list_schedule(problem, timing, rule), timing) << "\n";
    text << round << " windowed " << words_of(windowed_table(problem, timing, {}).table, timing)
         << "\n";
    timing.memory = drawn_memory(dice);
    text << round << " memory " << words_of(windowed_table(problem, timing, {}).table, timing)
         << "\n";
  }
  CHECK(test::golden_difference("search-lists.txt", text.str()) == "");
}

TEST_CASE("packings and colourings are as kept") {
  Dice dice(102);
  std::ostringstream text;
  for (int round = 0; round < 60; ++round) {
    const Problem problem = drawn_problem(dice, 9);
    const std::vector<Chain> chains = chains_of(problem);
    const Ticks least = (problem.tasks() + problem.sms - 1) / problem.sms;
    for (const std::int64_t nodes : {0, 7, 100'000}) {
      const ChainLanes lanes = pack_chains(chains, problem.sms, least, {.nodes = nodes});
      text << round << " packed " << nodes << " " << words_of(lanes) << "\n";
    }
    ChainLanes lanes = pack_chains(chains, problem.sms, least);
    for (std::vector<Chain>& lane : lanes)
      dice.shuffle(lane);
    // Colours keep dQ tiles apart, not the ends of chains that are added in turn.
    const Problem apart = with_span(problem, problem.span, Combine::partials);
    for (const std::int64_t moves : {0, 3, 300}) {
      text << round << " coloured " << moves << " ";
      const auto times = color_edges(apart, lanes, 7, moves, is_never_stopped);
      text << (times ? words_of(table_of(apart, *times, "colouring"), {}) : "given up") << "\n";
    }
  }
  for (int round = 0; round < 24; ++round) {  // few free rounds: tasks are put out again and again
    const auto tiles = static_cast<std::int64_t>(6 + dice.roll(12));
    const auto sms = static_cast<std::int64_t>(3 + dice.roll(6));
    const auto heads = static_cast<std::int64_t>(1 + dice.roll(5));
    const Problem problem =
        make_problem(make_mask(round % 3 == 0 ? "full" : "causal"), {tiles, tiles}, {}, heads, sms);
    ChainLanes lanes = pack_chains(chains_of(problem), problem.sms, 0);
    for (std::vector<Chain>& lane : lanes)
      dice.shuffle(lane);
    for (const std::int64_t moves : {1, 10, 100, 1'000}) {
      const auto times = color_edges(problem, lanes, 3 + static_cast<std::uint64_t>(round), moves,
                                     is_never_stopped);
      text << round << " shuffled " << moves << " "
           << (times ? words_of(table_of(problem, *times, "colouring"), {}) : "given up") << "\n";
    }
  }
  CHECK(test::golden_difference("search-packings.txt", text.str()) == "");
}

TEST_CASE("local searches, and how much they play, are as kept") {
  Dice dice(103);
  std::ostringstream text;
  for (int round = 0; round < 30; ++round) {
    const Problem problem = drawn_problem(dice, 7);
    const Timing timing = drawn_timing(dice);
    const Arrangement start{pack_chains(chains_of(problem), problem.sms, 0),
                            static_cast<QOrder>(dice.roll(kQOrders))};
    LocalSearchOptions options{
        .seed = 11 + static_cast<std::uint64_t>(round),
        .moves = 40,
        .plays = 2'000,
        .stop = is_never_stopped,
        .makespan = [&](const Table& table) { return makespan_of(table, timing).value_or(-1); }};
    LocalSearchResult found = local_search(problem, timing, start, options);
    text << round << " arranged " << words_of(found.table, timing) << " " << found.makespan << "\n";
    if (found.makespan < 0 || problem.combine == Combine::ordered) continue;
    found = polish(std::move(found.table), timing, options);
    text << round << " polished " << words_of(found.table, timing) << " " << found.makespan << "\n";
    if (found.table.slots.empty()) continue;
    IncrementalPlay play(found.table, timing);
    std::int64_t kept = 0;
    for (std::size_t slot = 0; slot < found.table.slots.size(); ++slot) {
      if (found.table.slots[slot].rank == 0) continue;
      kept += play.exchange_ranks(slot, play.makespan() + 3) ? 1 : 0;
    }
    text << round << " played " << play.played() << " kept " << kept << " to " << play.makespan()
         << "\n";
  }
  CHECK(test::golden_difference("search-local.txt", text.str()) == "");
}

TEST_CASE("exhaustive searches look at as many states as kept, and find the same") {
  Dice dice(104);
  std::ostringstream text;
  for (int round = 0; round < 60; ++round) {
    Problem problem = drawn_problem(dice, 3);
    Timing timing = drawn_timing(dice);
    timing.model = Model::chain;
    timing.release = Release::immediate;
    if (problem.tasks() > 9 || problem.combine == Combine::ordered) continue;
    for (const std::int64_t nodes : {50, 20'000}) {
      const ChainSearch found = search_chains(problem, timing, 1'000, 0, nodes, is_never_stopped);
      text << round << " " << nodes << (found.complete ? " whole " : " cut ") << found.nodes << " "
           << found.makespan << " " << (found.table ? words_of(*found.table, timing) : "none")
           << "\n";
    }
  }
  CHECK(test::golden_difference("search-exhaustive.txt", text.str()) == "");
}

TEST_CASE("questions to solvers are as kept, letter by letter") {
  Dice dice(105);
  std::ostringstream text;
  for (int round = 0; round < 25; ++round) {
    const Problem problem = drawn_problem(dice, 4);
    if (problem.tasks() == 0) continue;
    for (const std::int32_t rounds : {1, 3, 8}) {
      const auto formula = [&](Symmetry symmetry) {
        const RoundCnf cnf(problem, rounds, symmetry);
        return std::to_string(cnf.cnf().variables) + " " + std::to_string(cnf.cnf().clauses) + " " +
               test::text_digest(cnf.dimacs());
      };
      text << round << " " << rounds << " cnf " << formula(Symmetry::broken) << " whole "
           << formula(Symmetry::left) << "\n"
           << round << " " << rounds << " lp "
           << test::text_digest(write_linear_program(problem, rounds)) << " data "
           << test::text_digest(write_minizinc_data(problem, rounds)) << "\n";
    }
  }
  text << write_minizinc_model();
  CHECK(test::golden_difference("search-questions.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::search
