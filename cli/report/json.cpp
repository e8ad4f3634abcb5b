#include "cli/report/json.hpp"

#include "core/version.hpp"
#include "dag/liveness.hpp"

#include <nlohmann/json.hpp>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Clock;
using workbench::FormulaCheck;
using workbench::TimeModel;

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const MaskValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json to_json(const Problem& problem) {
  Json json = {{"heads", problem.heads},
               {"kv_tiles", problem.grid.kv_tiles()},
               {"q_tiles", problem.grid.q_tiles()},
               {"sms", problem.sms}};
  if (problem.shape != TileShape{}) {
    json["seq_q"] = problem.lengths.q;
    json["seq_kv"] = problem.lengths.kv;
    json["tile_q"] = problem.shape.q;
    json["tile_kv"] = problem.shape.kv;
  }
  json["mask"] = {{"kind", problem.mask.family->name}};
  for (const auto& [key, value] : problem.mask.values)
    json["mask"][key] = to_json(value);
  json["tasks"] = problem.tasks();
  return json;
}

Json to_json(const Problem& problem, const TimeModel& model) {
  const Timing& timing = model.timing;
  Json json = {{"kind", timing.model == Model::chain ? "chain" : "overlap"},
               {"compute", timing.compute}};
  if (!timing.uniform()) json["compute_partial"] = *timing.compute_partial;
  json.update({{"reduce", timing.reduce},
               {"latency", timing.latency},
               {"launch", timing.launch},
               {"epilogue", timing.epilogue},
               {"release", timing.release == Release::immediate ? "immediate" : "delayed"}});
  if (model.clock == Clock::ns) {
    json["clock"] = "ns";
    json["machine"] = model.machine;
    json["start"] = model.start;
    if (model.passes > 0) json["passes"] = model.passes;
  }
  if (timing.residency != 0) json["residency"] = resident_lanes(problem, timing.residency);
  return json;
}

Json to_json(const Task& task) {
  return {{"head", task.head.value}, {"kv", task.kv.value}, {"q", task.q.value}};
}

Json to_json(const Wait& wait) {
  Json json = {{"lane", wait.lane.value}, {"launched", wait.launched}};
  if (!wait.launched) {
    json["waits_for"] = {{"lane", wait.for_lane.value}};
    return json;
  }
  json["task"] = to_json(wait.task);
  json["rank"] = wait.rank;
  json["lock_value"] = wait.value;
  json["waits_for"] = nullptr;
  if (wait.promised) {
    json["waits_for"] = to_json(wait.for_task);
    json["waits_for"]["rank"] = wait.for_rank;
    json["waits_for"]["lane"] = wait.for_lane.value;
  }
  return json;
}

Json to_json(const std::vector<Wait>& waits, Dispatch dispatch) {
  const std::vector<std::string> words = describe(waits, dispatch);
  Json json = Json::array();
  for (std::size_t index = 0; index < waits.size(); ++index) {
    json.push_back(to_json(waits[index]));
    json.back()["text"] = words[index];
  }
  return json;
}

/// Q tiles that hang or finish, by head: `[{"head": 0, "q": [3, 4]}]`.
Json tiles_by_head(const std::vector<dag::Liveness::Hanging>& tiles) {
  Json json = Json::array();
  for (const auto& [head, q] : tiles) {
    if (json.empty() || json.back()["head"] != head.value) {
      json.push_back({{"head", head.value}, {"q", Json::array()}});
    }
    json.back()["q"].push_back(q.value);
  }
  return json;
}

Json to_json(const dag::Finding& finding, const Analysis& analysis) {
  Json json = {{"kind", dag::finding_name(finding.kind)}, {"message", finding.message}};
  const auto add = [&](const char* key, std::int64_t value) {
    if (value >= 0) json[key] = value;
  };
  add("lane", finding.lane);
  add("slot", finding.place);
  add("head", finding.task.head.value);
  add("kv", finding.task.kv.value);
  add("q", finding.task.q.value);
  add("rank", finding.rank);
  if (finding.kind == dag::FindingKind::deadlock) {
    const dag::Liveness& liveness = *analysis.verification.liveness;
    json["cycle"] = to_json(liveness.cycle, analysis.table.dispatch);
    json["never_released"] = to_json(liveness.starved, analysis.table.dispatch);
    json["hangs"] = tiles_by_head(liveness.hanging);
  }
  return json;
}

Json findings(const Analysis& analysis) {
  Json json = Json::array();
  for (const dag::Finding& finding : analysis.verification.findings) {
    json.push_back(to_json(finding, analysis));
  }
  return json;
}

Json bounds_json(const dag::Bounds& bounds) {
  Json json = Json::array();
  for (const dag::Bound& bound : bounds.all) {
    json.push_back({{"by", bound.by}, {"ticks", bound.ticks}, {"why", bound.why}});
  }
  return json;
}

Json bubble_json(const Analysis& analysis) {
  const sim::Bubbles& bubbles = analysis.bubbles;
  const Ticks all = bubbles.total() + bubbles.busy;
  return {{"ticks", bubbles.total()},
          {"fraction",
           all == 0 ? 0.0 : static_cast<double>(bubbles.total()) / static_cast<double>(all)},
          {"startup", bubbles.startup},
          {"order", bubbles.order},
          {"tail", bubbles.tail}};
}

/// What of the makespan is above the bound, on the SM that ends last: its load (packing), its waits
/// for a turn (contention) and before its first reduction (startup), and how much longer the memory
/// makes it all. They add up to the gap.
Json gap_json(const Analysis& analysis) {
  const sim::LastSm& last = analysis.bubbles.last;
  const Ticks bound = analysis.bounds.best.ticks;
  return {{"ticks", analysis.makespan() - bound},
          {"packing", last.busy - bound},
          {"contention", last.order},
          {"startup", last.startup},
          {"memory", analysis.makespan() - analysis.simulation->makespan}};
}

/// What the table asks of the memory; null if the timing model has none.
Json memory_json(const Analysis& analysis) {
  if (!analysis.memory) return nullptr;
  const sim::MemoryPlay& memory = *analysis.memory;
  const Memory& model = *analysis.model.timing.memory;
  Json json = {{"l2_bytes", model.l2},
               {"bytes_per_tick", model.rate},
               {"phases", analysis.simulation->makespan},
               {"makespan", memory.makespan},
               {"touched_bytes", memory.touched},
               {"hit_bytes", memory.hit},
               {"read_bytes", memory.read},
               {"written_bytes", memory.written},
               {"dq_in_flight_bytes", memory.in_flight}};
  return json;
}

Json critical_path_json(const Analysis& analysis, bool steps) {
  Json json = {{"length", analysis.critical_path.length},
               {"by", analysis.longest_path ? "graph" : "simulation"}};
  if (!steps) return json;
  json["steps"] = Json::array();
  for (const CriticalStep& step : analysis.critical_path.steps) {
    Json entry = {{"sm", step.sm.value}};
    entry.update(to_json(step.task));
    entry["phase"] = phase_name(step.phase);
    entry["start"] = step.start;
    entry["end"] = step.end;
    json["steps"].push_back(std::move(entry));
  }
  return json;
}

Json edge_json(const dag::DependencyEdge& edge, bool times) {
  Json json = {{"from", to_json(edge.from)}, {"to", to_json(edge.to)}};
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
          {"text", check->formula->text},
          {"ticks", check->ticks},
          {"holds", check->holds},
          {"source", check->formula->source}};
}

Json schedule(const Analysis& analysis) {
  const bool in_order = analysis.table.dispatch == Dispatch::in_order;
  return {{"name", analysis.table.name},
          {"dispatch", in_order ? "in-order" : "static"},
          {"source", analysis.selection ? analysis.selection->schedule->source : "file"}};
}

Json co_residency_json(const dag::Verification& verification) {
  if (!verification.liveness) return nullptr;
  const std::int32_t needed = verification.liveness->residency_needed;
  return {{"needed", needed == 0 ? Json(nullptr) : Json(needed)},
          {"available", verification.liveness->residency_available}};
}

Json to_json(std::span<const Judgement> judgements) {
  Json rows = Json::array();
  for (const Judgement& judgement : judgements) {
    Json values = Json::object();
    for (const auto& [name, value] : judgement.values)
      values[name] = value.denominator == 1 ? Json(value.numerator) : Json(decimal(value));
    rows.push_back(
        {{"text", judgement.text}, {"holds", judgement.holds}, {"values", std::move(values)}});
  }
  return rows;
}

}  // namespace

std::string problem_json(const Problem& problem) {
  return dump(to_json(problem));
}

std::string model_json(const Problem& problem, const TimeModel& model) {
  return dump(to_json(problem, model));
}

std::string schedule_json(const Analysis& analysis) {
  return dump(schedule(analysis));
}

std::string findings_json(const Analysis& analysis) {
  return dump(findings(analysis));
}

std::string waits_json(const std::vector<Wait>& waits, Dispatch dispatch) {
  return dump(to_json(waits, dispatch));
}

std::string hanging_json(const std::vector<dag::Liveness::Hanging>& hanging) {
  return dump(tiles_by_head(hanging));
}

std::string unsupported_json(const std::string& schedule, const std::string& reason) {
  return dump({{"schema", "stagger.report/1"},
               {"version", version()},
               {"schedule", {{"name", schedule}}},
               {"verdict", "unsupported"},
               {"reason", reason}});
}

std::string judgements_json(std::span<const Judgement> judgements) {
  return dump(to_json(judgements));
}

std::string report_json(const Analysis& analysis, bool steps,
                        std::span<const Judgement> judgements) {
  Json json = {{"schema", "stagger.report/1"},
               {"version", version()},
               {"problem", to_json(analysis.table.problem)},
               {"schedule", schedule(analysis)},
               {"model", to_json(analysis.table.problem, analysis.model)},
               {"verdict", dag::verdict_name(analysis.verification.verdict)},
               {"findings", findings(analysis)},
               {"findings_total", analysis.verification.total},
               {"co_residency", co_residency_json(analysis.verification)}};
  const bool ok = analysis.ok();
  const dag::Bounds& bounds = analysis.bounds;
  json["makespan"] = ok ? Json(analysis.makespan()) : Json(nullptr);
  json["lower_bound"] = {{"ticks", bounds.best.ticks}, {"by", bounds.best.by}};
  json["bounds"] = bounds_json(bounds);
  json["slot_model"] = {{"degree_rounds", bounds.degree_rounds}};
  json["optimal"] = analysis.optimal ? Json(*analysis.optimal) : Json(nullptr);
  json["gap"] = ok ? gap_json(analysis) : Json(nullptr);
  if (analysis.model.timing.memory) json["memory"] = ok ? memory_json(analysis) : Json(nullptr);
  json["bubble"] = ok ? bubble_json(analysis) : Json(nullptr);
  json["longest_path"] = analysis.longest_path ? Json(*analysis.longest_path) : Json(nullptr);
  json["critical_path"] = ok ? critical_path_json(analysis, steps) : Json(nullptr);
  json["lemma1"] = ok ? lemma1_json(analysis.lemma1) : Json(nullptr);
  json["formula"] = formula_json(analysis.formula);
  if (!judgements.empty()) json["expectations"] = to_json(judgements);
  return dump(json);
}

}  // namespace stagger::cli
