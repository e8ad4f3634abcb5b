// Text:
//
//   windows.json:3:4: error STG002: head 0, q 1 (semaphore 1): lock values {1}; kv 1 waits for 1,
//     and nobody brings 1: the semaphore stays at 0. … [/programs/1/1]
//   windows.json: hangs
//     program 1 (head 0, kv 1) is at q1@1, and semaphore 1 shows 0: no step ever brings 1
//   windows.json: deadlock: 1 error

#include "cli/report/lint.hpp"

#include "core/printable.hpp"
#include "core/text.hpp"
#include "workbench/tickets/files.hpp"
#include "workbench/tickets/notation.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagger::cli {
namespace {

using tickets::At;
using tickets::Finding;
using tickets::Level;
using tickets::Linted;

constexpr std::size_t kCycleWaitsShown = 8;
constexpr const char* kUnseen =
    "not visible in steps: a release before its sum is written, a missing fence, a flag that a "
    "template drops";

std::string coloured(Level level, const Terminal& terminal) {
  const char* const name = tickets::level_name(level);
  if (!terminal.color) return name;
  constexpr const char* kColours[] = {"\x1b[36m", "\x1b[33m", "\x1b[31m"};
  return std::string(kColours[static_cast<int>(level)]) + name + "\x1b[0m";
}

std::string place_text(const Linted& linted, const At& at) {
  const std::string file = printable(linted.file);
  return at.place.line == 0 ? file : fmt::format("{}:{}:{}", file, at.place.line, at.place.column);
}

std::string finding_line(const Linted& linted, std::size_t index, const Terminal& terminal) {
  const Finding& finding = linted.findings[index];
  const At& at = linted.places[index];
  std::string line =
      fmt::format("{}: {} {}: {}", place_text(linted, at), coloured(finding.level, terminal),
                  finding.rule->id, printable(finding.message));
  if (!at.shown().empty()) line += " [" + at.shown() + "]";
  return wrapped(line, terminal.width, 2) + "\n";
}

std::string waits_text(const std::vector<std::string>& waits, const Terminal& terminal) {
  std::string text;
  for (std::size_t index = 0; index < std::min(kCycleWaitsShown, waits.size()); ++index)
    text += wrapped("  " + waits[index], terminal.width, 4) + "\n";
  if (waits.size() > kCycleWaitsShown) {
    text += fmt::format("  … {} more\n", waits.size() - kCycleWaitsShown);
  }
  return text;
}

std::string hang_text(const Linted& linted, const Terminal& terminal) {
  if (linted.verdict != tickets::LintVerdict::deadlock) return "";
  const std::string file = printable(linted.file);
  const std::string room = fmt::format("{} resident", counted(linted.residency, "program"));
  std::string text;
  if (!linted.cycle.empty()) {
    text += wrapped(fmt::format("{}: hangs with {}, in a cycle of {}:", file, room,
                                counted(std::ssize(linted.cycle), "wait")),
                    terminal.width, 2) +
            "\n" + waits_text(linted.cycle, terminal);
  } else if (!linted.starved.empty()) {
    text += wrapped(fmt::format("{}: hangs with {}:", file, room), terminal.width, 2) + "\n" +
            waits_text(linted.starved, terminal);
  } else {
    text += wrapped(file + ": hangs in some orders of events", terminal.width, 2) + "\n";
  }
  if (linted.smallest) {
    const tickets::Tickets& smallest = *linted.smallest;
    text += wrapped(fmt::format("{}: the smallest part that still hangs ({}{}{}):", file,
                                dispatch_name(smallest.dispatch),
                                smallest.residency == 0
                                    ? ""
                                    : ", " + counted(smallest.residency, "program") + " resident",
                                smallest.release == Release::delayed ? ", delayed release" : ""),
                    terminal.width, 2) +
            "\n";
    std::string lines = tickets::notation(smallest, 32, 16);
    while (!lines.empty()) {
      const std::size_t end = lines.find('\n');
      text += wrapped("  " + lines.substr(0, end), terminal.width, 6) + "\n";
      lines.erase(0, end + 1);
    }
  }
  return text;
}

/// `2 errors, 1 warning`; empty if there is nothing.
std::string counts_of(const Linted& linted) {
  std::string text;
  for (const Level level : {Level::error, Level::warning, Level::note}) {
    const auto count = std::count_if(linted.findings.begin(), linted.findings.end(),
                                     [&](const Finding& each) { return each.level == level; });
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + counted(count, tickets::level_name(level));
  }
  return text;
}

Json at_json(const At& at) {
  Json json = {{"pointer", at.pointer}};
  json["line"] = at.place.line > 0 ? Json(at.place.line) : Json();
  json["column"] = at.place.line > 0 ? Json(at.place.column) : Json();
  if (!at.tensor.empty()) json["tensor"] = at.tensor;
  return json;
}

/// What semaphores show at first, as `stagger.tickets/1` has it: one number, or one each.
Json initial_json(const tickets::Tickets& tickets) {
  const auto& initial = tickets.initial;
  if (initial.empty()) return 0;
  if (std::ranges::all_of(initial, [&](std::int64_t each) { return each == initial.front(); })) {
    return initial.front();
  }
  Json all = Json::array();
  for (const std::int64_t each : initial)
    all.push_back(each);
  return all;
}

/// The smallest part that still hangs, with the launch that it hangs in.
Json smallest_json(const tickets::Tickets& smallest) {
  return {{"programs", tickets::notation(smallest)},
          {"dispatch", dispatch_name(smallest.dispatch)},
          {"residency", smallest.residency > 0 ? Json(smallest.residency) : Json()},
          {"release", release_name(smallest.release)},
          {"initial", initial_json(smallest)}};
}

Json file_json(const Linted& linted) {
  Json findings = Json::array();
  for (std::size_t index = 0; index < linted.findings.size(); ++index) {
    const Finding& finding = linted.findings[index];
    findings.push_back({{"rule", finding.rule->id},
                        {"level", tickets::level_name(finding.level)},
                        {"message", finding.message},
                        {"at", at_json(linted.places[index])}});
  }
  Json json = {{"file", linted.file},
               {"kind", tickets::kind_name(linted.kind)},
               {"verdict", linted.verdict_name()},
               {"findings", std::move(findings)}};
  if (linted.verdict == tickets::LintVerdict::deadlock) {
    json["hang"] = {{"residency", linted.residency},
                    {"residency_needed", linted.residency_needed},
                    {"cycle", Json(linted.cycle)},
                    {"starved", Json(linted.starved)}};
  }
  if (linted.smallest) json["smallest"] = smallest_json(*linted.smallest);
  return json;
}

/// What a workflow command must not have in it.
std::string escaped(const std::string& text, bool property) {
  std::string result;
  for (const char letter : text) {
    const bool special = letter == '%' || letter == '\r' || letter == '\n' ||
                         (property && (letter == ':' || letter == ','));
    result += special ? fmt::format("%{:02X}", static_cast<int>(letter)) : std::string(1, letter);
  }
  return result;
}

std::string machine_words(const tickets::Example& example) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : ", ") + word; };
  if (example.residency > 0) add(counted(example.residency, "program") + " resident");
  if (example.dispatch == Dispatch::static_) add("static dispatch");
  if (example.release == Release::delayed) add("delayed release");
  if (example.initial != 0) add("semaphores begin at " + std::to_string(example.initial));
  return words;
}

}  // namespace

std::string lint_text(const LintReport& report, const Terminal& terminal) {
  std::string text;
  for (const Linted& linted : report.files) {
    for (std::size_t index = 0; index < linted.findings.size(); ++index)
      text += finding_line(linted, index, terminal);
    text += hang_text(linted, terminal);
    const std::string counts = counts_of(linted);
    text += fmt::format("{}: {}{}\n", printable(linted.file), linted.verdict_name(),
                        counts.empty() ? "" : ": " + counts);
  }
  const bool all_ok = std::ranges::all_of(report.files, [](const Linted& linted) {
    return linted.verdict == tickets::LintVerdict::ok;
  });
  if (all_ok && !report.files.empty()) text += wrapped(kUnseen, terminal.width, 2) + "\n";
  return text;
}

Json lint_json(const LintReport& report) {
  Json files = Json::array();
  for (const Linted& linted : report.files)
    files.push_back(file_json(linted));
  Json unreadable = Json::array();
  for (const LintReport::Unreadable& file : report.unreadable)
    unreadable.push_back({{"file", file.file}, {"why", file.why}});
  return {{"schema", "stagger.lint/1"},
          {"files", std::move(files)},
          {"unreadable", std::move(unreadable)},
          {"unseen", kUnseen}};
}

std::string github_lines(const LintReport& report) {
  std::string text;
  for (const Linted& linted : report.files) {
    for (std::size_t index = 0; index < linted.findings.size(); ++index) {
      const Finding& finding = linted.findings[index];
      const At& at = linted.places[index];
      const char* const command =
          finding.level == Level::note ? "notice" : tickets::level_name(finding.level);
      text += fmt::format("::{} file={}", command, escaped(linted.file, true));
      if (at.place.line > 0) text += fmt::format(",line={},col={}", at.place.line, at.place.column);
      const std::string where = at.tensor.empty() ? "" : " [" + at.tensor + "]";
      text +=
          fmt::format(",title={}::{}\n", finding.rule->id, escaped(finding.message + where, false));
    }
  }
  for (const LintReport::Unreadable& file : report.unreadable) {
    text += fmt::format("::error file={},title=unreadable::{}\n", escaped(file.file, true),
                        escaped(file.why, false));
  }
  return text;
}

std::string rule_text(const tickets::Rule& rule, const Terminal& terminal) {
  std::string text = wrapped(fmt::format("{} ({}): {}\n\n{}\n", rule.id,
                                         tickets::level_name(rule.level), rule.title, rule.what),
                             terminal.width, 0);
  text += wrapped(
      "\nBelow a line is a program (a CTA) in launch order, P1 that of KV tile 1. q0@1 waits until "
      "the semaphore of Q tile 0 shows 1, reduces, and adds 1; +2 adds 2; without @ it does not "
      "wait, in parentheses it does not reduce; h1. is of head 1, [2] of a semaphore 2 instead.\n",
      terminal.width, 0);
  for (const tickets::Example& example : rule.examples) {
    const std::string words = machine_words(example);
    std::string lines = std::string(example.notation) + "\n";
    text += "\n";
    while (!lines.empty()) {
      const std::size_t end = lines.find('\n');
      text += "  " + lines.substr(0, end) + "\n";
      lines.erase(0, end + 1);
    }
    text += wrapped(fmt::format("{}{}\n", words.empty() ? "" : words + ": ", example.outcome),
                    terminal.width, 2);
  }
  text += "\nSeen in:\n";
  return text + wrapped(std::string(rule.seen) + "\n", terminal.width, 2);
}

Json rule_json(const tickets::Rule& rule) {
  Json examples = Json::array();
  for (const tickets::Example& example : rule.examples) {
    examples.push_back({{"programs", example.notation},
                        {"residency", example.residency > 0 ? Json(example.residency) : Json()},
                        {"dispatch", dispatch_name(example.dispatch)},
                        {"release", release_name(example.release)},
                        {"initial", example.initial},
                        {"outcome", example.outcome}});
  }
  return {{"schema", "stagger.rule/1"},
          {"id", rule.id},
          {"title", rule.title},
          {"level", tickets::level_name(rule.level)},
          {"what", rule.what},
          {"seen", rule.seen},
          {"examples", std::move(examples)}};
}

}  // namespace stagger::cli
