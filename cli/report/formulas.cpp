#include "cli/report/formulas.hpp"

#include "core/text.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {

using workbench::SweptFormula;
using workbench::Tally;

namespace {

std::string half(Ticks twice) {
  return fmt::format("{}{}", twice / 2, twice % 2 != 0 ? ".5" : "");
}

std::string describe(const Tally::Failure& failure) {
  const std::string group = failure.at.group == 1 ? "" : fmt::format(" g={}", failure.at.group);
  return fmt::format("n_kv={} n_q={} m={}{} c={} r={}: formula {}, makespan {}", failure.at.n_kv,
                     failure.at.n_q, failure.at.heads, group, failure.at.compute, failure.at.reduce,
                     half(failure.twice_formula), failure.makespan);
}

/// `1 of 1 case holds`.
std::string tally_words(const Tally& tally) {
  return fmt::format("{} of {} {}", tally.holds, counted(tally.checked, "case"),
                     does(tally.holds, "holds", "hold"));
}

Json to_json(const Tally& tally) {
  Json json = {{"checked", tally.checked}, {"holds", tally.holds}, {"first_failure", nullptr}};
  if (tally.first_failure) {
    const auto& [at, twice, makespan] = *tally.first_failure;
    json["first_failure"] = {{"n_kv", at.n_kv},     {"n_q", at.n_q},  {"m", at.heads},
                             {"c", at.compute},     {"r", at.reduce}, {"twice_formula", twice},
                             {"makespan", makespan}};
    if (at.group > 1) json["first_failure"]["g"] = at.group;
  }
  return json;
}

}  // namespace

Json formulas_json(const std::vector<SweptFormula>& results, bool complete) {
  Json rows = Json::array();
  for (const SweptFormula& result : results) {
    rows.push_back({{"name", result.formula->name},
                    {"text", result.formula->text},
                    {"schedule", result.schedule->name},
                    {"source", result.formula->source},
                    {"domain", result.formula->domain},
                    {"holds", complete || result.checked() ? Json(result.holds()) : Json()},
                    {"inside", to_json(result.inside)},
                    {"outside", to_json(result.outside)}});
  }
  return {{"schema", "stagger.formulas/1"},
          {"version", version()},
          {"complete", complete},
          {"formulas", std::move(rows)}};
}

std::string formulas_text(const std::vector<SweptFormula>& results, bool complete) {
  std::string text;
  for (const SweptFormula& result : results) {
    const bool holds = result.holds();
    const char* const verdict = !complete && !result.checked() ? "not checked"
                                : holds                        ? "ok"
                                                               : "FAILS";
    text += fmt::format("{} = {}   ({}; {})\n", result.formula->name, result.formula->text,
                        result.schedule->name, result.formula->source);
    text += fmt::format("  domain: {}\n", result.formula->domain);
    text += fmt::format("  inside: {}: {}\n", tally_words(result.inside), verdict);
    if (!holds) text += "    first: " + describe(*result.inside.first_failure) + "\n";
    if (result.outside.checked > 0) {
      text += fmt::format("  outside: {}\n", tally_words(result.outside));
    }
    if (result.outside.first_failure) {
      text += "    first that does not: " + describe(*result.outside.first_failure) + "\n";
    }
  }
  if (!complete) text += "Not every case was checked.\n";
  return text + "Every makespan is the simulator's and the graph's longest path.\n";
}

}  // namespace stagger::cli
