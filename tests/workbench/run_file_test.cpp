#include "workbench/run_file.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"

#include <utility>

namespace stagger::workbench {
namespace {

Execution run_of(ExecutionRequest request) {
  request.kernel = &kernels().front();
  request.head_dim = 4;
  request.repeats = 2;
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
  CHECK(run.problem.grid == descending().table.problem.grid);
  CHECK(run.problem.heads == 2);
  CHECK(run.kernel ==
        KernelKey{.kernel = "portable", .dtype = "fp32", .head_dim = 4, .tile = {.q = 2, .kv = 2}});
  CHECK_FALSE(run.spins());
  CHECK(run.timing.compute == 5);
  CHECK(run.measured == 1000);
  CHECK(run.elapsed == 2000);
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
}

TEST_CASE("several runs one after the other are read, each with its number") {
  const MeasuredRuns runs = read_runs(device_run() + device_run(), "two.jsonl");
  REQUIRE(runs.runs.size() == 2);
  CHECK(runs.runs[1].source == "two.jsonl (2)");
}

}  // namespace
}  // namespace stagger::workbench
