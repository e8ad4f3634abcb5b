#include "cli/builtin.hpp"
#include "cli/calibrate_block.hpp"
#include "cli/calibrate_measured.hpp"
#include "cli/commands.hpp"
#include "cli/device.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/options.hpp"
#include "cli/profile.hpp"
#include "cli/progress.hpp"
#include "cli/report/calibration.hpp"
#include "cli/report/overlap_runs.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "gpu/cuda/copy_rate.hpp"
#include "gpu/cuda/load_latency.hpp"
#include "gpu/overlap/overlap.hpp"
#include "workbench/calibration/evidence_file.hpp"
#include "workbench/calibration/overlap_runs.hpp"
#include "workbench/calibration/runs.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Calibration;
using workbench::CalibrationRequest;
using workbench::CalibrationRun;
using workbench::Kernel;

std::string command_line(const Options& options, const Kernel& kernel) {
  std::string line = fmt::format("stagger calibrate --device cuda --kernel {}", kernel.name);
  if (kernel.spins()) return line + fmt::format(" --tick-ns {}", options.replay_tick_ns());
  return line + fmt::format(" --dtype {} --head-dim {} --tile-q {} --tile-kv {}",
                            gpu::dtype_name(options.dtype), options.head_dim, options.tile().q,
                            options.tile().kv);
}

CalibrationRequest calibration_request(const Options& options, const Kernel& kernel) {
  return {.kernel = &kernel,
          .dtype = options.dtype,
          .head_dim = options.head_dim,
          .tile = options.tile(),
          .tick_ns = options.replay_tick_ns(),
          .timeout = std::chrono::milliseconds(options.timeout_ms)};
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

/// The phases of a kernel, into its entry of the profile.
void calibrate_phases(const Options& options, CalibrationRequest request, Machine machine) {
  Progress progress;
  request.progress = [&](double fraction) { progress.show("calibrating", fraction); };
  const std::vector<CalibrationRun> runs = workbench::measure(request, machine.sms);
  progress.end();
  workbench::Evidence evidence = workbench::evidence_of(request, runs);
  evidence.shown.date = today();
  Calibration calibration = workbench::calibrate(request, evidence);
  calibration.times.command = command_line(options, *request.kernel);
  put(machine, calibration.times);
  write_file(options.output, write_machine_json(machine));
  if (options.output == "-") return;
  if (options.json) {
    write_stdout(workbench::write_calibration(machine, evidence, calibration));
  } else {
    write_text(calibration_text(machine, calibration.times), terminal_of(options));
  }
}

/// `hopper, bf16; portable, fp32`: what a profile has phases of, each once.
std::string kernels_text(const Machine& machine) {
  std::set<std::string> words;
  for (const KernelTimes& times : machine.kernels)
    words.insert(times.key.kernel + (times.key.dtype.empty() ? "" : ", " + times.key.dtype));
  return words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, "; "));
}

/// The entries of a profile that have phases of a kernel. Throws Error{usage} if none has.
std::vector<KernelTimes> shapes_of(const Machine& machine, const Kernel& kernel,
                                   const std::string& dtype) {
  std::vector<KernelTimes> shapes;
  std::ranges::copy_if(machine.kernels, std::back_inserter(shapes), [&](const KernelTimes& times) {
    return times.key.kernel == kernel.name && times.key.dtype == dtype;
  });
  if (!shapes.empty()) return shapes;
  throw Error(ErrorKind::usage,
              fmt::format("the profile has no phases of {}, {}, but of {}: name what it has, or "
                          "calibrate those first",
                          kernel.name, dtype, kernels_text(machine)));
}

/// The memory, by runs of every shape of a kernel that the profile has the phases of.
void calibrate_memory(const Options& options, CalibrationRequest request, Machine machine) {
  const Kernel& kernel = *request.kernel;
  if (kernel.spins()) {
    throw Error(ErrorKind::usage, "--memory needs a kernel that moves something: not a replay");
  }
  const std::string dtype = gpu::dtype_name(request.dtype);
  const std::vector<KernelTimes> shapes = shapes_of(machine, kernel, dtype);
  Progress progress;
  std::vector<workbench::MemoryRun> runs;
  int groups = 0;
  const gpu::LoadLatency load = gpu::load_latency_on_cuda();
  const DeviceMemory known = {.stream_bytes_per_ns = gpu::copy_bytes_per_ns_on_cuda(),
                              .add_permille = machine.memory && machine.memory->add_permille > 0
                                                  ? machine.memory->add_permille
                                                  : workbench::kAddPermille,
                              .latency_ns = std::max<Ticks>(load.memory - load.l2, 0)};
  for (const KernelTimes& times : shapes) {
    request.head_dim = times.key.head_dim;
    request.tile = times.key.tile;
    request.progress = [&, done = static_cast<double>(&times - shapes.data())](double fraction) {
      progress.show("calibrating", (done + fraction) / static_cast<double>(shapes.size()));
    };
    auto tables = workbench::memory_calibration_set(request.tile, machine.sms, request.head_dim,
                                                    times.timing());
    for (auto& run : workbench::measure_memory(request, std::move(tables), times, known)) {
      run.group += groups;
      runs.push_back(std::move(run));
    }
    groups = runs.back().group + 1;
  }
  const auto [memory, residuals] = workbench::fit_memory(
      runs, [&](double fraction) { progress.show("fitting the memory", fraction); });
  progress.end();
  machine.memory = memory;
  machine.memory->date = today();
  machine.memory->command = fmt::format(
      "stagger calibrate --device cuda --kernel {} --dtype {} --memory", kernel.name, dtype);
  write_file(options.output, write_machine_json(machine));
  if (options.output == "-") return;
  if (options.json) {
    write_stdout(memory_json(machine, runs, residuals));
  } else {
    write_text(memory_text(machine), terminal_of(options));
  }
}

/// GEMMs and dropout's bits, into a calibration of `stagger overlap`.
int calibrate_overlap(const Options& options) {
  const block::Calibration base = find_calibration(options.base);
  const std::string refusal = gpu::overlap::overlap_refusal();
  if (!has_device("calibrate measures one")) return kSkipped;
  if (!refusal.empty()) throw Error(ErrorKind::unsupported, refusal);
  Progress progress;
  workbench::OverlapRequest request = workbench::usual_overlap_request();
  request.progress = [&](double fraction) { progress.show("measuring", fraction); };
  const workbench::OverlapRuns runs = workbench::measure_overlap(request);
  progress.end();
  OverlapRunsReport report{.runs = runs, .way = workbench::best_way(runs)};
  report.calibration = workbench::overlap_calibration(base, runs, report.way);
  report.calibration.device = gpu::cuda_device()->name + ", bf16";
  report.calibration.name =
      options.output == "-" ? "measured" : std::filesystem::path(options.output).stem().string();
  report.calibration.source = fmt::format(
      "{}, {}: stagger calibrate --overlap; its own GEMM and attention, bits made by {}. "
      "The backward pass as in {}: {}",
      gpu::cuda_device()->name, today(), workbench::beside_ways()[report.way].name, base.name,
      base.source);
  write_file(options.output, block::calibration_json(report.calibration).text() + "\n");
  if (options.output == "-") return kHolds;
  if (options.json) {
    write_stdout(overlap_runs_json(report).text() + "\n");
  } else {
    write_text(overlap_runs_text(report), terminal_of(options));
  }
  return kHolds;
}

int calibrate_command(const Options& options) {
  check_standard_output(options);
  if (options.overlap) return calibrate_overlap(options);
  if (!options.measured_blocks.empty()) return calibrate_block(options);
  if (!options.measured_kernels.empty()) return calibrate_measured(options);
  const Kernel& kernel = *options.kernel;
  const bool shaped = options.tile_q && options.tile_kv;
  if (!kernel.spins() && !options.memory && !shaped) {
    throw Error(ErrorKind::usage, "give --tile-q and --tile-kv: a profile speaks of their phases");
  }
  if (kernel.spins()) {
    reject(given_of(options, "dtype head-dim tile-q tile-kv"),
           "means nothing beside --kernel replay, which computes nothing");
  } else {
    reject(given_of(options, "tick-ns"), "is for a replay");
  }
  if (options.memory) {
    reject(given_of(options, "head-dim tile-q tile-kv"), "means nothing beside --memory");
  }
  if (!has_device("calibrate measures one")) return kSkipped;
  const gpu::CudaDevice device = gpu::cuda_device().value();
  const Machine machine = profile_for(
      options.output, {.device = device.name, .driver = device.driver, .sms = device.sms});
  const CalibrationRequest request = calibration_request(options, kernel);
  (options.memory ? calibrate_memory : calibrate_phases)(options, request, machine);
  return kHolds;
}

}  // namespace

extern const Command kCalibrate;
const Command kCalibrate{
    .name = "calibrate",
    .summary = "What a kernel's phases take on this GPU, into a machine profile",
    .examples =
        "  stagger calibrate --device cuda --kernel portable --head-dim 64 --tile-q 64 \\\n"
        "      --tile-kv 64 -o mine.json\n"
        "  stagger calibrate --kernel replay --tick-ns 500 -o mine.json\n"
        "  stagger calibrate --device cuda --kernel hopper --dtype bf16 --memory \\\n"
        "      -o mine.json\n"
        "  stagger calibrate --device cuda --overlap -o h200-dropout.json\n"
        "  stagger calibrate --measured mine-runs.json -o mine.json\n"
        "  stagger calibrate --block gpu/results/block.json -o h200-blocks.json\n"
        "  stagger compare --mask causal --seq 4096 --tile-q 64 --tile-kv 64 --heads 8 \\\n"
        "      --sms 132 --machine mine.json\n",
    .run = calibrate_command,
};

}  // namespace stagger::cli
