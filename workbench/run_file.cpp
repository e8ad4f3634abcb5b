#include "workbench/run_file.hpp"

#include "core/files.hpp"
#include "core/json_value.hpp"
#include "core/limits.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

namespace stagger::workbench {
namespace {

constexpr const char* kRunSchema = "stagger.run/1";

// ---- writing ----------------------------------------------------------------------------------

Json device_json(const Execution& execution) {
  if (!execution.cuda) {
    return {{"kind", "cpu"}, {"name", execution.device}, {"threads", execution.options.threads}};
  }
  Json json = {{"kind", "cuda"},
               {"name", execution.device},
               {"sms", execution.cuda->sms},
               {"driver", execution.cuda->driver}};
  if (execution.runs) json["smids"] = execution.runs->run.smids;
  return json;
}

Json error_json(const gpu::CheckedRuns& runs, bool device_reference) {
  if (!runs.errors) return nullptr;
  const auto& [dq, dk, dv] = *runs.errors;
  return {{"dq", dq ? Json(dq->frobenius) : Json()},
          {"dk", dk.frobenius},
          {"dv", dv.frobenius},
          {"most", {{"dq", dq ? Json(dq->most) : Json()}, {"dk", dk.most}, {"dv", dv.most}}},
          {"reference", device_reference ? "device" : "host"},
          {"bound", runs.bound},
          {"bound_is", gpu::error_bound_formula(runs.dtype)}};
}

Json bitwise_json(const Execution& execution) {
  const gpu::CheckedRuns& runs = *execution.runs;
  const auto& [dq, dk, dv] = runs.digests;
  const bool any = !dq.empty();
  return {{"repeats", runs.repeats},
          {"identical", any ? Json(runs.identical) : Json()},
          {"digest", any ? Json{{"dq", dq}, {"dk", dk}, {"dv", dv}} : Json()},
          {"perturb", execution.options.perturb},
          {"dq_difference", runs.dq_difference}};
}

/// What was asked for, and what is kept and scaled by.
Json dropout_json(const Execution& execution) {
  const gpu::DropoutOptions& asked = *execution.dropout;
  const gpu::DropoutRule rule = gpu::dropout_rule(asked);
  Json json = {{"probability", asked.probability},
               {"dropped", 1 - gpu::kept_part(rule)},
               {"scale", gpu::keep_scale(rule)},
               {"threshold", rule.threshold},
               {"bits", rule.bits},
               {"rounds", rule.rounds},
               {"seed", asked.seed},
               {"offset", asked.offset},
               {"mask_bits", gpu::mask_bits_name(asked.mask_bits)}};
  if (execution.stored_bytes() > 0) json["bytes"] = execution.stored_bytes();
  return json;
}

Json order_json(const Execution& execution) {
  const bool ordered = execution.runs && execution.runs->repeats > 0 &&
                       execution.options.mode != gpu::Mode::no_reduce;
  return {{"matches_table", ordered ? Json(execution.runs->order_matches) : Json()}};
}

/// Of a table that is not right, or a kernel that adds nothing up, nothing is known.
Json orders_json(const Execution& execution) {
  if (!execution.analysis.ok() || execution.kernel->spins()) return nullptr;
  return orders_json(orders_of(execution.analysis, execution.shape.head_dim));
}

Json reaccumulation_json(const Execution& execution) {
  Json json = {{"identical", execution.runs ? Json(execution.runs->reaccumulated) : Json()}};
  if (execution.lost_partials > 0) json["partial_bytes"] = execution.lost_partials;
  return json;
}

/// 10^12 a second; null of a kernel that does no arithmetic.
Json teraflops_json(const Execution& execution, std::int64_t ns) {
  if (execution.kernel->spins()) return nullptr;
  return execution.flops / static_cast<double>(ns) / 1e3;
}

Json measured_json(const Execution& execution) {
  const gpu::CheckedRuns& runs = *execution.runs;
  if (runs.median_ns == 0) return nullptr;
  Json json = {{"ms", 1e-6 * static_cast<double>(runs.median_ns)},
               {"tflops", teraflops_json(execution, runs.median_ns)}};
  if (!execution.cuda) return json;
  json["makespan_ns"] = measured_makespan(execution);
  if (runs.run.passes_ns > 0) json["passes_ns"] = runs.run.passes_ns;
  json["clock_error_ns"] = runs.run.times_error_ns;
  json["hand_over_ns"] = gpu::median_hand_over_ns(execution.analysis.table, runs.run);
  if (runs.run.dip.known) {
    json["dip_ns"] = runs.run.dip.ns;
    json["dip_lost_ns"] = runs.run.dip.lost_ns;
  }
  const auto add = [&](const std::string& which, std::optional<std::int64_t> median_ns) {
    if (!median_ns) return;
    json[which + "_ms"] = 1e-6 * static_cast<double>(*median_ns);
    const Json teraflops = teraflops_json(execution, *median_ns);
    if (!teraflops.empty()) json[which + "_tflops"] = teraflops;
    if (const auto makespan = untimed_makespan(execution, median_ns)) {
      json[which + "_makespan_ns"] = *makespan;
    }
  };
  add("untimed", runs.untimed_median_ns);
  add("rested", runs.rested_median_ns);
  json["timestamp_overhead"] = stamp_overhead(execution);
  return json;
}

Json prediction_error_json(const Execution& execution) {
  const Analysis& analysis = execution.analysis;
  const Ticks elapsed = predicted_elapsed(analysis);
  Json json = {{"last_reduction", error_of(analysis.last_reduction, measured_makespan(execution))},
               {"elapsed", error_of(elapsed, execution.runs->median_ns)}};
  const auto add = [&](const std::string& which, std::optional<std::int64_t> median_ns) {
    if (const auto makespan = untimed_makespan(execution, median_ns)) {
      json[which + "_last_reduction"] = error_of(analysis.last_reduction, *makespan);
    }
    if (median_ns) json[which] = error_of(elapsed, *median_ns);
  };
  add("untimed", execution.runs->untimed_median_ns);
  add("rested", execution.runs->rested_median_ns);
  return json;
}

Json predicted_json(const Execution& execution) {
  const Analysis& analysis = execution.analysis;
  if (!analysis.ok()) return nullptr;
  Json json = {{"makespan", analysis.makespan},
               {"lower_bound", analysis.bounds.best.ticks},
               {"bubble", analysis.bubble_fraction()}};
  if (analysis.model.clock == Clock::ns) {
    json.append({{"makespan_ns", analysis.makespan},
                 {"last_reduction_ns", analysis.last_reduction},
                 {"elapsed_ns", predicted_elapsed(analysis)}});
    if (analysis.model.passes > 0) json["passes_ns"] = analysis.model.passes;
  } else if (execution.kernel->spins()) {
    json["makespan_ns"] = analysis.makespan * execution.tick_ns;
  }
  if (execution.is_predicted()) json["error"] = prediction_error_json(execution);
  return json;
}

/// The table's findings, then the run's.
Json all_findings(const Execution& execution) {
  Json json = findings_json(execution.analysis);
  if (!execution.refused.empty()) {
    json.push_back({{"kind", "refused"}, {"message", execution.refused}});
  }
  if (!execution.runs) return json;
  for (const gpu::RunFault& fault : execution.runs->faults)
    json.push_back({{"kind", fault.kind}, {"message", fault.message}});
  if (execution.stopped()) {
    const Table& table = execution.analysis.table;
    json.push_back({{"kind", execution.verdict()},
                    {"message", why_stopped(execution)},
                    {"waits", waits_json(gpu::waits(table, execution.runs->run), table.dispatch)},
                    {"hangs", hanging_json(hanging_tiles(execution))}});
    const auto dkv = hanging_dkv_tiles(execution);
    if (!dkv.empty()) json.back()["dkv_hangs"] = hanging_json(dkv);
  }
  return json;
}

// ---- reading ----------------------------------------------------------------------------------

constexpr Ticks kLongest = Ticks{1} << 62;
constexpr double kLongestMs = 1e9;

constexpr const char* kVerdicts[] = {"ok", "mismatch", "deadlock", "timeout", "refused", "invalid"};
constexpr const char* kDevices[] = {"cpu", "cuda"};

/// Whether a key holds an object, whose keys must then be known; null is none.
bool holds(const JsonValue& run, const char* key, std::initializer_list<const char*> known) {
  if (!run.has(key) || !run.at(key).is_object()) return false;
  run.at(key).expect_keys(known);
  return true;
}

/// Refuses what write_run() never wrote.
void expect_run(const JsonValue& run) {
  run.expect_schema(kRunSchema);
  run.expect_keys(
      {"schema", "version",        "device",   "kernel",    "mode",    "dtype",   "head_dim",
       "seed",   "timeout_ms",     "problem",  "dkv",       "assumed", "dropout", "schedule",
       "model",  "verdict",        "tick_ns",  "spins",     "error",   "bitwise", "order",
       "orders", "reaccumulation", "measured", "predicted", "findings"});
  run.at("schedule").expect_keys({"name", "dispatch", "source"});
  static_cast<void>(run.at("schedule").at("dispatch").word("dispatch", kDispatchNames));
  holds(run, "dkv", {"span", "combine", "auto"});
  holds(run, "assumed", {"partial_tiles", "pairs"});
  holds(run, "dropout",
        {"probability", "dropped", "scale", "threshold", "bits", "rounds", "seed", "offset",
         "mask_bits", "bytes"});
  if (holds(run, "device", {"kind", "name", "threads", "sms", "driver", "smids"})) {
    static_cast<void>(run.at("device").at("kind").word("kind of device", kDevices));
  }
  if (holds(run, "error", {"dq", "dk", "dv", "most", "reference", "bound", "bound_is"})) {
    holds(run.at("error"), "most", {"dq", "dk", "dv"});
  }
  if (holds(run, "bitwise", {"repeats", "identical", "digest", "perturb", "dq_difference"})) {
    holds(run.at("bitwise"), "digest", {"dq", "dk", "dv"});
  }
  holds(run, "order", {"matches_table"});
  holds(run, "orders", {"digest", "head_dim", "distinct", "invariant", "invariant_sms"});
  holds(run, "reaccumulation", {"identical", "partial_bytes"});
  holds(run, "measured",
        {"ms", "tflops", "makespan_ns", "passes_ns", "clock_error_ns", "hand_over_ns", "dip_ns",
         "dip_lost_ns", "untimed_ms", "untimed_tflops", "untimed_makespan_ns", "rested_ms",
         "rested_tflops", "rested_makespan_ns", "timestamp_overhead"});
  if (holds(run, "predicted",
            {"makespan", "lower_bound", "bubble", "makespan_ns", "last_reduction_ns", "elapsed_ns",
             "passes_ns", "error"})) {
    holds(run.at("predicted"), "error",
          {"last_reduction", "elapsed", "untimed_last_reduction", "untimed",
           "rested_last_reduction", "rested"});
  }
}

KernelKey read_key(const JsonValue& run, const TileShape& tile) {
  KernelKey key{.kernel = run.at("kernel").string()};
  if (run.has("tick_ns")) return key;  // its phases spin
  key.dtype = run.has("dtype") ? gpu::kDtypeNames[run.at("dtype").word("dtype", gpu::kDtypeNames)]
                               : gpu::dtype_name(gpu::Dtype::fp32);
  key.head_dim = run.at("head_dim").integer(1, kMaxTokens);
  key.tile = tile;
  return key;
}

/// Why nothing is predicted of a run; empty if something is.
std::string reason_to_skip(const JsonValue& run) {
  const std::size_t mode = run.at("mode").word("mode", gpu::kModeNames);
  if (static_cast<gpu::Mode>(mode) != gpu::Mode::deterministic) {
    return std::string("mode ") + gpu::kModeNames[mode];
  }
  if (run.has("dropout")) return "dropout: a profile's phases are without";
  const std::size_t verdict = run.at("verdict").word("verdict", kVerdicts);
  if (verdict != 0) return std::string("verdict ") + kVerdicts[verdict];
  const JsonValue measured = run.at("measured");
  if (!measured.is_object() || !measured.has("makespan_ns")) {
    return "no makespan was measured: only a GPU's is";
  }
  return {};
}

/// The key of these that is there, by preference: a profile's phases are those of a device that is
/// not tired by runs before.
const char* first_of(const JsonValue& json, std::initializer_list<const char*> keys) {
  const auto found = std::ranges::find_if(keys, [&](const char* key) { return json.has(key); });
  return found == keys.end() ? nullptr : *found;
}

void read_measured(const JsonValue& measured, MeasuredRun& run) {
  const char* const makespan =
      first_of(measured, {"rested_makespan_ns", "untimed_makespan_ns", "makespan_ns"});
  run.measured = measured.at(makespan).integer(1, kLongest);
  if (const char* const key = first_of(measured, {"rested_ms", "untimed_ms"})) {
    run.elapsed = std::llround(1e6 * measured.at(key).number(1e-6, kLongestMs));
  }
}

void read_orders(const JsonValue& run, MeasuredRun& read) {
  if (!run.has("orders") || !run.at("orders").is_object()) return;
  read.orders = run.at("orders").at("digest").string();
}

void read_predicted(const JsonValue& predicted, MeasuredRun& run) {
  if (!predicted.is_object()) return;
  if (predicted.has("last_reduction_ns")) {
    run.predicted = predicted.at("last_reduction_ns").integer(0, kLongest);
  }
  if (predicted.has("elapsed_ns")) {
    run.predicted_elapsed = predicted.at("elapsed_ns").integer(0, kLongest);
  }
}

/// What was run; of heads that share K and V, runs from before say no span, and the rule's counts.
Problem read_problem_of(const JsonValue& run) {
  Problem problem = read_problem(run.at("problem"));
  return run.has("dkv") ? read_chains(run.at("dkv"), std::move(problem)) : problem;
}

/// Reads what was run of a run that nothing is predicted of, so that what is wrong with it is said.
void expect_readable(const JsonValue& run) {
  const Problem problem = read_problem_of(run);
  for (const char* model : {"model", "spins"}) {
    if (run.has(model)) static_cast<void>(read_model(run.at(model), problem));
  }
}

MeasuredRun read_run(const JsonValue& run, std::string source) {
  const JsonValue schedule = run.at("schedule");
  MeasuredRun read{.source = std::move(source),
                   .problem = read_problem_of(run),
                   .schedule = schedule.at("name").string(),
                   .from_file = schedule.at("source").string() == "file"};
  read.kernel = read_key(run, read.problem.shape);
  read.timing = read_model(run.at("model"), read.problem);
  read.spun = run.has("spins") ? read_model(run.at("spins"), read.problem) : read.timing;
  if (run.has("tick_ns")) read.tick_ns = run.at("tick_ns").integer(1, 1'000'000);
  read_orders(run, read);
  read_measured(run.at("measured"), read);
  read_predicted(run.at("predicted"), read);
  return read;
}

}  // namespace

std::string write_run(const Execution& execution) {
  const Analysis& analysis = execution.analysis;
  const Problem& problem = analysis.table.problem;
  const gpu::CheckedRuns* const runs = execution.runs ? &*execution.runs : nullptr;
  Json json = {{"schema", kRunSchema},
               {"version", version()},
               {"device", device_json(execution)},
               {"kernel", execution.kernel->name},
               {"mode", gpu::mode_name(execution.options.mode)},
               {"dtype", gpu::dtype_name(execution.options.dtype)},
               {"head_dim", execution.shape.head_dim},
               {"seed", execution.seed},
               {"timeout_ms", execution.options.timeout.count()},
               {"problem", counted_problem_json(problem)}};
  add_dkv(json, problem);
  if (const std::int64_t tiles = execution.assumed_tiles(); tiles > 0) {
    json["assumed"] = assumed_json(tiles);
  }
  if (execution.dropout) json["dropout"] = dropout_json(execution);
  json.append({{"schedule", schedule_json(analysis)},
               {"model", model_json(problem, analysis.model)},
               {"verdict", execution.verdict()}});
  if (execution.kernel->spins()) {
    json["tick_ns"] = execution.tick_ns;
    json["spins"] = model_json(problem, {.timing = execution.spun});
  }
  json["error"] = runs ? error_json(*runs, execution.device_reference) : Json();
  json["bitwise"] = runs ? bitwise_json(execution) : Json();
  json["order"] = order_json(execution);
  json["orders"] = orders_json(execution);
  json["reaccumulation"] = reaccumulation_json(execution);
  json["measured"] = runs ? measured_json(execution) : Json();
  json["predicted"] = predicted_json(execution);
  json["findings"] = all_findings(execution);
  return json.text();
}

MeasuredRuns read_runs(std::string_view text, const std::string& source) {
  MeasuredRuns all;
  for (const auto& [each, name] : json_texts(text, source)) {
    const JsonDocument document(each, name);
    expect_run(document.root());
    const std::string reason = reason_to_skip(document.root());
    if (reason.empty()) {
      all.runs.push_back(read_run(document.root(), name));
    } else {
      expect_readable(document.root());
      all.skipped.push_back(name + ": " + reason);
    }
  }
  return all;
}

}  // namespace stagger::workbench
