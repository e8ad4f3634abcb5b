#include "workbench/designs/design.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/limits.hpp"
#include "core/nearest.hpp"
#include "schedules/parameters.hpp"

#include <algorithm>
#include <array>

namespace stagger::designs {

extern const Design kOrdered;
extern const Design kHeadPerCta;
extern const Design kSplit;
extern const Design kSplitBest;
extern const Design kTwoPass;
extern const Design kOpenTau;
extern const Design kDsStore;
extern const Design kQStationary;
extern const Design kCluster;

namespace {

/// The compute factor of all kernels; one launch may have chains of both kinds.
std::int64_t compute_permille(const Plan& plan) {
  std::int64_t gemms = 0;
  for (const Stage& stage : plan.stages) {
    const auto* lanes = std::get_if<FreeLanes>(&stage.work);
    if (lanes == nullptr) return 1000;
    std::int64_t of_kv = 0;
    std::int64_t of_q = 0;
    for (const Chain& chain : lanes->chains)
      (chain.keeps == Keeps::kv ? of_kv : of_q) = chain.gemms;
    gemms += of_kv + of_q;
  }
  return gemms == 0 ? 1000 : 1000 * gemms / kGemms;
}

constexpr std::array kDesigns = {&kOrdered, &kHeadPerCta, &kSplit,       &kSplitBest, &kTwoPass,
                                 &kOpenTau, &kDsStore,    &kQStationary, &kCluster};

}  // namespace

std::span<const Design* const> all() {
  return kDesigns;
}

Selection select(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string_view name = text.substr(0, colon);
  const auto design = std::ranges::find(
      kDesigns, name, [](const Design* row) { return std::string_view(row->name); });
  if (design == kDesigns.end()) {
    throw Error(ErrorKind::usage, unknown_name("design", name, names_of(kDesigns)));
  }
  return {.design = *design,
          .parameters = schedules::read_parameters(text.substr(std::min(colon + 1, text.size())),
                                                   (*design)->name, (*design)->parameters),
          .text = std::string(text)};
}

std::optional<std::string> why_unsupported(const Selection& selection, const Request& request) {
  const Design& design = *selection.design;
  if (request.schedule && !design.plays_schedule) {
    return std::string("it plays no schedule");
  }
  if (design.needs_schedule && !request.schedule) return std::string("it needs a schedule");
  if (mask_heads(request.problem.mask) > 0) return std::string("it knows one mask for all heads");
  if (design.unsupported == nullptr) return std::nullopt;
  Request asked = request;
  asked.parameters = selection.parameters;
  return design.unsupported(asked);
}

Plan plan(const Selection& selection, Request request) {
  const Design& design = *selection.design;
  if (const auto reason = why_unsupported(selection, request)) {
    throw Error(ErrorKind::unsupported, std::string(design.name) + ": " + *reason);
  }
  check_timing(request.model.timing, request.problem);
  request.parameters = selection.parameters;
  Plan plan = design.plan(request);
  if (plan.name.empty()) plan.name = selection.text;
  plan.compute_permille = compute_permille(plan);
  return plan;
}

std::int64_t Plan::launches() const {
  auto launches = static_cast<std::int64_t>(stages.size());
  for (const Pass& pass : passes)
    launches += pass.launches;
  return launches;
}

}  // namespace stagger::designs
