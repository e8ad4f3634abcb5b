#pragma once

#include "workbench/tickets/document.hpp"
#include "workbench/tickets/rules.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {

/// The machine and the launch, where they are not the file's.
struct LintRequest {
  std::optional<std::int32_t> residency = {};
  std::optional<Release> release = {};
  std::optional<Dispatch> dispatch = {};
  std::int64_t limit = 20;  ///< findings of a rule, at most
  bool minimize = false;    ///< look for the smallest part that hangs
};

/// As of a table: what hangs has that verdict whatever else is wrong with it.
enum class LintVerdict { ok, invalid, deadlock };
inline constexpr const char* kLintVerdictNames[] = {"ok", "invalid", "deadlock"};

/// What was found in a file.
struct Linted {
  std::string file = {};
  Kind kind = Kind::tickets;
  LintVerdict verdict = LintVerdict::ok;
  SumOrder sums = SumOrder::fixed;
  std::vector<Finding> findings = {};
  std::vector<At> places = {};  ///< of each finding
  std::vector<At> others = {};  ///< of each, the step that it has to do with, if any
  /// By rule, why it is about nothing in the file; nullptr: it was judged.
  std::vector<const char*> skipped = {};
  std::vector<std::string> cycle = {};    ///< who waits for whom, if it hangs in a cycle
  std::vector<At> cycle_places = {};      ///< of each wait of the cycle
  std::vector<std::string> starved = {};  ///< who waits for what never comes, if it hangs
  std::int32_t residency = 0;             ///< programs that there is room for
  std::int32_t residency_needed = 0;
  std::optional<Tickets> smallest = {};  ///< a part that still hangs, if it was asked for

  [[nodiscard]] const char* verdict_name() const {
    return kLintVerdictNames[static_cast<int>(verdict)];
  }
};

/// Reads a file and holds it against every rule. Throws what read_document() does.
[[nodiscard]] Linted lint(std::string_view text, const std::string& file,
                          const LintRequest& request);

}  // namespace stagger::tickets
