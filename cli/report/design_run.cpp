#include "cli/report/design_run.hpp"

#include "cli/report/designs.hpp"
#include "core/text.hpp"
#include "core/time_unit.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

namespace stagger::cli {
namespace {

Json error_json(const designs::Execution& execution) {
  if (!execution.errors) return nullptr;
  const auto& [dq, dk, dv] = *execution.errors;
  return {{"dq", dq->frobenius},
          {"dk", dk.frobenius},
          {"dv", dv.frobenius},
          {"most", {{"dq", dq->most}, {"dk", dk.most}, {"dv", dv.most}}},
          {"reference", "host"},
          {"bound", execution.bound},
          {"bound_is", gpu::error_bound_formula(execution.dtype)}};
}

Json measured_json(const designs::Execution& execution) {
  const auto ns = static_cast<double>(execution.median_ns);
  return {{"ms", 1e-6 * ns}, {"tflops", ns == 0 ? Json() : Json(execution.flops / ns / 1e3)}};
}

Json findings_json(const designs::Execution& execution) {
  Json json = Json::array();
  for (const gpu::RunFault& fault : execution.faults)
    json.push_back({{"kind", fault.kind}, {"message", fault.message}});
  return json;
}

}  // namespace

std::string design_run_json(const designs::Execution& execution) {
  const auto& [dq, dk, dv] = execution.digests;
  Json design = {{"name", execution.analysis.plan.name}};
  design.append(design_json(execution.analysis));
  const Json json = {
      {"schema", "stagger.run/1"},
      {"version", version()},
      {"device", {{"kind", "cpu"}, {"name", execution.device}, {"threads", execution.threads}}},
      {"kernel", "portable"},
      {"mode", "deterministic"},
      {"dtype", gpu::dtype_name(execution.dtype)},
      {"head_dim", execution.head_dim},
      {"seed", execution.seed},
      {"problem", workbench::counted_problem_json(execution.problem)},
      {"design", design},
      {"model", workbench::model_json(execution.problem, execution.analysis.model)},
      {"verdict", execution.verdict()},
      {"error", error_json(execution)},
      {"bitwise",
       {{"repeats", execution.repeats},
        {"identical", execution.identical},
        {"digest", {{"dq", dq}, {"dk", dk}, {"dv", dv}}},
        {"perturb", execution.perturb}}},
      {"order", {{"matches_design", execution.order_matches}}},
      {"reaccumulation", {{"identical", execution.reaccumulated}}},
      {"measured", measured_json(execution)},
      {"predicted", {{"makespan", execution.analysis.makespan}}},
      {"findings", findings_json(execution)}};
  return json.text() + "\n";
}

std::string design_run_text(const designs::Execution& execution, const Terminal& terminal) {
  const designs::Analysis& analysis = execution.analysis;
  std::string text;
  const auto line = [&](const char* label, const std::string& value) {
    text += labelled(label, value, terminal.width);
  };
  line("problem", describe(execution.problem));
  line("design", analysis.plan.name + ": " + analysis.design->summary);
  if (!analysis.plan.note.empty()) line("chosen", analysis.plan.note);
  line("device",
       fmt::format("cpu ({}), {}; {}, head_dim {}, seed {}{}", execution.device,
                   counted(execution.threads, "thread"), gpu::dtype_name(execution.dtype),
                   execution.head_dim, execution.seed,
                   execution.perturb ? fmt::format(", perturbed by {}", *execution.perturb) : ""));
  line("verdict", execution.ok() ? execution.errors
                                       ? "ok: right gradients, the same bits, the design's order"
                                       : "ok: the same bits, the design's order"
                                 : "mismatch");
  for (const gpu::RunFault& fault : execution.faults)
    line("", std::string(fault.kind) + ": " + fault.message);
  if (execution.errors) {
    const auto& [dq, dk, dv] = *execution.errors;
    line("gradients", fmt::format("relative Frobenius error against double precision: dQ {:.1e}, "
                                  "dK {:.1e}, dV {:.1e}; held to {:.1e}",
                                  dq->frobenius, dk.frobenius, dv.frobenius, execution.bound));
  } else {
    line("gradients", "not judged: no reference was asked for");
  }
  line("bits", fmt::format("{} in {}{}", execution.identical ? "the same" : "NOT the same",
                           counted(execution.repeats, "run"),
                           execution.perturb ? ", all but the first perturbed" : ""));
  line("FNV-1a", fmt::format("dQ {}, dK {}, dV {}", execution.digests.dq, execution.digests.dk,
                             execution.digests.dv));
  if (execution.reaccumulated) {
    line("", fmt::format("dQ's partials, added by the host in the design's order, give {} bits",
                         *execution.reaccumulated ? "the same" : "OTHER"));
  }
  line("order", execution.order_matches ? "of every dQ tile as the design says, in every run"
                                        : "NOT as the design says");
  line("", "bits move with " + bits_words(analysis.plan.bits_depend_on));
  const TimeUnit wall = unit_of_ns(execution.median_ns);
  line("measured", fmt::format("{}, {:.2f} GFLOP/s", wall.text(execution.median_ns),
                               execution.flops / static_cast<double>(std::max<std::int64_t>(
                                                     execution.median_ns, 1))));
  line("predicted", unit_of(analysis.model.unit(), analysis.makespan).text(analysis.makespan));
  return text;
}

}  // namespace stagger::cli
