// Designs side by side, for programs.

#include "cli/report/designs.hpp"
#include "cli/report/words.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

Json row_json(const designs::ComparisonRow& row) {
  Json json = {{"design", row.design->needs_schedule ? row.design->name : row.name},
               {"schedule", row.design->needs_schedule ? Json{{"name", row.name}} : Json()}};
  if (!row.analysis) {
    json.append({{"verdict", "unsupported"}, {"reason", row.unsupported}});
    return json;
  }
  json.append(design_json(*row.analysis));
  return json;
}

}  // namespace

std::string name_of(const designs::ComparisonRow& row) {
  return row.design->needs_schedule ? std::string(row.design->name) + " " + row.name : row.name;
}

std::string reason_of(const designs::ComparisonRow& row) {
  if (!row.analysis) return row.unsupported;
  return dag::verdict_name(row.analysis->table->verification.verdict);
}

std::string designs_json(const designs::Comparison& comparison) {
  const designs::ComparisonRow* const best = comparison.best();
  std::string text = fmt::format(
      "{{\"schema\": \"stagger.compare/1\", \"version\": \"{}\",\n\"problem\": {},\n\"model\": "
      "{},\n\"head_dim\": {}, \"element_bytes\": {},\n\"best\": {},\n\"without_order\": {},\n"
      "\"missing\": {},\n\"rows\": [",
      version(), workbench::counted_problem_json(comparison.problem).text(),
      workbench::model_json(comparison.problem, comparison.model).text(), comparison.head_dim,
      comparison.element_bytes, (best == nullptr ? Json() : Json(name_of(*best))).text(),
      comparison.without_order, comparison.missing);
  const char* separator = "\n";
  for (const designs::ComparisonRow& row : comparison.rows)
    text += std::exchange(separator, ",\n") + row_json(row).text();
  return text + "]}\n";
}

std::string designs_csv(const designs::Comparison& comparison) {
  std::string text = fmt::format(
      "design,schedule,verdict,makespan_{0},elapsed_{0},flops,compute_factor,workspace_bytes,"
      "hbm_bytes,launches,lanes,dq_targets,bits_depend_on,reason\n",
      comparison.model.unit());
  for (const designs::ComparisonRow& row : comparison.rows) {
    const bool ordered = row.design->needs_schedule;
    text += fmt::format("{},{},", in_csv(ordered ? row.design->name : row.name),
                        in_csv(ordered ? row.name : ""));
    if (!row.ok()) {
      text += fmt::format("{},,,,,,,,,,,{}\n", row.analysis ? reason_of(row) : "unsupported",
                          in_csv(reason_of(row)));
      continue;
    }
    const designs::Analysis& analysis = *row.analysis;
    const designs::Plan& plan = analysis.plan;
    text +=
        fmt::format("ok,{},{},{},{},{},{},{},{},{},{},\n", analysis.makespan,
                    analysis.elapsed ? std::to_string(*analysis.elapsed) : "", plan.flops,
                    plan.compute_permille, plan.workspace_bytes, plan.hbm_bytes, plan.launches(),
                    analysis.lanes, plan.dq_targets, bits_words(plan.bits_depend_on));
  }
  return text;
}

}  // namespace stagger::cli
