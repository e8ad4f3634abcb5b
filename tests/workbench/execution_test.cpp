// Runs on a GPU that there is not: a kernel whose device is the CPU, and notes what it was asked.

#include "workbench/execution.hpp"

#include "core/error.hpp"
#include "gpu/cpu/executor.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/skip.hpp"
#include "workbench/block/overlap.hpp"
#include "workbench/run_file.hpp"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

using gpu::Backward;
using gpu::BackwardOptions;

std::vector<BackwardOptions> given;  ///< to the device, run by run

Backward device(const Table& table, const gpu::Attention& attention,
                const BackwardOptions& options) {
  given.push_back(options);
  Backward run = gpu::backward_on_cpu(table, attention, options);
  run.elapsed_ns = options.stamped ? 1'000 : 800;
  return run;
}

/// Runs as many times untimed as the caller asks for, and takes as long as the warm-ups say.
gpu::UntimedRuns untimed(const Table& table, const gpu::Attention& attention,
                         const BackwardOptions& options, int warmups, int runs) {
  gpu::UntimedRuns all;
  all.last = gpu::backward_on_cpu(table, attention, options);
  all.elapsed_ns.assign(static_cast<std::size_t>(runs), 100 * warmups + runs);
  return all;
}

constexpr Kernel kernel_with(gpu::UntimedDevice untimed_device) {
  return {.name = "fake",
          .summary = "the CPU's",
          .model = Model::chain,
          .on_cpu = gpu::backward_on_cpu,
          .on_cuda = device,
          .untimed = untimed_device,
          .passes = false,
          .cut_partial = false,
          .steps = nullptr};
}
const Kernel kPlain = kernel_with(nullptr);
const Kernel kUntimed = kernel_with(untimed);

Source source_on(const char* schedule, std::int64_t n, std::int64_t sms) {
  return workbench::source_of(schedules::select(schedule),
                              make_problem(make_mask("full"), {2 * n, 2 * n}, {2, 2}, 1, sms));
}

ExecutionRequest request_of(Source source, std::int32_t device_sms, const Kernel& kernel = kPlain) {
  ExecutionRequest request{.source = std::move(source), .kernel = &kernel};
  if (device_sms > 0)
    request.cuda = gpu::CudaDevice{.name = "GPU", .sms = device_sms, .driver = {}};
  request.head_dim = 4;
  request.repeats = 3;
  given.clear();
  return request;
}

TEST_CASE("beside right runs on a GPU untimed ones are played, as the kernel has them") {
  const Execution plain = execute(request_of(source_on("shift", 4, 4), 4));
  CHECK(plain.device == "GPU");
  CHECK(std::string(plain.verdict()) == "ok");
  REQUIRE(given.size() == 3 + 5);
  for (std::size_t run = 0; run < given.size(); ++run)
    CHECK(given[run].stamped == (run < 3));
  CHECK(given[0].keep_partials);
  CHECK(plain.runs->median_ns == 1'000);
  CHECK(plain.runs->untimed_median_ns == 800);
  CHECK(stamp_overhead(plain) == 0.25);
  CHECK(plain.flops == 5 * 2.0 * 8 * 8 * 4);
  CHECK_FALSE(untimed_makespan(plain, plain.runs->untimed_median_ns)
                  .has_value());  // no untimed run just before the kept one

  const Execution own = execute(request_of(source_on("shift", 4, 4), 4, kUntimed));
  CHECK(given.size() == 3);
  CHECK(own.runs->untimed_median_ns == 520);

  const Execution on_cpu = execute(request_of(source_on("shift", 4, 4), 0));
  CHECK(given.empty());
  CHECK_FALSE(on_cpu.runs->untimed_median_ns.has_value());
  CHECK_FALSE(stamp_overhead(on_cpu).has_value());
  CHECK_FALSE(untimed_makespan(on_cpu, on_cpu.runs->untimed_median_ns).has_value());
}

TEST_CASE("no untimed run is played after runs that were wrong or cut short") {
  ExecutionRequest request = request_of(source_on("ascending", 4, 4), 4);
  request.stop = [] { return given.size() == 2; };
  const Execution cut = execute(std::move(request));
  CHECK(cut.cut_short);
  CHECK(given.size() == 2);
  CHECK(cut.runs->repeats == 2);
  CHECK(cut.repeats == 3);
  CHECK_FALSE(cut.runs->untimed_median_ns.has_value());

  ExecutionRequest wrong = request_of(source_on("ascending", 4, 4), 4);
  Kernel spoils = kPlain;
  spoils.on_cuda = [](const Table& table, const gpu::Attention& attention,
                      const BackwardOptions& options) {
    Backward run = device(table, attention, options);
    run.gradients.dk[3] += 1;
    return run;
  };
  wrong.kernel = &spoils;
  const Execution mismatch = execute(std::move(wrong));
  CHECK(std::string(mismatch.verdict()) == "mismatch");
  CHECK(given.size() == 3);
  CHECK_FALSE(mismatch.stopped());
}

TEST_CASE("no more lanes are resident than the GPU has SMs, and who needs more is refused") {
  const Execution fits = execute(request_of(source_on("lpt-ascending", 4, 4), 3));
  CHECK(fits.options.residency == 3);
  CHECK(fits.analysis.model.timing.residency == 3);
  CHECK(std::string(fits.verdict()) == "ok");

  const Execution refused = execute(request_of(source_on("shift", 4, 4), 3));
  CHECK(refused.refused == "the table needs 4 CTAs resident at once; GPU holds 3, one an SM");
  CHECK(std::string(refused.verdict()) == "refused");
  CHECK_FALSE(refused.runs.has_value());
  CHECK_FALSE(refused.stopped());
  CHECK(given.empty());
  CHECK(execute(request_of(source_on("shift", 4, 4), 4)).refused.empty());
}

TEST_CASE("heads with masks of their own are run by threads, and by no GPU's kernel") {
  const Source source = workbench::source_of(
      schedules::select("ascending"),
      make_problem(parse_mask("heads:heads=0+1+1; causal; full"), {8, 8}, {2, 2}, 3, 4));
  CHECK_THROWS_WITH(execute(request_of(source, 4)),
                    "the fake kernel on a GPU does not know heads with masks of their own yet: "
                    "give one mask for all heads, or run them on threads (`--device cpu`)");
  CHECK(given.empty());
  const Execution execution = execute(request_of(source, 0));
  CHECK(std::string(execution.verdict()) == "ok");
  CHECK(execution.assumed_tiles() == 0);
}

TEST_CASE("a mask of more bits than a GPU's kernels take is refused there") {
  std::vector<std::int64_t> q;
  std::vector<std::int64_t> kv;
  // Two queries of each Q tile, and not the one between them, see the first key of each KV tile.
  for (std::int64_t query = 0; query < 1'025 * 64; query += 2) {
    if (query % 64 > 2) continue;
    for (std::int64_t key = 0; key < 1'024 * 128; key += 128) {
      q.insert(q.end(), {query, query + 1});
      kv.insert(kv.end(), {key, key + 1});
    }
  }
  const Source source = workbench::source_of(
      schedules::select("ascending"), make_problem(make_mask("slices", {{"q", q}, {"kv", kv}}),
                                                   {1'025 * 64, 1'024 * 128}, {64, 128}, 1, 1));
  CHECK(
      test::message_of([&] { static_cast<void>(execute(request_of(source, 1))); }, ErrorKind::limit)
          .starts_with("of 1049600 tiles a key is seen by several ranges of queries"));
}

TEST_CASE("a run says of how many tiles it assumed the pairs, in all heads") {
  const auto assumed = [](const char* mask, TileShape shape) {
    const Execution execution = execute(
        request_of(workbench::source_of(
                       schedules::select("ascending"),
                       make_problem(parse_mask(mask), {2 * shape.q, 2 * shape.kv}, shape, 4, 4)),
                   0));
    const std::string file = write_run(execution);
    CHECK(std::string(execution.verdict()) == "ok");
    CHECK((file.find("\"assumed\"") != std::string::npos) == (execution.assumed_tiles() > 0));
    CHECK_NOTHROW(read_runs(file, "run.json"));
    return execution.assumed_tiles();
  };
  CHECK(assumed("causal", {2, 2}) == 0);
  CHECK(assumed("tiles:rows=ff+.f", {2, 2}) == 0);
  CHECK(assumed("tiles:rows=pf+.p", {2, 2}) == 2 * 4);
  CHECK(assumed("tiles:rows=pf+.p", {1, 1}) == 0);  // the only pair attends
  CHECK(assumed("heads:heads=0+1; tiles:rows=pf+pp; causal", {2, 2}) == 3 * 2);
  CHECK(assumed("tiles:rows=pf+pf & tiles:rows=f.+.p", {2, 2}) == 2 * 4);
  CHECK(assumed("tiles:rows=pf+fp | full", {2, 2}) == 0);
}

TEST_CASE("a table that is no table of its problem is not run, one with wrong ranks is") {
  Source twice = source_on("ascending", 3, 3);
  twice.table.slots[1] = twice.table.slots[0];
  const Execution invalid = execute(request_of(std::move(twice), 3));
  CHECK(given.empty());
  CHECK_FALSE(invalid.runs.has_value());
  CHECK(invalid.verdict() == std::string("deadlock"));  // as another task's rank never comes

  Source ranks = source_on("ascending", 3, 3);
  ranks.table.slots[8].rank = 7;  // the last of all
  const Execution stopped = execute(request_of(std::move(ranks), 3));
  REQUIRE(stopped.stopped());
  CHECK(std::string(stopped.verdict()) == "deadlock");
  CHECK(why_stopped(stopped) == "nothing can move any more; 1 of 9 tasks has not reduced");
  REQUIRE(hanging_tiles(stopped).size() == 1);
  CHECK(hanging_tiles(stopped)[0].q == QTile{2});

  ranks = source_on("ascending", 3, 3);
  ranks.table.slots[7].rank = 7;
  Execution two = execute(request_of(std::move(ranks), 3));
  CHECK(why_stopped(two) == "nothing can move any more; 2 of 9 tasks have not reduced");
  two.runs->verdict = gpu::RunVerdict::timeout;
  CHECK(why_stopped(two) ==
        "a task waited for its turn for more than 10000 ms; 2 of 9 tasks have not reduced");
}

TEST_CASE("a run that lacks parts of dK and dV says of how many KV tiles") {
  Source source;
  source.table.problem = make_problem(make_mask("full"), {2, 2}, {2, 2}, 2, 1,
                                      {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  source.table.slots = {{{Head{1}, KvTile{0}, QTile{0}}, 0}, {{Head{0}, KvTile{0}, QTile{0}}, 0}};
  source.table.end_lane();
  const Execution one = execute(request_of(source, 0));
  CHECK(why_stopped(one) ==
        "nothing can move any more; 1 of 2 tasks has not reduced, and dK and dV of 1 KV tile lacks "
        "parts");
  REQUIRE(hanging_dkv_tiles(one).size() == 1);
  source.table.problem = make_problem(make_mask("full"), {2, 4}, {2, 2}, 2, 1,
                                      {.heads_kv = 1, .span = 1, .combine = Combine::ordered});
  source.table.slots.push_back({{Head{1}, KvTile{1}, QTile{0}}, 1});
  source.table.slots.push_back({{Head{0}, KvTile{1}, QTile{0}}, 1});
  source.table.lane_begin.back() = 4;
  CHECK(why_stopped(execute(request_of(source, 0))) ==
        "nothing can move any more; 3 of 4 tasks have not reduced, and dK and dV of 2 KV tiles "
        "lack parts");
}

TEST_CASE("progress is told phase by phase") {
  std::vector<std::pair<std::string, double>> told;
  ExecutionRequest request = request_of(source_on("ascending", 3, 3), 3);
  request.progress = [&](const char* what, double fraction) { told.emplace_back(what, fraction); };
  static_cast<void>(execute(std::move(request)));
  REQUIRE(told.size() == 7);
  CHECK(told[0] == std::pair<std::string, double>("analysing the table", 0));
  for (const std::size_t index : {1U, 2U})
    CHECK(told[index].first == "computing what the gradients should be");
  CHECK(told[1].second < told[2].second);
  for (const std::size_t index : {3U, 4U, 5U}) {
    CHECK(told[index].first == "running");
    CHECK(told[index].second == Approx(static_cast<double>(index - 3) / 3));
  }
  CHECK(told[6] == std::pair<std::string, double>("playing untimed runs", 0));
}

TEST_CASE("that runs begin is told once, and not where none does") {
  int begun = 0;
  const auto execution_of = [&](Source source) {
    ExecutionRequest request = request_of(std::move(source), 3);
    request.begins = [&] { ++begun; };
    request.tick_ns = 700;
    return execute(std::move(request));
  };
  CHECK(execution_of(source_on("ascending", 3, 3)).tick_ns == 700);
  CHECK(begun == 1);
  Source broken = source_on("ascending", 3, 3);
  broken.table.slots[0].task = broken.table.slots[1].task;
  CHECK_FALSE(execution_of(std::move(broken)).runs);
  CHECK(begun == 1);
}

TEST_CASE("partials that are too large are done without beside a GPU, and said to be") {
  // 4,097 tasks of 512 x 512 numbers: a task more than 4 GiB of partials.
  const auto source = [](std::int64_t n_kv) {
    return workbench::source_of(
        schedules::select("ascending"),
        make_problem(make_mask("full"), {512, n_kv}, {.q = 512, .kv = 1}, 1, n_kv));
  };
  Kernel nothing = kPlain;
  nothing.on_cuda = [](const Table& table, const gpu::Attention&, const BackwardOptions& options) {
    given.push_back(options);
    Backward run;
    run.witness.assign(table.slots.size(), -1);
    return run;
  };
  for (const std::int64_t n_kv : {4'096, 4'097}) {
    ExecutionRequest request = request_of(source(n_kv), static_cast<std::int32_t>(n_kv), nothing);
    request.head_dim = 512;
    request.reference = Reference::none;
    const Execution execution = execute(std::move(request));
    CAPTURE(n_kv);
    CHECK(execution.lost_partials == (n_kv > 4'096 ? n_kv << 20 : 0));
    REQUIRE_FALSE(given.empty());
    CHECK(given.front().keep_partials == (n_kv == 4'096));
  }
  ExecutionRequest without = request_of(source(4'097), 4'097, nothing);
  without.head_dim = 512;
  without.reference = Reference::none;
  without.adds_partials = false;
  CHECK(execute(std::move(without)).lost_partials == 0);
  CHECK_FALSE(given.front().keep_partials);
}

std::string refused(ExecutionRequest request) {
  try {
    static_cast<void>(execute(std::move(request)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("runs beyond the memory that is stated are refused before it is asked for") {
  const auto source = [](std::int64_t heads) {
    return workbench::source_of(
        schedules::select("ascending"),
        make_problem(make_mask("full"), {1 << 16, 1 << 16}, {1 << 13, 1 << 13}, heads, 8));
  };
  ExecutionRequest on_cpu = request_of(source(2), 0);
  on_cpu.head_dim = 512;
  const Table& table = on_cpu.source.table;
  const std::int64_t bytes =
      gpu::run_bytes(table, gpu::attention_shape(table.problem, 512), {.keep_partials = true});
  char about[64];
  std::snprintf(about, sizeof about, "about %.1f GiB", static_cast<double>(bytes) / 0x1p30);
  const std::string words = refused(std::move(on_cpu));
  CHECK(words.find(about) != std::string::npos);
  CHECK(words.find(", head_dim 512: a checked run takes about ") != std::string::npos);
  CHECK(words.ends_with(" GiB; the limit is 4 GiB"));
  ExecutionRequest on_gpu = request_of(source(16), 8);
  on_gpu.head_dim = 512;
  CHECK(refused(std::move(on_gpu)).ends_with(" GiB; the limit is 32 GiB"));
}

TEST_CASE("the memory that a run takes is said in tenths of a GiB, the nearest") {
  int below = 0;
  int above = 0;
  for (std::int64_t heads = 4; heads <= 16; ++heads) {
    ExecutionRequest request = request_of(
        workbench::source_of(
            schedules::select("ascending"),
            make_problem(make_mask("full"), {1 << 16, 1 << 16}, {1 << 15, 1 << 15}, heads, 2)),
        0);
    request.head_dim = 200 + 17 * heads;
    const Table& table = request.source.table;
    const std::int64_t bytes = gpu::run_bytes(
        table, gpu::attention_shape(table.problem, request.head_dim), {.keep_partials = true});
    const std::int64_t tenths = 10 * bytes / (std::int64_t{1} << 30);
    const bool up = 20 * bytes - tenths * (std::int64_t{2} << 30) >= std::int64_t{1} << 30;
    const std::int64_t said = tenths + (up ? 1 : 0);
    const std::string about =
        "about " + std::to_string(said / 10) + "." + std::to_string(said % 10) + " GiB";
    CAPTURE(heads, bytes);
    CHECK(refused(std::move(request)).find(about) != std::string::npos);
    (up ? above : below) += 1;
  }
  CHECK(below >= 2);
  CHECK(above >= 2);
}

TEST_CASE("heads with masks of their own are run on threads, and refused beside a GPU") {
  const auto request = [](std::int32_t device_sms) {
    return request_of(
        workbench::source_of(schedules::select("ascending"),
                             make_problem(parse_mask("heads; causal; full"), {6, 6}, {2, 2}, 2, 3)),
        device_sms);
  };
  CHECK(execute(request(0)).verdict() == std::string("ok"));
  CHECK(refused(request(3)) ==
        "the fake kernel on a GPU does not know heads with masks of their own yet: give one mask "
        "for all heads, or run them on threads (`--device cpu`)");
}

TEST_CASE("a run has the threads that are asked for, and those that suit it if none are") {
  for (const std::int32_t threads : {0, 1, 3, 5}) {
    ExecutionRequest request = request_of(source_on("ascending", 3, 3), 0);
    request.threads = threads;
    const Execution execution = execute(std::move(request));
    const std::int32_t suits = gpu::default_threads(execution.analysis.table, {});
    CHECK(execution.options.threads == (threads == 0 ? suits : threads));
  }
}

TEST_CASE("the problem of a run with dropout has its bits, whether it is judged or not") {
  const Problem problem = make_problem(make_mask("full"), {8, 8}, {4, 4}, 1, 2);
  const gpu::AttentionShape shape = gpu::attention_shape(problem, 4);
  const gpu::DropoutOptions half{.probability = 0.5};
  for (const Reference reference : {Reference::none, Reference::host}) {
    const auto judged = [&](const std::optional<gpu::DropoutOptions>& dropout) {
      return judged_problem(problem, shape, 1, reference, false, {}, dropout);
    };
    const JudgedProblem without = judged(std::nullopt);
    const JudgedProblem with = judged(half);
    CHECK_FALSE(without.attention.dropout.has_value());
    CHECK(with.attention.dropout.has_value());
    REQUIRE(with.exact.has_value() == (reference == Reference::host));
    if (with.exact) CHECK(with.exact->dv.values != without.exact->dv.values);
  }
}

TEST_CASE("stored bits of dropout count as memory, and a rule is what `overlap` says of it") {
  Source wide = workbench::source_of(
      schedules::select("ascending"),
      make_problem(make_mask("full"), {1 << 18, 1 << 18}, {1 << 18, 1 << 18}, 1, 1));
  ExecutionRequest request = request_of(std::move(wide), 0);
  request.head_dim = 1;
  request.adds_partials = false;
  request.dropout = gpu::DropoutOptions{.probability = 0.1, .mask_bits = gpu::MaskBits::stored};
  // 2^36 bits are 8 GiB.
  CHECK(refused(std::move(request)).find("a checked run takes about 8.") != std::string::npos);
  for (const int bits : {8, 16, 32}) {
    for (const double probability : {0.0, 0.05, 0.1, 0.5, 0.9, 0.999}) {
      const block::Representable can = block::representable(probability, bits);
      const gpu::DropoutRule rule = gpu::dropout_rule({.probability = probability, .bits = bits});
      CHECK(rule.threshold == static_cast<std::uint64_t>(can.threshold));
      CHECK(gpu::kept_part(rule) == can.kept);
    }
  }
}

TEST_CASE("beside a GPU large problems are judged by it, unless somebody says otherwise") {
  if (gpu::has_cuda() && test::skipped("this build has CUDA")) return;
  // 2^28 pairs of tokens times head_dim, and a few more.
  const auto request = [](std::int64_t seq_kv, std::int32_t device_sms) {
    Source source = workbench::source_of(
        schedules::select("ascending"),
        make_problem(make_mask("full"), {1 << 13, seq_kv}, {1 << 10, 1 << 10}, 1, 9));
    ExecutionRequest large = request_of(std::move(source), device_sms);
    large.repeats = 1;
    return large;
  };
  CHECK(refused(request((1 << 13) + 1, 9)) == "this build has no CUDA");
  ExecutionRequest device_reference = request_of(source_on("ascending", 3, 3), 3);
  device_reference.reference = Reference::device;
  CHECK(refused(std::move(device_reference)) == "this build has no CUDA");
}

TEST_CASE(
    "an untimed makespan is the untimed median less what the kept run took around its tasks") {
  Execution execution = execute(request_of(source_on("ascending", 3, 3), 3));
  gpu::CheckedRuns& runs = *execution.runs;
  for (std::size_t slot = 0; slot < runs.run.times.size(); ++slot) {
    const auto start = static_cast<std::int64_t>(10 * slot);
    runs.run.times[slot] = {start, start + 4, start + 5, start + 9};
  }
  CHECK(measured_makespan(execution) == 89);
  runs.run.elapsed_ns = 1'000;
  runs.run.untimed_ns = 900;
  runs.untimed_median_ns = 950;
  CHECK(untimed_makespan(execution, execution.runs->untimed_median_ns) == 950 - (1'000 - 89));
  CHECK(stamp_overhead(execution) == 1'000.0 / 900 - 1);
  runs.untimed_median_ns = 500;
  CHECK(untimed_makespan(execution, execution.runs->untimed_median_ns) == 1);
  runs.run.untimed_ns = 0;
  runs.median_ns = 600;
  CHECK_FALSE(untimed_makespan(execution, execution.runs->untimed_median_ns).has_value());
  CHECK(stamp_overhead(execution) == 600.0 / 500 - 1);
  runs.untimed_median_ns = 0;
  CHECK_FALSE(stamp_overhead(execution).has_value());
}

TEST_CASE("a prediction is judged where a profile speaks of the run") {
  Source source = source_on("ascending", 3, 3);
  source.model.clock = Clock::ns;
  source.model.start = 70;
  source.model.passes = 9;
  Execution execution = execute(request_of(std::move(source), 3));
  CHECK(execution.is_predicted());
  CHECK(predicted_elapsed(execution.analysis) == 70 + 9 + execution.analysis.makespan);
  Execution other = execution;
  other.cuda.reset();
  CHECK_FALSE(other.is_predicted());
  other = execution;
  other.analysis.model.clock = Clock::ticks;
  CHECK_FALSE(other.is_predicted());
  other = execution;
  other.options.mode = gpu::Mode::atomic;
  CHECK_FALSE(other.is_predicted());
  other = execution;
  other.dropout = gpu::DropoutOptions{.probability = 0.1};
  CHECK_FALSE(other.is_predicted());
  other = execution;
  other.runs->median_ns = 1;
  CHECK(other.is_predicted());
  other.runs->median_ns = 0;
  CHECK_FALSE(other.is_predicted());
  other.runs.reset();
  CHECK_FALSE(other.is_predicted());
  other = execution;
  other.analysis.verification.verdict = dag::Verdict::invalid;
  CHECK_FALSE(other.is_predicted());
  CHECK(error_of(100, 80) == 0.25);
  CHECK(error_of(60, 80) == -0.25);
  CHECK(error_of(5, 0) == 4);
}

}  // namespace
}  // namespace stagger::workbench
