#include "workbench/calibration/runs.hpp"

#include "core/error.hpp"
#include "core/median.hpp"
#include "gpu/cuda/replay.hpp"
#include "workbench/calibration/irregular.hpp"
#include "workbench/calibration/set.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr std::size_t kRepeats = 3;  ///< of which the one of median length counts

/// What a replay's phases spin for, in ticks; the profile gets what the machine adds.
constexpr Timing kSpun{.compute = 5, .compute_partial = 6, .reduce = 1, .launch = 2, .epilogue = 1};

/// Runs tables on the device.
class Measurement {
 public:
  explicit Measurement(const CalibrationRequest& request)
      : request_(request), kernel_(*request.kernel) {
    options_.timeout = request.timeout;
    options_.dtype = request.dtype;
  }

  /// One run of each by the ranks and, `alone`, of each problem without reductions.
  std::vector<CalibrationRun> run(std::vector<Table> tables, bool alone) {
    std::vector<CalibrationRun> runs;
    double done = 0;
    const auto all = static_cast<double>(tables.size());
    for (Table& table : tables) {
      if (request_.progress) request_.progress(done++ / all);
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
    const gpu::AttentionShape shape = gpu::attention_shape(problem, request_.head_dim);
    return gpu::unjudged_attention(problem, shape, gpu::random_inputs(shape, 1));
  }

  [[nodiscard]] bool is_new_problem(const Table& table) const {
    return !last_ || last_->problem.grids != table.problem.grids ||
           last_->problem.heads != table.problem.heads;
  }

  /// The run of median length, after one to warm up.
  [[nodiscard]] CalibrationRun measure(const Table& table, gpu::Mode mode) {
    options_.mode = mode;
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

  /// Leaves the median cost of stamps in the run that is kept: a single pair of runs may be apart
  /// for other reasons. Where no cost is known the kept run's own time is the median, and 0 stays.
  static void leave_median_cost(std::vector<gpu::Backward>& runs) {
    std::vector<std::int64_t> costs;
    std::ranges::transform(runs, std::back_inserter(costs), [](const gpu::Backward& run) {
      return run.elapsed_ns - run.untimed_ns;
    });
    gpu::Backward& kept = runs[kRepeats / 2];
    kept.untimed_ns = kept.elapsed_ns - median(std::move(costs));
  }

  [[nodiscard]] gpu::Backward run_once(const Table& table) const {
    gpu::Backward run = kernel_.spins()
                            ? gpu::replay_on_cuda(table, {kSpun, request_.tick_ns}, options_)
                            : kernel_.on_cuda(table, *attention_, options_);
    run.gradients = {};
    run.dq_sums = {};
    if (run.outcome == gpu::Outcome::finished) return run;
    throw Error(ErrorKind::device, table.name + " on " + describe(table.problem) +
                                       " did not finish within the timeout");
  }

  const CalibrationRequest& request_;
  const Kernel& kernel_;
  gpu::BackwardOptions options_;
  std::optional<gpu::Attention> attention_;
  std::optional<Table> last_;
};

/// Steps that the kernel takes a task in.
std::int32_t steps_of(const CalibrationRequest& request) {
  const auto steps = request.kernel->steps;
  return steps == nullptr ? 1 : steps(request.head_dim, request.tile);
}

/// Leaves of phases what the machine adds to their spinning.
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

}  // namespace

KernelKey CalibrationRequest::key() const {
  KernelKey key = kernel_key(kernel->name, gpu::dtype_name(dtype), head_dim);
  if (!kernel->spins()) key.tile = tile;
  return key;
}

std::vector<CalibrationRun> measure(const CalibrationRequest& request, std::int32_t sms) {
  STAGGER_EXPECTS(request.kernel != nullptr);
  Measurement measurement(request);
  std::vector<CalibrationRun> runs = measurement.run(calibration_set(request.tile, sms), true);
  if (!request.kernel->passes) return runs;
  for (CalibrationRun& run : runs)
    run.tells = run.table.name.starts_with(kIrregularName);
  auto large = measurement.run(large_calibration_set(request.tile, sms, request.head_dim), false);
  for (CalibrationRun& run : large) {
    run.tells = true;
    runs.push_back(std::move(run));
  }
  std::ranges::move(measurement.run(parts_calibration_set(request.tile, sms), false),
                    std::back_inserter(runs));
  return runs;
}

Evidence evidence_of(const CalibrationRequest& request, const std::vector<CalibrationRun>& runs) {
  STAGGER_EXPECTS(request.kernel != nullptr);
  Evidence evidence = evidence_of(runs, request.kernel->model, steps_of(request));
  evidence.shown.key = request.key();
  evidence.shown.cut_partial = request.kernel->cut_partial;
  return evidence;
}

Calibration calibrate(const CalibrationRequest& request, const Evidence& evidence) {
  STAGGER_EXPECTS(request.kernel != nullptr);
  Calibration calibration = calibrate(evidence);
  if (request.kernel->spins()) subtract_spun(calibration.times, request.tick_ns);
  return calibration;
}

std::vector<MemoryRun> measure_memory(const CalibrationRequest& request, std::vector<Table> tables,
                                      const KernelTimes& times, const DeviceMemory& known) {
  STAGGER_EXPECTS(request.kernel != nullptr && !request.kernel->spins());
  Measurement measurement(request);
  std::vector<MemoryRun> runs;
  int group = 0;
  for (CalibrationRun& run : measurement.run(std::move(tables), false)) {
    if (!runs.empty() && runs.back().table.problem.heads != run.table.problem.heads) ++group;
    runs.push_back({.table = std::move(run.table),
                    .timing = times.timing(memory_of(known, request.key())),
                    .measured = span_of(run.run),
                    .group = group});
  }
  return runs;
}

}  // namespace stagger::workbench
