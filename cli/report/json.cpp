#include "cli/report/json.hpp"

#include "cli/report/text.hpp"
#include "core/version.hpp"
#include "workbench/invariance.hpp"
#include "workbench/json.hpp"

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::FormulaCheck;
using workbench::Summary;
using workbench::TimeModel;

Json bounds_json(const dag::Bounds& bounds) {
  Json json = Json::array();
  for (const dag::Bound& bound : bounds.all) {
    json.push_back({{"by", bound.by}, {"ticks", bound.ticks}, {"why", bound.why}});
  }
  return json;
}

Json bubble_json(const Summary& summary) {
  const sim::Bubbles& bubbles = summary.bubbles;
  return {{"ticks", bubbles.total()},
          {"fraction", summary.bubble_fraction()},
          {"startup", bubbles.startup},
          {"order", bubbles.order},
          {"tail", bubbles.tail}};
}

Json gap_json(const Summary& summary) {
  const workbench::Gap gap = summary.gap();
  return {{"ticks", summary.makespan - summary.bounds.best.ticks},
          {"packing", gap.packing},
          {"contention", gap.contention},
          {"startup", gap.startup},
          {"memory", gap.memory}};
}

/// What the table asks of the memory.
Json memory_json(const Memory& model, const Summary& summary) {
  const sim::MemoryPlay& memory = *summary.memory;
  return {{"l2_bytes", model.l2},
          {"bytes_per_tick", model.rate},
          {"add_permille", model.add_permille},
          {"latency", model.latency},
          {"congestion", model.congestion},
          {"spread", model.spread},
          {"dip", model.dip},
          {"dip_loss", model.dip_loss},
          {"draw", model.draw},
          {"phases", summary.phases},
          {"makespan", memory.makespan},
          {"touched_bytes", memory.touched},
          {"hit_bytes", memory.hit},
          {"read_bytes", memory.read},
          {"written_bytes", memory.written},
          {"dq_in_flight_bytes", memory.in_flight}};
}

Json step_json(const CriticalStep& step) {
  Json json = {{"sm", step.sm.value}};
  json.append(workbench::task_json(step.task));
  json.append({{"phase", phase_name(step.phase)}, {"start", step.start}, {"end", step.end}});
  return json;
}

/// Its length is the makespan by the phases alone.
Json critical_path_json(const Summary& summary, const CriticalPath* path) {
  Json json = {{"length", summary.phases}, {"by", summary.longest_path ? "graph" : "simulation"}};
  if (path == nullptr || (path->steps.empty() && summary.phases > 0)) return json;
  json["steps"] = Json::array();
  for (const CriticalStep& step : path->steps)
    json["steps"].push_back(step_json(step));
  return json;
}

Json edge_json(const dag::DependencyEdge& edge, bool times) {
  Json json = {{"from", workbench::task_json(edge.from)}, {"to", workbench::task_json(edge.to)}};
  if (edge.dkv) json["kind"] = "dkv";
  if (times) {
    json["earliest_from"] = edge.earliest_from;
    json["latest_to"] = edge.latest_to;
  } else {
    json["depth_from"] = edge.depth_from;
    json["depth_to"] = edge.depth_to;
  }
  return json;
}

Json lemma1_json(const dag::Lemma1& lemma) {
  Json json = {{"premise", lemma.premise}};
  if (!lemma.premise) json["premise_fails"] = lemma.premise_fails;
  json["monotone"] = lemma.monotone;
  json["dependency_edges"] = lemma.dependency_edges;
  json["violation_count"] = lemma.violation_count;
  json["violations"] = Json::array();
  for (const auto& edge : lemma.violations)
    json["violations"].push_back(edge_json(edge, false));
  if (lemma.harmful) {
    json["harmful_count"] = lemma.harmful_count;
    json["harmful"] = Json::array();
    for (const auto& edge : *lemma.harmful)
      json["harmful"].push_back(edge_json(edge, true));
  }
  return json;
}

Json formula_json(const std::optional<FormulaCheck>& check) {
  if (!check) return nullptr;
  return {{"name", check->formula->name},
          {"text", check->text},
          {"ticks", check->ticks},
          {"holds", check->holds},
          {"source", check->formula->source}};
}

Json co_residency_json(const dag::Verification& verification) {
  const std::int32_t needed = verification.liveness.residency_needed;
  return {{"needed", needed == 0 ? Json() : Json(needed)},
          {"available", verification.liveness.residency_available}};
}

Json report(const Problem& problem, const TimeModel& model, const Summary& summary,
            const CriticalPath* path) {
  const bool ok = summary.ok();
  const dag::Bounds& bounds = summary.bounds;
  Json json = {{"schema", "stagger.report/1"},
               {"version", version()},
               {"problem", workbench::counted_problem_json(problem)}};
  workbench::add_dkv(json, problem);
  json.append({{"schedule", workbench::schedule_json(summary)},
               {"model", workbench::model_json(problem, model)},
               {"verdict", dag::verdict_name(summary.verification.verdict)},
               {"findings", workbench::findings_json(summary)},
               {"findings_total", summary.verification.total},
               {"co_residency", co_residency_json(summary.verification)},
               {"makespan", ok ? Json(summary.makespan) : Json()},
               {"lower_bound", {{"ticks", bounds.best.ticks}, {"by", bounds.best.by}}},
               {"bounds", bounds_json(bounds)},
               {"slot_model", {{"degree_rounds", bounds.degree_rounds}}},
               {"optimal", summary.optimal},
               {"gap", ok ? gap_json(summary) : Json()}});
  if (const auto& memory = model.timing.memory) {
    json["memory"] = ok ? memory_json(*memory, summary) : Json();
  }
  json.append({{"bubble", ok ? bubble_json(summary) : Json()},
               {"longest_path", summary.longest_path},
               {"critical_path", ok ? critical_path_json(summary, path) : Json()},
               {"lemma1", ok ? lemma1_json(summary.lemma1) : Json()},
               {"formula", formula_json(summary.formula)}});
  return json;
}

}  // namespace

Json report_json(const Analysis& analysis, std::span<const Judgement> judgements) {
  Json json = report(analysis.table.problem, analysis.model, analysis, &analysis.critical_path);
  // Of a table that is not right nothing is known.
  json["orders"] = analysis.ok() ? workbench::orders_json(orders_of(analysis)) : Json();
  if (!judgements.empty()) json["expectations"] = judgements_json(judgements);
  return json;
}

Json row_json(const workbench::Comparison& comparison, const workbench::ComparisonRow& row) {
  if (row.summary) {
    Json json = report(comparison.problem, comparison.model, *row.summary, nullptr);
    if (row.summary->sms != comparison.problem.sms) json["on_sms"] = row.summary->sms;
    return json;
  }
  return {{"schema", "stagger.report/1"},
          {"version", version()},
          {"schedule", {{"name", row.name}}},
          {"verdict", "unsupported"},
          {"reason", row.unsupported}};
}

Json judgements_json(std::span<const Judgement> judgements) {
  Json rows = Json::array();
  for (const Judgement& judgement : judgements) {
    Json values = Json::object();
    for (const auto& [name, value] : judgement.values)
      values[name] = value.denominator == 1 ? Json(value.numerator) : Json(decimal(value));
    rows.push_back({{"text", judgement.text}, {"holds", judgement.holds}, {"values", values}});
  }
  return rows;
}

}  // namespace stagger::cli
