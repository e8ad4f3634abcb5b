// How a table is run.

#include "cli/rows.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/cpu/executor.hpp"
#include "workbench/kernels.hpp"

#include <array>

namespace stagger::cli {
namespace {

using workbench::Kernel;
using workbench::Reference;

constexpr std::array kDevices = {Named<Device>{"cpu", Device::cpu, "threads"},
                                 Named<Device>{"cuda", Device::cuda, "a GPU"}};
constexpr std::array kGpus = {
    Named<Device>{"cuda", Device::cuda, "threads that share cores have no kernel's times"}};
constexpr std::array kModes = {
    Named<gpu::Mode>{mode_name(gpu::Mode::deterministic), gpu::Mode::deterministic, "by the ranks"},
    Named<gpu::Mode>{mode_name(gpu::Mode::atomic), gpu::Mode::atomic, "in any order"},
    Named<gpu::Mode>{mode_name(gpu::Mode::no_reduce), gpu::Mode::no_reduce, "compute alone"}};
constexpr std::array kDtypes = {Named<gpu::Dtype>{dtype_name(gpu::Dtype::fp32), gpu::Dtype::fp32},
                                Named<gpu::Dtype>{dtype_name(gpu::Dtype::bf16), gpu::Dtype::bf16},
                                Named<gpu::Dtype>{dtype_name(gpu::Dtype::fp16), gpu::Dtype::fp16}};
constexpr std::array kReferences = {
    Named<Reference>{"host", Reference::host},
    Named<Reference>{"device", Reference::device, "for large problems"},
    Named<Reference>{"none", Reference::none, "gradients are not judged"}};

std::vector<Word> kernel_words() {
  std::vector<Word> words;
  for (const Kernel& kernel : workbench::kernels())
    words.push_back({kernel.name, kernel.summary});
  return words;
}

}  // namespace

Choice one_kernel() {
  return {.words = kernel_words, .put = [](Options& options, std::size_t index) {
            options.kernel = &workbench::kernels()[index];
          }};
}

Choice one_dtype() {
  return one_of<kDtypes, &Options::dtype>();
}

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
       .target = one_dtype(),
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
       .meaning = "tokens of a Q tile; required but with --memory, --measured, "
                  "--overlap or --block",
       .target = &Options::tile_q,
       .commands = "calibrate",
       .group = kGroup,
       .range = {.least = 1, .most = 4096}},
      {.name = "tile-kv",
       .metavar = "TOKENS",
       .meaning = "tokens of a KV tile; required like --tile-q",
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
      {.name = "measured",
       .metavar = "FILE",
       .meaning = "fit phases again to what `calibrate --json` printed, one or several; without a "
                  "GPU",
       .target = &Options::measured_kernels,
       .commands = "calibrate",
       .group = kGroup,
       .excludes = "kernel device tick-ns dtype head-dim tile-q tile-kv memory timeout overlap "
                   "block"},
      {.name = "timeout",
       .metavar = "MS",
       .meaning = "the longest a task may wait for its turn, or a run of a design without turns "
                  "may take",
       .target = &Options::timeout_ms,
       .commands = "run",
       .group = kGroup,
       .fallback = "10000; of a design on a GPU 60000, on threads none",
       .range = kTimeouts},
      {.name = "timeout",
       .metavar = "MS",
       .meaning = "the longest a task may wait for its turn",
       .target = &Options::timeout_ms,
       .commands = "calibrate",
       .group = kGroup,
       .fallback = "10000",
       .range = kTimeouts},
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

}  // namespace stagger::cli
