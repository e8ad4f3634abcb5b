#include "workbench/run_file.hpp"

#include "core/error.hpp"
#include "core/order_digest.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/backward_plan.hpp"
#include "workbench/json.hpp"

#include <utility>

namespace stagger::workbench {
namespace {

Execution run_of(ExecutionRequest request, std::int32_t repeats = 2) {
  request.kernel = &kernels().front();
  request.head_dim = 4;
  request.repeats = repeats;
  return execute(std::move(request));
}

Source descending() {
  return workbench::source_of(schedules::select("descending"),
                              make_problem(make_mask("causal"), {6, 6}, {2, 2}, 2, 0));
}

/// A run on a GPU that there is not, as the file would say it.
std::string device_run() {
  return test::replaced(write_run(run_of({.source = descending()})),
                        "\"ms\":", "\"makespan_ns\": 1000, \"untimed_ms\": 0.002, \"ms\":");
}

std::string refused(const std::string& text) {
  return test::message_of([&] { static_cast<void>(read_runs(text, "x")); },
                          ErrorKind::invalid_input);
}

TEST_CASE("a run that is written reads back") {
  const MeasuredRuns read = read_runs(device_run(), "run.json");
  REQUIRE(read.runs.size() == 1);
  const MeasuredRun& run = read.runs.front();
  CHECK(run.source == "run.json");
  CHECK(run.schedule == "descending");
  CHECK(run.problem.grids == descending().table.problem.grids);
  CHECK(run.problem.heads == 2);
  CHECK(run.kernel ==
        KernelKey{.kernel = "portable", .dtype = "fp32", .head_dim = 4, .tile = {.q = 2, .kv = 2}});
  CHECK_FALSE(run.spins());
  CHECK(run.timing.compute == 5);
  CHECK(run.measured == 1000);
  CHECK(run.elapsed == 2000);
  CHECK(run.orders == hexadecimal(order_digest(descending().table, kNumerics, 4)));
}

TEST_CASE("the order is known of every run that was made, if of one alone, and adds up") {
  for (const std::int32_t repeats : {1, 2, 3}) {
    CHECK(write_run(run_of({.source = descending()}, repeats)).find("\"matches_table\": true") !=
          std::string::npos);
    ExecutionRequest adds_nothing{.source = descending()};
    adds_nothing.mode = gpu::Mode::no_reduce;
    CHECK(write_run(run_of(std::move(adds_nothing), repeats)).find("\"matches_table\": null") !=
          std::string::npos);
  }
}

TEST_CASE("a run of heads that share K and V reads back with its chains") {
  const auto source = [](std::int64_t span, Combine combine) {
    return workbench::source_of(schedules::select("descending"),
                                make_problem(make_mask("causal"), {6, 6}, {2, 2}, 4, 0,
                                             {.heads_kv = 1, .span = span, .combine = combine}));
  };
  const auto text = [&](std::int64_t span, Combine combine) {
    return test::replaced(write_run(run_of({.source = source(span, combine)})),
                          "\"ms\":", "\"makespan_ns\": 1000, \"ms\":");
  };
  for (const std::int64_t span : {1, 2, 4}) {
    for (const Combine combine : {Combine::partials, Combine::ordered}) {
      CAPTURE(span, combine_name(combine));
      const Problem written = source(span, combine).table.problem;
      const MeasuredRuns read = read_runs(text(span, combine), "run.json");
      REQUIRE(read.runs.size() == 1);
      CHECK(read.runs.front().problem.heads_kv == 1);
      CHECK(read.runs.front().problem.span == written.span);
      CHECK(read.runs.front().problem.combine == written.combine);
    }
  }
  const std::string sound = text(2, Combine::partials);
  CHECK(refused(
            test::replaced(sound, "\"span\": 2,\n  \"combine\"", "\"span\": 3,\n  \"combine\"")) ==
        "x: /dkv/span: does not divide the group of 4 heads");
  CHECK(refused(test::replaced(sound, "\"combine\": \"partials\"", "\"combine\": \"none\"")) ==
        "x: /dkv/combine: is 'partials' or 'ordered' where a group has several parts");
}

TEST_CASE("a run on fewer SMs at once says on how many, and none is no number of them") {
  Source source = descending();
  source.model.timing.residency = 3;
  const std::string text = write_run(run_of({.source = std::move(source)}));
  CHECK(refused(test::replaced(text, "\"residency\": 3", "\"residency\": 0"))
            .find("residency: must be an integer from 1") != std::string::npos);
}

TEST_CASE("whatever a run came to, its file is read") {
  const MeasuredRuns cpu = read_runs(write_run(run_of({.source = descending()})), "a");
  CHECK(cpu.skipped == std::vector<std::string>{"a: no makespan was measured: only a GPU's is"});
  const MeasuredRuns atomic =
      read_runs(write_run(run_of({.source = descending(), .mode = gpu::Mode::atomic})), "b");
  CHECK(atomic.skipped == std::vector<std::string>{"b: mode atomic"});
  const MeasuredRuns unjudged =
      read_runs(write_run(run_of({.source = descending(), .reference = Reference::none})), "c");
  CHECK(unjudged.skipped.size() == 1);

  Source hanging = descending();
  use_kv_index_ranks(hanging.table);
  hanging.table.slots.front().rank = 5;
  const MeasuredRuns deadlock = read_runs(write_run(run_of({.source = std::move(hanging)})), "d");
  CHECK(deadlock.skipped == std::vector<std::string>{"d: verdict deadlock"});

  Source broken = descending();
  std::swap(broken.table.slots[5], broken.table.slots[6]);  // two chains are split, and it ends
  const MeasuredRuns invalid = read_runs(write_run(run_of({.source = std::move(broken)})), "e");
  CHECK(invalid.skipped == std::vector<std::string>{"e: verdict invalid"});
}

TEST_CASE("a run by a memory says the draw of its chance, of as many as there are") {
  Source source = descending();
  source.model.timing.memory =
      Memory{.l2 = 4'096, .rate = 5, .tile = {.dq = 64}, .spread = 2, .draw = kMemoryDraws - 1};
  const std::string text = write_run(run_of({.source = std::move(source)}));
  const std::string last = "\"draw\": " + std::to_string(kMemoryDraws - 1);
  CHECK(read_runs(text, "x").skipped.size() + read_runs(text, "x").runs.size() == 1);
  const std::string beyond =
      test::replaced(text, last, "\"draw\": " + std::to_string(kMemoryDraws));
  CHECK(refused(beyond).find("draw: must be an integer from 0 to 63") != std::string::npos);
}

TEST_CASE("a run with dropout says which, and nothing is predicted of it") {
  const gpu::DropoutOptions options{
      .probability = 0.1, .seed = 5, .bits = 16, .mask_bits = gpu::MaskBits::stored};
  const std::string text = write_run(run_of({.source = descending(), .dropout = options}));
  for (const char* words :
       {"\"probability\": 0.1,", "\"dropped\": 0.100006103515625,", "\"threshold\": 58982,",
        "\"bits\": 16,", "\"rounds\": 7,", "\"seed\": 5,", "\"offset\": 0,",
        "\"mask_bits\": \"stored\"", "\"bytes\": 48"}) {
    CAPTURE(words, text);
    CHECK(text.find(words) != std::string::npos);
  }
  CHECK(write_run(run_of({.source = descending()})).find("dropout") == std::string::npos);
  const MeasuredRuns read = read_runs(text, "f");
  CHECK(read.skipped == std::vector<std::string>{"f: dropout: a profile's phases are without"});
  CHECK(refused(test::replaced(text, "\"rounds\"", "\"runds\"")).find("unknown key 'runds'") !=
        std::string::npos);
}

TEST_CASE("a run file's unknown words and keys are errors with their place") {
  const std::string run = device_run();
  const auto says = [&](const std::string& what, const std::string& by, const std::string& words) {
    CAPTURE(what, by);
    const std::string message = refused(test::replaced(run, what, by));
    CAPTURE(message);
    CHECK(message.find(words) != std::string::npos);
  };
  says("\"kind\": \"chain\"", "\"kind\": \"ovrlap\"", "/model/kind: unknown model 'ovrlap'");
  says("\"immediate\"", "\"imediate\"",
       "/model/release: unknown release 'imediate'; did you mean immediate?");
  says("\"latency\"", "\"latncy\"", "/model: unknown key 'latncy'");
  says("\"mode\": \"deterministic\"", "\"mode\": \"deterministc\"", "/mode: unknown mode");
  says("\"verdict\": \"ok\"", "\"verdict\": \"fine\"", "/verdict: unknown verdict 'fine'");
  says("\"dtype\": \"fp32\"", "\"dtype\": \"fp23\"", "/dtype: unknown dtype 'fp23'");
  says("\"static\"", "\"sttic\"", "/schedule/dispatch: unknown dispatch 'sttic'");
  says("\"seed\"", "\"sede\"", "/: unknown key 'sede'");
  says("\"ms\"", "\"milliseconds\"", "/measured: unknown key 'milliseconds'");
  says("\"bubble\"", "\"bubbles\"", "/predicted: unknown key 'bubbles'");
  says("\"heads\"", "\"head\"", "/problem: unknown key 'head'");
  says("\"threads\"", "\"thrads\"", "/device: unknown key 'thrads'");
  says("\"repeats\"", "\"repeat\"", "/bitwise: unknown key 'repeat'");
}

TEST_CASE("braces and quotes within strings end no run") {
  const auto refused = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(read_runs(text, "f"));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string odd = R"({"schema": "}\"}{\\"})";
  CHECK(refused(odd).starts_with("f: /schema"));
  CHECK(refused(odd + "\n" + odd).starts_with("f (1): /schema"));
  CHECK(refused(R"({"a": {"b": "}"}})").starts_with("f: "));
  CHECK(refused(R"({"a": {"b": 1}} {})").starts_with("f (1): "));
  CHECK(refused(R"({"a": 1} x)").starts_with("f (1): "));
  CHECK(refused("").starts_with("f: "));
  CHECK(refused(" \n").starts_with("f: "));
}

TEST_CASE("several runs one after the other are read, each with its number") {
  const MeasuredRuns runs = read_runs(device_run() + device_run(), "two.jsonl");
  REQUIRE(runs.runs.size() == 2);
  CHECK(runs.runs[1].source == "two.jsonl (2)");
}

TEST_CASE("of several times of a run those of a rested device, untimed, count") {
  const std::string run = write_run(run_of({.source = descending()}));
  const auto with = [&](const std::string& measured) {
    return read_runs(test::replaced(run, "\"ms\":", measured + ", \"ms\":"), "x").runs.at(0);
  };
  const MeasuredRun all = with(
      R"("makespan_ns": 11, "untimed_makespan_ns": 12, "rested_makespan_ns": 13, "rested_ms": 0.000014, "untimed_ms": 0.000015)");
  CHECK(all.measured == 13);
  CHECK(all.elapsed == 14);
  const MeasuredRun untimed =
      with(R"("makespan_ns": 11, "untimed_makespan_ns": 12, "untimed_ms": 0.000015)");
  CHECK(untimed.measured == 12);
  CHECK(untimed.elapsed == 15);
  const MeasuredRun stamped = with(R"("makespan_ns": 1)");
  CHECK(stamped.measured == 1);
  CHECK_FALSE(stamped.elapsed.has_value());
  CHECK_FALSE(stamped.predicted.has_value());
  CHECK_FALSE(stamped.predicted_elapsed.has_value());
  CHECK_THROWS_WITH(with(R"("makespan_ns": 0)"), Catch::Contains("/measured/makespan_ns"));
  CHECK(with(R"("makespan_ns": 4611686018427387904)").measured == std::int64_t{1} << 62);
  CHECK_THROWS_WITH(with(R"("makespan_ns": 4611686018427387905)"),
                    Catch::Contains("/measured/makespan_ns"));
  CHECK(with(R"("makespan_ns": 1, "rested_ms": 1e9)").elapsed == 1'000'000'000'000'000);
  CHECK_THROWS_WITH(with(R"("makespan_ns": 1, "rested_ms": 1.1e9)"),
                    Catch::Contains("/measured/rested_ms"));
}

TEST_CASE("what a run says is predicted of it is read, and nothing where it says nothing") {
  const std::string run = device_run();
  const auto with = [&](const std::string& predicted) {
    return read_runs(test::replaced(run, "\"makespan\":", predicted + "\"makespan\":"), "x")
        .runs.at(0);
  };
  const MeasuredRun both = with(R"("last_reduction_ns": 0, "elapsed_ns": 21, )");
  CHECK(both.predicted == 0);
  CHECK(both.predicted_elapsed == 21);
  const MeasuredRun one = with(R"("elapsed_ns": 0, )");
  CHECK_FALSE(one.predicted.has_value());
  CHECK(one.predicted_elapsed == 0);
  CHECK_THROWS_WITH(with(R"("last_reduction_ns": -1, )"),
                    Catch::Contains("/predicted/last_reduction_ns"));
  CHECK_THROWS_WITH(with(R"("elapsed_ns": 4611686018427387905, )"),
                    Catch::Contains("/predicted/elapsed_ns"));
}

TEST_CASE("a run of phases that spin is read with what they spun, a file's with its name") {
  Execution execution = run_of({.source = descending()});
  execution.kernel = &kernel_of("replay");
  execution.tick_ns = 250;
  execution.spun = {.compute = 8, .reduce = 3, .launch = 2};
  const std::string text =
      test::replaced(write_run(execution), "\"ms\":", "\"makespan_ns\": 1000, \"ms\":");
  const MeasuredRun spins = read_runs(text, "x").runs.at(0);
  CHECK(spins.spins());
  CHECK(spins.kernel == KernelKey{.kernel = "replay"});
  CHECK(spins.tick_ns == 250);
  CHECK(spins.spun.compute == 8);
  CHECK(spins.spun.reduce == 3);
  CHECK(spins.spun.launch == 2);
  CHECK(spins.timing.compute == 5);
  CHECK_FALSE(spins.from_file);
  const auto tick = [&](const char* ns) {
    return read_runs(test::replaced(text, "\"tick_ns\": 250", std::string("\"tick_ns\": ") + ns),
                     "x")
        .runs.at(0)
        .tick_ns;
  };
  CHECK(tick("1") == 1);
  CHECK(tick("1000000") == 1'000'000);
  CHECK_THROWS_WITH(tick("0"), Catch::Contains("/tick_ns"));
  CHECK_THROWS_WITH(tick("1000001"), Catch::Contains("/tick_ns"));
  // A run that spins nothing of its own spins as long as its model says.
  const MeasuredRun plain = read_runs(device_run(), "x").runs.at(0);
  CHECK(plain.spun.compute == plain.timing.compute);
  CHECK(plain.spun.reduce == plain.timing.reduce);
  Source file = descending();
  file.selection.reset();
  file.table.name = "mine";
  const MeasuredRun given = read_runs(test::replaced(write_run(run_of({.source = file})),
                                                     "\"ms\":", "\"makespan_ns\": 1000, \"ms\":"),
                                      "x")
                                .runs.at(0);
  CHECK(given.from_file);
  CHECK(given.schedule == "mine");
}

TEST_CASE("a run's keys have the ranges of what they are") {
  const std::string run = device_run();
  const auto read = [&](const std::string& from, const std::string& to) {
    return read_runs(test::replaced(run, from, to), "x").runs.at(0);
  };
  CHECK(read("\"head_dim\": 4", "\"head_dim\": 1").kernel.head_dim == 1);
  CHECK_THROWS_WITH(read("\"head_dim\": 4", "\"head_dim\": 0"), Catch::Contains("/head_dim"));
  CHECK(read("\"dtype\": \"fp32\"", "\"dtype\": \"bf16\"").kernel.dtype == "bf16");
  CHECK(read(" \"dtype\": \"fp32\",\n", "").kernel.dtype ==
        "fp32");  // files before there were others
  CHECK_THROWS_WITH(read("\"kind\": \"cpu\"", "\"kind\": \"gpu\""),
                    Catch::Contains("/device/kind: unknown kind of device 'gpu'"));
}

}  // namespace
}  // namespace stagger::workbench
