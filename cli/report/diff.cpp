// Text:
//
//   spt.table.json: table, 8 programs of 144 steps: ok, makespan 132 ticks
//   mine.table.json: table, 8 programs of 144 steps: ok, makespan 129 ticks (-2.3 %)
//   first         program 3, place 0: q4@0 (head 0, kv 4), then q5@0 (head 0, kv 4)
//   moved         12 of 144 steps
//       q1@3 (head 0, kv 2): program 2 place 5, then program 4 place 0
//   lock values   9 steps
//   bits          other: 3 dQ tiles and 1 chain of dK and dV are added up in another order

#include "cli/report/diff.hpp"

#include "cli/report/words.hpp"
#include "core/mask.hpp"
#include "core/printable.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "workbench/tickets/notation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace stagger::cli {
namespace {

using tickets::Difference;
using tickets::Step;
using tickets::StepAt;
using tickets::StepChange;
using tickets::SumOrder;
using tickets::Tickets;

/// What of the launch is not the same, each as `dispatch static, then in-order`.
std::vector<std::string> settings_apart(const Tickets& before, const Tickets& after) {
  std::vector<std::string> apart;
  const auto add = [&](const char* what, const std::string& ours, const std::string& theirs) {
    if (ours != theirs) apart.push_back(fmt::format("{} {}, then {}", what, ours, theirs));
  };
  add("dispatch", dispatch_name(before.dispatch), dispatch_name(after.dispatch));
  add("release", release_name(before.release), release_name(after.release));
  add("programs resident", std::to_string(before.resident()), std::to_string(after.resident()));
  add("programs", std::to_string(before.programs()), std::to_string(after.programs()));
  add("semaphores", std::to_string(before.semaphores()), std::to_string(after.semaphores()));
  if (before.semaphores() == after.semaphores()) {
    const auto [ours, theirs] =
        std::mismatch(before.initial.begin(), before.initial.end(), after.initial.begin());
    if (ours != before.initial.end()) {
      apart.push_back(fmt::format("semaphore {} begins at {}, then {}",
                                  ours - before.initial.begin(), *ours, *theirs));
    }
  }
  return apart;
}

std::string tile_words(TileKind kind) {
  return kind == TileKind::full ? "full" : kind == TileKind::partial ? "partial" : "empty";
}

/// `tile (head 0, kv 3, q 5) full, then partial`, of the first that is another; empty: none is.
std::string tiles_apart(const Problem& before, const Problem& after) {
  const auto size = [](const Problem& problem) {
    return counted(problem.heads, "head") +
           fmt::format(" of {} KV x {} Q tiles", problem.kv_tiles(), problem.q_tiles());
  };
  if (size(before) != size(after)) return size(before) + ", then " + size(after);
  for (Head head{0}; head.value < before.heads; ++head) {
    const TileGrid& ours = before.grid_of(head);
    const TileGrid& theirs = after.grid_of(head);
    for (KvTile kv{0}; kv.value < before.kv_tiles() && ours != theirs; ++kv) {
      for (QTile q{0}; q.value < before.q_tiles(); ++q) {
        if (ours.kind(kv, q) == theirs.kind(kv, q)) continue;
        return fmt::format("tile (head {}, kv {}, q {}) {}, then {}", head.value, kv.value, q.value,
                           tile_words(ours.kind(kv, q)), tile_words(theirs.kind(kv, q)));
      }
    }
  }
  return "";
}

/// Whether a mask, or every one by head, is tiles alone.
bool is_grid(const Mask& mask) {
  if (mask.family->by_head) return std::ranges::all_of(mask.masks("of"), is_grid);
  return mask.family->tiles != nullptr;
}

/// What the problems of two tables do not have in common, as far as both say it: a mask may be no
/// more than tiles.
std::vector<std::string> problems_apart(const DiffReport& report) {
  if (!report.before.document.problem || !report.after.document.problem) return {};
  const Problem& before = *report.before.document.problem;
  const Problem& after = *report.after.document.problem;
  std::vector<std::string> apart;
  if (const std::string tiles = tiles_apart(before, after); !tiles.empty()) apart.push_back(tiles);
  if (before.heads_kv != after.heads_kv) {
    apart.push_back(fmt::format("{}, then {}", counted(before.heads_kv, "KV head"),
                                counted(after.heads_kv, "KV head")));
  }
  const auto tokens = [](const Problem& problem) {
    return fmt::format("{} of {} keys x {} queries", mask_words(problem.mask), problem.lengths.kv,
                       problem.lengths.q);
  };
  if (!is_grid(before.mask) && !is_grid(after.mask) && tokens(before) != tokens(after)) {
    apart.push_back(tokens(before) + ", then " + tokens(after));
  }
  return apart;
}

std::string step_text(const Tickets& tickets, const Step& step) {
  return fmt::format("{} (head {}, kv {})", tickets::notation(tickets, step, step.task.kv),
                     step.task.head.value, step.task.kv.value);
}

std::string at_text(const StepAt& at) {
  return fmt::format("program {} place {}", at.program.value, at.place);
}

std::string first_text(const DiffReport& report) {
  const StepChange& first = *report.difference.first;
  const auto side = [](const DiffSide& from, const std::optional<Step>& step) {
    return step ? step_text(from.document.tickets, *step) : std::string("nothing");
  };
  return fmt::format("{}: {}, then {}", at_text(first.from), side(report.before, first.before),
                     side(report.after, first.after));
}

/// A line that counts, and one for each step that is listed.
template <class Line>
std::string steps_text(const char* label, const std::vector<StepChange>& steps, Line line,
                       const DiffReport& report, const Terminal& terminal) {
  if (steps.empty()) return "";
  std::string text = labelled(label, counted(std::ssize(steps), "step"), terminal.width);
  const std::int64_t listed = std::min(report.limit, std::ssize(steps));
  for (std::int64_t index = 0; index < listed; ++index)
    text += wrapped("    " + line(steps[at(index)]), terminal.width, 6) + "\n";
  if (listed < std::ssize(steps))
    text += fmt::format("    … {} more\n", std::ssize(steps) - listed);
  return text;
}

/// Whether every run of both adds up in one order; nullopt: that is not known.
std::optional<bool> fixed(const DiffReport& report) {
  const auto either = [&](SumOrder order) {
    return report.before.sums == order || report.after.sums == order;
  };
  if (either(SumOrder::any)) return false;
  return either(SumOrder::unknown) ? std::nullopt : std::optional(true);
}

/// Whether both leave the same bits; nullopt: that is not known.
std::optional<bool> same_bits(const DiffReport& report) {
  const std::optional<bool> fixed_order = fixed(report);
  if (!report.difference.same_bits() || !problems_apart(report).empty()) return false;
  return fixed_order;
}

std::string loose_text(const DiffReport& report) {
  const auto any = [](const DiffSide& side) { return side.sums == SumOrder::any; };
  const std::string which =
      any(report.before) && any(report.after)
          ? "both are"
          : printable((any(report.before) ? report.before : report.after).file) + " is";
  return "not fixed: " + which +
         " added up in an order that differs from run to run (`stagger lint` says where)";
}

std::string bits_text(const DiffReport& report) {
  const Difference& difference = report.difference;
  const bool same_problem = problems_apart(report).empty();
  const std::optional<bool> fixed_order = fixed(report);
  if (fixed_order == false) return loose_text(report);
  if (!fixed_order && difference.same_bits()) {
    return "not known: too many steps add without waiting for all to be tried";
  }
  if (!same_problem && difference.same_bits()) return "of another problem, in the same order";
  if (difference.same_bits()) return "the same, given the same numbers";
  std::string text = "other:";
  if (difference.dq_orders > 0) text += " " + counted(difference.dq_orders, "dQ tile");
  if (difference.dq_orders > 0 && difference.dkv_orders > 0) text += " and";
  if (difference.dkv_orders > 0) {
    text += " " + counted(difference.dkv_orders, "sum") + " of dK and dV";
  }
  const bool one = difference.dq_orders + difference.dkv_orders == 1;
  return text + (one ? " is" : " are") + " added up in another order";
}

std::string side_text(const DiffSide& side, const DiffSide* than) {
  const Tickets& tickets = side.document.tickets;
  std::string text = fmt::format(
      "{}: {}, {} of {}: {}", printable(side.file), kind_name(side.document.kind),
      counted(tickets.programs(), "program"), counted(std::ssize(tickets.steps), "step"),
      tickets::kLintVerdictNames[static_cast<int>(side.verdict)]);
  if (side.verdict != tickets::LintVerdict::ok) return text + " (`stagger lint` says why)";
  if (!side.makespan) return text;
  const bool in_ns = side.model->clock == workbench::Clock::ns;
  const TimeUnit unit = in_ns ? unit_of_ns(*side.makespan) : TimeUnit{};
  text += ", makespan " + unit.text(*side.makespan);
  if (than != nullptr && than->makespan && *than->makespan > 0) {
    const Ticks more = *side.makespan - *than->makespan;
    text += fmt::format(" ({}{})", more < 0 ? "-" : "+", percent(std::abs(more), *than->makespan));
  }
  return text;
}

Json at_json(const StepAt& at) {
  return {{"program", at.program.value}, {"place", at.place}};
}

Json step_json(const std::optional<Step>& step) {
  if (!step) return {};
  Json json = {{"head", step->task.head.value},
               {"kv", step->task.kv.value},
               {"q", step->task.q.value},
               {"semaphore", step->semaphore.value},
               {"wait", Json()},
               {"add", step->add},
               {"reduces", step->reduces}};
  if (step->waits()) json["wait"] = step->wait;
  return json;
}

Json change_json(const StepChange& change) {
  return {{"before", step_json(change.before)},
          {"after", step_json(change.after)},
          {"from", change.before ? at_json(change.from) : Json()},
          {"to", change.after ? at_json(change.to) : Json()}};
}

Json changes_json(const std::vector<StepChange>& changes, std::int64_t limit) {
  Json listed = Json::array();
  for (std::int64_t index = 0; index < std::min(limit, std::ssize(changes)); ++index)
    listed.push_back(change_json(changes[at(index)]));
  return {{"count", std::ssize(changes)}, {"listed", std::move(listed)}};
}

Json side_json(const DiffSide& side) {
  Json json = {{"file", side.file},
               {"kind", kind_name(side.document.kind)},
               {"name", side.document.tickets.name},
               {"programs", side.document.tickets.programs()},
               {"steps", std::ssize(side.document.tickets.steps)},
               {"verdict", tickets::kLintVerdictNames[static_cast<int>(side.verdict)]},
               {"makespan", Json(side.makespan)},
               {"unit", Json()}};
  if (side.model) json["unit"] = side.model->unit();
  return json;
}

}  // namespace

bool same(const DiffReport& report) {
  return report.difference.none() && problems_apart(report).empty() &&
         settings_apart(report.before.document.tickets, report.after.document.tickets).empty();
}

std::string diff_text(const DiffReport& report, const Terminal& terminal) {
  const Tickets& before = report.before.document.tickets;
  const Tickets& after = report.after.document.tickets;
  const Difference& difference = report.difference;
  std::string text = wrapped(side_text(report.before, nullptr), terminal.width, 4) + "\n" +
                     wrapped(side_text(report.after, &report.before), terminal.width, 4) + "\n";
  const std::vector<std::string> problems = problems_apart(report);
  for (const std::string& apart : problems)
    text += labelled("problem", apart, terminal.width);
  for (const std::string& apart : settings_apart(before, after))
    text += labelled("launch", apart, terminal.width);
  if (difference.first) text += labelled("first", first_text(report), terminal.width);
  text += steps_text(
      "removed", difference.removed,
      [&](const StepChange& step) {
        return step_text(before, *step.before) + ": " + at_text(step.from);
      },
      report, terminal);
  text += steps_text(
      "added", difference.added,
      [&](const StepChange& step) {
        return step_text(after, *step.after) + ": " + at_text(step.to);
      },
      report, terminal);
  text += steps_text(
      "moved", difference.moved,
      [&](const StepChange& step) {
        return step_text(before, *step.before) + ": " + at_text(step.from) + ", then " +
               at_text(step.to);
      },
      report, terminal);
  text += steps_text(
      "lock values", difference.retimed,
      [&](const StepChange& step) {
        return step_text(before, *step.before) + ", then " +
               tickets::notation(after, *step.after, step.after->task.kv);
      },
      report, terminal);
  text += labelled("bits", bits_text(report), terminal.width);
  return text + (same(report) ? "the same\n" : "");
}

Json diff_json(const DiffReport& report) {
  const Difference& difference = report.difference;
  const std::vector<std::string> problems = problems_apart(report);
  return {{"schema", "stagger.diff/1"},
          {"version", version()},
          {"same", same(report)},
          {"before", side_json(report.before)},
          {"after", side_json(report.after)},
          {"problem", Json(problems)},
          {"launch",
           Json(settings_apart(report.before.document.tickets, report.after.document.tickets))},
          {"first", difference.first ? change_json(*difference.first) : Json()},
          {"at", difference.first ? at_json(difference.first->from) : Json()},
          {"removed", changes_json(difference.removed, report.limit)},
          {"added", changes_json(difference.added, report.limit)},
          {"moved", changes_json(difference.moved, report.limit)},
          {"lock_values", changes_json(difference.retimed, report.limit)},
          {"bits",
           {{"same", Json(same_bits(report))},
            {"fixed", Json(fixed(report))},
            {"dq_tiles", difference.dq_orders},
            {"dkv_sums", difference.dkv_orders}}}};
}

}  // namespace stagger::cli
