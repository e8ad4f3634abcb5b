#include "workbench/json.hpp"

#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/span.hpp"
#include "core/wait.hpp"

#include <fmt/format.h>

namespace stagger::workbench {
namespace {

Json wait_json(const Wait& wait) {
  Json json = {{"lane", wait.lane.value}, {"launched", wait.launched}};
  if (!wait.launched) {
    json["waits_for"] = {{"lane", wait.for_lane.value}};
    return json;
  }
  json["task"] = task_json(wait.task);
  if (wait.dkv) json.append({{"kind", "dkv"}, {"kv_head", wait.kv_head.value}});
  json["rank"] = wait.rank;
  json["lock_value"] = wait.value;
  json["waits_for"] = nullptr;
  if (wait.promised) {
    json["waits_for"] = task_json(wait.for_task);
    json["waits_for"]["rank"] = wait.for_rank;
    json["waits_for"]["lane"] = wait.for_lane.value;
  }
  return json;
}

Json finding_json(const dag::Finding& finding, const Summary& summary) {
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
    const dag::Liveness& liveness = summary.verification.liveness;
    json["cycle"] = waits_json(liveness.cycle, summary.dispatch);
    json["never_released"] = waits_json(liveness.starved, summary.dispatch);
    json["hangs"] = hanging_json(liveness.hanging);
    if (!liveness.hanging_dkv.empty()) json["dkv_hangs"] = hanging_json(liveness.hanging_dkv);
  }
  return json;
}

Json memory_model_json(const Memory& memory) {
  Json json = {{"l2_bytes", memory.l2},      {"bytes_per_tick", memory.rate},
               {"q_bytes", memory.tile.q},   {"dq_bytes", memory.tile.dq},
               {"kv_bytes", memory.tile.kv}, {"gradient_bytes", memory.tile.gradient}};
  if (memory.stream_rate > 0) json["stream_bytes_per_tick"] = memory.stream_rate;
  if (memory.add_permille > 0) json["add_permille"] = memory.add_permille;
  if (memory.latency > 0) json["latency"] = memory.latency;
  if (memory.congestion > 0) json["congestion"] = memory.congestion;
  if (memory.spread > 0) json["spread"] = memory.spread;
  if (memory.dip > 0) json["dip"] = memory.dip;
  if (memory.dip_loss > 0) json["dip_loss"] = memory.dip_loss;
  if (memory.draw > 0) json["draw"] = memory.draw;
  return json;
}

Memory read_memory_model(const JsonValue& memory) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  memory.expect_keys({"l2_bytes", "bytes_per_tick", "q_bytes", "dq_bytes", "kv_bytes",
                      "gradient_bytes", "stream_bytes_per_tick", "add_permille", "latency",
                      "congestion", "spread", "dip", "dip_loss", "draw"});
  constexpr Ticks kLongest = Ticks{1} << 62;
  const auto bytes = [&](const char* key, std::int64_t least) {
    return memory.at(key).integer(least, kMostBytes);
  };
  const auto ticks = [&](const char* key) {
    return memory.has(key) ? memory.at(key).integer(0, kLongest) : 0;
  };
  return {
      .l2 = bytes("l2_bytes", 1),
      .rate = bytes("bytes_per_tick", 1),
      .stream_rate = memory.has("stream_bytes_per_tick") ? bytes("stream_bytes_per_tick", 0) : 0,
      .tile = {.q = bytes("q_bytes", 0),
               .dq = bytes("dq_bytes", 0),
               .kv = bytes("kv_bytes", 0),
               .gradient = bytes("gradient_bytes", 0)},
      .add_permille =
          memory.has("add_permille") ? memory.at("add_permille").integer(0, kMostAddPermille) : 0,
      .latency = ticks("latency"),
      .congestion = ticks("congestion"),
      .spread = ticks("spread"),
      .dip = ticks("dip"),
      .dip_loss = ticks("dip_loss"),
      .draw = memory.has("draw") ? memory.at("draw").integer(0, kMemoryDraws - 1) : 0};
}

}  // namespace

Json assumed_json(std::int64_t tiles) {
  return {{"partial_tiles", tiles}, {"pairs", "lower triangle"}};
}

Json counted_problem_json(const Problem& problem) {
  Json json = problem_json(problem);
  json["tasks"] = problem.tasks();
  return json;
}

void add_dkv(Json& json, const Problem& problem) {
  if (problem.group() == 1) return;
  const SpanRule rule = span_rule(problem);
  json["dkv"] = {{"span", problem.span},
                 {"combine", combine_name(problem.combine)},
                 {"auto", {{"span", rule.span}, {"why", rule.why}}}};
}

Json model_json(const Problem& problem, const TimeModel& model) {
  const Timing& timing = model.timing;
  Json json = {{"kind", model_name(timing.model)}, {"compute", timing.compute}};
  if (!timing.uniform()) json["compute_partial"] = *timing.compute_partial;
  json.append({{"reduce", timing.reduce},
               {"latency", timing.latency},
               {"launch", timing.launch},
               {"epilogue", timing.epilogue},
               {"release", release_name(timing.release)}});
  if (timing.next_lane) json["next_lane"] = *timing.next_lane;
  if (timing.steps > 1) json["steps"] = timing.steps;
  if (timing.cut_partial) json["cut_partial"] = true;
  if (problem.combine == Combine::ordered) {
    json.append({{"reduce_kv", timing.reduce_kv}, {"reduce_kv_async", timing.reduce_kv_async}});
  }
  if (model.clock == Clock::ns) {
    json.append({{"clock", "ns"}, {"machine", model.machine}, {"start", model.start}});
    if (model.passes > 0) json["passes"] = model.passes;
  }
  if (timing.memory) json["memory"] = memory_model_json(*timing.memory);
  if (timing.residency != 0) json["residency"] = resident_lanes(problem, timing.residency);
  return json;
}

Timing read_model(const JsonValue& model, const Problem& problem) {
  model.expect_keys({"kind", "compute", "compute_partial", "reduce", "latency", "launch",
                     "epilogue", "release", "clock", "machine", "start", "passes", "memory",
                     "residency", "reduce_kv", "reduce_kv_async", "steps", "cut_partial",
                     "next_lane"});
  constexpr Ticks kLongest = Ticks{1} << 62;
  const auto ticks = [&](const char* key) { return model.at(key).integer(0, kLongest); };
  Timing timing{
      .model = static_cast<Model>(model.at("kind").word("model", kModelNames)),
      .compute = ticks("compute"),
      .reduce = ticks("reduce"),
      .latency = ticks("latency"),
      .launch = ticks("launch"),
      .epilogue = ticks("epilogue"),
      .release = static_cast<Release>(model.at("release").word("release", kReleaseNames))};
  if (model.has("reduce_kv")) timing.reduce_kv = ticks("reduce_kv");
  if (model.has("reduce_kv_async")) {
    timing.reduce_kv_async = model.at("reduce_kv_async").boolean();
  }
  if (model.has("compute_partial")) timing.compute_partial = ticks("compute_partial");
  if (model.has("next_lane")) timing.next_lane = ticks("next_lane");
  if (model.has("steps")) {
    timing.steps = static_cast<std::int32_t>(model.at("steps").integer(1, kMaxSteps));
  }
  if (model.has("cut_partial")) timing.cut_partial = model.at("cut_partial").boolean();
  if (model.has("residency")) {
    timing.residency = static_cast<std::int32_t>(model.at("residency").integer(1, kMaxSms));
  }
  if (model.has("memory")) timing.memory = read_memory_model(model.at("memory"));
  check_timing(timing, problem);
  return timing;
}

Json orders_json(const OrderReport& orders) {
  return {{"digest", hexadecimal(orders.digest)},
          {"head_dim", orders.head_dim},
          {"distinct", orders.distinct},
          {"invariant", orders.invariant},
          {"invariant_sms", orders.sms}};
}

std::string hexadecimal(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

Json schedule_json(const Summary& summary) {
  return {{"name", summary.name},
          {"dispatch", dispatch_name(summary.dispatch)},
          {"source", summary.selection ? summary.selection->schedule->source : "file"}};
}

Json task_json(const Task& task) {
  return {{"head", task.head.value}, {"kv", task.kv.value}, {"q", task.q.value}};
}

Json findings_json(const Summary& summary) {
  Json json = Json::array();
  for (const dag::Finding& finding : summary.verification.findings)
    json.push_back(finding_json(finding, summary));
  return json;
}

Json waits_json(const std::vector<Wait>& waits, Dispatch dispatch) {
  const std::vector<std::string> words = describe(waits, dispatch);
  Json json = Json::array();
  for (std::size_t index = 0; index < waits.size(); ++index) {
    json.push_back(wait_json(waits[index]));
    json.back()["text"] = words[index];
  }
  return json;
}

Json hanging_json(const std::vector<dag::Liveness::Hanging>& hanging) {
  Json json = Json::array();
  const Head* head = nullptr;
  for (const auto& tile : hanging) {
    if (head == nullptr || *head != tile.head) {
      json.push_back({{"head", tile.head.value}, {"q", Json::array()}});
      head = &tile.head;
    }
    json.back()["q"].push_back(tile.q.value);
  }
  return json;
}

Json hanging_json(const std::vector<dag::Liveness::HangingDkv>& hanging) {
  Json json = Json::array();
  for (const auto& [kv_head, kv] : hanging)
    json.push_back({{"kv_head", kv_head.value}, {"kv", kv.value}});
  return json;
}

}  // namespace stagger::workbench
