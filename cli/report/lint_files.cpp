// What other programs read of a lint: JUnit (a suite for each file, a case for each rule) and SARIF
// 2.1.0 (a result for each finding). Neither has times or hosts: same input, same bytes.

#include "cli/report/lint.hpp"
#include "core/printable.hpp"
#include "core/version.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stagger::cli {
namespace {

using tickets::At;
using tickets::Finding;
using tickets::Level;
using tickets::Linted;
using tickets::Rule;

std::string xml(const std::string& text) {
  std::string escaped;
  for (const char letter : printable(text)) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string place_of(const At& at) {
  std::string place = at.shown();
  if (at.place.line > 0) {
    place += fmt::format("{}line {}, column {}", place.empty() ? "" : ", ", at.place.line,
                         at.place.column);
  }
  return place;
}

struct Counts {
  int tests = 0;
  int failures = 0;
  int errors = 0;
  int skipped = 0;

  void add(const Counts& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
  }
};

std::string case_head(const Rule& rule) {
  return fmt::format("<testcase classname=\"stagger.lint\" name=\"{} {}\"", rule.id,
                     xml(rule.title));
}

std::string skipped_case(const Rule& rule, const char* why, Counts& counts) {
  ++counts.tests;
  ++counts.skipped;
  return case_head(rule) + fmt::format("><skipped message=\"{}\"/></testcase>\n", xml(why));
}

/// The case of one rule: it holds, a failure has all that it found, or it is about nothing.
std::string case_of(const Linted& linted, std::size_t number, Counts& counts) {
  const Rule& rule = *tickets::rules()[number];
  std::string first;
  std::string all;
  for (std::size_t index = 0; index < linted.findings.size(); ++index) {
    const Finding& finding = linted.findings[index];
    if (finding.rule != &rule || finding.level != Level::error) continue;
    if (first.empty()) first = xml(finding.message);
    all += xml(place_of(linted.places[index]) + ": " + finding.message) + "\n";
  }
  if (first.empty() && linted.skipped[number] != nullptr) {
    return skipped_case(rule, linted.skipped[number], counts);
  }
  ++counts.tests;
  if (first.empty()) return case_head(rule) + "/>\n";
  ++counts.failures;
  return case_head(rule) +
         fmt::format("><failure type=\"{}\" message=\"{}\">{}</failure></testcase>\n", rule.id,
                     first, all);
}

std::string suite_of(const std::string& file, const Counts& counts, const std::string& cases) {
  return fmt::format(
             "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
             "skipped=\"{}\">\n",
             xml(file), counts.tests, counts.failures, counts.errors, counts.skipped) +
         cases + "</testsuite>\n";
}

std::string suite_of(const Linted& linted, Counts& all) {
  Counts counts;
  std::string cases;
  for (std::size_t number = 0; number < tickets::rules().size(); ++number)
    cases += case_of(linted, number, counts);
  all.add(counts);
  return suite_of(linted.file, counts, cases);
}

/// A file that no rule has judged: why, and every rule's case all the same.
std::string suite_of(const LintReport::Unreadable& file, Counts& all) {
  Counts counts{.tests = 1, .errors = 1};
  std::string cases = fmt::format(
      "<testcase classname=\"stagger.lint\" name=\"readable\"><error "
      "type=\"unreadable\" message=\"{}\"/></testcase>\n",
      xml(file.why));
  for (const Rule* rule : tickets::rules())
    cases += skipped_case(*rule, "the file was not read", counts);
  all.add(counts);
  return suite_of(file.file, counts, cases);
}

Json rules_json() {
  Json rules = Json::array();
  for (const Rule* rule : tickets::rules()) {
    rules.push_back({{"id", rule->id},
                     {"shortDescription", {{"text", rule->title}}},
                     {"fullDescription", {{"text", rule->what}}},
                     {"help", {{"text", std::string("Seen in:\n") + rule->seen}}},
                     {"defaultConfiguration", {{"level", tickets::level_name(rule->level)}}}});
  }
  return rules;
}

/// A path as a relative URI.
std::string uri_of(const std::string& path) {
  std::string uri;
  for (const char letter : path) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') ||
                       std::string_view("/-._~").find(letter) != std::string_view::npos;
    uri +=
        plain ? std::string(1, letter) : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return uri;
}

Json physical_location(const std::string& file, const At& at) {
  Json region = {{"startLine", std::max<std::int64_t>(at.place.line, 1)}};
  if (at.place.line > 0) region["startColumn"] = at.place.column;
  if (at.end.line > at.place.line) region["endLine"] = at.end.line;
  if (at.end.line > 0) region["endColumn"] = at.end.column;
  return {{"artifactLocation", {{"uri", uri_of(file)}}}, {"region", std::move(region)}};
}

Json location(const std::string& file, const At& at) {
  Json json = {{"physicalLocation", physical_location(file, at)}};
  if (at.pointer.empty()) return json;
  Json logical = Json::array();
  logical.push_back({{"fullyQualifiedName", at.shown()}, {"kind", "value"}});
  json["logicalLocations"] = std::move(logical);
  return json;
}

/// A place and what is said of it.
Json told_location(const std::string& file, const At& at, const std::string& text) {
  Json json = location(file, at);
  json["message"] = {{"text", text}};
  return json;
}

/// Who waits for whom, one after the other: as far as readers go.
Json code_flows(const Linted& linted) {
  constexpr std::size_t kMostLocations = 1000;
  Json locations = Json::array();
  for (std::size_t wait = 0; wait < std::min(linted.cycle.size(), kMostLocations); ++wait) {
    locations.push_back(
        {{"location", told_location(linted.file, linted.cycle_places[wait], linted.cycle[wait])}});
  }
  Json threads = Json::array();
  threads.push_back({{"locations", std::move(locations)}});
  Json flows = Json::array();
  flows.push_back({{"threadFlows", std::move(threads)}});
  return flows;
}

/// Whether a finding is the first error of its file, which has the cycle that it hangs in.
bool has_cycle(const Linted& linted, std::size_t index) {
  const auto first = std::ranges::find(linted.findings, Level::error, &Finding::level);
  return !linted.cycle.empty() &&
         first - linted.findings.begin() == static_cast<std::ptrdiff_t>(index);
}

/// What a finding is known by from run to run: its rule, its place and the other step's.
std::string fingerprint(const Linted& linted, std::size_t index) {
  std::string print = linted.findings[index].rule->id + (":" + linted.places[index].pointer);
  if (linted.findings[index].other >= 0) print += ":" + linted.others[index].pointer;
  return print;
}

Json result_of(const Linted& linted, std::size_t index) {
  const Finding& finding = linted.findings[index];
  const auto rules = tickets::rules();
  Json locations = Json::array();
  locations.push_back(location(linted.file, linted.places[index]));
  Json json = {{"ruleId", finding.rule->id},
               {"ruleIndex", std::find(rules.begin(), rules.end(), finding.rule) - rules.begin()},
               {"level", tickets::level_name(finding.level)},
               {"message", {{"text", finding.message}}},
               {"locations", std::move(locations)},
               {"partialFingerprints", {{"staggerFinding/v1", fingerprint(linted, index)}}}};
  if (finding.other >= 0) {
    Json related = Json::array();
    related.push_back(told_location(linted.file, linted.others[index], "has to do with it"));
    json["relatedLocations"] = std::move(related);
  }
  if (has_cycle(linted, index)) json["codeFlows"] = code_flows(linted);
  return json;
}

}  // namespace

std::string lint_junit(const LintReport& report) {
  Counts all;
  std::string suites;
  for (const Linted& linted : report.files)
    suites += suite_of(linted, all);
  for (const LintReport::Unreadable& file : report.unreadable)
    suites += suite_of(file, all);
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"stagger\" "
             "tests=\"{}\" failures=\"{}\" errors=\"{}\">\n",
             all.tests, all.failures, all.errors) +
         suites + "</testsuites>\n";
}

Json lint_sarif(const LintReport& report) {
  Json results = Json::array();
  for (const Linted& linted : report.files) {
    for (std::size_t index = 0; index < linted.findings.size(); ++index)
      results.push_back(result_of(linted, index));
  }
  Json notifications = Json::array();
  for (const LintReport::Unreadable& file : report.unreadable) {
    Json locations = Json::array();
    locations.push_back(location(file.file, {}));
    notifications.push_back({{"level", "error"},
                             {"message", {{"text", file.why}}},
                             {"locations", std::move(locations)}});
  }
  Json invocations = Json::array();
  invocations.push_back({{"executionSuccessful", report.unreadable.empty()},
                         {"toolExecutionNotifications", std::move(notifications)}});
  Json run = {{"tool",
               {{"driver",
                 {{"name", "stagger"}, {"semanticVersion", version()}, {"rules", rules_json()}}}}},
              {"columnKind", "unicodeCodePoints"},
              {"invocations", std::move(invocations)},
              {"results", std::move(results)}};
  Json runs = Json::array();
  runs.push_back(std::move(run));
  return {{"$schema",
           "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
           "sarif-schema-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", std::move(runs)}};
}

}  // namespace stagger::cli
