// How far whoever asks is told to be: from nothing on, in steps of what there is to do.

#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "workbench/archive.hpp"
#include "workbench/calibration/memory_fit.hpp"
#include "workbench/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace stagger::workbench {
namespace {

/// Keeps what it is told.
struct Told {
  std::vector<double> fractions;
  auto keep() {
    return [this](double fraction) { fractions.push_back(fraction); };
  }
};

TEST_CASE("a comparison tells before each schedule and table how many of them are done") {
  Told told;
  ComparisonRequest request;
  request.problem = make_problem(make_mask("causal"), {3, 3}, {}, 1, 3);
  request.schedules.clear();
  for (const char* name : {"ascending", "shift", "spt"})  // shift does not apply
    request.schedules.push_back(schedules::select(name));
  request.tables = {schedules::build(schedules::select("spt"), request.problem),
                    schedules::build(schedules::select("ascending"), request.problem)};
  request.progress = told.keep();
  const Comparison comparison = compare(request);
  CHECK(comparison.missing == 0);
  CHECK(comparison.rows.size() == 5);
  REQUIRE(told.fractions.size() == 5);
  for (std::size_t done = 0; done < 5; ++done)
    CHECK(told.fractions[done] == Approx(static_cast<double>(done) / 5));
}

TEST_CASE("a check of an archive tells before each entry which one it is") {
  std::string entries;
  for (int entry = 0; entry < 7; ++entry) {
    entries += std::string(entry == 0 ? "" : ",") +
               R"({"mask": "full", "n": 2, "heads": 1, "sms": 2, "model": "chain"})";
  }
  const auto archive =
      read_archive(R"({"schema": "stagger.best-known/1", "entries": [)" + entries + "]}", "x");
  for (const std::int64_t every : {1, 3}) {
    std::vector<std::pair<std::size_t, std::size_t>> told;
    ArchiveRequest request;
    request.every = every;
    request.progress = [&](std::size_t entry, std::size_t entries) {
      told.emplace_back(entry, entries);
    };
    const ArchiveCheck check = check_archive(archive, request);
    CHECK(std::ssize(check.found) == (6 / every) + 1);
    REQUIRE(told.size() == check.found.size());
    for (std::size_t index = 0; index < told.size(); ++index)
      CHECK(told[index] == std::pair(static_cast<std::size_t>(every) * index, std::size_t{7}));
  }
}

TEST_CASE("a fit of a memory tells octaves of L2 sizes, then three descents") {
  Told told;
  std::vector<MemoryRun> runs;
  const Problem problem = make_problem(make_mask("full"), {2, 2}, {}, 1, 2);
  for (const Ticks measured : {100, 101}) {
    runs.push_back({.table = schedules::build(schedules::select("shift"), problem),
                    .timing = {.memory = Memory{.tile = {1, 1, 1, 1}}},
                    .measured = measured});
  }
  static_cast<void>(fit_memory(runs, told.keep()));
  REQUIRE(told.fractions.size() > 6);
  CHECK(std::ranges::is_sorted(told.fractions));
  CHECK(told.fractions.front() == 0);
  const std::size_t sizes = told.fractions.size() - 3;
  for (std::size_t size = 1; size < sizes; ++size) {
    CHECK(told.fractions[size] - told.fractions[size - 1] ==
          Approx(std::log2(1.25) / 8).margin(1e-4));
  }
  CHECK(told.fractions[sizes] == Approx(0.7));
  CHECK(told.fractions[sizes + 1] == Approx(0.8));
  CHECK(told.fractions[sizes + 2] == Approx(0.9));
}

}  // namespace
}  // namespace stagger::workbench
