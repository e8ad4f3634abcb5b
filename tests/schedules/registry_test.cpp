#include "core/error.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <filesystem>
#include <set>

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
  const std::set<std::string> shared = {"registry", "shape", "cta_grid"};
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
  CHECK(message_of("fastest").find("known: ascending, descending") != std::string::npos);
  CHECK(message_of("spt:depth=1").find("known: swizzle") != std::string::npos);
  CHECK(message_of("shift:swizzle=1").find("known: none") != std::string::npos);
  CHECK(message_of("spt:swizzle=0").find("from 1 to") != std::string::npos);
  CHECK(message_of("spt:swizzle=2,swizzle=3").find("given twice") != std::string::npos);
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
