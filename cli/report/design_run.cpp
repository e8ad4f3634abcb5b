#include "cli/report/design_run.hpp"

#include "cli/report/designs.hpp"
#include "cli/report/words.hpp"
#include "core/text.hpp"
#include "core/time_unit.hpp"
#include "core/token_mask.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

Json device_json(const designs::Execution& execution) {
  if (!execution.cuda) {
    return {{"kind", "cpu"}, {"name", execution.device}, {"threads", execution.threads}};
  }
  return {{"kind", "cuda"},
          {"name", execution.device},
          {"sms", execution.cuda->sms},
          {"driver", execution.cuda->driver}};
}

Json error_json(const designs::Execution& execution) {
  if (!execution.errors) return nullptr;
  const auto& [dq, dk, dv] = *execution.errors;
  return {{"dq", dq->frobenius},
          {"dk", dk.frobenius},
          {"dv", dv.frobenius},
          {"most", {{"dq", dq->most}, {"dk", dk.most}, {"dv", dv.most}}},
          {"reference", execution.device_reference ? "device" : "host"},
          {"bound", execution.bound},
          {"bound_is", gpu::error_bound_formula(execution.dtype)}};
}

Json bitwise_json(const designs::Execution& execution) {
  const auto& [dq, dk, dv] = execution.digests;
  const bool any = execution.repeats > 0;
  return {{"repeats", execution.repeats},
          {"identical", any ? Json(execution.identical) : Json()},
          {"digest", any ? Json{{"dq", dq}, {"dk", dk}, {"dv", dv}} : Json()},
          {"perturb", execution.perturb}};
}

Json reaccumulation_json(const designs::Execution& execution) {
  Json json = {{"identical", execution.reaccumulated}};
  if (execution.lost_partials > 0) json["partial_bytes"] = execution.lost_partials;
  return json;
}

Json measured_json(const designs::Execution& execution) {
  if (execution.median_ns == 0) return nullptr;
  const auto ns = static_cast<double>(execution.median_ns);
  Json json = {{"ms", 1e-6 * ns}, {"tflops", execution.flops / ns / 1e3}};
  if (!execution.untimed_median_ns) return json;
  const auto untimed = static_cast<double>(*execution.untimed_median_ns);
  json["untimed_ms"] = 1e-6 * untimed;
  json["untimed_tflops"] = execution.flops / untimed / 1e3;
  return json;
}

Json findings_json(const designs::Execution& execution) {
  Json json = Json::array();
  for (const gpu::RunFault& fault : execution.faults)
    json.push_back({{"kind", fault.kind}, {"message", fault.message}});
  return json;
}

class DesignRunText {
 public:
  DesignRunText(const designs::Execution& execution, const Terminal& terminal)
      : execution_(execution), terminal_(terminal) {}

  std::string run() {
    const designs::Analysis& analysis = execution_.analysis;
    line("problem", describe(execution_.problem));
    if (const std::int64_t tiles = assumed_tiles(execution_.problem); tiles > 0) {
      line("assumed", assumed_words(tiles));
    }
    line("design", analysis.plan.name + ": " + analysis.design->summary);
    if (!analysis.plan.note.empty()) line("chosen", analysis.plan.note);
    line("device",
         fmt::format(
             "{}; {}, head_dim {}, seed {}{}", processor(), gpu::dtype_name(execution_.dtype),
             execution_.head_dim, execution_.seed,
             execution_.perturb ? fmt::format(", perturbed by {}", *execution_.perturb) : ""));
    line("verdict", verdict());
    for (const gpu::RunFault& fault : execution_.faults)
      line("", std::string(fault.kind) + ": " + fault.message);
    if (execution_.repeats > 0) promises();
    times();
    return std::move(text_);
  }

 private:
  void line(const char* label, const std::string& value) {
    text_ += labelled(label, value, terminal_.width);
  }

  [[nodiscard]] std::string processor() const {
    if (execution_.cuda) {
      return fmt::format("cuda ({}, {} SMs, CUDA {})", execution_.device, execution_.cuda->sms,
                         execution_.cuda->driver);
    }
    return fmt::format("cpu ({}), {}", execution_.device, counted(execution_.threads, "thread"));
  }

  [[nodiscard]] const char* verdict() const {
    if (!execution_.ok()) return execution_.verdict();
    return execution_.errors ? "ok: right gradients, the same bits, the design's order"
                             : "ok: the same bits, the design's order";
  }

  void promises() {
    if (execution_.errors) {
      const auto& [dq, dk, dv] = *execution_.errors;
      line("gradients", fmt::format("relative Frobenius error against double precision: dQ {:.1e}, "
                                    "dK {:.1e}, dV {:.1e}; held to {:.1e}",
                                    dq->frobenius, dk.frobenius, dv.frobenius, execution_.bound));
    } else {
      line("gradients", "not judged: no reference was asked for");
    }
    line("bits", fmt::format("{} in {}{}", execution_.identical ? "the same" : "NOT the same",
                             counted(execution_.repeats, "run"),
                             execution_.perturb ? ", all but the first perturbed" : ""));
    line("FNV-1a", fmt::format("dQ {}, dK {}, dV {}", execution_.digests.dq, execution_.digests.dk,
                               execution_.digests.dv));
    if (execution_.reaccumulated) {
      line("", fmt::format("dQ's partials, added by the host in the design's order, give {} bits",
                           *execution_.reaccumulated ? "the same" : "OTHER"));
    }
    if (execution_.lost_partials > 0) {
      line("", fmt::format("dQ's partials take {:.1f} GiB: not kept, and not added by the host",
                           static_cast<double>(execution_.lost_partials) / (1 << 30)));
    }
    line("order", execution_.order_matches ? "of every dQ tile as the design says, in every run"
                                           : "NOT as the design says");
    line("", "bits move with " + bits_words(execution_.analysis.plan.bits_depend_on));
  }

  void times() {
    const TimeUnit wall = unit_of_ns(execution_.median_ns);
    if (execution_.median_ns > 0) {
      line("measured", fmt::format("{}, {:.2f} GFLOP/s", wall.text(execution_.median_ns),
                                   execution_.flops / static_cast<double>(execution_.median_ns)));
    }
    if (const auto untimed = execution_.untimed_median_ns) {
      line("", fmt::format("{}, {:.2f} GFLOP/s, untimed", wall.text(*untimed),
                           execution_.flops / static_cast<double>(*untimed)));
    }
    const designs::Analysis& analysis = execution_.analysis;
    line("predicted", unit_of(analysis.model.unit(), analysis.makespan).text(analysis.makespan));
  }

  const designs::Execution& execution_;
  const Terminal& terminal_;
  std::string text_;
};

}  // namespace

std::string design_run_json(const designs::Execution& execution) {
  Json design = {{"name", execution.analysis.plan.name}};
  design.append(design_json(execution.analysis));
  Json json = {
      {"schema", "stagger.design-run/1"},
      {"version", version()},
      {"device", device_json(execution)},
      {"kernel", "portable"},
      {"mode", "deterministic"},
      {"dtype", gpu::dtype_name(execution.dtype)},
      {"head_dim", execution.head_dim},
      {"seed", execution.seed},
      {"timeout_ms", execution.timeout.count() == 0 ? Json() : Json(execution.timeout.count())},
      {"problem", workbench::counted_problem_json(execution.problem)},
      {"design", design},
      {"model", workbench::model_json(execution.problem, execution.analysis.model)},
      {"verdict", execution.verdict()},
      {"error", error_json(execution)},
      {"bitwise", bitwise_json(execution)},
      {"order",
       {{"matches_design", execution.repeats > 0 ? Json(execution.order_matches) : Json()}}},
      {"reaccumulation", reaccumulation_json(execution)},
      {"measured", measured_json(execution)},
      {"predicted", {{"makespan", execution.analysis.makespan}}},
      {"findings", findings_json(execution)}};
  if (const std::int64_t tiles = assumed_tiles(execution.problem); tiles > 0) {
    json["assumed"] = workbench::assumed_json(tiles);
  }
  return json.text() + "\n";
}

std::string design_run_text(const designs::Execution& execution, const Terminal& terminal) {
  return DesignRunText(execution, terminal).run();
}

}  // namespace stagger::cli
