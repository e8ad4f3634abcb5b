#include "cli/report/optimum.hpp"

#include "cli/report/text.hpp"
#include "cli/report/words.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace stagger::cli {
namespace {

using search::ProofKind;
using workbench::Advice;
using workbench::ArchiveCheck;
using workbench::ArchiveOutcome;
using workbench::Finalist;
using workbench::Optimization;

constexpr ArchiveOutcome kOutcomes[] = {ArchiveOutcome::holds,        ArchiveOutcome::is_new,
                                        ArchiveOutcome::better,       ArchiveOutcome::not_reached,
                                        ArchiveOutcome::contradicted, ArchiveOutcome::refused};

Json bound_json(Ticks ticks, const std::string& by) {
  return {{"ticks", ticks}, {"by", by}};
}

Json best_named_json(const Optimization& optimization) {
  if (!optimization.best_named) return nullptr;
  const Optimization::Named& named = *optimization.best_named;
  Json json = {{"schedule", named.schedule}, {"makespan", named.makespan}};
  if (optimization.problem.group() > 1) {
    json["span"] = named.span;
    json["passes"] = named.passes;
  }
  return json;
}

Json advice_json(const Optimization& optimization) {
  Json json = Json::array();
  for (const Advice& advice : optimization.advice) {
    json.push_back(
        {{"change", advice.change}, {"lower_bound", bound_json(advice.lower_bound, advice.by)}});
  }
  return json;
}

/// The unit of all times that are printed of a search.
TimeUnit unit_for(const Optimization& optimization) {
  if (optimization.slot_model) return {.name = "rounds", .one = "round", .ascii = "rounds"};
  const auto& best = optimization.optimum.best;
  return stagger::unit_of(optimization.model.unit(), best ? best->makespan : 0);
}

std::string bound_line(const Optimization& optimization) {
  const search::ProvenBound& bound = optimization.optimum.lower_bound;
  const dag::Bound& first = optimization.bounds.best;
  return fmt::format("lower bound  {} ({}{})\n", unit_for(optimization).number(bound.ticks),
                     bound.by, bound.ticks == first.ticks ? std::string(": ") + first.why : "");
}

std::string status_line(const Optimization& optimization) {
  const search::Optimum& optimum = optimization.optimum;
  if (optimum.proof != ProofKind::none) {
    return fmt::format("status       optimal: {}\n", optimum.detail);
  }
  const Ticks bound = optimum.lower_bound.ticks;
  return fmt::format("status       feasible, gap {}{}\n",
                     percent(optimum.best->makespan - bound, std::max<Ticks>(bound, 1)),
                     optimum.stopped ? ": stopped before a proof" : "");
}

/// Why a shorter table was not taken, as far as costs tell (schedules/search/rating.hpp).
const char* why_dearer(const Optimization& optimization) {
  const std::optional<Memory>& memory = optimization.model.timing.memory;
  return memory && memory->spread > 0
             ? "longer by other draws of chance, or for dQ that L2 does not hold"
             : "L2 does not hold its dQ tiles in flight";
}

/// ` with 2 heads a chain`, of a table whose span is another one than what was found has.
std::string chains_beside(const Optimization& optimization, std::int32_t span) {
  if (span == optimization.problem.span) return "";
  return " with " + counted(span, "head") + " a chain";
}

std::string best_named_line(const Optimization& optimization) {
  if (!optimization.best_named) return "";
  const Optimization::Named& named = *optimization.best_named;
  const bool alike = named.passes == optimization.model.passes;
  const Ticks own = optimization.optimum.best->makespan + (alike ? 0 : optimization.model.passes);
  const Ticks other = alike ? named.makespan : named.whole();
  std::string beside;
  if (other > own) beside = ", " + percent(other - own, own) + " more";
  if (other < own) beside = std::string(", but ") + why_dearer(optimization);
  if (other > own && !alike) beside += " with its passes";
  return fmt::format("best named   {} ({}{}{})\n", unit_for(optimization).number(named.makespan),
                     named.schedule, chains_beside(optimization, named.span), beside);
}

std::string advice_lines(const Optimization& optimization) {
  std::string text;
  const char* label = "would help  ";
  for (const Advice& advice : optimization.advice) {
    if (advice.lower_bound >= optimization.bounds.best.ticks) continue;
    text +=
        fmt::format("{} bound {} ({}): {}\n", std::exchange(label, "            "),
                    unit_for(optimization).number(advice.lower_bound), advice.by, advice.change);
  }
  return text;
}

/// What became of the proof file that was asked for.
std::string proof_line(const Optimization& optimization, const std::string& file) {
  const search::Optimum& optimum = optimization.optimum;
  if (file.empty()) return "";
  if (optimum.proof_written) {
    return fmt::format("proof        {} (DRAT): {}\n", file, optimum.detail);
  }
  const char* const why = !optimization.slot_model ? "not written, it is for --model slot"
                          : optimum.proof == ProofKind::bound
                              ? "not needed, a bound is reached; not written"
                              : "not written, no number of rounds was refuted";
  return fmt::format("proof        {}: {}\n", file, why);
}

Json measured_json(const MeasuredFinalists& measured) {
  if (!measured.asked()) return nullptr;
  Json finalists = Json::array();
  for (const Finalist& each : measured.finalists) {
    Json runs = Json::array();
    for (const std::int64_t ns : each.ns)
      runs.push_back(ns);
    finalists.push_back({{"schedule", each.name},
                         {"span", each.table.problem.span},
                         {"makespan", each.makespan},
                         {"cost", each.cost},
                         {"elapsed_ns", each.model.elapsed(each.makespan)},
                         {"median_ns", each.ns.empty() ? Json() : Json(each.median_ns())},
                         {"ns", std::move(runs)},
                         {"failed", each.failed.empty() ? Json() : Json(each.failed)}});
  }
  const Finalist* const fastest = measured.fastest();
  return {{"device", measured.device},
          {"fastest", fastest ? Json(fastest->name) : Json()},
          {"finalists", std::move(finalists)}};
}

/// A line for each table that was run: what it took, and its makespan.
std::string measured_lines(const Optimization& optimization, const MeasuredFinalists& measured) {
  if (!measured.asked()) return "";
  std::string text = fmt::format(
      "measured     by {}, whole runs in turns, rested; beside predictions\n", measured.device);
  for (const Finalist& each : measured.finalists) {
    const std::string taken = each.failed.empty()
                                  ? fmt::format("{:.3f} ms", 1e-6 * double(each.median_ns()))
                                  : each.failed;
    text += fmt::format("             {}  {}  {}{}\n", taken,
                        unit_for(optimization).number(each.model.elapsed(each.makespan)), each.name,
                        chains_beside(optimization, each.table.problem.span));
  }
  return text;
}

/// `not reached`.
std::string words_of(ArchiveOutcome outcome) {
  std::string words = outcome_name(outcome);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string found_line(const ArchiveCheck& check, const ArchiveCheck::Found& found) {
  const workbench::ArchiveEntry& entry = check.archive[found.entry];
  const Problem& problem = entry.problem;
  const std::string known = found.known ? fmt::format(" (known {})", *found.known) : "";
  const bool refused = found.outcome == ArchiveOutcome::refused;
  return fmt::format("{}: {} n={} m={} S={} {}: {}\n", words_of(found.outcome),
                     mask_words(problem.mask), problem.kv_tiles(), problem.heads, problem.sms,
                     entry.model_word(),
                     refused ? found.why : std::to_string(found.makespan) + known);
}

}  // namespace

const Finalist* MeasuredFinalists::fastest() const {
  if (finalists.empty() || !finalists.front().failed.empty()) return nullptr;
  return &finalists.front();
}

Json optimum_json(const Optimization& optimization, const MeasuredFinalists& measured,
                  const OptimumFiles& files) {
  const search::Optimum& optimum = optimization.optimum;
  const auto& best = optimum.best;
  const search::ProvenBound& bound = optimum.lower_bound;
  Json json = {{"schema", "stagger.optimum/1"},
               {"version", version()},
               {"problem", workbench::counted_problem_json(optimization.problem)}};
  workbench::add_dkv(json, optimization.problem);
  json.append({{"model", optimization.slot_model
                             ? Json{{"kind", "slot"}}
                             : workbench::model_json(optimization.problem, optimization.model)},
               {"makespan", best ? Json(best->makespan) : Json()},
               {"cost", best ? Json(best->cost) : Json()},
               {"unit", optimization.unit()},
               {"lower_bound", bound_json(bound.ticks, bound.by)},
               {"status", optimization.status()},
               {"proof",
                {{"kind", optimization.proof()},
                 {"detail", optimum.detail},
                 {"file", optimum.proof_written ? Json(files.proof) : Json()}}},
               {"stopped", optimum.stopped},
               {"schedule", best ? Json(best->table.name) : Json()},
               {"found_by", best ? Json(optimization.found_by) : Json()},
               {"written", files.table.empty() ? Json() : Json(files.table)},
               {"best_named", best_named_json(optimization)},
               {"imported", optimization.imported},
               {"measured", measured_json(measured)},
               {"advice", advice_json(optimization)},
               {"seconds", optimization.seconds}});
  return json;
}

std::string optimum_text(const Optimization& optimization, const MeasuredFinalists& measured,
                         const OptimumFiles& files) {
  const search::Optimum& optimum = optimization.optimum;
  std::string text = describe(optimization.problem) + "\n" +
                     (optimization.slot_model ? "slot model" : model_line(optimization.model)) +
                     "\n\n";
  if (optimization.problem.group() > 1) {
    text += "span         " + span_line(optimization.problem) + "\n";
  }
  if (!optimum.best) return text + "no table was found\n";
  text += fmt::format("makespan     {}\n", unit_for(optimization).text(optimum.best->makespan));
  text += bound_line(optimization) + status_line(optimization);
  text += fmt::format("found by     {}\n", optimization.found_by);
  text += best_named_line(optimization);
  if (optimization.imported)
    text += fmt::format("imported     {}\n", unit_for(optimization).number(*optimization.imported));
  text += proof_line(optimization, files.proof) + measured_lines(optimization, measured);
  const Finalist* const fastest = measured.fastest();
  if (!files.table.empty()) {
    text += fmt::format("written      {}{}\n", files.table,
                        fastest ? ": " + fastest->name + ", the fastest" : "");
  }
  return text + advice_lines(optimization);
}

Json archive_json(const ArchiveCheck& check) {
  Json json = {{"schema", "stagger.archive-check/1"},
               {"version", version()},
               {"entries", check.archive.size()}};
  for (const ArchiveOutcome outcome : kOutcomes)
    json[outcome_name(outcome)] = check.count(outcome);
  json["optimal"] = check.optimal;
  return json;
}

std::string archive_text(const ArchiveCheck& check) {
  std::string text;
  for (const ArchiveCheck::Found& found : check.found) {
    if (found.outcome != ArchiveOutcome::holds) text += found_line(check, found);
  }
  const auto count = [&](ArchiveOutcome outcome) { return check.count(outcome); };
  const std::int64_t refused = count(ArchiveOutcome::refused);
  return text + fmt::format(
                    "{} {}: {} {}, {} new, {} better, {} not reached, {} "
                    "contradicted{}; {} of those searched {} proved optimal\n",
                    check.archive.size(), check.archive.size() == 1 ? "entry" : "entries",
                    count(ArchiveOutcome::holds),
                    does(count(ArchiveOutcome::holds), "holds", "hold"),
                    count(ArchiveOutcome::is_new), count(ArchiveOutcome::better),
                    count(ArchiveOutcome::not_reached), count(ArchiveOutcome::contradicted),
                    refused > 0 ? fmt::format(", {} refused", refused) : "", check.optimal,
                    does(check.optimal, "is", "are"));
}

}  // namespace stagger::cli
