// Advice for people and for programs.

#include "cli/report/designs.hpp"
#include "cli/report/words.hpp"
#include "core/version.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <utility>

namespace stagger::cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// A design that was not asked, and why.
struct LeftOut {
  const char* design;
  const char* why;
};

std::vector<LeftOut> left_out(const designs::Comparison& comparison) {
  if (comparison.model.timing.memory) return {};
  return {{"ds-store", "what its dS takes is bytes; give --machine, or --l2 and --bandwidth"}};
}

}  // namespace

std::string advice_json(const designs::Advice& advice) {
  const designs::Comparison& comparison = advice.comparison;
  Json reasons = Json::array();
  for (const designs::Reason& reason : advice.reasons) {
    reasons.push_back({{"design", reason.name},
                       {"takes", reason.takes},
                       {"ratio", reason.ratio},
                       {"why", reason.why}});
  }
  Json turns = Json::array();
  for (const designs::Turn& turn : advice.turns) {
    turns.push_back({{"what", turn.what},
                     {"up_to", turn.below},
                     {"take", turn.before},
                     {"from", turn.from},
                     {"then", turn.after}});
  }
  Json others = Json::array();
  for (const LeftOut& each : left_out(comparison))
    others.push_back({{"design", each.design}, {"why", each.why}});
  const Json json = {{"schema", "stagger.advice/1"},
                     {"version", version()},
                     {"problem", workbench::counted_problem_json(comparison.problem)},
                     {"model", workbench::model_json(comparison.problem, comparison.model)},
                     {"steady", advice.steady},
                     {"take", advice.reasons.empty() ? Json() : Json(advice.reasons.front().name)},
                     {"reasons", std::move(reasons)},
                     {"left_out", std::move(others)},
                     {"turns", std::move(turns)}};
  return json.text() + "\n";
}

std::string advice_text(const designs::Advice& advice, const Terminal& terminal) {
  const designs::Comparison& comparison = advice.comparison;
  std::string text;
  const auto line = [&](const std::string& label, const std::string& value) {
    text += labelled(label, value, terminal.width);
  };
  line("problem", describe(comparison.problem));
  line("model", model_line(comparison.model));
  if (!advice.steady.empty()) line("steady", "bits must not move with " + joined(advice.steady));
  if (advice.reasons.empty()) {
    line("take", "none: no design's bits are as steady as that");
    return text;
  }
  const TimeUnit unit = unit_of(comparison.model.unit(), advice.reasons.back().takes);
  const designs::Reason& best = advice.reasons.front();
  line("take", fmt::format("{}: {}, {}", best.name, unit.text(best.takes), best.why));
  for (std::size_t index = 1; index < advice.reasons.size(); ++index) {
    const designs::Reason& reason = advice.reasons[index];
    line(index == 1 ? "instead of" : "",
         fmt::format("{}: {:.2f} times as long; {}", reason.name, reason.ratio, reason.why));
  }
  for (const LeftOut& each : left_out(comparison))
    line("left out", fmt::format("{}: {}", each.design, each.why));
  for (const designs::Turn& turn : advice.turns) {
    line(&turn == &advice.turns.front() ? "it turns" : "",
         fmt::format("{} {}: {}; from {}: {}", turn.what, turn.below, turn.before, turn.from,
                     turn.after));
  }
  if (advice.turns.empty()) line("it turns", "nowhere that was looked");
  return text;
}

}  // namespace stagger::cli
