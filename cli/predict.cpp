#include "cli/builtin.hpp"
#include "cli/commands.hpp"
#include "cli/expect.hpp"
#include "cli/files.hpp"
#include "cli/report/prediction.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "workbench/prediction.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Accuracy;
using workbench::Judged;
using workbench::MeasuredRuns;
using workbench::PredictedRuns;

/// Directories replaced by the *.json in them.
std::vector<std::string> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      if (entry.path().extension() == ".json") inside.push_back(entry.path().string());
    }
    if (error) throw Error(ErrorKind::io, path + ": cannot read: " + error.message());
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

/// Throws Error{invalid_input}, Error{io}.
MeasuredRuns read_all(const std::vector<std::string>& paths) {
  MeasuredRuns all;
  for (const std::string& path : files_of(paths)) {
    MeasuredRuns some = workbench::read_runs(read_file(path), path);
    std::ranges::move(some.runs, std::back_inserter(all.runs));
    std::ranges::move(some.skipped, std::back_inserter(all.skipped));
  }
  return all;
}

/// Throws Error{invalid_input}, Error{io}.
std::vector<Table> tables_of(const std::vector<std::string>& paths) {
  std::vector<Table> tables;
  for (const std::string& path : files_of(paths))
    tables.push_back(read_table_json(read_file(path), path));
  return tables;
}

/// `--expect` can ask for these.
constexpr std::array kPredictNames = {
    ExpectName{"runs", "runs that something is predicted of"},
    ExpectName{"median_ppm", "median error of a makespan, in millionths"},
    ExpectName{"worst_ppm", "the largest error"},
    ExpectName{"pairs", "pairs of runs that differ by more than noise"},
    ExpectName{"misranked", "of them, those whose order is not the predicted one"},
    ExpectName{"noise_ppm", "what equal runs differ by"},
    ExpectName{"whole_runs", "of them, those whose whole time is known"},
    ExpectName{"whole_median_ppm", "as median_ppm, of whole runs"},
    ExpectName{"whole_worst_ppm", "as worst_ppm, of whole runs"},
    ExpectName{"whole_pairs", "as pairs, of whole runs"},
    ExpectName{"whole_misranked", "as misranked, of whole runs"},
    ExpectName{"whole_noise_ppm", "as noise_ppm, of whole runs"},
    ExpectName{"in_l2_runs", "runs whose dQ in flight stays in L2, by the profile"},
    ExpectName{"in_l2_mean_ppm", "their mean error, below 0 if predicted too fast"},
    ExpectName{"in_l2_median_ppm", "as median_ppm, of these"},
    ExpectName{"in_l2_worst_ppm", "as worst_ppm, of these"},
    ExpectName{"beyond_l2_runs", "runs with more dQ in flight than that"},
    ExpectName{"beyond_l2_mean_ppm", "their mean error"},
    ExpectName{"beyond_l2_median_ppm", "as median_ppm, of these"},
    ExpectName{"beyond_l2_worst_ppm", "as worst_ppm, of these"},
    ExpectName{"whole_in_l2_runs", "as in_l2_runs, of whole runs"},
    ExpectName{"whole_in_l2_mean_ppm", "as in_l2_mean_ppm, of whole runs"},
    ExpectName{"whole_in_l2_median_ppm", "as in_l2_median_ppm, of whole runs"},
    ExpectName{"whole_in_l2_worst_ppm", "as in_l2_worst_ppm, of whole runs"},
    ExpectName{"whole_beyond_l2_runs", "as beyond_l2_runs, of whole runs"},
    ExpectName{"whole_beyond_l2_mean_ppm", "as beyond_l2_mean_ppm, of whole runs"},
    ExpectName{"whole_beyond_l2_median_ppm", "as beyond_l2_median_ppm, of whole runs"},
    ExpectName{"whole_beyond_l2_worst_ppm", "as beyond_l2_worst_ppm, of whole runs"},
};

void add_values(Values& values, const std::string& prefix, const workbench::Errors& errors) {
  values[prefix + "runs"] = exact(errors.runs);
  if (errors.runs == 0) return;
  values[prefix + "mean_ppm"] = exact(errors.mean_ppm);
  values[prefix + "median_ppm"] = exact(errors.median_ppm);
  values[prefix + "worst_ppm"] = exact(errors.worst_ppm);
}

void add_values(Values& values, const std::string& prefix, const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  for (const auto& [name, value] :
       {std::pair{"runs", std::ssize(judged.runs)}, std::pair{"median_ppm", accuracy.median_ppm},
        std::pair{"worst_ppm", accuracy.worst_ppm}, std::pair{"pairs", accuracy.pairs},
        std::pair{"misranked", std::ssize(accuracy.misranked)},
        std::pair{"noise_ppm", accuracy.noise_ppm}})
    values[prefix + name] = exact(value);
  add_values(values, prefix + "in_l2_", accuracy.in_l2);
  add_values(values, prefix + "beyond_l2_", accuracy.beyond_l2);
}

Values values_of(const PredictedRuns& predicted) {
  Values values;
  add_values(values, "", predicted.spans);
  if (!predicted.wholes.empty()) add_values(values, "whole_", predicted.wholes);
  return values;
}

int predict_command(const Options& options) {
  const std::vector<Expectation> expectations = expectations_of(options.expect, kPredictNames);
  MeasuredRuns measured = read_all(options.measured);
  workbench::give_tables(measured, tables_of(options.tables));
  std::optional<Machine> machine;
  if (!options.machine.empty()) machine = find_machine(options.machine);
  const PredictedRuns predicted = workbench::predict_runs(std::move(measured), std::move(machine));
  const Values values = values_of(predicted);
  const std::vector<Judgement> judgements = judge(expectations, &values);
  for (const Judgement& judgement : judgements) {
    if (judgement.unknown.empty()) continue;
    const std::string& name = judgement.unknown.front();
    throw Error(ErrorKind::usage, "--expect '" + judgement.text + "': " + name + " has no value: " +
                                      (predicted.wholes.empty() && name.starts_with("whole_")
                                           ? "no run says how long the whole of it took"
                                           : "there is no such run, by a profile's memory"));
  }
  if (options.json) {
    write_stdout(prediction_json(predicted, judgements).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(prediction_text(predicted, terminal.width, !options.summary), terminal);
  }
  return all_hold(judgements) ? kHolds : kViolated;
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
        "  stagger predict runs --machine h200\n"
        "  stagger predict runs --machine h200 \\\n"
        "      --expect 'median_ppm <= 50000' --expect 'worst_ppm <= 150000' \\\n"
        "      --expect 'misranked == 0'\n"
        "  scripts/bench_gpu.py --all-schedules --no-torch --runs grid.jsonl\n"
        "  stagger predict grid.jsonl --machine h200 \\\n"
        "      --expect 'whole_median_ppm <= 50000' --expect 'whole_worst_ppm <= 150000'\n"
        "  scripts/random_tables.py --of random.jsonl --folder tables\n"
        "  stagger predict random.jsonl --tables tables --machine h200.json\n",
    .run = predict_command,
    .names = [] { return std::vector(kPredictNames.begin(), kPredictNames.end()); },
};

}  // namespace stagger::cli
