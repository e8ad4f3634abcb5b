#include "cli/commands.hpp"
#include "cli/device.hpp"
#include "cli/files.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/version.hpp"
#include "gpu/cuda/executor.hpp"
#include "gpu/cuda/replay.hpp"
#include "workbench/calibration.hpp"
#include "workbench/calibration_set.hpp"
#include "workbench/kernels.hpp"
#include "workbench/memory_fit.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

namespace stagger::cli {
namespace {

using workbench::Calibration;
using workbench::CalibrationRun;
using workbench::Kernel;

constexpr std::size_t kRepeats = 3;  ///< of which the one of median length counts

/// What a replay's phases spin for, in ticks; the profile gets what the machine adds.
constexpr Timing kSpun{.compute = 5, .compute_partial = 6, .reduce = 1, .launch = 2, .epilogue = 1};

/// Runs tables on the device.
class Measurement {
 public:
  Measurement(const Options& options, const Kernel& kernel) : options_(options), kernel_(kernel) {
    run_options_.timeout = std::chrono::milliseconds(options.timeout_ms);
    run_options_.dtype = options.dtype;
  }

  /// One run of each by the ranks and, `alone`, of each problem without reductions.
  std::vector<CalibrationRun> run(std::vector<Table> tables, bool alone) {
    Progress progress("calibrating");
    std::vector<CalibrationRun> runs;
    double done = 0;
    const auto all = static_cast<double>(tables.size());
    for (Table& table : tables) {
      progress.show(done++ / all);
      const bool first = is_new_problem(table);
      if (first && !kernel_.spins()) attention_ = attention_of(table.problem);
      if (first && alone) runs.push_back(measure(table, gpu::Mode::no_reduce));
      runs.push_back(measure(table, gpu::Mode::deterministic));
      last_ = std::move(table);
    }
    return runs;
  }

 private:
  [[nodiscard]] gpu::Attention attention_of(const Problem& problem) const {
    const gpu::AttentionShape shape = gpu::attention_shape(problem, options_.head_dim);
    return gpu::unjudged_attention(problem, shape, gpu::random_inputs(shape, 1));
  }

  [[nodiscard]] bool is_new_problem(const Table& table) const {
    return !last_ || last_->problem.grid != table.problem.grid ||
           last_->problem.heads != table.problem.heads;
  }

  /// The run of median length, after one to warm up.
  [[nodiscard]] CalibrationRun measure(const Table& table, gpu::Mode mode) {
    run_options_.mode = mode;
    static_cast<void>(run_once(table));
    std::vector<gpu::Backward> runs(kRepeats);
    for (gpu::Backward& run : runs)
      run = run_once(table);
    std::nth_element(runs.begin(), runs.begin() + kRepeats / 2, runs.end(),
                     [](const gpu::Backward& left, const gpu::Backward& right) {
                       return left.elapsed_ns < right.elapsed_ns;
                     });
    leave_median_cost(runs);
    const std::size_t elements = attention_ ? attention_->shape.q_elements() : 0;
    return {table, mode, std::move(runs[kRepeats / 2]), static_cast<std::int64_t>(elements)};
  }

  /// Of the times, in the run that is kept: a single pair of runs may be apart for other reasons.
  static void leave_median_cost(std::vector<gpu::Backward>& runs) {
    std::array<std::int64_t, kRepeats> costs;
    std::ranges::transform(runs, costs.begin(),
                           [](const gpu::Backward& run) { return run.elapsed_ns - run.bare_ns; });
    std::ranges::nth_element(costs, costs.begin() + kRepeats / 2);
    gpu::Backward& kept = runs[kRepeats / 2];
    if (kept.bare_ns > 0) kept.bare_ns = kept.elapsed_ns - costs[kRepeats / 2];
  }

  [[nodiscard]] gpu::Backward run_once(const Table& table) const {
    gpu::Backward run =
        kernel_.spins()
            ? gpu::replay_on_cuda(table, {kSpun, options_.replay_tick_ns()}, run_options_)
            : kernel_.run(table, *attention_, run_options_);
    run.gradients = {};
    run.dq_sums = {};
    if (run.outcome == gpu::Outcome::finished) return run;
    throw Error(ErrorKind::device, table.name + " on " + problem_line(table.problem) +
                                       " did not finish within the timeout");
  }

  const Options& options_;
  const Kernel& kernel_;
  gpu::BackwardOptions run_options_;
  std::optional<gpu::Attention> attention_;
  std::optional<Table> last_;
};

std::vector<CalibrationRun> measured(const Options& options, const Kernel& kernel,
                                     const TileShape& tile, std::int32_t sms) {
  Measurement measurement(options, kernel);
  std::vector<CalibrationRun> runs = measurement.run(workbench::calibration_set(tile, sms), true);
  if (!kernel.passes) return runs;
  auto large =
      measurement.run(workbench::large_calibration_set(tile, sms, options.head_dim), false);
  std::move(large.begin(), large.end(), std::back_inserter(runs));
  return runs;
}

/// Leaves of a replay's phases what the machine adds to their spinning.
void subtract_spun(KernelTimes& times, std::int64_t tick_ns) {
  const auto subtract = [&](MeasuredNs& measured, Ticks ticks) {
    for (Ticks* ns : {&measured.value, &measured.low, &measured.high})
      *ns = std::max<Ticks>(*ns - ticks * tick_ns, 0);
  };
  subtract(times.compute, kSpun.compute);
  if (times.compute_partial) subtract(*times.compute_partial, *kSpun.compute_partial);
  subtract(times.reduce, kSpun.reduce);
  subtract(times.launch, kSpun.launch);
  subtract(times.epilogue, kSpun.epilogue);
}

std::string command_line(const Options& options, const Kernel& kernel) {
  std::string line = fmt::format("stagger calibrate --device cuda --kernel {}", kernel.name);
  if (kernel.spins()) return line + fmt::format(" --tick-ns {}", options.replay_tick_ns());
  return line + fmt::format(" --dtype {} --head-dim {} --tile-q {} --tile-kv {}",
                            gpu::dtype_name(options.dtype), options.head_dim, options.tile().q,
                            options.tile().kv);
}

/// The profile in the file, or a new one named like it. Throws Error{usage} if it is another
/// device's.
Machine profile_of(const std::string& path, const gpu::CudaDevice& device) {
  if (path == "-" || !std::filesystem::exists(path)) {
    return {.name = path == "-" ? "machine" : std::filesystem::path(path).stem().string(),
            .device = device.name,
            .driver = device.driver,
            .sms = device.sms};
  }
  Machine machine = read_machine_json(read_file(path), path);
  if (machine.device == device.name && machine.driver == device.driver &&
      machine.sms == device.sms) {
    return machine;
  }
  throw Error(ErrorKind::usage,
              fmt::format("{} is of {} ({} SMs, CUDA {}), and this is {} ({} SMs, CUDA {}): give "
                          "another file",
                          path, machine.device, machine.sms, machine.driver, device.name,
                          device.sms, device.driver));
}

using Value = std::pair<const char*, const MeasuredNs*>;

std::vector<Value> values_of(const KernelTimes& times) {
  std::vector<Value> values = {{"compute", &times.compute}};
  if (times.compute_partial) values.emplace_back("compute_partial", &*times.compute_partial);
  for (const Value& value : {Value{"reduce", &times.reduce}, Value{"latency", &times.latency},
                             Value{"launch", &times.launch}, Value{"epilogue", &times.epilogue},
                             Value{"start", &times.start}})
    values.push_back(value);
  if (times.passes_per_mi) values.emplace_back("passes_per_mi", &*times.passes_per_mi);
  return values;
}

std::string calibration_text(const Machine& machine, const KernelTimes& times) {
  std::string text = fmt::format("device        {}, {} SMs, CUDA {}\nkernel        {}; {} model\n",
                                 machine.device, machine.sms, machine.driver, describe(times.key),
                                 times.model == Model::chain ? "chain" : "overlap");
  for (const auto& [name, measured] : values_of(times)) {
    text += fmt::format("{:<15}{:>7} ns  quartiles {} to {} of {}\n", name, measured->value,
                        measured->low, measured->high, measured->samples);
  }
  return text + fmt::format("fit           median error {:.2f} %, worst {:.2f} %, of {} tables\n",
                            1e-4 * static_cast<double>(times.fit.median_ppm),
                            1e-4 * static_cast<double>(times.fit.worst_ppm), times.fit.runs);
}

std::string calibration_json(const Machine& machine, const std::vector<CalibrationRun>& runs,
                             const Calibration& calibration) {
  using Json = nlohmann::ordered_json;
  Machine alone = machine;
  alone.kernels = {calibration.times};
  Json json = {{"schema", "stagger.calibration/1"},
               {"version", version()},
               {"machine", Json::parse(write_machine_json(alone))},
               {"runs", Json::array()}};
  auto residual = calibration.residuals.begin();
  for (const CalibrationRun& run : runs) {
    if (run.mode != gpu::Mode::deterministic) continue;
    json["runs"].push_back({{"problem", Json::parse(cli::problem_json(run.table.problem))},
                            {"schedule", run.table.name},
                            {"measured_ns", residual->measured},
                            {"predicted_ns", residual->predicted},
                            {"elapsed_ns", run.run.elapsed_ns},
                            {"passes_ns", run.run.passes_ns}});
    ++residual;
  }
  return json.dump(1) + "\n";
}

std::string memory_text(const Machine& machine) {
  const DeviceMemory& memory = *machine.memory;
  return fmt::format(
      "{} ({}): memory\n"
      "L2 cache   {:.1f} MB stay in it\n"
      "rate       {} bytes a ns from and to device memory\n"
      "fit        {} runs: median error {:.1f} %, worst {:.1f} %\n",
      machine.name, machine.device, 1e-6 * static_cast<double>(memory.l2_bytes),
      memory.bytes_per_ns, memory.fit.runs, 1e-4 * static_cast<double>(memory.fit.median_ppm),
      1e-4 * static_cast<double>(memory.fit.worst_ppm));
}

/// The memory by runs of a kernel whose phases the profile has.
int calibrate_memory(const Options& options, const Kernel& kernel, const TileShape& tile,
                     Machine& machine) {
  if (kernel.spins()) {
    throw Error(ErrorKind::usage, "--memory needs a kernel that moves something: not a replay");
  }
  KernelKey key = kernel_key_of(options);
  key.tile = tile;
  const Timing timing = times_of(machine, key).timing();
  Measurement measurement(options, kernel);
  std::vector<CalibrationRun> measured = measurement.run(
      workbench::memory_calibration_set(tile, machine.sms, options.head_dim, timing), false);
  std::vector<workbench::MemoryRun> runs;
  for (CalibrationRun& run : measured) {
    runs.push_back({.table = std::move(run.table),
                    .timing = timing,
                    .tile = tile_bytes(key),
                    .measured = workbench::span_of(run.run)});
  }
  machine.memory = workbench::fit_memory(runs);
  machine.memory->date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  machine.memory->command = command_line(options, kernel) + " --memory";
  write_file(options.output, write_machine_json(machine));
  if (options.output == "-") return kHolds;
  if (options.json) {
    write_stdout(write_machine_json(machine));
  } else {
    write_text(memory_text(machine), terminal_of(options));
  }
  return kHolds;
}

int run(const Options& options) {
  const Kernel& kernel = *options.kernel;
  if (!kernel.spins() && (!options.tile_q || !options.tile_kv)) {
    throw Error(ErrorKind::usage, "give --tile-q and --tile-kv: a profile speaks of their phases");
  }
  if (!has_device()) return kSkipped;
  const gpu::CudaDevice device = *gpu::cuda_device();
  Machine machine = profile_of(options.output, device);
  const TileShape tile = options.tile();
  if (options.memory) return calibrate_memory(options, kernel, tile, machine);
  const std::vector<CalibrationRun> runs = measured(options, kernel, tile, device.sms);
  Calibration calibration = workbench::calibrate(runs, kernel.model);
  KernelTimes& times = calibration.times;
  if (kernel.spins()) subtract_spun(times, options.replay_tick_ns());
  times.key = kernel_key_of(options);
  if (!kernel.spins()) times.key.tile = tile;
  times.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  times.command = command_line(options, kernel);
  put(machine, times);
  write_file(options.output, write_machine_json(machine));
  if (options.output == "-") return kHolds;
  if (options.json) {
    write_stdout(calibration_json(machine, runs, calibration));
  } else {
    write_text(calibration_text(machine, times), terminal_of(options));
  }
  return kHolds;
}

}  // namespace

extern const Command kCalibrate;
const Command kCalibrate{
    .name = "calibrate",
    .summary = "What a kernel's phases take on this GPU, into a machine profile",
    .examples =
        "  stagger calibrate --device cuda --kernel portable --head-dim 64 --tile-q 64 \\\n"
        "      --tile-kv 64 -o configs/machines/h200.json\n"
        "  stagger calibrate --kernel replay --tick-ns 500 -o configs/machines/h200.json\n"
        "  stagger compare --mask causal --seq 4096 --tile-q 64 --tile-kv 64 --heads 8 \\\n"
        "      --sms 132 --machine configs/machines/h200.json\n",
    .run = run,
};

}  // namespace stagger::cli
