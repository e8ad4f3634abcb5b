// Every number of plans, plays, comparisons and advice on a few problems, kept in
// tests/golden/designs-*.txt: which bytes, FLOPs and launches a design has, what its kernels take
// and when, who is compared in which order, and the words of reasons.

#include "tests/support/kept.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/designs/advice.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::designs {
namespace {

std::vector<Problem> kept_problems() {
  return {make_problem(make_mask("causal"), {8, 8}, {}, 4, 8),
          make_problem(make_mask("full"), {7, 5}, {}, 3, 4),
          make_problem(parse_mask("sliding:left=9,right=0"), {40, 33}, {.q = 4, .kv = 8}, 2, 5),
          make_problem(make_mask("causal"), {96, 96}, {.q = 16, .kv = 8}, 6, 4,
                       {.heads_kv = 2, .span = 1, .combine = Combine::ordered}),
          make_problem(make_mask("full"), {24, 24}, {.q = 8, .kv = 8}, 4, 3,
                       {.heads_kv = 2, .span = 2}),
          make_problem(parse_mask("tiles:rows=fp..+....+.ffp"), {4, 3}, {}, 2, 2)};
}

std::vector<workbench::TimeModel> kept_models() {
  std::vector<workbench::TimeModel> models(4);
  models[1].timing = {.model = Model::overlap, .compute = 7, .reduce = 3, .latency = 1};
  models[2].timing = {.compute_partial = 8, .reduce = 2, .launch = 3, .epilogue = 2};
  models[2].timing.residency = 2;
  models[3].timing = {.compute = 4'080, .compute_partial = 5'001, .reduce = 1'206, .launch = 900};
  models[3].timing.memory =
      Memory{.l2 = 90'000, .rate = 3, .tile = {.q = 30, .dq = 50, .kv = 40, .gradient = 20}};
  models[3].clock = workbench::Clock::ns;
  return models;
}

std::string plan_words(const Plan& plan) {
  std::ostringstream text;
  text << plan.name << ": " << plan.note << ", 1/" << plan.units << ", " << plan.flops << " FLOPs, "
       << plan.workspace_bytes << " + " << plan.hbm_bytes << " bytes, " << plan.dq_targets
       << " targets, " << plan.compute_permille << " permille, " << plan.launches() << " launches;";
  for (const char* word : plan.bits_depend_on)
    text << " " << word;
  for (const Stage& stage : plan.stages)
    text << "; " << stage.name << " of " << stage.bytes << " on " << describe(stage.problem);
  for (const Pass& pass : plan.passes)
    text << "; " << pass.name << " " << pass.bytes << " x" << pass.launches;
  return text.str();
}

std::string analysis_words(const Analysis& analysis, const Problem& problem) {
  std::ostringstream text;
  text << "takes " << analysis.makespan << " (";
  for (const Ticks stage : analysis.stages)
    text << " " << stage;
  text << " ) on " << analysis.lanes << " lanes, busy " << analysis.busy << ", whole "
       << analysis.elapsed.value_or(-1) << (analysis.ok() ? "" : ", not ok");
  const Timeline timeline = timeline_of(analysis, problem);
  text << "; " << timeline.title << ", " << timeline.sms << " SMs, " << timeline.intervals.size()
       << " intervals to " << timeline.makespan;
  std::string drawn;
  for (const Interval& interval : timeline.intervals) {
    drawn += std::to_string(interval.sm.value) + " " + describe(interval.task) + " " +
             phase_name(interval.phase) + " " + std::to_string(interval.start) + "-" +
             std::to_string(interval.end) + "\n";
  }
  text << " " << test::text_digest(drawn);
  return text.str();
}

TEST_CASE("plans and plays of every design are as kept") {
  std::ostringstream text;
  for (const Problem& problem : kept_problems()) {
    for (const workbench::TimeModel& model : kept_models()) {
      std::vector<Selection> designs = compared();
      for (const char* more :
           {"ordered", "split:buffers=3", "opentau:tile=4", "cluster:exchange=2"})
        designs.push_back(select(more));
      for (const Selection& selection : designs) {
        for (const char* schedule : {"", "spt", "symmetric-shift"}) {
          Request request{.problem = problem, .model = model, .head_dim = 32, .element_bytes = 2};
          if (*schedule != '\0') request.schedule = schedules::select(schedule);
          text << selection.text << " " << schedule << ": " << test::said([&] {
            const Analysis analysis = analyze(selection, request);
            return plan_words(analysis.plan) + "\n  " + analysis_words(analysis, problem);
          }) << "\n";
        }
      }
    }
  }
  CHECK(test::golden_difference("designs-plans.txt", text.str()) == "");
}

void add_advice(std::ostringstream& text, const AdviceRequest& request) {
  const Advice advice = advise(request);
  text << describe(request.request.problem) << " without an order "
       << advice.comparison.without_order << "\n";
  if (request.steady.empty()) {
    for (const ComparisonRow& row : advice.comparison.rows) {
      if (!test::is_kept(row.name)) continue;
      text << "  " << row.name << " " << row.unsupported;
      if (row.analysis) text << row.analysis->takes() << (row.ok() ? "" : " not ok");
      text << "\n";
    }
  }
  for (const Reason& reason : advice.reasons)
    text << "  reason " << reason.name << " " << reason.takes << ": " << reason.why << "\n";
  for (const Turn& turn : advice.turns) {
    text << "  turn " << turn.what << " " << turn.below << " " << turn.from << " " << turn.before
         << " " << turn.after << "\n";
  }
}

TEST_CASE("comparisons of designs, reasons and turns are as kept") {
  std::ostringstream text;
  for (const Problem& problem : kept_problems()) {
    for (const workbench::TimeModel& model : kept_models()) {
      for (const std::vector<std::string>& steady :
           {std::vector<std::string>{}, std::vector<std::string>{"sms", "batch"}}) {
        add_advice(text, {.request = {.problem = problem, .model = model, .head_dim = 64},
                          .steady = steady});
      }
    }
  }
  CHECK(test::golden_difference("designs-advice.txt", text.str()) == "");
}

TEST_CASE("advice where nothing is computed, for very long or in a memory is as kept") {
  std::ostringstream text;
  const auto add = [&](const Timing& timing, std::int64_t head_dim) {
    const Problem problem = make_problem(make_mask("causal"), {64, 64}, {.q = 16, .kv = 16}, 2, 4);
    Request request{.problem = problem, .model = {.timing = timing}, .head_dim = head_dim};
    if (timing.memory) request.model.clock = workbench::Clock::ns;
    add_advice(text, {.request = request, .steady = {}});
  };
  add({.compute = 0, .reduce = 1}, 64);
  add({.compute = 1, .reduce = 0}, 64);
  for (const Ticks less : {1, 0})
    add({.compute = (Ticks{1} << 40) - less, .reduce = Ticks{1} << 39}, 64);
  for (const std::int64_t rate : {1, 3, 10, 30}) {
    for (const Ticks compute : {400, 4'080}) {
      Timing timing{.compute = compute, .reduce = compute / 4, .launch = compute / 5};
      timing.memory = Memory{.l2 = 90'000,
                             .rate = rate,
                             .tile = {.q = 4'096, .dq = 4'096, .kv = 4'096, .gradient = 8'192}};
      add(timing, 64);
    }
  }
  CHECK(test::golden_difference("designs-turns.txt", text.str()) == "");
}

TEST_CASE("plans of heads that are combined from partial sums are as kept") {
  std::ostringstream text;
  const Problem problem = make_problem(make_mask("causal"), {64, 48}, {.q = 16, .kv = 8}, 6, 4,
                                       {.heads_kv = 2, .span = 1, .combine = Combine::partials});
  for (const Selection& selection : compared()) {
    const Request request{.problem = problem, .model = {}, .head_dim = 32, .element_bytes = 2};
    text << selection.text << ": "
         << test::said([&] { return plan_words(analyze(selection, request).plan); }) << "\n";
  }
  CHECK(test::golden_difference("designs-partials.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::designs
