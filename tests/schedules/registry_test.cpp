#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace stagger::schedules {
namespace {

std::string message_of(const char* text) {
  try {
    (void)select(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::optional<std::string> why_not(const char* schedule, const Problem& problem) {
  const Selection selection = select(schedule);
  return why_unsupported(selection, problem);
}

TEST_CASE("every schedule has a file of its name and every such file is registered") {
  std::set<std::string> files;
  const std::set<std::string> shared = {"registry", "shape", "cta_grid", "lift", "parameters"};
  for (const auto& entry : std::filesystem::directory_iterator(STAGGER_SOURCE_DIR "/schedules")) {
    if (entry.path().extension() != ".cpp" || shared.contains(entry.path().stem())) continue;
    std::string name = entry.path().stem();
    std::replace(name.begin(), name.end(), '_', '-');
    files.insert(name);
  }
  std::set<std::string> names;
  for (const Schedule* schedule : all())
    names.insert(schedule->name);
  CHECK(files == names);
}

TEST_CASE("names and parameters are read, and wrong ones list the known") {
  CHECK(select("spt:swizzle=8").parameters.at("swizzle") == 8);
  CHECK(select("fa4-sparse:spt=1").parameters.at("swizzle") == 1);
  const std::string known = std::string("known: ") + all()[0]->name + ", " + all()[1]->name;
  CHECK(message_of("fastest").find(known) != std::string::npos);
  CHECK(message_of("spt:depth=1").find("known: swizzle") != std::string::npos);
  CHECK(message_of("shift:swizzle=1").find("known: order") != std::string::npos);
  CHECK(message_of("spt:swizzle=0").find("from 1 to") != std::string::npos);
  CHECK(message_of("spt:swizzle=2,swizzle=3").find("given twice") != std::string::npos);
}

TEST_CASE("what is worth trying of a schedule is its defaults, and more where an L2 cache counts") {
  const auto texts = [](const char* name, bool l2_counts) {
    std::vector<std::string> found;
    for (const Selection& selection : variants(*select(name).schedule, l2_counts))
      found.push_back(selection.text);
    return found;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts("lpt-descending", false) == Texts{"lpt-descending"});
  CHECK(texts("lpt-descending", true) ==
        Texts{"lpt-descending", "lpt-descending:swizzle=4", "lpt-descending:swizzle=8",
              "lpt-descending:swizzle=16", "lpt-descending:order=head-major"});
  CHECK(texts("shift", true) == Texts{"shift", "shift:order=head-major"});
  for (const Schedule* schedule : all()) {
    for (const Selection& selection : variants(*schedule, true))
      CHECK(select(selection.text).parameters == selection.parameters);
  }
}

TEST_CASE("what does not search and applies is what each schedule says of itself") {
  for (const bool l2_counts : {false, true}) {
    for (const char* mask : {"full", "causal"}) {
      const Problem problem = make_problem(make_mask(mask), {6, 6}, {}, 2, 4);
      std::vector<std::string> expected;
      for (const Schedule* schedule : all()) {
        for (const Selection& selection : variants(*schedule, l2_counts)) {
          const bool applies = !schedule->searches() && !why_unsupported(selection, problem);
          if (applies) expected.push_back(selection.text);
        }
      }
      std::vector<std::string> found;
      for (const Selection& selection : unsearched(problem, l2_counts))
        found.push_back(selection.text);
      CHECK(found == expected);
      CHECK(std::ranges::count(found, "spt") == 1);
      CHECK(std::ranges::count(found, "windowed") == 0);
      CHECK(std::ranges::count(found, "shift") == (std::string(mask) == "full" ? 1 : 0));
    }
  }
}

TEST_CASE("formulas are claimed with every parameter at its default, and only so") {
  // Heads and reduce at which T_reversed is exact for both schedules that state it.
  const Problem problem = make_problem(make_mask("causal"), {8, 8}, {}, 4, 0);
  const auto claimed = [&](const char* text, const Timing& timing) {
    const Formula* formula = claim(select(text), problem, timing);
    return formula == nullptr ? std::string() : std::string(formula->name);
  };
  CHECK(claimed("descending", {}) == "T_reversed");
  CHECK(claimed("lpt-descending", {}) == "T_reversed");
  CHECK(claimed("lpt-descending:swizzle=1", {}) == "T_reversed");
  CHECK(claimed("lpt-descending:swizzle=2", {}).empty());
  CHECK(claimed("lpt-descending:swizzle=4", {}).empty());
  CHECK(claimed("lpt-descending", {.latency = 1}).empty());
  CHECK(claimed("lpt-descending", {.launch = 1}).empty());
  CHECK(claimed("lpt-descending", {.epilogue = 1}).empty());
  CHECK(claimed("lpt-descending", {.residency = 7}).empty());
  CHECK(claimed("lpt-descending", {.residency = 8}) == "T_reversed");
  CHECK(claimed("lpt-descending", {.compute_partial = 4}).empty());
  CHECK(claimed("lpt-descending", {.compute_partial = 5}) == "T_reversed");
  CHECK(claimed("lpt-descending", {.model = Model::overlap}).empty());
  CHECK(claimed("lpt-descending", {.release = Release::delayed}).empty());
  CHECK(claimed("lpt-descending", {.compute = 1, .reduce = 2}).empty());
}

/// The KV tiles of a table's lanes, one a lane.
std::vector<std::int32_t> launched(const char* text, const Problem& problem) {
  const Table table = build(select(text), problem);
  std::vector<std::int32_t> kv;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane)
    kv.push_back(table.lane(lane).front().task.kv.value);
  return kv;
}

TEST_CASE("fa4-sparse launches KV tiles descending with spt, and ranks follow") {
  const Problem problem = test::tiles_problem({"fpf", "pf.", ".fp"}, 2, 3);
  using Tiles = std::vector<std::int32_t>;
  CHECK(launched("fa4-sparse", problem) == Tiles{0, 1, 2, 0, 1, 2});
  CHECK(launched("fa4-sparse:spt=0", problem) == Tiles{0, 1, 2, 0, 1, 2});
  CHECK(launched("fa4-sparse:spt=1", problem) == Tiles{2, 1, 0, 2, 1, 0});
  CHECK(launched("fa4-sparse:spt=1,swizzle=2", problem) == Tiles{2, 2, 1, 1, 0, 0});
  // KV 2 first: its partial tile 2, then 1; at Q tile 1 KV 1 and KV 0 follow it.
  const Table table = build(select("fa4-sparse:spt=1"), problem);
  const auto slot = [](std::int32_t kv, std::int32_t q, std::int32_t rank) {
    return Slot{{Head{0}, KvTile{kv}, QTile{q}}, rank};
  };
  const std::vector<Slot> first(table.slots.begin(), table.slots.begin() + 7);
  CHECK(first == std::vector<Slot>{slot(2, 2, 0), slot(2, 1, 0), slot(1, 0, 0), slot(1, 1, 1),
                                   slot(0, 1, 2), slot(0, 0, 1), slot(0, 2, 1)});
}

TEST_CASE("SMs without a KV tile cost nothing a head") {
  // 2^20 SMs times 2^20 heads would take minutes.
  const Problem problem = make_problem(make_mask("full"), {1, 2}, {}, 1 << 20, 1 << 20);
  for (const char* schedule : {"ascending", "descending"}) {
    const Table table = build(select(schedule), problem);
    CHECK(table.lanes() == 1 << 20);
    CHECK(std::ssize(table.slots) == 1 << 21);
  }
}

TEST_CASE("a table of windows has the name of its window, by which it is made again") {
  test::Random random(test::seed(83));
  std::set<std::int64_t> windows;
  for (int round = 0; round < 200; ++round) {
    const Problem problem = test::any_problem(random, 6);
    Timing timing = test::random_timing(random, problem);
    timing.memory = Memory{.l2 = random.between(1, 60), .rate = 2, .tile = {3, 5, 4, 2}};
    if (problem.tasks() == 0) continue;
    CAPTURE(round, problem.heads, problem.sms);
    const Table table = build(select("windowed"), problem, timing);
    if (table.name == "windowed") continue;  // every list hung
    const Selection named = select(table.name);
    const std::int64_t heads = named.parameters.at("heads");
    REQUIRE(heads >= 1);
    REQUIRE(heads <= problem.heads);
    REQUIRE(named.parameters.at("q") >= 1);
    // Another memory, or none, would choose another window; the name is of this one.
    for (const std::optional<Memory>& memory :
         {timing.memory, {}, {Memory{.l2 = 1'000, .rate = 9, .tile = {1, 1, 1, 1}}}}) {
      timing.memory = memory;
      const Table again = build(named, problem, timing);
      REQUIRE(again.name == table.name);
      REQUIRE(again.slots == table.slots);
      REQUIRE(again.lane_begin == table.lane_begin);
    }
    windows.insert(heads);
  }
  CHECK(windows.size() > 1);
}

TEST_CASE("a schedule says by shape what it does not support") {
  const auto square = [](const char* mask, std::int64_t n) {
    return make_problem(parse_mask(mask), {n, n}, {}, 2, 0);
  };
  CHECK(why_not("shift", square("causal", 4)));
  CHECK(why_not("shift", square("sliding", 4)) == std::nullopt);  // unbounded on both sides: full
  CHECK(why_not("shift", make_problem(make_mask("full"), {4, 6}, {}, 1, 0)));
  CHECK(why_not("shift", make_problem(make_mask("full"), {4, 5}, {}, 1, 0)) == std::nullopt);
  CHECK(why_not("shift", make_problem(make_mask("full"), {4, 6}, {}, 1, 3)) == std::nullopt);
  CHECK(why_not("symmetric-shift", square("causal", 5))->find("even number") != std::string::npos);
  CHECK(why_not("symmetric-shift", square("full", 4)));
  CHECK(why_not("symmetric-shift", square("sliding:left=1,right=0", 4)));
  CHECK(why_not("symmetric-shift", test::tiles_problem({"ff", ".p"}, 1, 1)) == std::nullopt);
  CHECK(why_not("symmetric-shift", make_problem(make_mask("causal"), {3, 4}, {}, 1, 0)));
  CHECK(why_not("symmetric-shift", make_problem(make_mask("causal"), {6, 4}, {}, 1, 0)) ==
        std::nullopt);
  CHECK_THROWS_AS(build(select("shift"), square("causal", 4)), Error);
}

}  // namespace
}  // namespace stagger::schedules
