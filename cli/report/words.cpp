#include "cli/report/words.hpp"

#include "core/printable.hpp"
#include "core/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace stagger::cli {

using workbench::TimeModel;

std::string grouped(std::int64_t number) {
  return TimeUnit{}.number(number);
}

std::string markdown_cell(const std::string& words) {
  std::string text;
  for (const char letter : words) {
    if (std::string_view("|\\`*_<>[]").find(letter) != std::string_view::npos) text += '\\';
    text += letter;
  }
  return text;
}

std::string milliseconds(double ms) {
  constexpr double kLongest = 1e12;  // 30 years
  if (!(std::abs(ms) < kLongest)) return fmt::format("{:.3e}", ms);
  constexpr TimeUnit kMs{
      .name = "ms", .one = "ms", .ascii = "ms", .ticks = 1'000'000, .decimals = 3};
  return kMs.number(std::llround(1e6 * ms));
}

std::string percent(Ticks part, Ticks whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::size_t columns_that_fit(std::span<const std::size_t> widths, int room, std::size_t least) {
  std::size_t fits = 0;
  std::size_t taken = 0;
  for (; fits < widths.size(); ++fits) {
    taken += (fits == 0 ? 0 : 1) + widths[fits];
    if (fits >= least && taken > static_cast<std::size_t>(std::max(room, 0))) break;
  }
  return fits;
}

std::string in_csv(const std::string& words) {
  if (words.find_first_of(",\"\r\n") == std::string::npos) return words;
  std::string text = "\"";
  for (const char letter : words) {
    if (letter == '"') text += '"';
    text += letter;
  }
  return text + "\"";
}

std::string assumed_words(std::int64_t tiles) {
  return "a lower triangle in each of " + counted(tiles, "partial tile") +
         ": the mask does not say which of their pairs attend, so gradients are right for that";
}

std::string model_line(const TimeModel& model) {
  const Timing& timing = model.timing;
  const TimeUnit unit = unit_of(
      model.unit(),
      std::max({timing.compute, timing.compute_partial.value_or(0), timing.reduce, timing.latency,
                timing.launch, timing.epilogue, timing.reduce_kv, timing.next_lane.value_or(0)}));
  std::string line =
      fmt::format("{}, compute {}", model_name(timing.model), unit.number(timing.compute));
  if (!timing.uniform()) line += fmt::format(" (partial {})", unit.number(*timing.compute_partial));
  line += ", reduce " + unit.number(timing.reduce);
  for (const auto& [name, ticks] :
       {std::pair{"latency", timing.latency}, std::pair{"launch", timing.launch},
        std::pair{"epilogue", timing.epilogue}, std::pair{"reduce-kv", timing.reduce_kv}}) {
    if (ticks != 0) line += fmt::format(", {} {}", name, unit.number(ticks));
  }
  if (timing.next_lane) line += ", next lane " + unit.number(*timing.next_lane);
  line += std::string(" ") + unit.name;
  if (timing.steps > 1) line += fmt::format(", in {} steps", timing.steps);
  if (timing.cut_partial) line += ", cut KV tiles partial";
  if (timing.reduce_kv_async) line += ", reduce-kv by a writer";
  if (timing.release == Release::delayed) line += ", delayed release";
  if (timing.residency != 0) line += ", " + counted(timing.residency, "SM") + " resident";
  return line;
}

std::string machine_line(const TimeModel& model) {
  return printable(model.machine + " (" + model.device + "): " + describe(model.kernel));
}

std::string around_words(const TimeModel& model, const TimeUnit& unit) {
  std::string words = "start " + unit.number(model.start);
  if (model.passes > 0) words += ", passes " + unit.number(model.passes);
  return words;
}

}  // namespace stagger::cli
