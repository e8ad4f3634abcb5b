// Designs on devices with one thing wrong, and beside a GPU that threads stand in for: what a run
// is told to do is counted call by call.

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "workbench/designs/execution.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace stagger::designs {
namespace {

using Spoil = void (*)(gpu::ProgramRun& run, std::int64_t number);
using Tensor = std::vector<float> gpu::Gradients::*;

// Devices are plain functions: what the next one does, and what it was told.
Spoil spoils = nullptr;
Tensor spoiled = nullptr;
double spoiled_by = 0;
std::vector<gpu::ProgramOptions> told;

constexpr std::pair<const char*, Tensor> kTensors[] = {
    {"dQ", &gpu::Gradients::dq}, {"dK", &gpu::Gradients::dk}, {"dV", &gpu::Gradients::dv}};

gpu::ProgramRun spoiled_device(const gpu::Program& program, const gpu::Attention& attention,
                               const gpu::ProgramOptions& options) {
  told.push_back(options);
  gpu::ProgramRun run = gpu::program_on_cpu(program, attention, options);
  spoils(run, std::ssize(told) - 1);
  return run;
}

/// A device that computes nothing: what is said of a run without runs.
gpu::ProgramRun idle_device(const gpu::Program& program, const gpu::Attention&,
                            const gpu::ProgramOptions& options) {
  told.push_back(options);
  gpu::ProgramRun run;
  run.witness = gpu::order_of(program).added;
  return run;
}

gpu::ProgramRun no_device(const gpu::Program&, const gpu::Attention&, const gpu::ProgramOptions&) {
  throw Error(ErrorKind::device, "the other device was asked");
}

ExecutionRequest asked(gpu::Dtype dtype = gpu::Dtype::fp32) {
  return {.selection = select("split:buffers=2"),
          .request = {.problem = make_problem(make_mask("causal"), {24, 24}, {4, 4}, 2, 3),
                      .head_dim = 8},
          .on_cpu = spoiled_device,
          .on_cuda = no_device,
          .dtype = dtype,
          .repeats = 4,
          .threads = 2};
}

ExecutionRequest on_stand_in(ExecutionRequest request) {
  request.cuda = gpu::CudaDevice{.name = "a stand-in", .sms = 3, .driver = "0"};
  std::swap(request.on_cpu, request.on_cuda);
  return request;
}

Execution spoiled_run(const ExecutionRequest& request, Spoil spoil) {
  spoils = spoil;
  told.clear();
  return execute(request);
}

void expect_fault(const Execution& execution, const std::string& kind, const std::string& message) {
  CHECK(execution.verdict() == std::string(kind == "stopped" ? "timeout" : "mismatch"));
  CHECK_FALSE(execution.ok());
  REQUIRE(execution.faults.size() == 1);
  CHECK(execution.faults[0].kind == kind);
  CHECK(execution.faults[0].message == message);
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values)
    most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

const gpu::Deviation& error_of(const Execution& execution, Tensor tensor) {
  if (tensor == &gpu::Gradients::dq) return *execution.errors->dq;
  return tensor == &gpu::Gradients::dk ? execution.errors->dk : execution.errors->dv;
}

std::string two_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

std::string off_words(const char* name, const gpu::Deviation& error, double bound) {
  return std::string(name) + " is " + two_digits(error.frobenius) + " (at worst " +
         two_digits(error.most) + ") from the reference; it is held to " + two_digits(bound);
}

TEST_CASE("one bit of one run is noticed in every gradient of a design, and the run is named") {
  for (const auto& [name, tensor] : kTensors) {
    CAPTURE(name);
    spoiled = tensor;
    const Execution execution = spoiled_run(asked(), [](gpu::ProgramRun& run, std::int64_t number) {
      float& element = (run.gradients.*spoiled)[11];
      if (number >= 2) element = std::nextafter(element, 100.0F);
    });
    expect_fault(execution, "bits", "run 3 gives other bits than the first");
    CHECK_FALSE(execution.identical);
    CHECK(execution.order_matches);
    CHECK(execution.reaccumulated == true);
    CHECK(execution.repeats == 4);
  }
  // The last bit of a sum that a 16-bit dQ does not show.
  const Execution sums =
      spoiled_run(asked(gpu::Dtype::bf16), [](gpu::ProgramRun& run, std::int64_t number) {
        if (number == 1) run.dq_sums[57] = std::nextafter(run.dq_sums[57], 100.0F);
      });
  expect_fault(sums, "bits", "run 2 gives other bits than the first");
}

TEST_CASE("a design's order that is wrong in some run is noticed once, whatever the bits") {
  for (const std::int64_t first_wrong : {0, 2}) {
    static std::int64_t wrong_from = 0;
    wrong_from = first_wrong;
    const Execution execution = spoiled_run(asked(), [](gpu::ProgramRun& run, std::int64_t number) {
      if (number < wrong_from) return;
      const auto two = std::ranges::find_if(
          run.witness, [](const std::vector<KvTile>& added) { return added.size() >= 2; });
      std::swap((*two)[0], (*two)[1]);
    });
    expect_fault(execution, "order", "dQ was added in another order than the design's");
    CHECK_FALSE(execution.order_matches);
    CHECK(execution.identical);
    CHECK(execution.repeats == 4);
  }
}

TEST_CASE("sums that are not those of a design's partials are noticed though all runs have them") {
  const std::string message =
      "the run's own dQ partials, added in the design's order, give other bits than dQ";
  const Execution sums =
      spoiled_run(asked(gpu::Dtype::fp16), [](gpu::ProgramRun& run, std::int64_t) {
        run.dq_sums[57] = std::nextafter(run.dq_sums[57], 100.0F);
      });
  expect_fault(sums, "reaccumulation", message);
  CHECK(sums.reaccumulated == false);
  CHECK(sums.identical);
  ExecutionRequest request = asked();
  const auto lose = [](gpu::ProgramRun& run, std::int64_t) {
    run.gradients.dq[57] = std::nextafter(run.gradients.dq[57], 100.0F);
  };
  expect_fault(spoiled_run(request, lose), "reaccumulation", message);
  request.adds_partials = false;
  const Execution trusted = spoiled_run(request, lose);
  CHECK(trusted.ok());
  CHECK_FALSE(trusted.reaccumulated.has_value());
}

TEST_CASE("an element of a design that is off, and a norm that is, are wrong gradients") {
  static gpu::Gradients right;
  ExecutionRequest request = asked();
  request.adds_partials = false;
  const Execution sound =
      spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t) { right = run.gradients; });
  REQUIRE(sound.ok());
  const gpu::Digests digests = gpu::digests(right);
  CHECK(sound.digests.dq == digests.dq);
  CHECK(sound.digests.dk == digests.dk);
  CHECK(sound.digests.dv == digests.dv);
  CHECK(digests.dk != digests.dv);
  for (const auto& [name, tensor] : kTensors) {
    CAPTURE(name);
    spoiled = tensor;
    spoiled_by = 3 * sound.bound * largest(right.*tensor);
    const Execution element = spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t) {
      (run.gradients.*spoiled)[40] += static_cast<float>(spoiled_by);
    });
    CHECK(error_of(element, tensor).frobenius < sound.bound);
    CHECK(error_of(element, tensor).most > sound.bound);
    expect_fault(element, "gradient", off_words(name, error_of(element, tensor), sound.bound));
    spoiled_by = 0.7 * sound.bound * largest(right.*tensor);
    const Execution norm = spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t) {
      for (float& each : run.gradients.*spoiled)
        each += static_cast<float>(spoiled_by);
    });
    CHECK(error_of(norm, tensor).frobenius > sound.bound);
    CHECK(error_of(norm, tensor).most < sound.bound);
    expect_fault(norm, "gradient", off_words(name, error_of(norm, tensor), sound.bound));
    const Execution none = spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t) {
      (run.gradients.*spoiled)[3] = std::nanf("");
    });
    REQUIRE(none.faults.size() == 1);
    CHECK(none.faults[0].message.starts_with(std::string(name) + " is "));
  }
  // Nobody judges what is not to be judged.
  request.reference = workbench::Reference::none;
  CHECK(spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t) {
          run.gradients.dk[40] += 1;
        }).ok());
}

TEST_CASE("a run of a design that is stopped is the last, and those before it are judged") {
  ExecutionRequest request = asked();
  request.timeout = std::chrono::milliseconds(123'456);
  const Execution execution = spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t number) {
    if (number == 2) run.outcome = gpu::Outcome::timeout;
  });
  expect_fault(execution, "stopped",
               "a run took longer than 123456 ms, after 2 runs that finished");
  CHECK(execution.timed_out);
  CHECK(execution.repeats == 2);
  CHECK(execution.errors.has_value());
  CHECK(told.size() == 3);
  CHECK(told[0].timeout == std::chrono::milliseconds(123'456));
}

TEST_CASE("beside a GPU checked runs come first, then one to warm up and five that are timed") {
  ExecutionRequest request = on_stand_in(asked(gpu::Dtype::bf16));
  request.perturb = 9;
  int begun = 0;
  request.begins = [&] { ++begun; };
  std::vector<std::string> said;
  request.progress = [&](const char* what, double) {
    if (said.empty() || said.back() != what) said.emplace_back(what);
  };
  const auto spoil = [](gpu::ProgramRun& run, std::int64_t number) {
    constexpr std::int64_t kTook[] = {500, 20, 90, 60, 700, 10, 50, 30, 90, 20};
    run.elapsed_ns = kTook[number];
  };
  const Execution execution = spoiled_run(request, spoil);
  REQUIRE(told.size() == 4 + 1 + 5);
  for (std::size_t run = 0; run < told.size(); ++run) {
    CAPTURE(run);
    CHECK(told[run].witnessed == (run < 4));
    CHECK(told[run].keep_partials == (run == 0));
    CHECK(told[run].dtype == gpu::Dtype::bf16);
    CHECK(told[run].timeout == gpu::kLongestProgram);
    CHECK(told[run].perturb.has_value() == (run >= 1 && run < 4));
    if (told[run].perturb) CHECK(*told[run].perturb == 9 + run - 1);
  }
  CHECK(execution.ok());
  CHECK(execution.device == "a stand-in");
  CHECK(execution.median_ns == 500);  // the only one without delays
  CHECK(execution.untimed_median_ns == 30);
  CHECK(begun == 1);
  CHECK(said.back() == "playing untimed runs");
  request.perturb.reset();
  request.timeout = std::chrono::milliseconds(98'765);
  const Execution still = spoiled_run(request, spoil);
  CHECK(still.median_ns == 90);  // of 500, 20, 90 and 60 the upper of the two in the middle
  CHECK(still.timeout == std::chrono::milliseconds(98'765));
  for (const gpu::ProgramOptions& options : told) {
    CHECK_FALSE(options.perturb.has_value());
    CHECK(options.timeout == std::chrono::milliseconds(98'765));
  }
}

TEST_CASE("runs are not timed on threads, after a fault or where there was no time for all") {
  const auto sound = [](gpu::ProgramRun&, std::int64_t) {};
  CHECK_FALSE(spoiled_run(asked(), sound).untimed_median_ns.has_value());
  REQUIRE(told.size() == 4);
  CHECK(told[0].timeout.count() == 0);  // nor are they stopped
  ExecutionRequest request = on_stand_in(asked());
  CHECK_FALSE(spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t number) {
                if (number == 3) run.gradients.dv[0] += 1;
              }).untimed_median_ns.has_value());
  CHECK(told.size() == 4);
  request.stop = [] { return told.size() == 2; };
  const Execution cut = spoiled_run(request, sound);
  CHECK(cut.cut_short);
  CHECK(cut.repeats == 2);
  CHECK(told.size() == 2);
  request.stop = {};
  request.repeats = 0;
  const Execution none = spoiled_run(request, sound);
  CHECK(none.ok());
  CHECK_FALSE(none.errors.has_value());
  CHECK(told.empty());
}

TEST_CASE("what a timed run leaves is held to the first run's bits, and it can be stopped") {
  const ExecutionRequest request = on_stand_in(asked());
  const Execution other = spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t number) {
    if (number == 9) run.gradients.dk[2] = std::nextafter(run.gradients.dk[2], 100.0F);
  });
  expect_fault(other, "bits", "an untimed run gives other bits than the first");
  CHECK_FALSE(other.identical);
  const Execution stopped = spoiled_run(request, [](gpu::ProgramRun& run, std::int64_t number) {
    if (number == 6) run.outcome = gpu::Outcome::timeout;
  });
  expect_fault(stopped, "stopped", "a run took longer than 60000 ms, after 4 runs that finished");
  CHECK(told.size() == 7);
  CHECK_FALSE(stopped.untimed_median_ns.has_value());
}

/// A problem whose tasks have 2 MiB of partials each, so that 2048 of them are as many as are kept.
ExecutionRequest heavy(std::int64_t tasks) {
  ExecutionRequest request = asked();
  request.request.problem = make_problem(make_mask("full"), {4096, tasks}, {4096, 1}, 1, 4);
  request.request.head_dim = 128;
  request.reference = workbench::Reference::none;
  request.on_cpu = idle_device;
  request.repeats = 1;
  return request;
}

TEST_CASE("partials that are too large are done without beside a GPU, and refused on threads") {
  told.clear();
  const Execution most = execute(on_stand_in(heavy(2048)));
  CHECK(most.lost_partials == 0);
  CHECK(told.at(0).keep_partials);
  told.clear();
  const Execution lost = execute(on_stand_in(heavy(2049)));
  CHECK(lost.lost_partials == 2049 * std::int64_t{1 << 21});
  CHECK_FALSE(told.at(0).keep_partials);
  CHECK_THROWS_WITH(execute(heavy(2049)),
                    Catch::Contains(", head_dim 128: a checked run takes more than 4 GiB"));
  ExecutionRequest without = heavy(2049);
  without.adds_partials = false;
  CHECK(execute(without).lost_partials == 0);
  told.clear();
  CHECK(execute(on_stand_in(without)).lost_partials == 0);
  CHECK_FALSE(told.at(0).keep_partials);
}

TEST_CASE("a run beside a GPU that takes more than the host has, or more bits, is a limit") {
  ExecutionRequest request = on_stand_in(heavy(1));
  constexpr std::int64_t kLong = std::int64_t{1} << 26;
  request.request.problem = make_problem(make_mask("full"), {kLong, 64}, {kLong, 64}, 1, 1);
  CHECK_THROWS_WITH(execute(request), Catch::Contains("takes more than 32 GiB"));
  constexpr std::int64_t kSide = std::int64_t{1} << 17;
  request.request.head_dim = 1;
  request.request.problem =
      make_problem(parse_mask("sliding:left=1,right=0 | global:tokens=131071,symmetric=true"),
                   {kSide, kSide}, {kSide, kSide}, 1, 1);
  CHECK_THROWS_WITH(execute(request), Catch::Contains("run it on the CPU"));
  std::swap(request.on_cpu, request.on_cuda);
  request.cuda.reset();
  told.clear();
  CHECK(execute(request).repeats == 1);
  CHECK(told.size() == 1);
}

}  // namespace
}  // namespace stagger::designs
