#include "cli/report/prediction.hpp"

#include "cli/report/duration.hpp"
#include "cli/report/json.hpp"
#include "cli/terminal.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Accuracy;
using workbench::Clock;
using workbench::Judged;
using workbench::MeasuredRun;
using workbench::PredictedRuns;
using workbench::Prediction;

constexpr int kName = 15;  ///< columns of a schedule's name: the table is 79 wide

std::string noise(const Accuracy& accuracy) {
  if (accuracy.alike == 0) return "";
  return fmt::format(
      "  noise: {} pair{} of one table, but for the names of tiles: apart by {:.1f} % in the "
      "median, {:.1f} % at most\n",
      accuracy.alike, accuracy.alike == 1 ? "" : "s",
      1e-4 * static_cast<double>(accuracy.noise_median_ppm),
      1e-4 * static_cast<double>(accuracy.noise_ppm));
}

std::string ranking(const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  if (accuracy.pairs == 0) {
    return "  ranking: no two schedules differ by more than 3 %\n" + noise(accuracy);
  }
  const std::int64_t right = accuracy.pairs - std::ssize(accuracy.misranked);
  std::string text =
      fmt::format("  ranking: {} of {} pairs that differ by more than 3 % are predicted\n", right,
                  accuracy.pairs);
  for (const auto& [faster, slower] : accuracy.misranked) {
    const Prediction& first = judged.predictions[faster];
    const Prediction& second = judged.predictions[slower];
    const double longer =
        static_cast<double>(second.measured) / static_cast<double>(first.measured) - 1;
    text += fmt::format("    not: {} takes {:.1f} % longer than {} ({})\n", second.schedule,
                        100 * longer, first.schedule, first.group);
  }
  return text + noise(accuracy);
}

/// `whole run, 3 runs: median error 4.9 %, worst 5.7 % (…)` and the ranking.
std::string summary(const char* what, const Judged& judged) {
  if (judged.empty()) return "";
  const Accuracy& accuracy = judged.accuracy;
  const Prediction& worst = judged.predictions[accuracy.worst];
  return fmt::format("{}, {} run{}: median error {:.1f} %, worst {:.1f} % ({}, {})\n", what,
                     judged.runs.size(), judged.runs.size() == 1 ? "" : "s",
                     1e-4 * static_cast<double>(accuracy.median_ppm),
                     1e-4 * static_cast<double>(accuracy.worst_ppm), worst.schedule, worst.group) +
         ranking(judged);
}

/// `measured, predicted, error`.
std::string columns(const Prediction& prediction) {
  return fmt::format(" {:>10} {:>10} {:>+5.1f} %", duration(prediction.measured, Clock::ns),
                     duration(prediction.predicted, Clock::ns), 100 * prediction.error());
}

/// Runs, those of a group behind its first one.
std::vector<std::size_t> by_group(const Judged& spans) {
  std::map<std::string, std::size_t> first;
  std::vector<std::size_t> order(spans.runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const std::size_t index : order)
    first.try_emplace(spans.predictions[index].group, index);
  std::ranges::stable_sort(
      order, {}, [&](std::size_t index) { return first.at(spans.predictions[index].group); });
  return order;
}

std::string heading(const std::string& group, int width, bool wholes) {
  const std::string names = fmt::format(" {:>10} {:>10} {:>7}", "measured", "predicted", "error");
  std::string text = "\n" + wrapped(group + "\n", width, 6);
  if (wholes) {
    text += fmt::format("  {:<{}} {:<29} | {}\n", "", kName, "first task to last", "whole run");
  }
  return text + fmt::format("  {:<{}}", "schedule", kName) + names + (wholes ? " |" + names : "") +
         "\n";
}

std::string lines(const PredictedRuns& predicted, int width) {
  std::string text;
  std::string group;
  for (const std::size_t index : by_group(predicted.spans)) {
    const Prediction& span = predicted.spans.predictions[index];
    if (span.group != group) text += heading(span.group, width, !predicted.wholes.empty());
    group = span.group;
    text += fmt::format("  {:<{}}", span.schedule, kName) + columns(span);
    const Prediction* const whole = predicted.wholes.find(index);
    text += (whole == nullptr ? "" : " |" + columns(*whole)) + "\n";
  }
  return text;
}

Json misranked_json(const Judged& judged) {
  Json json = Json::array();
  for (const auto& [faster, slower] : judged.accuracy.misranked)
    json.push_back({{"faster", judged.runs[faster]}, {"slower", judged.runs[slower]}});
  return json;
}

Json accuracy_json(const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  return {{"median_ppm", accuracy.median_ppm}, {"worst_ppm", accuracy.worst_ppm},
          {"pairs", accuracy.pairs},           {"misranked", misranked_json(judged)},
          {"alike", accuracy.alike},           {"noise_median_ppm", accuracy.noise_median_ppm},
          {"noise_ppm", accuracy.noise_ppm}};
}

Json whole_json(const Prediction& whole) {
  return {
      {"measured_ns", whole.measured}, {"predicted_ns", whole.predicted}, {"error", whole.error()}};
}

Json run_json(const MeasuredRun& run, const Prediction& span, const Prediction* whole) {
  return {{"source", run.source},
          {"problem", workbench::counted_problem_json(run.problem)},
          {"kernel", run.kernel.kernel},
          {"dtype", run.kernel.dtype},
          {"head_dim", run.kernel.head_dim},
          {"schedule", run.schedule},
          {"measured_ns", span.measured},
          {"predicted_ns", span.predicted},
          {"error", span.error()},
          {"whole", whole == nullptr ? Json() : whole_json(*whole)}};
}

}  // namespace

Json prediction_json(const PredictedRuns& predicted, std::span<const Judgement> judgements) {
  Json json = {{"schema", "stagger.prediction/1"},
               {"version", version()},
               {"machine", predicted.machine ? Json(predicted.machine->name) : Json()},
               {"runs", Json::array()}};
  for (std::size_t index = 0; index < predicted.spans.predictions.size(); ++index) {
    json["runs"].push_back(run_json(predicted.measured.runs[index],
                                    predicted.spans.predictions[index],
                                    predicted.wholes.find(index)));
  }
  json.append(accuracy_json(predicted.spans));
  json["whole"] = nullptr;
  if (!predicted.wholes.empty()) {
    json["whole"] = {{"runs", predicted.wholes.runs.size()}};
    json["whole"].append(accuracy_json(predicted.wholes));
  }
  json["skipped"] = predicted.measured.skipped;
  if (!judgements.empty()) json["expectations"] = judgements_json(judgements);
  return json;
}

std::string prediction_text(const PredictedRuns& predicted, int width, bool each) {
  std::string text;
  if (const auto& machine = predicted.machine) {
    text += fmt::format("{} ({})\n", machine->name, machine->device);
  }
  if (each) text += lines(predicted, width);
  text += '\n' + wrapped(summary("first task to last", predicted.spans) +
                             summary("whole run", predicted.wholes),
                         width, 6);
  for (const std::string& reason : predicted.measured.skipped)
    text += "skipped " + reason + "\n";
  return text;
}

}  // namespace stagger::cli
