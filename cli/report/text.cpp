#include "cli/report/text.hpp"

#include "cli/report/words.hpp"
#include "core/printable.hpp"
#include "core/span.hpp"
#include "core/text.hpp"
#include "dag/liveness.hpp"
#include "workbench/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Clock;
using workbench::Summary;

constexpr std::size_t kFindingsShown = 3;  ///< of a kind
constexpr std::size_t kWaitsShown = 4;
constexpr std::size_t kEdgesShown = 4;
constexpr std::size_t kStepsShown = 8;

/// `0-2, 5`, of ascending numbers.
std::string ranges(const std::vector<std::int32_t>& numbers) {
  std::string text;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      ++end;
    text += text.empty() ? "" : ", ";
    text += std::to_string(numbers[begin]);
    if (end - begin > 1) text += "-" + std::to_string(numbers[end - 1]);
    begin = end;
  }
  return text;
}

/// `Q tile 0 hangs`, `Q tiles 1-3, 5 hang` or `none hangs`.
std::string q_tiles(const std::vector<std::int32_t>& tiles, const char* one_does,
                    const char* many_do) {
  if (tiles.empty()) return fmt::format("none {}", one_does);
  const bool one = tiles.size() == 1;
  return fmt::format("Q tile{} {} {}", one ? "" : "s", ranges(tiles), one ? one_does : many_do);
}

class Report {
 public:
  Report(const Analysis& analysis, const Terminal& terminal)
      : analysis_(analysis),
        terminal_(terminal),
        unit_(unit_of(analysis.model.unit(),
                      std::max(analysis.makespan, analysis.bounds.best.ticks))) {}

  std::string text() {
    const Table& table = analysis_.table;
    line("problem", describe(table.problem));
    if (table.problem.group() > 1) line("span", span_line(table.problem));
    line("model", model_line(analysis_.model));
    if (analysis_.model.clock == Clock::ns) line("machine", machine_line(analysis_.model));
    line("schedule", schedule_line(analysis_));
    line("verdict", verdict());
    findings();
    co_residency();
    if (analysis_.ok()) {
      line("orders", orders_line(orders_of(analysis_), analysis_.table.problem.heads));
      times();
      lemma1();
      critical_path();
    } else {
      line("lower bound", fmt::format("{} ({})", unit_.text(analysis_.bounds.best.ticks),
                                      analysis_.bounds.best.by));
    }
    return std::move(text_);
  }

 private:
  void line(const char* label, const std::string& value) {
    text_ += labelled(paint("2", label), value, terminal_.width);
  }
  void more(const std::string& value) { line("", value); }

  [[nodiscard]] std::string paint(const char* code, const std::string& what) const {
    return terminal_.color ? fmt::format("\033[{}m{}\033[0m", code, what) : what;
  }

  [[nodiscard]] std::string verdict() const {
    const dag::Verification& verification = analysis_.verification;
    if (analysis_.ok()) return paint("32", "ok") + ": complete, deterministic, deadlock-free";
    return paint("31;1", dag::verdict_name(verification.verdict)) + ", " +
           counted(verification.total, "finding");
  }

  /// The first few of each kind.
  void findings() {
    const dag::Verification& verification = analysis_.verification;
    std::map<dag::FindingKind, std::size_t> shown;
    std::int64_t left = verification.total;
    const char* label = "findings";
    for (const dag::Finding& finding : verification.findings) {
      if (shown[finding.kind]++ >= kFindingsShown) continue;
      line(label, paint("31", dag::finding_name(finding.kind)) + ": " + finding.message);
      label = "";
      --left;
    }
    if (left > 0) more(fmt::format("and {} more; --json lists them", left));
    if (!verification.liveness.live) deadlock();
  }

  void deadlock() {
    const dag::Liveness& liveness = analysis_.verification.liveness;
    const Dispatch dispatch = analysis_.table.dispatch;
    if (!liveness.cycle.empty()) {
      line("wait-for cycle", "each waits for the next, the last for the first:");
      for (const std::string& words : describe(liveness.cycle, dispatch))
        more(words);
    }
    const auto starved = describe(liveness.starved, dispatch);
    for (std::size_t index = 0; index < std::min(kWaitsShown, starved.size()); ++index) {
      line(index == 0 ? "stuck" : "", starved[index]);
    }
    if (starved.size() > kWaitsShown) more("… --json lists them all");
    line("dQ", hanging_line(analysis_.table.problem, liveness.hanging));
  }

  void co_residency() {
    const dag::Liveness& liveness = analysis_.verification.liveness;
    if (liveness.residency_needed == 0) return;
    line("co-residency",
         liveness.residency_needed == 1
             ? "any: no CTA waits for one launched later"
             : fmt::format("needs {} CTAs resident at once ({} {} there): launch cooperatively",
                           liveness.residency_needed, liveness.residency_available,
                           does(liveness.residency_available, "is", "are")));
  }

  void times() {
    const Ticks makespan = analysis_.makespan;
    const dag::Bounds& bounds = analysis_.bounds;
    const Ticks lower = bounds.best.ticks;
    const char* const by = analysis_.longest_path ? " = longest path of the graph" : " (simulated)";
    if (analysis_.memory) {
      memory(*analysis_.memory, by);
    } else {
      line("makespan", unit_.text(makespan) + by);
    }
    if (analysis_.model.clock == Clock::ns) {
      line("whole run",
           fmt::format("{}: {} more", unit_.text(analysis_.model.elapsed(analysis_.makespan)),
                       around_words(analysis_.model, unit_)));
    }
    std::string gap =
        fmt::format("{} ({}: {})", unit_.text(lower), bounds.best.by, bounds.best.why);
    gap += analysis_.optimal.value_or(false)
               ? paint("32", "; reached: optimal")
               : fmt::format("; gap {}", lower == 0 ? "-" : percent(makespan - lower, lower));
    line("lower bound", gap);
    const sim::Bubbles& bubbles = analysis_.bubbles;
    const Ticks all = bubbles.total() + bubbles.busy;
    line("bubbles", fmt::format("{} of SM time: startup {}, order {}, tail {}",
                                percent(bubbles.total(), std::max<Ticks>(all, 1)),
                                unit_.number(bubbles.startup), unit_.number(bubbles.order),
                                unit_.text(bubbles.tail)));
    if (analysis_.formula) {
      const workbench::FormulaCheck& check = *analysis_.formula;
      line("formula",
           fmt::format("{} = {} = {}: {} ({})", check.formula->name, check.text,
                       unit_.text(check.ticks), check.holds ? "holds" : paint("31", "FAILS"),
                       check.formula->source));
    }
  }

  void memory(const sim::MemoryPlay& memory, const char* phases_by) {
    const Memory& model = *analysis_.model.timing.memory;
    line("makespan", unit_.text(memory.makespan) + " with the memory");
    line("phases", unit_.text(analysis_.phases) + phases_by);
    line("memory", fmt::format("{} read, {} written; {} of {} touched are in L2",
                               decimal_bytes(memory.read), decimal_bytes(memory.written),
                               percent(memory.hit, std::max<std::int64_t>(memory.touched, 1)),
                               decimal_bytes(memory.touched)));
    more(fmt::format("at most {} of dQ in flight; L2 {}, {} bytes a {}",
                     decimal_bytes(memory.in_flight), decimal_bytes(model.l2), model.rate,
                     analysis_.model.clock == Clock::ns ? "ns" : "tick"));
    if (model.add_permille > 0) {
      more(fmt::format("an addition takes as much of that as moving {:.6g} times its bytes",
                       1e-3 * static_cast<double>(model.add_permille)));
    }
    if (model.latency > 0) more("what was moved is there " + unit_.text(model.latency) + " later");
    if (model.congestion > 0) {
      more("a hand-over takes up to " + unit_.text(model.congestion) +
           " longer the more SMs reduce");
    }
    if (model.spread > 0) {
      more("a hand-over takes " + unit_.text(model.spread) + " longer by chance, in the mean" +
           (model.draw > 0 ? ", draw " + std::to_string(model.draw) : std::string()));
    }
    if (model.dip_loss > 0) {
      more("the clock dips for " + unit_.text(model.dip) + ": up to " + unit_.text(model.dip_loss) +
           " are lost, the more SMs reduce the more");
    }
  }

  void lemma1() {
    const dag::Lemma1& lemma = analysis_.lemma1;
    if (lemma.premise) {
      line("Lemma 1", fmt::format("{} of {} {} the depth: {}", lemma.violation_count,
                                  counted(lemma.dependency_edges, "dependency edge"),
                                  does(lemma.violation_count, "decreases", "decrease"),
                                  lemma.monotone ? "no bubble from the order"
                                                 : "the critical path is longer than the chains"));
      edges(lemma.violations, false);
      return;
    }
    line("Lemma 1", "does not apply: " + lemma.premise_fails);
    if (!lemma.harmful) return;
    more(fmt::format("{} of {} would {}alone lengthen the critical path", lemma.harmful_count,
                     counted(lemma.dependency_edges, "dependency edge"),
                     does(lemma.harmful_count, "", "each ")));
    edges(*lemma.harmful, true);
  }

  void edges(const std::vector<dag::DependencyEdge>& edges, bool times) {
    for (std::size_t index = 0; index < std::min(kEdgesShown, edges.size()); ++index) {
      const dag::DependencyEdge& edge = edges[index];
      const std::string what =
          times ? fmt::format("{} > latest {}", edge.earliest_from, edge.latest_to)
                : fmt::format("depth {} > {}", edge.depth_from, edge.depth_to);
      more(fmt::format("  {} -> {}: {}", describe(edge.from), describe(edge.to), what));
    }
    if (edges.size() > kEdgesShown) more("  … --json lists them all");
  }

  void critical_path() {
    const auto& steps = analysis_.critical_path.steps;
    if (steps.empty() && analysis_.phases > 0) {
      return line("critical path", unit_.text(analysis_.critical_path.length) +
                                       "; the phases of so many tasks are not listed");
    }
    line("critical path", fmt::format("{} in {}{}", unit_.text(analysis_.critical_path.length),
                                      counted(std::ssize(steps), "phase"),
                                      steps.size() > kStepsShown ? ", the last:" : ":"));
    const std::size_t first = steps.size() > kStepsShown ? steps.size() - kStepsShown : 0;
    const std::size_t width = std::max<std::size_t>(unit_.number(analysis_.makespan).size(), 6);
    for (std::size_t index = first; index < steps.size(); ++index) {
      const CriticalStep& step = steps[index];
      more(fmt::format("  {:>{}} to {:<{}} SM {:<3} {:<8} {}", unit_.number(step.start), width,
                       unit_.number(step.end), width, step.sm.value, phase_name(step.phase),
                       describe(step.task)));
    }
  }

  const Analysis& analysis_;
  const Terminal& terminal_;
  TimeUnit unit_;  ///< of all times but those of phases
  std::string text_;
};

}  // namespace

std::string orders_line(const workbench::OrderReport& orders, std::int32_t heads) {
  std::string text = fmt::format("{} among {}", orders.distinct, counted(heads, "head"));
  if (orders.invariant) {
    text += *orders.invariant ? ": batch invariant" : ": bits move with heads and SMs";
    if (orders.sms) text += fmt::format(", but not on {} SMs", *orders.sms);
  }
  return text + fmt::format("; digest {} at head_dim {}", workbench::hexadecimal(orders.digest),
                            orders.head_dim);
}

std::string schedule_line(const Summary& summary) {
  return fmt::format("{} ({} dispatch; {})", printable(summary.name),
                     dispatch_name(summary.dispatch),
                     summary.selection ? summary.selection->schedule->source : "from a file");
}

std::string span_line(const Problem& problem) {
  const SpanRule rule = span_rule(problem);
  std::string line = fmt::format("{} of {} heads a chain", problem.span, problem.group());
  if (problem.combine != Combine::none) {
    line += fmt::format(", {} of dK and dV {}", counted(problem.group_parts(), "part"),
                        problem.combine == Combine::ordered ? "in order" : "in a pass");
  }
  return line + fmt::format("; auto is {}: {}", rule.span, rule.why);
}

std::string hanging_line(const Problem& problem,
                         const std::vector<dag::Liveness::Hanging>& hanging) {
  const Head head = hanging.empty() ? Head{0} : hanging.front().head;
  std::vector<std::int32_t> hang;
  for (const auto& tile : hanging) {
    if (tile.head == head) hang.push_back(tile.q.value);
  }
  std::vector<std::int32_t> finish;
  for (std::int32_t q = 0; q < problem.q_tiles(); ++q) {
    if (!std::binary_search(hang.begin(), hang.end(), q)) finish.push_back(q);
  }
  std::string words = q_tiles(hang, "hangs", "hang") + "; " + q_tiles(finish, "finishes", "finish");
  if (problem.heads == 1) return words;
  return fmt::format("head {}: {} (other heads: --json)", head.value, words);
}

std::string report_text(const Analysis& analysis, const Terminal& terminal) {
  return Report(analysis, terminal).text();
}

}  // namespace stagger::cli
