#include "cli/report/run.hpp"

#include "cli/report/duration.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "core/version.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Clock;

using Json = nlohmann::ordered_json;

/// The (head, q) whose accumulation has not ended.
std::vector<dag::Liveness::Hanging> hanging_tiles(const Execution& execution) {
  const Problem& problem = execution.analysis.table.problem;
  std::vector<dag::Liveness::Hanging> hanging;
  std::size_t lock = 0;
  for (Head head{0}; head.value < problem.heads; ++head) {
    for (QTile q{0}; q.value < problem.grid.q_tiles(); ++q) {
      if (execution.runs->run.lock_values[lock++] != problem.grid.contributions(q)) {
        hanging.push_back({head, q});
      }
    }
  }
  return hanging;
}

std::int64_t tasks_left(const Execution& execution) {
  std::int64_t left = execution.analysis.table.problem.tasks();
  for (const std::int64_t slot : execution.runs->run.witness)
    left -= slot >= 0 ? 1 : 0;
  return left;
}

bool stopped(const Execution& execution) {
  return execution.runs && execution.runs->run.outcome != gpu::Outcome::finished;
}

std::string why_stopped(const Execution& execution) {
  const std::string left = fmt::format("{} of {} tasks have not reduced", tasks_left(execution),
                                       execution.analysis.table.problem.tasks());
  if (execution.runs->verdict == gpu::RunVerdict::deadlock) {
    return "nothing can move any more; " + left;
  }
  return fmt::format("a task waited for its turn for more than {} ms; {}",
                     execution.options.timeout.count(), left);
}

/// In units of 10^12 a second.
double teraflops(const Execution& execution) {
  return 1e-3 * execution.flops / static_cast<double>(execution.runs->median_ns);
}

/// Of the run that is kept.
std::int64_t measured_makespan(const Execution& execution) {
  return gpu::measured_timeline(execution.analysis.table, execution.runs->run, "").makespan;
}

/// Whether the run is one that a machine profile speaks of: on a GPU and by the ranks.
bool is_predicted(const Execution& execution) {
  return execution.analysis.ok() && execution.analysis.model.clock == Clock::ns && execution.cuda &&
         execution.runs && execution.runs->median_ns > 0 &&
         execution.options.mode == gpu::Mode::deterministic;
}

/// The makespan of bare runs, at the clock that those in a row have: their median less
/// what the kept run took before its first task and after its last reduction. Only of a run that
/// was warm, as they are.
std::optional<std::int64_t> bare_makespan(const Execution& execution) {
  const gpu::Backward& run = execution.runs->run;
  if (!execution.runs->bare_median_ns || run.bare_ns == 0) return std::nullopt;
  const std::int64_t around = run.elapsed_ns - measured_makespan(execution);
  return std::max<std::int64_t>(*execution.runs->bare_median_ns - around, 1);
}

/// predicted / measured - 1.
double error_of(Ticks predicted, std::int64_t measured) {
  return static_cast<double>(predicted) / static_cast<double>(std::max<std::int64_t>(measured, 1)) -
         1;
}

/// Of the whole run.
Ticks predicted_elapsed(const Analysis& analysis) {
  return analysis.model.elapsed(analysis.makespan());
}

/// What stamps cost, as a part of the run: beside the bare run just before it where there was one,
/// as the clock is then the same, else beside the median of bare runs.
std::optional<double> overhead(const Execution& execution) {
  const gpu::Backward& run = execution.runs->run;
  if (execution.runs->bare_median_ns.value_or(0) == 0) return std::nullopt;
  if (run.bare_ns > 0) return error_of(run.elapsed_ns, run.bare_ns);
  return error_of(execution.runs->median_ns, *execution.runs->bare_median_ns);
}

// ---- JSON -------------------------------------------------------------------------------------

Json error_json(const Execution& execution) {
  const gpu::CheckedRuns& runs = *execution.runs;
  if (!runs.errors) return nullptr;
  const auto& [dq, dk, dv] = *runs.errors;
  return {{"dq", dq ? Json(dq->frobenius) : Json(nullptr)},
          {"dk", dk.frobenius},
          {"dv", dv.frobenius},
          {"most", {{"dq", dq ? Json(dq->most) : Json(nullptr)}, {"dk", dk.most}, {"dv", dv.most}}},
          {"reference", execution.device_reference ? "device" : "host"},
          {"bound", runs.bound},
          {"bound_is", gpu::error_bound_formula(runs.dtype)}};
}

Json reaccumulation_json(const Execution& execution) {
  Json json = {{"identical", nullptr}};
  if (execution.runs && execution.runs->reaccumulated) {
    json["identical"] = *execution.runs->reaccumulated;
  }
  if (execution.lost_partials > 0) json["partial_bytes"] = execution.lost_partials;
  return json;
}

Json bitwise_json(const Execution& execution) {
  const gpu::CheckedRuns& runs = *execution.runs;
  Json json = {{"repeats", runs.repeats}, {"identical", nullptr}, {"digest", nullptr}};
  if (!runs.digests.dq.empty()) {
    json["identical"] = runs.identical;
    json["digest"] = {{"dq", runs.digests.dq}, {"dk", runs.digests.dk}, {"dv", runs.digests.dv}};
  }
  json["perturb"] = execution.options.perturb ? Json(*execution.options.perturb) : Json(nullptr);
  json["dq_difference"] = runs.dq_difference;
  return json;
}

Json measured_json(const Execution& execution) {
  if (execution.runs->median_ns == 0) return nullptr;
  Json json = {{"ms", 1e-6 * static_cast<double>(execution.runs->median_ns)},
               {"tflops", execution.tick_ns == 0 ? Json(teraflops(execution)) : Json(nullptr)}};
  if (!execution.cuda) return json;
  json["makespan_ns"] = measured_makespan(execution);
  if (execution.runs->run.passes_ns > 0) json["passes_ns"] = execution.runs->run.passes_ns;
  json["clock_error_ns"] = execution.runs->run.times_error_ns;
  json["hand_over_ns"] = gpu::median_hand_over_ns(execution.analysis.table, execution.runs->run);
  if (execution.runs->bare_median_ns) {
    json["untimed_ms"] = 1e-6 * static_cast<double>(*execution.runs->bare_median_ns);
    if (execution.tick_ns == 0) {
      json["untimed_tflops"] =
          execution.flops / static_cast<double>(*execution.runs->bare_median_ns) / 1e3;
    }
  }
  if (const auto makespan = bare_makespan(execution)) json["untimed_makespan_ns"] = *makespan;
  json["timestamp_overhead"] = overhead(execution) ? Json(*overhead(execution)) : Json(nullptr);
  return json;
}

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

Json predicted_json(const Execution& execution) {
  const Analysis& analysis = execution.analysis;
  if (!analysis.ok()) return nullptr;
  const Ticks all = analysis.bubbles.total() + analysis.bubbles.busy;
  Json json = {
      {"makespan", analysis.makespan()},
      {"lower_bound", analysis.bounds.best.ticks},
      {"bubble",
       all == 0 ? 0.0 : static_cast<double>(analysis.bubbles.total()) / static_cast<double>(all)}};
  if (analysis.model.clock == Clock::ns) {
    json["makespan_ns"] = analysis.makespan();
    json["last_reduction_ns"] = workbench::last_reduction(analysis);
    json["elapsed_ns"] = predicted_elapsed(analysis);
    if (analysis.model.passes > 0) json["passes_ns"] = analysis.model.passes;
  } else if (execution.tick_ns > 0) {
    json["makespan_ns"] = analysis.makespan() * execution.tick_ns;
  }
  if (is_predicted(execution)) {
    json["error"] = {{"last_reduction",
                      error_of(workbench::last_reduction(analysis), measured_makespan(execution))},
                     {"elapsed", error_of(predicted_elapsed(analysis), execution.runs->median_ns)}};
    if (const auto makespan = bare_makespan(execution)) {
      json["error"]["untimed_last_reduction"] =
          error_of(workbench::last_reduction(analysis), *makespan);
    }
    if (execution.runs->bare_median_ns) {
      json["error"]["untimed"] =
          error_of(predicted_elapsed(analysis), *execution.runs->bare_median_ns);
    }
  }
  return json;
}

/// The table's findings, then the run's.
Json all_findings(const Execution& execution) {
  Json json = Json::parse(findings_json(execution.analysis));
  if (!execution.refused.empty()) {
    json.push_back({{"kind", "refused"}, {"message", execution.refused}});
  }
  if (!execution.runs) return json;
  for (const gpu::RunFault& fault : execution.runs->faults)
    json.push_back({{"kind", fault.kind}, {"message", fault.message}});
  if (stopped(execution)) {
    const Table& table = execution.analysis.table;
    const auto waiting = gpu::waits(table, execution.runs->run);
    json.push_back({{"kind", execution.verdict()},
                    {"message", why_stopped(execution)},
                    {"waits", Json::parse(waits_json(waiting, table.dispatch))},
                    {"hangs", Json::parse(hanging_json(hanging_tiles(execution)))}});
  }
  return json;
}

// ---- text -------------------------------------------------------------------------------------

std::string error_line(const char* name, const gpu::Deviation& error) {
  return fmt::format("{} {:.1e} (worst element {:.1e})", name, error.frobenius, error.most);
}

class RunReport {
 public:
  RunReport(const Execution& execution, const Terminal& terminal)
      : execution_(execution), analysis_(execution.analysis), terminal_(terminal) {}

  std::string text() {
    line("problem", problem_line(analysis_.table.problem));
    line("schedule", schedule_line(analysis_));
    line("device", device());
    line("verdict", verdict());
    findings();
    if (!execution_.runs) return std::move(text_);
    if (stopped(execution_)) waiting();
    if (execution_.runs->errors) {
      gradients();
    } else if (execution_.tick_ns == 0 && !stopped(execution_)) {
      line("gradients", "not judged: no reference was asked for");
    }
    if (!execution_.runs->digests.dq.empty()) bits();
    if (execution_.runs->repeats > 0) {
      order();
      times();
    }
    return std::move(text_);
  }

 private:
  void line(const char* label, const std::string& value) {
    text_ += labelled(paint("2", label), value, terminal_.width);
  }
  [[nodiscard]] std::string paint(const char* code, const std::string& what) const {
    return terminal_.color ? fmt::format("\033[{}m{}\033[0m", code, what) : what;
  }

  [[nodiscard]] std::string device() const {
    const gpu::BackwardOptions& options = execution_.options;
    return fmt::format("{}; {}, {}{}", processor(), work(), gpu::mode_name(options.mode),
                       options.perturb ? fmt::format(", perturbed by {}", *options.perturb) : "");
  }
  [[nodiscard]] std::string processor() const {
    if (execution_.cuda) {
      return fmt::format("cuda ({}, {} SMs, CUDA {})", execution_.device, execution_.cuda->sms,
                         execution_.cuda->driver);
    }
    const std::int32_t threads = execution_.options.threads;
    return fmt::format("cpu ({}), {} thread{}", execution_.device, threads,
                       threads == 1 ? "" : "s");
  }
  [[nodiscard]] std::string work() const {
    if (execution_.tick_ns > 0) {
      return fmt::format("replay, a tick is {} ns", execution_.tick_ns);
    }
    return fmt::format("{}, head_dim {}, seed {}", gpu::dtype_name(execution_.options.dtype),
                       execution_.shape.head_dim, execution_.seed);
  }

  [[nodiscard]] std::string verdict() const {
    if (!execution_.refused.empty()) return paint("31;1", "refused") + ": " + execution_.refused;
    if (!execution_.runs) return paint("31;1", "invalid") + ": not a table that can be run";
    if (stopped(execution_)) {
      return paint("31;1", execution_.verdict()) + ": " + why_stopped(execution_);
    }
    if (execution_.runs->verdict != gpu::RunVerdict::ok) return paint("31;1", execution_.verdict());
    constexpr const char* kPromises[] = {"right gradients, the same bits, the table's order",
                                         "right gradients, in any order", "right dK and dV"};
    constexpr const char* kReplayPromises[] = {"the table's order", "any order", "no order"};
    if (execution_.tick_ns > 0) {
      return paint("32", "ok") + ": " + kReplayPromises[static_cast<int>(execution_.options.mode)];
    }
    constexpr const char* kUnjudged[] = {"the same bits, the table's order", "any order",
                                         "no order"};
    const char* const* promises = execution_.runs->errors ? kPromises : kUnjudged;
    return paint("32", "ok") + ": " + promises[static_cast<int>(execution_.options.mode)];
  }

  void findings() {
    constexpr std::size_t kShown = 3;
    const char* label = "findings";
    const auto& found = analysis_.verification.findings;
    for (std::size_t index = 0; index < std::min(kShown, found.size()); ++index) {
      line(std::exchange(label, ""),
           paint("31", dag::finding_name(found[index].kind)) + ": " + found[index].message);
    }
    if (found.size() > kShown) {
      line("", fmt::format("and {} more of the table; --json lists them",
                           analysis_.verification.total - std::int64_t{kShown}));
    }
    if (!execution_.runs) return;
    for (const gpu::RunFault& fault : execution_.runs->faults)
      line(std::exchange(label, ""), paint("31", fault.kind) + ": " + fault.message);
  }

  void waiting() {
    constexpr std::size_t kShown = 8;
    const Table& table = analysis_.table;
    const auto lines = describe(gpu::waits(table, execution_.runs->run), table.dispatch);
    for (std::size_t index = 0; index < std::min(kShown, lines.size()); ++index)
      line(index == 0 ? "stuck" : "", lines[index]);
    if (lines.size() > kShown) line("", "… --json lists them all");
    line("Q tiles", hanging_line(table.problem, hanging_tiles(execution_)));
  }

  void gradients() {
    const gpu::CheckedRuns& runs = *execution_.runs;
    const auto& [dq, dk, dv] = *runs.errors;
    line("gradients",
         fmt::format("relative Frobenius error against double precision{}:",
                     execution_.device_reference ? " on the device" : ", without tiles"));
    if (dq) line("", error_line("dQ", *dq));
    line("", error_line("dK", dk));
    line("", error_line("dV", dv));
    line("", fmt::format("held to {:.1e} = {}", runs.bound, bound()));
  }

  [[nodiscard]] const char* bound() const {
    constexpr const char* kBounds[] = {
        "8 * 2^-24 * sqrt(additions): roundings of fp32 add up like a random walk",
        "6 * 2^-8 + fp32's bound: roundings of P, dS and the gradient",
        "6 * (2^-11 + 2^-25 * tokens) + fp32's bound: roundings of P, dS and the gradient"};
    return kBounds[static_cast<int>(execution_.runs->dtype)];
  }

  void bits() {
    const gpu::CheckedRuns& runs = *execution_.runs;
    line("bits", fmt::format("{} in {} run{}{}", runs.identical ? "the same" : "NOT the same",
                             runs.repeats, runs.repeats == 1 ? "" : "s",
                             execution_.options.perturb ? ", all but the first perturbed" : ""));
    line("FNV-1a",
         fmt::format("dQ {}, dK {}, dV {}", runs.digests.dq, runs.digests.dk, runs.digests.dv));
    if (!runs.identical) {
      line("", fmt::format("largest difference of an element of dQ: {:.1e}", runs.dq_difference));
    }
    if (runs.reaccumulated) {
      line("", fmt::format("dQ's partials, added by the host by rank, give {} bits",
                           *runs.reaccumulated ? "the same" : "OTHER"));
    }
    if (execution_.lost_partials > 0) {
      line("", fmt::format("dQ's partials take {:.1f} GiB: not kept, and not added by the host",
                           static_cast<double>(execution_.lost_partials) / (1 << 30)));
    }
  }

  void order() {
    if (execution_.options.mode == gpu::Mode::no_reduce) return;
    const bool promised = execution_.options.mode == gpu::Mode::deterministic;
    line("order", execution_.runs->order_matches ? "of every dQ tile as its ranks say, in every run"
                  : promised                     ? "NOT as the ranks say"
                             : "another than the ranks'; this mode promises none");
  }

  void times() {
    if (execution_.runs->median_ns == 0) return;
    const double ms = 1e-6 * static_cast<double>(execution_.runs->median_ns);
    line("measured",
         execution_.tick_ns > 0
             ? fmt::format("{:.3f} ms, of which {:.3f} from the first task to the last", ms,
                           1e-6 * static_cast<double>(measured_makespan(execution_)))
             : fmt::format("{:.3f} ms, {:.2f} GFLOP/s", ms, 1e3 * teraflops(execution_)));
    if (execution_.cuda) device_times();
    if (!analysis_.ok()) return;
    const Ticks all = analysis_.bubbles.total() + analysis_.bubbles.busy;
    line("predicted",
         fmt::format("{} ({}), {} bubbles", duration(analysis_.makespan(), analysis_.model.clock),
                     model_line(analysis_.model),
                     percent(analysis_.bubbles.total(), std::max<Ticks>(all, 1))));
    if (is_predicted(execution_)) {
      against_profile();
    } else if (execution_.tick_ns > 0 && analysis_.model.clock == Clock::ticks) {
      against_prediction();
    }
  }

  void device_times() {
    const std::int64_t hand_over = gpu::median_hand_over_ns(analysis_.table, execution_.runs->run);
    if (hand_over > 0) {
      line("", fmt::format("a hand-over that was waited for took {} ns (median)", hand_over));
    }
    if (overhead(execution_)) {
      const auto ns = static_cast<double>(*execution_.runs->bare_median_ns);
      line("", fmt::format("{:.3f} ms{} bare; each task's stamps cost {:.1f} %", 1e-6 * ns,
                           execution_.tick_ns > 0
                               ? ""
                               : fmt::format(", {:.1f} TFLOP/s,", execution_.flops / ns / 1e3),
                           100 * *overhead(execution_)));
    }
  }

  void against_profile() {
    const auto add = [&](const char* what, Ticks predicted, std::int64_t measured) {
      line("", fmt::format("{}: predicted {}, measured {}: {:+.1f} %", what,
                           duration(predicted, Clock::ns), duration(measured, Clock::ns),
                           100 * error_of(predicted, measured)));
    };
    add("first task to last", workbench::last_reduction(analysis_), measured_makespan(execution_));
    add("whole run", predicted_elapsed(analysis_), execution_.runs->median_ns);
    if (const auto makespan = bare_makespan(execution_)) {
      add("bare, first task to last", workbench::last_reduction(analysis_), *makespan);
    }
    if (execution_.runs->bare_median_ns) {
      add("bare, whole run", predicted_elapsed(analysis_), *execution_.runs->bare_median_ns);
    }
  }

  void against_prediction() {
    const auto predicted = static_cast<double>(analysis_.makespan() * execution_.tick_ns);
    line("",
         fmt::format("= {:.3f} ms; measured {:+.1f} %", 1e-6 * predicted,
                     100 * (static_cast<double>(measured_makespan(execution_)) / predicted - 1)));
  }

  const Execution& execution_;
  const Analysis& analysis_;
  const Terminal& terminal_;
  std::string text_;
};

}  // namespace

std::string run_json(const Execution& execution) {
  const Analysis& analysis = execution.analysis;
  const Problem& problem = analysis.table.problem;
  Json json = {{"schema", "stagger.run/1"},
               {"version", version()},
               {"device", device_json(execution)},
               {"kernel", execution.kernel},
               {"mode", gpu::mode_name(execution.options.mode)},
               {"dtype", gpu::dtype_name(execution.options.dtype)},
               {"head_dim", execution.shape.head_dim},
               {"seed", execution.seed},
               {"timeout_ms", execution.options.timeout.count()},
               {"problem", Json::parse(cli::problem_json(problem))},
               {"schedule", Json::parse(schedule_json(analysis))},
               {"model", Json::parse(model_json(problem, analysis.model))},
               {"verdict", execution.verdict()}};
  if (execution.tick_ns > 0) {
    json["tick_ns"] = execution.tick_ns;
    json["spins"] = Json::parse(model_json(problem, {.timing = execution.spun}));
  }
  const bool ran = execution.runs.has_value();
  const bool ordered =
      ran && execution.runs->repeats > 0 && execution.options.mode != gpu::Mode::no_reduce;
  json["error"] = ran ? error_json(execution) : Json(nullptr);
  json["bitwise"] = ran ? bitwise_json(execution) : Json(nullptr);
  json["order"] = {
      {"matches_table", ordered ? Json(execution.runs->order_matches) : Json(nullptr)}};
  json["reaccumulation"] = reaccumulation_json(execution);
  json["measured"] = ran ? measured_json(execution) : Json(nullptr);
  json["predicted"] = predicted_json(execution);
  json["findings"] = all_findings(execution);
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string run_text(const Execution& execution, const Terminal& terminal) {
  return RunReport(execution, terminal).text();
}

}  // namespace stagger::cli
