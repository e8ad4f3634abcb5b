// One design, for people and for programs.

#include "cli/report/designs.hpp"
#include "cli/report/words.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

using workbench::Clock;

Json passes_json(const designs::Plan& plan) {
  Json json = Json::array();
  for (const designs::Pass& pass : plan.passes) {
    json.push_back({{"name", pass.name}, {"bytes", pass.bytes}, {"launches", pass.launches}});
  }
  return json;
}

Json kernels_json(const designs::Analysis& analysis) {
  Json json = Json::array();
  for (std::size_t index = 0; index < analysis.stages.size(); ++index) {
    json.push_back(
        {{"name", analysis.plan.stages[index].name}, {"makespan", analysis.stages[index]}});
  }
  return json;
}

Json bits_json(const designs::Plan& plan) {
  Json json = Json::array();
  for (const char* word : plan.bits_depend_on)
    json.push_back(word);
  return json;
}

}  // namespace

std::string bits_words(const std::vector<const char*>& words) {
  std::string text;
  for (const char* word : words)
    text += (text.empty() ? "" : " ") + std::string(word);
  return text.empty() ? "nothing" : text;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000; ++unit)
    value /= 1024;
  const int decimals = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text + " " + kUnits[unit];
}

Json design_json(const designs::Analysis& analysis) {
  const designs::Plan& plan = analysis.plan;
  const bool ok = analysis.ok();
  return {{"verdict", ok ? "ok" : dag::verdict_name(analysis.table->verification.verdict)},
          {"note", plan.note},
          {"makespan", ok ? Json(analysis.makespan) : Json()},
          {"elapsed", ok && analysis.elapsed ? Json(*analysis.elapsed) : Json()},
          {"flops", plan.flops},
          {"compute_factor", plan.compute_permille},
          {"workspace_bytes", plan.workspace_bytes},
          {"hbm_bytes", plan.hbm_bytes},
          {"launches", plan.launches()},
          {"lanes", analysis.lanes},
          {"dq_targets", plan.dq_targets},
          {"bits_depend_on", bits_json(plan)},
          {"kernels", kernels_json(analysis)},
          {"passes", passes_json(plan)}};
}

std::string design_text(const designs::Analysis& analysis, const Problem& problem,
                        const Terminal& terminal) {
  const designs::Plan& plan = analysis.plan;
  const TimeUnit unit = unit_of(analysis.model.unit(), analysis.takes());
  std::string text;
  const auto line = [&](const char* label, const std::string& value) {
    text += labelled(label, value, terminal.width);
  };
  line("problem", describe(problem));
  line("model", model_line(analysis.model));
  if (analysis.model.clock == Clock::ns) line("machine", machine_line(analysis.model));
  line("design", plan.name + ": " + analysis.design->summary + " (" + analysis.design->who + ")");
  if (!plan.note.empty()) line("chosen", plan.note);
  if (!analysis.ok()) {
    line("verdict", dag::verdict_name(analysis.table->verification.verdict));
    return text;
  }
  line("makespan", unit.text(analysis.makespan));
  for (std::size_t index = 0; plan.stages.size() > 1 && index < plan.stages.size(); ++index)
    line("", plan.stages[index].name + ": " + unit.text(analysis.stages[index]));
  if (analysis.elapsed)
    line("elapsed", unit.text(*analysis.elapsed) + ", passes and launches among it");
  line("arithmetic",
       fmt::format("{} FLOPs, {:.1f} times the five GEMMs of a live tile", grouped(plan.flops),
                   1e-3 * static_cast<double>(plan.compute_permille)));
  line("lanes", grouped(analysis.lanes));
  line("dQ", plan.dq_targets == 0 ? "summed in registers"
                                  : "summed in " + grouped(plan.dq_targets) + " tiles of memory");
  line("workspace",
       grouped(plan.workspace_bytes) + " bytes (" + bytes_text(plan.workspace_bytes) + ")");
  line("HBM",
       "at least " + grouped(plan.hbm_bytes) + " bytes (" + bytes_text(plan.hbm_bytes) + ")");
  line("launches", std::to_string(plan.launches()));
  for (const designs::Pass& pass : plan.passes)
    line("", std::string(pass.name) + ": " + bytes_text(pass.bytes));
  line("bits", "move with " + bits_words(plan.bits_depend_on));
  return text;
}

}  // namespace stagger::cli
