#pragma once

#include "cli/terminal.hpp"
#include "core/json.hpp"
#include "workbench/tickets/lint.hpp"

#include <string>
#include <vector>

namespace stagger::cli {

/// What was found in files, and why others could not be read.
struct LintReport {
  struct Unreadable {
    std::string file;
    std::string why;
  };
  std::vector<tickets::Linted> files = {};
  std::vector<Unreadable> unreadable = {};
};

/// A line for each finding, as compilers have them, who waits for whom, and a line for each file.
[[nodiscard]] std::string lint_text(const LintReport& report, const Terminal& terminal);

/// Schema `stagger.lint/1`.
[[nodiscard]] Json lint_json(const LintReport& report);

/// `::error file=…,line=…,col=…,title=STG001::…`, a line for each finding.
[[nodiscard]] std::string github_lines(const LintReport& report);

/// A test suite for each file, a test case for each rule.
[[nodiscard]] std::string lint_junit(const LintReport& report);

/// SARIF 2.1.0.
[[nodiscard]] Json lint_sarif(const LintReport& report);

/// A rule's page.
[[nodiscard]] std::string rule_text(const tickets::Rule& rule, const Terminal& terminal);
[[nodiscard]] Json rule_json(const tickets::Rule& rule);

}  // namespace stagger::cli
