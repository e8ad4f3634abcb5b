// What the command says of runs on a GPU and of calibrations, none of which there is here: numbers
// are made up, and kept in tests/golden is where each goes.

#include "cli/builtin.hpp"
#include "cli/report/calibration.hpp"
#include "cli/report/design_run.hpp"
#include "cli/report/optimum.hpp"
#include "cli/report/overlap_runs.hpp"
#include "cli/report/run.hpp"
#include "core/error.hpp"
#include "core/mask.hpp"
#include "core/problem.hpp"
#include "core/version.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/made_runs.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/calibration/memory_fit.hpp"
#include "workbench/kernels.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace stagger::cli {
namespace {

using test::causal_source;
using test::made_run;
using test::on_gpu;
using test::predicted_run;
using workbench::Execution;

std::string without_version(const std::string& text) {
  return test::replaced(text, std::string("\"version\": \"") + version() + '"',
                        "\"version\": \"x\"");
}

std::string said(Execution execution, int width = 80) {
  execution.flops = 3e9;  // so that rates show in their digits
  return run_text(execution, Terminal{.width = width, .unicode = true}) + "\n";
}

TEST_CASE("what is said of a run on a GPU is as kept") {
  std::string text = said(on_gpu(made_run(causal_source())));
  text += said(on_gpu(made_run(causal_source(test::toy_model()))), 60);
  text += said(on_gpu(made_run(causal_source(), gpu::Mode::atomic, false)));
  for (const auto& [untimed, rested] :
       {std::pair<int, int>{4'100, 0}, {4'100, 3'900}, {0, 4'400}}) {
    const auto given = [](int ns) {
      return ns > 0 ? std::optional<std::int64_t>(ns) : std::nullopt;
    };
    text += said(predicted_run(given(untimed), given(rested)));
  }
  Execution spins = on_gpu(made_run(causal_source()));
  spins.kernel = &workbench::kernel_of("replay");
  spins.tick_ns = 250;
  spins.spun = {.compute = 8, .reduce = 3};
  spins.runs->errors.reset();
  spins.runs->digests = {};
  text += said(spins);
  Execution faulty = on_gpu(made_run(causal_source()));
  faulty.runs->verdict = gpu::RunVerdict::mismatch;
  faulty.runs->faults = {{.kind = "bits", .message = "run 2 gives other bits"}};
  faulty.runs->identical = faulty.runs->order_matches = false;
  faulty.runs->reaccumulated = false;
  faulty.lost_partials = std::int64_t{3} << 30;
  faulty.device_reference = true;
  faulty.options.perturb = 9;
  text += said(faulty);
  Execution timeless = on_gpu(made_run(causal_source()));
  timeless.runs->median_ns = 0;
  text += said(timeless);
  Execution refused = on_gpu(made_run(causal_source()));
  refused.refused = "the table is too large";
  refused.runs.reset();
  text += said(refused);
  CHECK(test::golden_difference("cli-gpu-runs.txt", text) == "");
}

TEST_CASE("what is said of a design's run on a GPU is as kept") {
  const Problem problem = make_problem(make_mask("causal"), {6, 6}, {2, 2}, 2, 0);
  designs::ExecutionRequest request{.selection = designs::select("split"),
                                    .request = {.problem = problem, .head_dim = 4},
                                    .repeats = 2,
                                    .threads = 2};
  designs::Execution execution = designs::execute(request);
  execution.device = "a GPU";
  execution.cuda = gpu::CudaDevice{.name = "a GPU", .sms = 7, .driver = "12.5"};
  execution.errors =
      gpu::GradientErrors{.dq = gpu::Deviation{0.25, 0.5}, .dk = {1, 2}, .dv = {3, 4}};
  execution.bound = 0.125;
  execution.digests = {.dq = "d0", .dk = "d1", .dv = "d2"};
  execution.median_ns = 5'000;
  execution.flops = 3e9;
  const Terminal terminal{.width = 80, .unicode = true};
  std::string text;
  for (const std::int64_t untimed : {0, 4'000}) {
    if (untimed > 0) execution.untimed_median_ns = untimed;
    execution.perturb = untimed > 0 ? std::optional<std::uint64_t>(9) : std::nullopt;
    text += design_run_text(execution, terminal) + design_run_json(execution);
  }
  execution.repeats = 1;
  execution.cut_short = true;
  execution.identical = execution.order_matches = false;
  execution.reaccumulated = false;
  execution.faults = {{.kind = "bits", .message = "run 2 gives other bits"}};
  execution.lost_partials = std::int64_t{3} << 30;
  execution.device_reference = true;
  text += design_run_text(execution, terminal) + design_run_json(execution);
  execution.reaccumulated.reset();
  text += design_run_text(execution, terminal);
  execution.repeats = 0;
  execution.median_ns = 0;
  execution.timed_out = true;
  execution.timeout = std::chrono::milliseconds(7);
  text += design_run_text(execution, terminal) + design_run_json(execution);
  CHECK(test::golden_difference("cli-gpu-designs.txt", without_version(text)) == "");
}

Machine toy_machine() {
  KernelTimes times{
      .key = {.kernel = "hopper", .dtype = "bf16", .head_dim = 64, .tile = {128, 128}},
      .model = Model::overlap,
      .compute = {2'000, 1'900, 2'100, 500},
      .compute_partial = MeasuredNs{2'200, 2'050, 2'300, 90},
      .reduce = {700, 650, 800, 500},
      .latency = {900, 850, 990, 400},
      .launch = {1'500, 1'400, 1'700, 32},
      .epilogue = {450, 430, 470, 31},
      .start = {9'000, 8'000, 9'900, 7},
      .passes_per_mi = MeasuredNs{3'000, 2'900, 3'100, 6},
      .fit = {.median_ppm = 12'300, .worst_ppm = 45'600, .runs = 7},
      .date = "2001-02-03",
      .command = "stagger calibrate --toy"};
  return {.name = "toy",
          .device = "a GPU",
          .driver = "12.5",
          .sms = 7,
          .kernels = {std::move(times)},
          .memory = DeviceMemory{.l2_bytes = 43'100'000,
                                 .bytes_per_ns = 3'934,
                                 .stream_bytes_per_ns = 2'950,
                                 .add_permille = 1'500,
                                 .latency_ns = 210,
                                 .fit = {.median_ppm = 16'000, .worst_ppm = 57'000, .runs = 84},
                                 .date = "2001-02-04",
                                 .command = "stagger calibrate --memory"}};
}

TEST_CASE("what is said of the best tables that were run is as kept") {
  workbench::OptimizationRequest request{
      .problem = make_problem(make_mask("full"), {2, 2}, {}, 6, 4, {.heads_kv = 3}),
      .any_span = true,
      .effort = 0};
  request.model = {
      .timing = {.compute = 3'000, .reduce = 4'000}, .clock = workbench::Clock::ns, .start = 4'000};
  request.model_of = [&](const Problem& problem) {
    workbench::TimeModel model = request.model;
    model.passes = problem.span == 1 ? 7'000 : 0;
    return model;
  };
  const workbench::Optimization optimization = workbench::optimize(request);
  MeasuredFinalists measured{.device = "NVIDIA Toy", .finalists = finalists_of(optimization, 4)};
  std::int64_t ns = 21'000;
  workbench::measure(measured.finalists, 3, [&](const workbench::Finalist& each) -> std::int64_t {
    if (&each == &measured.finalists.front() && ns > 21'000) {
      throw Error(ErrorKind::device, "run: deadlock");
    }
    return ns += 1'234;
  });
  const OptimumFiles files{.table = "best.table.json", .proof = ""};
  std::string text = optimum_text(optimization, measured, files) + "\n";
  Json json = optimum_json(optimization, measured, files);
  text += json["measured"].text() + "\n\n";
  // Where none ran the table is the one that is best by the model.
  for (workbench::Finalist& each : measured.finalists)
    each.failed = "not run";
  text += optimum_text(optimization, measured, files);
  CHECK(test::golden_difference("cli-measured.txt", text) == "");
}

TEST_CASE("the best named schedule is beside what was found by all that both take") {
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 6, 4, {.heads_kv = 3});
  workbench::OptimizationRequest request{.problem = problem, .effort = 0};
  request.model = {.timing = {.compute = 3'000, .reduce = 4'000},
                   .clock = workbench::Clock::ns,
                   .passes = 1'000};
  workbench::Optimization optimization = workbench::optimize(request);
  const Ticks best = optimization.optimum.best->makespan;
  REQUIRE(optimization.best_named.has_value());
  workbench::Optimization::Named& named = *optimization.best_named;
  const auto says = [&](Ticks longer, Ticks passes) {
    named.makespan = best + longer;
    named.passes = passes;
    const std::string text = optimum_text(optimization, {}, {.table = "", .proof = ""});
    const std::size_t begin = text.find("best named");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  CHECK_THAT(says(best, 1'000), Catch::EndsWith(", 100.0 % more)"));
  CHECK_THAT(says(0, 1'000), Catch::EndsWith(named.schedule + ")"));
  CHECK_THAT(says(-1, 1'000), Catch::Contains(", but "));
  // Other passes count: a shorter kernel may be more in all, and a longer one less.
  CHECK_THAT(says(-1, 1'001 + best), Catch::Contains(" % more with its passes)"));
  CHECK_THAT(says(1, 999), Catch::EndsWith(named.schedule + ")"));
  CHECK_THAT(says(1, 998), Catch::Contains(", but "));
  named.span = 3;
  CHECK_THAT(says(best, 1'000), Catch::Contains(" with 3 heads a chain, 100.0 % more)"));
}

TEST_CASE("what is said of a calibration is as kept") {
  const Machine machine = toy_machine();
  std::string text = calibration_text(machine, machine.kernels.front());
  Machine plain = machine;
  plain.kernels.front().compute_partial.reset();
  plain.kernels.front().passes_per_mi.reset();
  text += calibration_text(plain, plain.kernels.front()) + memory_text(machine);
  std::vector<workbench::MemoryRun> runs;
  for (const int group : {0, 0, 1}) {
    workbench::MemoryRun run{.table = causal_source().table,
                             .timing = {.memory = Memory{.tile = {30, 20, 50, 70}}}};
    run.measured = 1'000 + 100 * static_cast<Ticks>(runs.size());
    run.group = group;
    runs.push_back(std::move(run));
  }
  text += memory_json(machine, runs, {{1'000, 990}, {1'100, 1'150}, {1'200, 1'200}});
  CHECK(test::golden_difference("cli-calibrations.txt", without_version(text)) == "");
}

TEST_CASE("what is said of bits that were made beside GEMMs is as kept") {
  OverlapRunsReport report{.runs = {}, .way = 1, .calibration = find_calibration("paper")};
  report.runs.rng = {{.measured = {.rng = {.rounds = 7, .bits = 8}, .ps = 1.5}, .registers = 40},
                     {.measured = {.rng = {.rounds = 3, .bits = 32}, .ps = 4.25}, .registers = 33}};
  for (const std::int64_t heads : {48, 64}) {
    workbench::OverlapRun run{.ways = {}, .clock_ghz = 1.7, .clocks_ghz = {1.6, 1.5, 1.4}};
    for (std::size_t way = 0; way < workbench::beside_ways().size(); ++way) {
      const double more = 0.01 * static_cast<double>(heads) + 0.1 * static_cast<double>(way);
      run.ways.push_back({.shape = {.heads = heads, .seq = 4'096, .head_dim = 128},
                          .rng = {},
                          .gemms = 1.5,
                          .bits = 0.5,
                          .attention = 2,
                          .attention_makes = 2.75,
                          .attention_reads = 2.125,
                          .with_room = 1.625 + more,
                          .beside_gemms = 1.875 + more,
                          .beside_bits = 1.25 + more,
                          .baseline = 4.25,
                          .serial = 4.125,
                          .overlap = 3.5 + more});
    }
    report.runs.shapes.push_back(std::move(run));
  }
  report.runs.crowds = {
      {.ctas = 132, .ctas_per_sm = 1, .gemm = 2.5, .full = 1.5, .measured = 4, .predicted = 3.5}};
  report.runs.words_checked = 12'345;
  report.runs.samples_checked = 67;
  const std::string text = overlap_runs_text(report) + overlap_runs_json(report).text() + "\n";
  CHECK(test::golden_difference("cli-overlap-runs.txt", without_version(text)) == "");
}

}  // namespace
}  // namespace stagger::cli
