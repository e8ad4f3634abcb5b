// Analyses, comparisons and searches of a few problems, kept in tests/golden/analyses.txt and
// optimizations.txt: every number of a report, who is compared with whom, and what is said of a
// search. What is proved is tested beside this.

#include "core/error.hpp"
#include "schedules/search/sat.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/kept.hpp"
#include "tests/support/random.hpp"
#include "tests/support/skip.hpp"
#include "workbench/advice.hpp"
#include "workbench/archive.hpp"
#include "workbench/comparison.hpp"
#include "workbench/json.hpp"
#include "workbench/optimization.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

std::vector<Problem> problems() {
  return {make_problem(make_mask("causal"), {6, 6}, {}, 2, 3),
          make_problem(make_mask("full"), {4, 4}, {}, 3, 4),
          make_problem(parse_mask("sliding:left=2,right=0"), {7, 7}, {}, 2, 3),
          make_problem(make_mask("causal"), {8, 8}, {.q = 2, .kv = 2}, 4, 3,
                       {.heads_kv = 2, .span = 2}),
          make_problem(make_mask("causal"), {5, 5}, {}, 4, 4,
                       {.heads_kv = 1, .span = 1, .combine = Combine::ordered})};
}

std::vector<TimeModel> models() {
  std::vector<TimeModel> models(5);
  models[1].timing = {.model = Model::overlap, .compute = 4, .reduce = 3, .latency = 1};
  models[2].timing = {.compute_partial = 8, .reduce = 2, .launch = 3, .epilogue = 2};
  models[2].timing.reduce_kv = 4;
  models[3].timing = {.release = Release::delayed, .residency = 2};
  models[4].timing.memory =
      Memory{.l2 = 9, .rate = 2, .tile = {.q = 3, .dq = 5, .kv = 4, .gradient = 2}};
  models[4].clock = Clock::ns;
  models[4].start = 40;
  models[4].passes = 7;
  return models;
}

void add_summary(std::ostringstream& text, const Summary& summary) {
  text << summary.name << " " << dag::verdict_name(summary.verification.verdict)
       << (summary.ordered() ? " ordered " : " no order ");
  if (!summary.ok()) return;
  const Gap gap = summary.gap();
  text << summary.makespan << " " << summary.last_reduction << " " << summary.phases << " above "
       << summary.bounds.best.ticks << " (" << summary.bounds.best.by << ") path "
       << summary.longest_path.value_or(-1) << " gap " << gap.packing << " " << gap.contention
       << " " << gap.startup << " " << gap.memory << " bubble " << summary.bubble_fraction()
       << " optimal " << (summary.optimal ? (*summary.optimal ? "yes" : "no") : "unknown")
       << " lemma " << summary.lemma1.premise << summary.lemma1.monotone << " "
       << summary.lemma1.harmful_count;
  if (summary.formula) {
    text << " formula " << summary.formula->text << " = " << summary.formula->ticks
         << (summary.formula->holds ? " holds" : " does not hold");
  }
}

std::vector<schedules::Selection> kept_selections() {
  std::vector<schedules::Selection> kept;
  for (const schedules::Schedule* schedule : test::kept_schedules())
    kept.push_back(schedules::select(schedule->name));
  return kept;
}

TEST_CASE("every row of comparisons is as kept") {
  if (test::skipped_without_sat_solver()) return;
  std::ostringstream text;
  for (const Problem& problem : problems()) {
    const std::vector<TimeModel> all = models();
    for (std::size_t model = 0; model < all.size(); ++model) {
      text << describe(problem) << " in " << model_json(problem, all[model]).line() << "\n";
      Comparison comparison = compare({.problem = problem,
                                       .model = all[model],
                                       .schedules = kept_selections(),
                                       .baseline = "ascending",
                                       .kv_index_ranks = model == 2});
      for (const ComparisonRow& row : comparison.rows) {
        text << "  " << row.name << ": " << row.unsupported;
        if (row.summary) add_summary(text, *row.summary);
        if (const auto speedup = comparison.speedup(row)) text << " x " << *speedup;
        text << "\n";
        if (!row.summary || row.ok()) continue;
        for (const dag::Finding& finding : row.summary->verification.findings)
          text << "    " << finding.message << "\n";
        text << "    " << test::text_digest(findings_json(*row.summary).text()) << "\n";
      }
      for (const std::string& tie : comparison.ties())
        text << "  tie " << tie << "\n";
      if (comparison.best) text << "  best " << comparison.best->critical_path.length << "\n";
    }
  }
  CHECK(test::golden_difference("analyses.txt", text.str()) == "");
}

TEST_CASE("a timing model is written with what it has") {
  const Problem problem = problems().back();
  TimeModel model{.clock = Clock::ns, .machine = "toy", .start = 5};
  const auto line = [&] { return model_json(problem, model).line(); };
  CHECK(line().find("passes") == std::string::npos);
  CHECK(line().find("compute_partial") == std::string::npos);
  CHECK(line().find("residency") == std::string::npos);
  CHECK(line().find("memory") == std::string::npos);
  CHECK(line().find(R"("reduce_kv": 0)") != std::string::npos);
  model.passes = 1;
  model.timing.compute_partial = 9;
  model.timing.residency = 77;
  CHECK(line().find(R"("passes": 1)") != std::string::npos);
  CHECK(line().find(R"("compute_partial": 9)") != std::string::npos);
  CHECK(line().find(R"("residency": 4)") != std::string::npos);  // no more than there are
  model.clock = Clock::ticks;
  CHECK(line().find("passes") == std::string::npos);
  CHECK(line().find("toy") == std::string::npos);
}

std::string words_of(const Optimization& found) {
  std::ostringstream text;
  text << found.status() << " by " << found.proof() << ", " << found.unit();
  if (found.optimum.best) text << " " << found.optimum.best->makespan;
  text << " above " << found.optimum.lower_bound.ticks << " (" << found.optimum.lower_bound.by
       << "), " << found.optimum.detail << "; " << found.found_by << "; span "
       << found.problem.span;
  if (found.best_named) {
    text << "; " << found.best_named->schedule << " " << found.best_named->makespan;
  }
  if (found.imported) text << "; imported " << *found.imported;
  for (const Advice& advice : advise(found))
    text << "; " << advice.change << " " << advice.lower_bound << " " << advice.by;
  return text.str();
}

/// A search tells of every schedule that it tries, by its name.
bool is_kept_phase(const std::string& phase) {
  const std::string schedule = "schedule ";
  return !phase.starts_with(schedule) || test::is_kept(phase.substr(schedule.size()));
}

TEST_CASE("what searches of every kind say is as kept") {
  if (test::skipped_without_sat_solver()) return;
  std::ostringstream text;
  for (const Problem& problem : problems()) {
    const std::vector<TimeModel> all = models();
    for (std::size_t model = 0; model < all.size(); ++model) {
      for (int options = 0; options < 6; ++options) {
        OptimizationRequest request{.problem = problem, .model = all[model]};
        request.effort = options % 2;
        request.threads = 1;
        request.slot_model = options / 2 == 1;
        request.any_span = options / 2 == 2;
        std::string phases;
        request.progress = [&](const SearchState& state) {
          if (!is_kept_phase(state.phase)) return;
          phases += "    " + state.phase + " " + std::to_string(state.lower_bound) + " " +
                    (state.best ? std::to_string(*state.best) : "none") + "\n";
        };
        text << describe(problem) << "; " << model << "." << options << ": ";
        try {
          text << words_of(optimize(request)) << "\n" << phases;
        } catch (const Error& error) {
          text << static_cast<int>(error.kind()) << " " << error.what() << "\n";
        }
      }
    }
  }
  CHECK(test::golden_difference("optimizations.txt", text.str()) == "");
}

TEST_CASE("a solver's answer is taken where it is better, in rounds or in ticks") {
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  OptimizationRequest request{.problem = problem, .threads = 1, .effort = 0};
  const auto with = [&](const std::string& text, std::int64_t rounds, bool slot_model) {
    request.answer = SolverAnswer{.text = text, .source = "solver", .rounds = rounds};
    request.slot_model = slot_model;
    return optimize(request);
  };
  const std::string right = "task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\ntask 0 1 0 1\n";
  const std::string late = "task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 0 2\ntask 0 1 1 3\n";
  CHECK(with(right, 2, true).imported == 2);
  CHECK(with(right, 0, true).imported == 2);
  CHECK(with(late, 4, true).imported == 3);  // the second chain waits for a round alone
  CHECK(with(late, 4, true).optimum.best->makespan == 2);
  CHECK(with(right, 2, false).imported == 12);
  CHECK_THROWS_AS(with(right, (std::int64_t{1} << 26) + 1, true), Error);
  // None that is named is as good as this one, of two chains on one SM and two of another head's.
  const Problem two = test::tiles_problem({"ff.", ".ff", "f.f"}, 1, 3);
  request.problem = two;
  const Optimization best =
      with("task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\ntask 0 1 2 1\ntask 0 2 2 0\ntask 0 2 0 1\n",
           2, true);
  CHECK(best.imported == 2);
  CHECK(best.optimum.best->makespan == 2);
}

}  // namespace
}  // namespace stagger::workbench
