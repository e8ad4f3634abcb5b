#include "cli/accuracy.hpp"
#include "cli/commands.hpp"
#include "cli/expect.hpp"
#include "cli/files.hpp"
#include "cli/measured_runs.hpp"
#include "cli/report.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/version.hpp"
#include "dag/verify.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace stagger::cli {
namespace {

/// The timing model of a run on the machine.
Timing timing_on(const Machine& machine, const MeasuredRun& run) {
  const KernelTimes& times = times_of(machine, run.kernel);
  Timing timing =
      time_model_of(machine, times, run.tick_ns > 0 ? in_ns(run.spun, run.tick_ns) : Timing{})
          .timing;
  timing.release = run.timing.release;
  timing.residency = run.timing.residency;
  fit(timing, run.problem, machine.sms);
  return timing;
}

/// When the last reduction of a run's table ends on the machine.
Ticks predict(const Machine& machine, const MeasuredRun& run) {
  if (run.from_file) {
    throw Error(ErrorKind::usage, run.source + ": its table was a file's, and is not in it");
  }
  const Timing timing = timing_on(machine, run);
  const Table table = schedules::build(schedules::select(run.schedule), run.problem, run.timing);
  check_timing(timing, run.problem.tasks(),
               std::int64_t{run.problem.heads} * run.problem.grid.kv_tiles());
  if (dag::verify(table, timing).verdict != dag::Verdict::ok || table.slots.empty()) {
    throw Error(ErrorKind::usage, run.source + ": its table would not run on this machine");
  }
  const sim::Simulation simulation = sim::simulate(table, timing);
  return *std::max_element(simulation.reduce_start.begin(), simulation.reduce_start.end()) +
         timing.reduce;
}

/// Measured runs beside what is predicted of them.
class Comparison {
 public:
  explicit Comparison(const Options& options) : measured_(read_runs(options.measured)) {
    if (!options.machine.empty()) {
      machine_ = read_machine_json(read_file(options.machine), options.machine);
    }
    for (const MeasuredRun& run : measured_.runs) {
      predictions_.push_back({.group = group_of(run),
                              .schedule = run.schedule,
                              .measured = run.measured,
                              .predicted = predicted(run)});
    }
    if (predictions_.empty()) {
      throw Error(ErrorKind::usage, "there is no run that something is predicted of" + skipped());
    }
    accuracy_ = accuracy_of(predictions_);
  }

  [[nodiscard]] Variables variables() const {
    return {{"runs", std::ssize(predictions_)},
            {"median_ppm", accuracy_.median_ppm},
            {"worst_ppm", accuracy_.worst_ppm},
            {"pairs", accuracy_.pairs},
            {"misranked", std::ssize(accuracy_.misranked)}};
  }

  [[nodiscard]] std::string text() const {
    std::string text;
    if (machine_) text += fmt::format("{} ({})\n", machine_->name, machine_->device);
    std::string group;
    for (const Prediction& prediction : predictions_) {
      if (prediction.group != group) {
        group = prediction.group;
        text += fmt::format("\n{}\n  {:<24} {:>11} {:>11} {:>9}\n", group, "schedule", "measured",
                            "predicted", "error");
      }
      text += fmt::format("  {:<24} {:>11} {:>11} {:>+7.1f} %\n", prediction.schedule,
                          duration(prediction.measured, Clock::ns),
                          duration(prediction.predicted, Clock::ns), 100 * prediction.error());
    }
    const Prediction& worst = predictions_[accuracy_.worst];
    text += fmt::format(
        "\n{} run{}: median error {:.1f} %, worst {:.1f} % ({}, {})\n", predictions_.size(),
        predictions_.size() == 1 ? "" : "s", 1e-4 * static_cast<double>(accuracy_.median_ppm),
        1e-4 * static_cast<double>(accuracy_.worst_ppm), worst.schedule, worst.group);
    return text + ranking() + skipped() + (measured_.skipped.empty() ? "" : "\n");
  }

  [[nodiscard]] std::string json() const {
    using Json = nlohmann::ordered_json;
    Json json = {{"schema", "stagger.prediction/1"}, {"version", version()}};
    json["machine"] = machine_ ? Json(machine_->name) : Json(nullptr);
    json["runs"] = Json::array();
    for (std::size_t index = 0; index < predictions_.size(); ++index) {
      const MeasuredRun& run = measured_.runs[index];
      const Prediction& prediction = predictions_[index];
      json["runs"].push_back({{"source", run.source},
                              {"problem", Json::parse(problem_json(run.problem))},
                              {"kernel", run.kernel.kernel},
                              {"dtype", run.kernel.dtype},
                              {"head_dim", run.kernel.head_dim},
                              {"schedule", run.schedule},
                              {"measured_ns", prediction.measured},
                              {"predicted_ns", prediction.predicted},
                              {"error", prediction.error()}});
    }
    json["median_ppm"] = accuracy_.median_ppm;
    json["worst_ppm"] = accuracy_.worst_ppm;
    json["pairs"] = accuracy_.pairs;
    json["misranked"] = Json::array();
    for (const auto& [faster, slower] : accuracy_.misranked)
      json["misranked"].push_back({{"faster", faster}, {"slower", slower}});
    json["skipped"] = measured_.skipped;
    return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  [[nodiscard]] static std::string group_of(const MeasuredRun& run) {
    return problem_line(run.problem) + "; " + run.kernel.kernel +
           (run.kernel.dtype.empty()
                ? fmt::format(", a tick is {} ns", run.tick_ns)
                : fmt::format(", {}, head_dim {}", run.kernel.dtype, run.kernel.head_dim));
  }

  [[nodiscard]] Ticks predicted(const MeasuredRun& run) const {
    if (machine_) return predict(*machine_, run);
    if (run.predicted) return *run.predicted;
    throw Error(ErrorKind::usage, run.source + " holds no prediction in ns: give --machine FILE");
  }

  [[nodiscard]] std::string ranking() const {
    if (accuracy_.pairs == 0) return "ranking: no two schedules differ by more than 3 %\n";
    const std::int64_t right = accuracy_.pairs - std::ssize(accuracy_.misranked);
    std::string text =
        fmt::format("ranking: {} of {} pairs that differ by more than 3 % are predicted\n", right,
                    accuracy_.pairs);
    for (const auto& [faster, slower] : accuracy_.misranked) {
      const double longer = static_cast<double>(predictions_[slower].measured) /
                                static_cast<double>(predictions_[faster].measured) -
                            1;
      text += fmt::format("  not: {} takes {:.1f} % longer than {} ({})\n",
                          predictions_[slower].schedule, 100 * longer,
                          predictions_[faster].schedule, predictions_[faster].group);
    }
    return text;
  }

  [[nodiscard]] std::string skipped() const {
    std::string text;
    for (const std::string& reason : measured_.skipped)
      text += (text.empty() && predictions_.empty() ? "; skipped " : "\nskipped ") + reason;
    return text.starts_with('\n') ? text.substr(1) : text;
  }

  MeasuredRuns measured_;
  std::optional<Machine> machine_;
  std::vector<Prediction> predictions_;
  Accuracy accuracy_;
};

int run(const Options& options) {
  const Comparison comparison(options);
  if (options.json) {
    write_stdout(comparison.json());
  } else {
    write_text(comparison.text(), terminal_of(options));
  }
  bool all = true;
  for (const std::string& expression : options.expect) {
    if (holds(expression, comparison.variables())) continue;
    fmt::print(stderr, "stagger: expectation does not hold: {}\n", expression);
    all = false;
  }
  return all ? kHolds : kViolated;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("measured", options.measured,
                 "runs as `stagger run --json` writes them: files, or folders of *.json")
      ->type_name("RUNS")
      ->required();
  app.add_option("--machine", options.machine,
                 "the profile that predicts; without one, what the runs say themselves")
      ->type_name("FILE")
      ->group("Machine profile (ns)");
  app.add_option("--expect", options.expect,
                 "exit 1 unless this holds, of median_ppm, worst_ppm, misranked, pairs, runs")
      ->type_name("EXPR")
      ->allow_extra_args(false)
      ->group("Report");
  add_output_options(app, options);
}

}  // namespace

extern const Command kPredict;
const Command kPredict{
    .name = "predict",
    .summary = "Measured runs beside what a machine profile predicts of them",
    .examples =
        "  stagger run --mask causal --seq 4096 --tile-q 64 --tile-kv 64 --heads 8 \\\n"
        "      --sms 132 --schedule descending --device cuda --json \\\n"
        "      > runs/descending.json\n"
        "  stagger predict runs --machine configs/machines/h200.json\n"
        "  stagger predict runs --machine configs/machines/h200.json \\\n"
        "      --expect 'median_ppm <= 50000' --expect 'worst_ppm <= 150000' \\\n"
        "      --expect 'misranked == 0'\n",
    .add_options = add_options,
    .run = run,
};

}  // namespace stagger::cli
