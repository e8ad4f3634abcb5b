#include "cli/report/prediction.hpp"

#include "cli/report/json.hpp"
#include "cli/report/words.hpp"
#include "cli/terminal.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Accuracy;
using workbench::Judged;
using workbench::MeasuredRun;
using workbench::PredictedRuns;
using workbench::Prediction;

constexpr int kName = 15;  ///< columns of a schedule's name: the table is 79 wide

std::string noise(const Accuracy& accuracy) {
  if (accuracy.alike == 0) return "";
  return fmt::format(
      "  noise: {} of one table, but for the names of tiles: apart by {:.1f} % in the median, "
      "{:.1f} % at most\n",
      counted(accuracy.alike, "pair"), 1e-4 * static_cast<double>(accuracy.noise_median_ppm),
      1e-4 * static_cast<double>(accuracy.noise_ppm));
}

std::string ranking(const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  if (accuracy.pairs == 0) {
    return "  ranking: no two schedules differ by more than 3 %\n" + noise(accuracy);
  }
  const std::int64_t right = accuracy.pairs - std::ssize(accuracy.misranked);
  std::string text =
      fmt::format("  ranking: {} of {} that differ by more than 3 % {} predicted\n", right,
                  counted(accuracy.pairs, "pair"), accuracy.pairs == 1 ? "is" : "are");
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

/// How far runs are off whose dQ outgrows L2, and the others, if there are such.
std::string by_memory(const Accuracy& accuracy) {
  if (accuracy.beyond_l2.runs == 0) return "";
  std::string text;
  for (const auto& [where, errors] :
       {std::pair{"within", accuracy.in_l2}, {"beyond", accuracy.beyond_l2}}) {
    if (errors.runs == 0) continue;
    text += fmt::format(
        "  dQ {} L2: {}, median error {:.1f} %, worst {:.1f} %, mean {:+.1f} %\n", where,
        counted(errors.runs, "run"), 1e-4 * static_cast<double>(errors.median_ppm),
        1e-4 * static_cast<double>(errors.worst_ppm), 1e-4 * static_cast<double>(errors.mean_ppm));
  }
  return text;
}

/// `whole run, 3 runs: median error 4.9 %, worst 5.7 % (…)` and the ranking.
std::string summary(const char* what, const Judged& judged) {
  if (judged.empty()) return "";
  const Accuracy& accuracy = judged.accuracy;
  const Prediction& worst = judged.predictions[accuracy.worst];
  return fmt::format("{}, {}: median error {:.1f} %, worst {:.1f} % ({}, {})\n", what,
                     counted(std::ssize(judged.runs), "run"),
                     1e-4 * static_cast<double>(accuracy.median_ppm),
                     1e-4 * static_cast<double>(accuracy.worst_ppm), worst.schedule, worst.group) +
         by_memory(accuracy) + ranking(judged);
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

/// The runs of one group, in one unit.
class Group {
 public:
  Group(const PredictedRuns& predicted, std::span<const std::size_t> runs)
      : predicted_(predicted), runs_(runs) {
    Ticks longest = 0;
    for (const std::size_t run : runs) {
      const Prediction* const whole = predicted.wholes.find(run);
      for (const Prediction* prediction : {&predicted.spans.predictions[run], whole}) {
        if (prediction == nullptr) continue;
        longest = std::max({longest, prediction->measured, prediction->predicted});
      }
    }
    unit_ = unit_of_ns(longest);
  }

  /// First task to last and whole run beside each other, or one above the other.
  [[nodiscard]] std::string text(int width) const {
    constexpr int kBoth = 79;
    const std::string group = predicted_.spans.predictions[runs_.front()].group;
    std::string text = "\n" + wrapped(group + "\n", width, 6);
    if (predicted_.wholes.empty()) return text + table({&kSpan}, width);
    if (width >= kBoth) return text + table({&kSpan, &kWhole}, width);
    return text + table({&kSpan}, width) + table({&kWhole}, width);
  }

 private:
  /// One of the two times that are predicted of a run.
  struct Time {
    const char* name;
    const Judged PredictedRuns::*judged;
  };
  static constexpr Time kSpan = {"first task to last", &PredictedRuns::spans};
  static constexpr Time kWhole = {"whole run", &PredictedRuns::wholes};

  [[nodiscard]] std::string table(const std::vector<const Time*>& times, int width) const {
    std::string first = fmt::format("  {:<{}}", "", kName);
    std::string second = fmt::format("  {:<{}}", "schedule", kName);
    const char* separator = " ";
    for (const Time* time : times) {
      first += fmt::format("{}{:<29}", separator, fmt::format("{}, {}", time->name, unit_.name));
      second += fmt::format("{}{:>10} {:>10} {:>7}", separator, "measured", "predicted", "error");
      separator = " | ";
    }
    std::string text = without_blanks_behind(first) + "\n" + second + "\n";
    for (const std::size_t run : runs_) {
      std::string name = predicted_.spans.predictions[run].schedule;
      if (width_of(name) > kName) {  // it has lines of its own
        text += wrapped("  " + name + "\n", width, 4);
        name.clear();
      }
      std::string line = fmt::format("  {:<{}}", name, kName);
      separator = " ";
      for (const Time* time : times) {
        const Prediction* const prediction = (predicted_.*time->judged).find(run);
        if (prediction != nullptr) line += std::exchange(separator, " | ") + columns(*prediction);
      }
      text += without_blanks_behind(line) + "\n";
    }
    return text;
  }

  static std::string without_blanks_behind(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  /// `measured, predicted, error`.
  [[nodiscard]] std::string columns(const Prediction& prediction) const {
    return fmt::format("{:>10} {:>10} {:>+5.1f} %", unit_.number(prediction.measured),
                       unit_.number(prediction.predicted), 100 * prediction.error());
  }

  const PredictedRuns& predicted_;
  std::span<const std::size_t> runs_;
  TimeUnit unit_;
};

std::string lines(const PredictedRuns& predicted, int width) {
  const std::vector<std::size_t> order = by_group(predicted.spans);
  const auto group_of = [&](std::size_t run) -> const std::string& {
    return predicted.spans.predictions[run].group;
  };
  std::string text;
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(
        begin, order.end(), [&](std::size_t run) { return group_of(run) != group_of(*begin); });
    text += Group(predicted, {begin, end}).text(width);
    begin = end;
  }
  return text;
}

Json misranked_json(const Judged& judged) {
  Json json = Json::array();
  for (const auto& [faster, slower] : judged.accuracy.misranked)
    json.push_back({{"faster", judged.runs[faster]}, {"slower", judged.runs[slower]}});
  return json;
}

Json errors_json(const workbench::Errors& errors) {
  if (errors.runs == 0) return {};
  return {{"runs", errors.runs},
          {"mean_ppm", errors.mean_ppm},
          {"median_ppm", errors.median_ppm},
          {"worst_ppm", errors.worst_ppm}};
}

Json accuracy_json(const Judged& judged) {
  const Accuracy& accuracy = judged.accuracy;
  return {{"median_ppm", accuracy.median_ppm},
          {"worst_ppm", accuracy.worst_ppm},
          {"in_l2", errors_json(accuracy.in_l2)},
          {"beyond_l2", errors_json(accuracy.beyond_l2)},
          {"pairs", accuracy.pairs},
          {"misranked", misranked_json(judged)},
          {"alike", accuracy.alike},
          {"noise_median_ppm", accuracy.noise_median_ppm},
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
          {"dq_in_flight_bytes", span.l2 == 0 ? Json() : Json(span.dq_in_flight)},
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
    text += wrapped("skipped " + reason + "\n", width, 6);
  return text;
}

}  // namespace stagger::cli
