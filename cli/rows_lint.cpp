// What `lint` and `diff` are given.

#include "cli/rows.hpp"
#include "core/limits.hpp"
#include "workbench/tickets/rules.hpp"

#include <array>

namespace stagger::cli {
namespace {

constexpr std::array kDispatches = {
    Named<Dispatch>{dispatch_name(Dispatch::static_), Dispatch::static_,
                    "all resident, or refused"},
    Named<Dispatch>{dispatch_name(Dispatch::in_order), Dispatch::in_order, "an ordinary grid"}};

std::vector<Word> rule_words() {
  std::vector<Word> words;
  for (const tickets::Rule* rule : tickets::rules())
    words.push_back({rule->id});
  return words;
}

}  // namespace

std::vector<OptionRow> lint_rows() {
  constexpr const char* kOne = "lint";
  return {
      {.name = "files",
       .metavar = "FILES",
       .meaning = "tables, tickets, block lists (.json, .npz, .safetensors) or lock values (.csv, "
                  ".npy); - for "
                  "standard input",
       .target = &Options::linted,
       .commands = kOne,
       .group = Group::arguments,
       .argument = true},
      {.name = "files",
       .metavar = "FILES",
       .meaning = "two of them: tables, tickets, block lists (.json, .npz, .safetensors) or lock "
                  "values (.csv, .npy)",
       .target = &Options::compared,
       .commands = "diff",
       .group = Group::arguments,
       .required = true,
       .argument = true},
      {.name = "residency",
       .metavar = "PROGRAMS",
       .meaning = "programs (CTAs) that are resident at once",
       .target = &Options::residency,
       .commands = kOne,
       .group = Group::run,
       .fallback = "the file's, else all",
       .range = {.least = 1, .most = kMaxSms}},
      {.name = "dispatch",
       .metavar = "DISPATCH",
       .meaning = "how the kernel is launched",
       .target = one_of<kDispatches, &Options::dispatch>(),
       .commands = kOne,
       .group = Group::run,
       .fallback = "the file's, else in-order"},
      {.name = "release",
       .metavar = "RELEASE",
       .meaning = "when a reduction advances its semaphore",
       .target = one_of<kReleases, &Options::release>(),
       .commands = kOne,
       .group = Group::run,
       .fallback = "the file's, else immediate"},
      {.name = "minimize",
       .meaning = "show the smallest part of a file that still hangs",
       .target = &Options::minimize,
       .commands = kOne,
       .group = Group::report},
      {.name = "explain",
       .metavar = "RULE",
       .meaning = "a rule's page instead",
       .target = Choice{.words = rule_words,
                        .put = [](Options& options,
                                  std::size_t index) { options.rule = tickets::rules()[index]; },
                        .noun = "rule"},
       .commands = kOne,
       .group = Group::report,
       .excludes = "files residency dispatch release minimize limit junit sarif"},
      {.name = "limit",
       .metavar = "COUNT",
       .meaning = "findings of a rule listed of a file at most",
       .target = &Options::limit,
       .commands = kOne,
       .group = Group::report,
       .fallback = "20",
       .range = {.least = 1, .most = 10'000}},
      {.name = "limit",
       .metavar = "COUNT",
       .meaning = "steps of a kind listed at most",
       .target = &Options::limit,
       .commands = "diff",
       .group = Group::report,
       .fallback = "10",
       .range = {.least = 0}},
      {.name = "junit",
       .metavar = "FILE",
       .meaning = "write a JUnit report too: a suite for each file, a case for each rule",
       .target = &Options::junit,
       .commands = kOne,
       .group = Group::output},
      {.name = "sarif",
       .metavar = "FILE",
       .meaning = "write SARIF 2.1.0 too, as code scanning reads it",
       .target = &Options::sarif,
       .commands = kOne,
       .group = Group::output},
  };
}

}  // namespace stagger::cli
