// How a table is run and timed.

#include "cli/rows.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/cpu/executor.hpp"
#include "workbench/kernels.hpp"

#include <array>

namespace stagger::cli {
namespace {

using workbench::Kernel;
using workbench::Reference;

/// Where a machine profile is the only reason to name a kernel.
constexpr const char* kPredicting = "show analyze compare verify export optimize bench";

constexpr Range kBytes = {.least = 1, .most = std::int64_t{1} << 40};
constexpr Range kHeadDims = {.least = 1, .most = gpu::kMaxHeadDim};
constexpr Range kTickNs = {.least = 1, .most = 1'000'000};

constexpr std::array kModels = {
    Named<Model>{"chain", Model::chain, "the paper's: an SM computes or reduces"},
    Named<Model>{"overlap", Model::overlap, "a writer of its own reduces dQ"}};
constexpr std::array kReleases = {
    Named<Release>{"immediate", Release::immediate, "at a reduction's end"},
    Named<Release>{"delayed", Release::delayed, "into the chain's next reduction"}};
constexpr std::array kDevices = {Named<Device>{"cpu", Device::cpu, "threads"},
                                 Named<Device>{"cuda", Device::cuda, "a GPU"}};
constexpr std::array kGpus = {
    Named<Device>{"cuda", Device::cuda, "threads that share cores have no kernel's times"}};
constexpr std::array kModes = {
    Named<gpu::Mode>{"deterministic", gpu::Mode::deterministic, "by the ranks"},
    Named<gpu::Mode>{"atomic", gpu::Mode::atomic, "in any order"},
    Named<gpu::Mode>{"no-reduce", gpu::Mode::no_reduce, "compute alone"}};
constexpr std::array kDtypes = {Named<gpu::Dtype>{"fp32", gpu::Dtype::fp32},
                                Named<gpu::Dtype>{"bf16", gpu::Dtype::bf16},
                                Named<gpu::Dtype>{"fp16", gpu::Dtype::fp16}};
constexpr std::array kReferences = {
    Named<Reference>{"host", Reference::host},
    Named<Reference>{"device", Reference::device, "for large problems"},
    Named<Reference>{"none", Reference::none, "gradients are not judged"}};

std::vector<Word> words_of_models_and_slots() {
  std::vector<Word> words = words_of<kModels>();
  words.push_back({"slot", "no collisions, in slots"});
  return words;
}

/// What `optimize` can search in: a timing model, or slots.
Choice one_model_or_slots() {
  return {.words = words_of_models_and_slots, .put = [](Options& options, std::size_t index) {
            options.slot_model = index == kModels.size();
            if (!options.slot_model) options.model = kModels[index].value;
          }};
}

std::vector<Word> kernel_words() {
  std::vector<Word> words;
  for (const Kernel& kernel : workbench::kernels())
    words.push_back({kernel.name, kernel.summary});
  return words;
}

Choice one_kernel() {
  return {.words = kernel_words, .put = [](Options& options, std::size_t index) {
            options.kernel = &workbench::kernels()[index];
          }};
}

OptionRow phase_row(const char* name, std::optional<Ticks> Options::*target, const char* meaning,
                    const char* fallback) {
  return {.name = name,
          .metavar = "TICKS",
          .meaning = meaning,
          .target = target,
          .commands = kOnProblems,
          .group = Group::timing,
          .fallback = fallback,
          .range = {.least = 0}};
}

}  // namespace

std::vector<OptionRow> run_rows() {
  constexpr Group kGroup = Group::run;
  return {
      {.name = "device",
       .metavar = "DEVICE",
       .meaning = "where to run",
       .target = one_of<kDevices, &Options::device>(),
       .commands = "run",
       .group = kGroup,
       .fallback = "cpu"},
      {.name = "device",
       .metavar = "DEVICE",
       .meaning = "where to measure",
       .target = one_of<kGpus, &Options::device>(),
       .commands = "calibrate",
       .group = kGroup},
      {.name = "kernel",
       .metavar = "KERNEL",
       .meaning = "what plays the table",
       .target = one_kernel(),
       .commands = "run calibrate",
       .group = kGroup,
       .fallback = "portable"},
      {.name = "tick-ns",
       .metavar = "NS",
       .meaning = "what a tick of the timing model lasts in a replay",
       .target = &Options::tick_ns,
       .commands = "run calibrate",
       .group = kGroup,
       .fallback = "1000",
       .range = kTickNs},
      {.name = "mode",
       .metavar = "MODE",
       .meaning = "how dQ's partials are added",
       .target = one_of<kModes, &Options::mode>(),
       .commands = "run",
       .group = kGroup,
       .fallback = "deterministic"},
      {.name = "dtype",
       .metavar = "DTYPE",
       .meaning =
           "number format of inputs and gradients, and of P and dS as factors; sums are fp32",
       .target = one_of<kDtypes, &Options::dtype>(),
       .commands = "run calibrate",
       .group = kGroup,
       .fallback = "fp32"},
      {.name = "head-dim",
       .metavar = "ELEMENTS",
       .meaning = "elements of a query, key or value",
       .target = &Options::head_dim,
       .commands = "run calibrate",
       .group = kGroup,
       .fallback = "64",
       .range = kHeadDims},
      {.name = "tile-q",
       .metavar = "TOKENS",
       .meaning = "tokens of a Q tile",
       .target = &Options::tile_q,
       .commands = "calibrate",
       .group = kGroup,
       .range = {.least = 1, .most = 4096}},
      {.name = "tile-kv",
       .metavar = "TOKENS",
       .meaning = "tokens of a KV tile",
       .target = &Options::tile_kv,
       .commands = "calibrate",
       .group = kGroup,
       .range = {.least = 1, .most = 4096}},
      {.name = "seed",
       .metavar = "SEED",
       .meaning = "what the inputs are drawn from",
       .target = &Options::seed,
       .commands = "run",
       .group = kGroup,
       .fallback = "1",
       .range = {.least = 0}},
      {.name = "repeat",
       .metavar = "RUNS",
       .meaning = "runs whose bits must be the same",
       .target = &Options::runs,
       .commands = "run",
       .group = kGroup,
       .fallback = "10",
       .range = {.least = 1, .most = 1'000'000}},
      {.name = "perturb",
       .metavar = "SEED",
       .meaning = "random delays in every run but the first",
       .target = &Options::perturb,
       .commands = "run",
       .group = kGroup,
       .range = {.least = 0}},
      {.name = "reference",
       .metavar = "WHERE",
       .meaning = "where the gradients to compare with are computed, in double precision",
       .target = one_of<kReferences, &Options::reference>(),
       .commands = "run",
       .group = kGroup,
       .fallback = "by the problem's size"},
      {.name = "no-partials",
       .meaning = "do not keep dQ's partials: nothing is added again in the table's order",
       .target = &Options::no_partials,
       .commands = "run",
       .group = kGroup},
      {.name = "memory",
       .meaning = "measure the L2 cache and device memory, by a kernel that the profile has",
       .target = &Options::memory,
       .commands = "calibrate",
       .group = kGroup},
      {.name = "timeout",
       .metavar = "MS",
       .meaning = "the longest a task may wait for its turn",
       .target = &Options::timeout_ms,
       .commands = "run calibrate",
       .group = kGroup,
       .fallback = "10000",
       .range = {.least = 1, .most = 86'400'000}},
      {.name = "threads",
       .metavar = "N",
       .meaning = "threads of the CPU",
       .target = &Options::threads,
       .commands = "run",
       .group = kGroup,
       .fallback = "a core each, at most one per SM",
       .range = {.least = 1, .most = gpu::kMaxThreads}},
  };
}

std::vector<OptionRow> timing_rows() {
  constexpr Group kGroup = Group::timing;
  return {
      {.name = "model",
       .metavar = "MODEL",
       .meaning = "how an SM's phases overlap",
       .target = one_of<kModels, &Options::model>(),
       .commands = "show analyze compare verify export run bench",
       .group = kGroup,
       .fallback = "the profile's with --machine, else chain"},
      {.name = "model",
       .metavar = "MODEL",
       .meaning = "how an SM's phases overlap",
       .target = one_model_or_slots(),
       .commands = "optimize",
       .group = kGroup,
       .fallback = "the profile's with --machine, else chain"},
      phase_row("compute", &Options::compute, "c: compute phase of a task", "5"),
      phase_row("compute-partial", &Options::compute_partial,
                "compute phase of a task on a partial tile", "as --compute"),
      phase_row("reduce", &Options::reduce, "r: reduction of a task into dQ", "1"),
      phase_row("latency", &Options::latency, "from a release until the next rank may start", "0"),
      phase_row("launch", &Options::launch, "before each KV tile's chain", "0"),
      phase_row("epilogue", &Options::epilogue, "after each KV tile's chain", "0"),
      {.name = "release",
       .metavar = "WHEN",
       .meaning = "when a lock shows the next rank",
       .target = one_of<kReleases, &Options::release>(),
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else immediate"},
      {.name = "residency",
       .metavar = "SMS",
       .meaning = "SMs that are really there",
       .target = &Options::residency,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "all of them",
       .range = kSms},
      {.name = "l2",
       .metavar = "BYTES",
       .meaning = "bytes that stay in the L2 cache before device memory",
       .target = &Options::l2,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else no memory is modelled",
       .range = kBytes,
       .needs = "bandwidth machine"},
      {.name = "bandwidth",
       .metavar = "BYTES",
       .meaning = "bytes that device memory moves in a tick",
       .target = &Options::bandwidth,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine",
       .range = kBytes,
       .needs = "l2 machine"},
  };
}

std::vector<OptionRow> machine_rows() {
  constexpr Group kGroup = Group::machine;
  return {
      {.name = "machine",
       .metavar = "FILE",
       .meaning = "phases as `stagger calibrate` measured them; a tick is then 1 ns",
       .target = &Options::machine,
       .commands = kOnProblems,
       .group = kGroup},
      {.name = "machine",
       .metavar = "FILE",
       .meaning = "the profile that predicts",
       .target = &Options::machine,
       .commands = "predict",
       .group = kGroup,
       .fallback = "what the runs say themselves"},
      {.name = "kernel",
       .metavar = "KERNEL",
       .meaning = "whose phases",
       .target = one_kernel(),
       .commands = kPredicting,
       .group = kGroup,
       .fallback = "portable",
       .needs = "machine"},
      {.name = "dtype",
       .metavar = "DTYPE",
       .meaning = "its number format",
       .target = one_of<kDtypes, &Options::dtype>(),
       .commands = kPredicting,
       .group = kGroup,
       .fallback = "fp32",
       .needs = "machine l2"},
      {.name = "head-dim",
       .metavar = "ELEMENTS",
       .meaning = "its elements of a query, key or value",
       .target = &Options::head_dim,
       .commands = kPredicting,
       .group = kGroup,
       .fallback = "64",
       .range = kHeadDims,
       .needs = "machine l2"},
      {.name = "tick-ns",
       .metavar = "NS",
       .meaning = "what a tick lasts in a replay",
       .target = &Options::tick_ns,
       .commands = "show analyze compare verify optimize bench",
       .group = kGroup,
       .fallback = "1000",
       .range = kTickNs,
       .needs = "machine"},
      {.name = "tick-ns",
       .metavar = "NS",
       .meaning = "what a tick lasts in a replay (1000), or beside a timeline in ns",
       .target = &Options::tick_ns,
       .commands = "export",
       .group = kGroup,
       .range = kTickNs,
       .needs = "machine timeline"},
  };
}

}  // namespace stagger::cli
