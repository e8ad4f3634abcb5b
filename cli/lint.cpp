#include "workbench/tickets/lint.hpp"

#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/report/lint.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace stagger::cli {
namespace {

using tickets::Linted;
using tickets::LintVerdict;

tickets::LintRequest lint_request(const Options& options) {
  tickets::LintRequest request{
      .release = options.release, .dispatch = options.dispatch, .minimize = options.minimize};
  if (options.residency > 0) request.residency = static_cast<std::int32_t>(options.residency);
  if (options.limit) request.limit = *options.limit;
  return request;
}

/// Files that cannot be read, or are too large, are part of the report: the others are looked at
/// all the same.
LintReport lint_report(const Options& options) {
  const tickets::LintRequest request = lint_request(options);
  LintReport report;
  for (const std::string& file : options.linted) {
    try {
      report.files.push_back(tickets::lint(read_file(file), file, request));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::usage) throw;
      complain(error.what());
      report.unreadable.push_back({file, error.what()});
    }
  }
  return report;
}

ExitCode lint_code(const LintReport& report) {
  const auto any = [&](LintVerdict verdict) {
    return std::any_of(report.files.begin(), report.files.end(),
                       [&](const Linted& linted) { return linted.verdict == verdict; });
  };
  if (any(LintVerdict::deadlock)) return kDeadlock;
  if (!report.unreadable.empty()) return kBadFile;
  return any(LintVerdict::invalid) ? kViolated : kHolds;
}

int explain(const Options& options) {
  if (options.json) {
    write_stdout(rule_json(*options.rule).text() + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(rule_text(*options.rule, terminal), terminal);
  }
  return kHolds;
}

bool on_github() {
  const char* const actions = std::getenv("GITHUB_ACTIONS");
  return actions != nullptr && std::string_view(actions) == "true";
}

/// Whether two paths lead to one file, which need not be there.
bool one_file(const std::string& one, const std::string& other) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(one, error);
  return !error && path == std::filesystem::weakly_canonical(other, error) && !error;
}

/// Reports go to files of their own, of which none is read, and one at most to standard output.
void check_reports(const Options& options) {
  for (const std::string* path : {&options.junit, &options.sarif}) {
    if (path->empty()) continue;
    expect_writable(*path);
    if (options.json && *path == "-") {
      throw Error(ErrorKind::usage, "--json and a report to - are two on standard output");
    }
    const auto is_read = [&](const std::string& file) { return one_file(file, *path); };
    if (*path != "-" && std::ranges::any_of(options.linted, is_read)) {
      throw Error(ErrorKind::usage, *path + " is a file to be read: give the report another");
    }
  }
  if (!options.junit.empty() && !options.sarif.empty() && one_file(options.junit, options.sarif)) {
    throw Error(ErrorKind::usage, "--junit and --sarif are two reports: give two files");
  }
}

int lint_command(const Options& options) {
  if (options.rule != nullptr) return explain(options);
  if (options.linted.empty()) {
    throw Error(ErrorKind::usage, "give FILES: tables, tickets or lock values; or --explain RULE");
  }
  check_reports(options);
  const LintReport report = lint_report(options);
  if (!options.junit.empty()) write_file(options.junit, lint_junit(report));
  if (!options.sarif.empty()) write_file(options.sarif, lint_sarif(report).text() + "\n");
  if (options.junit == "-" || options.sarif == "-") return lint_code(report);
  if (options.json) {
    write_stdout(lint_json(report).text() + "\n");
    return lint_code(report);
  }
  const Terminal terminal = terminal_of(options);
  write_text(lint_text(report, terminal), terminal);
  if (on_github()) write_stdout(github_lines(report));
  return lint_code(report);
}

}  // namespace

extern const Command kLint;
const Command kLint{
    .name = "lint",
    .summary = "Other people's tickets, and tables: which rules their lock values break",
    .examples =
        "  stagger lint mine.table.json theirs.tickets.json\n"
        "  stagger lint locks.csv --residency 132 --minimize\n"
        "  stagger lint tables/*.json --junit lint.xml --sarif lint.sarif\n"
        "  stagger lint --explain STG008\n",
    .run = lint_command,
};

}  // namespace stagger::cli
