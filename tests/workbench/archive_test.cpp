#include "workbench/archive.hpp"

#include "core/error.hpp"
#include "core/limits.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"

#include <fstream>
#include <iterator>

namespace stagger::workbench {
namespace {

std::string best_known() {
  std::ifstream file(std::string(STAGGER_SOURCE_DIR) + "/configs/best-known.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string archive_of(const std::string& entries) {
  return R"({"schema": "stagger.best-known/1", "entries": [)" + entries + "]}";
}

std::string entry(const std::string& model, Ticks makespan, Ticks bound) {
  return R"({"mask": "causal", "n": 4, "heads": 1, "sms": 2, "model": ")" + model +
         R"(", "makespan": )" + std::to_string(makespan) + R"(, "lower_bound": )" +
         std::to_string(bound) +
         R"(, "by": "work", "status": "optimal", "proof": "bound", "version": "0"})";
}

/// What reading the text is refused with.
std::string refused(const std::string& text) {
  return test::message_of([&] { static_cast<void>(read_archive(text, "x")); },
                          ErrorKind::invalid_input);
}

TEST_CASE("the archive is written as it was read") {
  const std::string text = best_known();
  const std::vector<ArchiveEntry> archive = read_archive(text, "best-known.json");
  CHECK(archive.size() > 900);
  CHECK(write_archive(archive) == text);
}

TEST_CASE("an archive says that it is one") {
  const std::string text = archive_of("");
  CHECK(read_archive(text, "x").empty());
  CHECK(refused(test::replaced(text, "best-known/1", "best-known/2")).find("schema") !=
        std::string::npos);
  CHECK(refused(R"({"entries": []})").find("schema") != std::string::npos);
}

TEST_CASE("an entry knows heads that share K and V") {
  const std::string grouped =
      R"({"mask": "full", "n": 4, "heads": 4, "heads_kv": 2, "span": 2, "sms": 4, "model": "chain"})";
  const std::vector<ArchiveEntry> archive = read_archive(archive_of(grouped), "x");
  CHECK(archive.front().problem.heads_kv == 2);
  CHECK(archive.front().problem.span == 2);
  CHECK(write_archive(archive).find(grouped) != std::string::npos);
  const ArchiveCheck check = check_archive(archive, {});
  CHECK(check.found.front().makespan == 4 * 4 * 6);
  CHECK(refused(archive_of(R"({"mask": "full", "n": 4, "heads": 4, "heads_kv": 3, "sms": 4,
                              "model": "chain"})"))
            .find("do not divide") != std::string::npos);
}

TEST_CASE("a search says what becomes of an entry") {
  const auto outcome = [](const std::string& text) {
    const ArchiveCheck check = check_archive(read_archive(archive_of(text), "x"), {});
    REQUIRE(check.found.size() == 1);
    return check.found.front().outcome;
  };
  CHECK(outcome(entry("chain", 30, 30)) == ArchiveOutcome::holds);
  CHECK(outcome(entry("slot", 5, 5)) == ArchiveOutcome::holds);
  CHECK(outcome(entry("overlap", 26, 26)) == ArchiveOutcome::holds);
  CHECK(outcome(entry("chain", 31, 20)) == ArchiveOutcome::better);
  CHECK(outcome(entry("chain", 40, 35)) == ArchiveOutcome::contradicted);  // below its bound
  CHECK(outcome(entry("chain", 29, 29)) == ArchiveOutcome::contradicted);  // 30 is proved
  CHECK(outcome(R"({"mask": "causal", "n": 4, "heads": 1, "sms": 2, "model": "chain"})") ==
        ArchiveOutcome::is_new);
}

TEST_CASE("what is new or better is in the archive that comes back") {
  const ArchiveCheck check =
      check_archive(read_archive(archive_of(entry("chain", 31, 20)), "x"), {});
  REQUIRE(check.archive.front().best.has_value());
  CHECK(check.archive.front().best->makespan == 30);
  CHECK(check.archive.front().best->status == "optimal");
  CHECK(check.found.front().known == 31);
  CHECK(check.optimal == 1);
}

TEST_CASE("an entry that holds gets a higher bound, unless it was optimal already") {
  std::string open = entry("chain", 30, 20);
  open.replace(open.find("optimal"), 7, "feasible");
  const auto best_of = [](const std::string& text) {
    const ArchiveCheck check = check_archive(read_archive(archive_of(text), "x"), {});
    CHECK(check.found.front().outcome == ArchiveOutcome::holds);
    return check.archive.front().best.value();
  };
  CHECK(best_of(open).lower_bound == 30);
  CHECK(best_of(open).status == "optimal");
  CHECK(best_of(open).version != "0");
  CHECK(best_of(entry("chain", 30, 20)).lower_bound == 20);
  CHECK(best_of(entry("chain", 30, 20)).version == "0");
  open.replace(open.find("\"lower_bound\": 20"), 17, "\"lower_bound\": 30");
  CHECK(best_of(open).version == "0");  // nothing more is proved
}

TEST_CASE("an entry that is contradicted stays as it was, though more is proved than it says") {
  std::string open = entry("chain", 29, 20);  // 30 is the optimum
  open.replace(open.find("optimal"), 7, "feasible");
  const ArchiveCheck check = check_archive(read_archive(archive_of(open), "x"), {});
  CHECK(check.found.front().outcome == ArchiveOutcome::contradicted);
  CHECK(check.archive.front().best.value().makespan == 29);
  CHECK(check.archive.front().best.value().version == "0");
}

TEST_CASE("an entry that cannot be searched takes no other with it") {
  const auto asked = [](std::int64_t heads) {
    return R"({"mask": "causal", "n": 4, "sms": 4, "model": "chain", "heads": )" +
           std::to_string(heads) + "}";
  };
  ArchiveRequest long_phases;
  long_phases.time.given.compute = Ticks{1} << 50;
  const auto checked = [&](const std::string& entries) {
    return check_archive(read_archive(archive_of(entries), "x"), long_phases);
  };
  const ArchiveCheck check = checked(asked(10'000) + "," + asked(1) + "," + asked(20'000));
  REQUIRE(check.found.size() == 3);
  CHECK(check.count(ArchiveOutcome::refused) == 2);
  CHECK(check.found[0].outcome == ArchiveOutcome::refused);
  CHECK_FALSE(check.found[0].why.empty());
  CHECK_FALSE(check.archive[0].best.has_value());
  CHECK(check.found[1].outcome == ArchiveOutcome::is_new);
  CHECK_THROWS_AS(checked(asked(10'000)), Error);
}

TEST_CASE("only each N-th entry is searched, and none once it is stopped") {
  const std::string five = entry("chain", 30, 30) + "," + entry("chain", 30, 30) + "," +
                           entry("chain", 30, 30) + "," + entry("chain", 30, 30) + "," +
                           entry("chain", 30, 30);
  CHECK(check_archive(read_archive(archive_of(five), "x"), {.every = 2}).found.size() == 3);
  ArchiveRequest stopped;
  stopped.search.stop = [] { return true; };
  CHECK(check_archive(read_archive(archive_of(five), "x"), stopped).found.empty());
}

TEST_CASE("an entry's numbers are read to their ends, and refused with their place beyond") {
  struct Row {
    const char* key;
    const char* given;
    std::int64_t least, most;
  };
  constexpr std::int64_t kMostTicks = std::int64_t{1} << 62;
  const Row rows[] = {{"n", "\"n\": 4", 1, kMaxTiles},
                      {"heads", "\"heads\": 1", 1, kMaxHeads},
                      {"sms", "\"sms\": 2", 1, kMaxSms},
                      {"heads_kv", "\"heads_kv\": 1", 1, kMaxHeads},
                      {"span", "\"span\": 1", 1, kMaxHeads},
                      {"makespan", "\"makespan\": 30", 0, kMostTicks},
                      {"lower_bound", "\"lower_bound\": 20", 0, kMostTicks}};
  const std::string text = test::replaced(archive_of(entry("chain", 30, 20)), "\"heads\": 1",
                                          "\"heads\": 1, \"heads_kv\": 1, \"span\": 1");
  for (const auto& [key, given, least, most] : rows) {
    const auto with = [&, name = std::string(key), from = std::string(given)](std::int64_t value) {
      return test::replaced(text, from, "\"" + name + "\": " + std::to_string(value));
    };
    CAPTURE(key);
    CHECK(read_archive(with(least), "x").size() == 1);
    const std::string place = std::string("/entries/0/") + key;
    CHECK(refused(with(least - 1)).find(place) != std::string::npos);
    CHECK(refused(with(most + 1)).find(place) != std::string::npos);
  }
  CHECK(read_archive(test::replaced(text, "\"sms\": 2", "\"sms\": " + std::to_string(kMaxSms)), "x")
            .front()
            .problem.sms == kMaxSms);
}

TEST_CASE("an archive's unknown words and keys are errors with their place") {
  CHECK(refused(archive_of(entry("slots", 5, 5))).find("/entries/0/model: unknown model 'slots'") !=
        std::string::npos);
  const std::string text = archive_of(entry("chain", 30, 30));
  CHECK(refused(test::replaced(text, "causal", "causa"))
            .find("/entries/0/mask: unknown mask 'causa'") != std::string::npos);
  CHECK(refused(test::replaced(text, "heads", "hats")).find("/entries/0: unknown key 'hats'") !=
        std::string::npos);
  CHECK(refused(test::replaced(text, "\"entries\"", "\"more\": 0, \"entries\""))
            .find("unknown key 'more'") != std::string::npos);
}

}  // namespace
}  // namespace stagger::workbench
