#include "workbench/prediction.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/order_digest.hpp"
#include "core/table_digest.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/memory.hpp"
#include "sim/simulate.hpp"
#include "workbench/backward_plan.hpp"
#include "workbench/json.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace stagger::workbench {
namespace {

/// The timing model of a run on the machine.
TimeModel model_on(const Machine& machine, const MeasuredRun& run) {
  TimeModel model = time_model_of(machine, times_of(machine, run.kernel), run.problem,
                                  run.spins() ? in_ns(run.spun, run.tick_ns) : Timing{});
  model.timing.release = run.timing.release;
  model.timing.residency = run.timing.residency;
  fit(model.timing, run.problem, machine.sms);
  return model;
}

Table table_of(const MeasuredRun& run) {
  if (run.table) return *run.table;
  return schedules::build(schedules::select(run.schedule), run.problem, run.timing);
}

/// Equal for runs of a problem that no timing model of one machine tells apart.
std::uint64_t likeness(const Table& table, const MeasuredRun& run) {
  const auto rest = static_cast<std::uint64_t>(run.timing.residency) << 1 |
                    static_cast<std::uint64_t>(run.timing.release == Release::delayed);
  return table_digest(table) ^ rest * 0x9e3779b97f4a7c15;
}

/// Whether the run is of another table than this, which its schedule's search finds.
bool was_another(const Table& table, const MeasuredRun& run) {
  if (run.orders.empty() || run.table || run.spins()) return false;
  if (!schedules::select(run.schedule).schedule->searches()) return false;
  return hexadecimal(order_digest(table, kNumerics, run.kernel.head_dim)) != run.orders;
}

/// 0 where finding the table again takes a search, or it was a file's that was not given.
std::uint64_t known_likeness(const MeasuredRun& run) {
  if (!run.table && (run.from_file || schedules::select(run.schedule).schedule->searches()))
    return 0;
  return likeness(table_of(run), run);
}

std::string group_of(const MeasuredRun& run) {
  const std::string kernel =
      run.spins() ? run.kernel.kernel + ", a tick is " + std::to_string(run.tick_ns) + " ns"
                  : run.kernel.kernel + ", " + run.kernel.dtype + ", head_dim " +
                        std::to_string(run.kernel.head_dim);
  return describe(run.problem) + "; " + kernel;
}

void add(Judged& judged, std::size_t run, Prediction prediction) {
  judged.runs.push_back(run);
  judged.predictions.push_back(std::move(prediction));
}

void add(PredictedRuns& result, MeasuredRun run, const Predicted& predicted) {
  const std::size_t index = result.measured.runs.size();
  Prediction prediction{.group = group_of(run),
                        .schedule = run.schedule,
                        .measured = run.measured,
                        .predicted = predicted.last_reduction,
                        .table = predicted.table,
                        .dq_in_flight = predicted.dq_in_flight,
                        .l2 = predicted.l2};
  add(result.spans, index, prediction);
  if (run.elapsed && predicted.elapsed) {
    prediction.measured = *run.elapsed;
    prediction.predicted = *predicted.elapsed;
    add(result.wholes, index, std::move(prediction));
  }
  result.measured.runs.push_back(std::move(run));
}

/// The table of a run whose table was no file's, or was given.
Table known_table_of(const MeasuredRun& run) {
  if (run.table || !run.from_file) return table_of(run);
  throw Error(ErrorKind::usage, run.source + ": its table '" + run.schedule +
                                    "' was a file's: give that file with --tables");
}

Predicted predict(const Machine& machine, const MeasuredRun& run, const Table& table) {
  const TimeModel model = model_on(machine, run);
  const Timing& timing = model.timing;
  check_timing(timing, run.problem);
  if (dag::verify(table, timing).verdict != dag::Verdict::ok || table.slots.empty()) {
    throw Error(ErrorKind::usage, run.source + ": its table would not run on this machine");
  }
  const sim::Simulation simulation = sim::simulate(table, timing);
  Predicted predicted{.last_reduction = simulation.last_reduction,
                      .elapsed = model.elapsed(simulation.makespan),
                      .table = likeness(table, run)};
  if (timing.memory) {
    const sim::MemoryPlay memory = sim::play_memory(table, timing);
    predicted.last_reduction = memory.last_reduction;
    predicted.elapsed = model.elapsed(memory.makespan);
    predicted.dq_in_flight = memory.in_flight;
    predicted.l2 = timing.memory->l2;
  }
  return predicted;
}

/// Predicts a run on the machine, or says why it is skipped.
void add(PredictedRuns& result, const Machine& machine, MeasuredRun run) {
  const Table table = known_table_of(run);
  if (was_another(table, run)) {
    result.measured.skipped.push_back(run.source + ": " + run.schedule +
                                      " finds another table than the one that ran");
  } else {
    const Predicted predicted = predict(machine, run, table);
    add(result, std::move(run), predicted);
  }
}

/// What a run says of its table: the name, and the problem.
std::string identity(const std::string& name, const Problem& problem) {
  return name + '\n' + problem_json(problem).text();
}

}  // namespace

void give_tables(MeasuredRuns& measured, const std::vector<Table>& tables) {
  std::map<std::string, const Table*> found;
  for (const Table& table : tables)
    found.emplace(identity(table.name, table.problem), &table);
  for (MeasuredRun& run : measured.runs) {
    if (!run.from_file) continue;
    const auto table = found.find(identity(run.schedule, run.problem));
    if (table != found.end()) run.table = *table->second;
  }
}

Predicted predict(const Machine& machine, const MeasuredRun& run) {
  return predict(machine, run, known_table_of(run));
}

std::optional<Predicted> said_prediction(const MeasuredRun& run) {
  if (!run.predicted) return std::nullopt;
  return Predicted{.last_reduction = *run.predicted,
                   .elapsed = run.predicted_elapsed,
                   .table = known_likeness(run)};
}

const Prediction* Judged::find(std::size_t run) const {
  const auto found = std::ranges::lower_bound(runs, run);
  if (found == runs.end() || *found != run) return nullptr;
  return &predictions[static_cast<std::size_t>(found - runs.begin())];
}

PredictedRuns predict_runs(MeasuredRuns measured, std::optional<Machine> machine) {
  PredictedRuns result{.measured = {}, .machine = std::move(machine), .spans = {}, .wholes = {}};
  result.measured.skipped = std::move(measured.skipped);
  for (MeasuredRun& run : measured.runs) {
    if (result.machine) {
      add(result, *result.machine, std::move(run));
      continue;
    }
    const std::optional<Predicted> said = said_prediction(run);
    if (!said) {
      throw Error(ErrorKind::usage, run.source + " holds no prediction in ns: give --machine");
    }
    add(result, std::move(run), *said);
  }
  if (result.spans.empty()) {
    std::string skipped;
    for (const std::string& reason : result.measured.skipped)
      skipped += (skipped.empty() ? "; skipped " : "\nskipped ") + reason;
    throw Error(ErrorKind::usage, "there is no run that something is predicted of" + skipped);
  }
  for (Judged* judged : {&result.spans, &result.wholes}) {
    if (!judged->empty()) judged->accuracy = accuracy_of(judged->predictions);
  }
  return result;
}

}  // namespace stagger::workbench
