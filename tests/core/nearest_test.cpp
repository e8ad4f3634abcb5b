#include "core/nearest.hpp"

#include "tests/support/catch.hpp"

namespace stagger {
namespace {

using Names = std::vector<std::string>;

const Names kKnown = {"schedule", "sms", "seq", "seq-q", "seq-kv", "spt", "analyze"};

TEST_CASE("a mistyped word is near the name that was meant") {
  CHECK(nearest("shedule", kKnown) == Names{"schedule"});    // left out
  CHECK(nearest("scheduule", kKnown) == Names{"schedule"});  // put in
  CHECK(nearest("analyse", kKnown) == Names{"analyze"});     // replaced
  CHECK(nearest("smss", kKnown) == Names{"sms"});
  CHECK(nearest("spt", kKnown).front() == "spt");
  CHECK(nearest("tsp", Names{"pst", "tps"}) == Names{"tps"});  // swapped
  CHECK(nearest("sched", kKnown) == Names{"schedule"});        // begun
}

TEST_CASE("what is near nothing is near nothing") {
  CHECK(nearest("frobnicate", kKnown).empty());
  CHECK(nearest("", kKnown).empty());
  CHECK(nearest("x", kKnown).empty());
  CHECK(nearest(std::string(100'000, 's'), kKnown).empty());
}

TEST_CASE("an unknown name's message says what is known, and what was meant") {
  CHECK(unknown_name("mask", "causa", Names{"full", "causal"}) ==
        "unknown mask 'causa'; did you mean causal? known: full, causal");
  CHECK(unknown_name("mask", "diagonal", Names{"full", "causal"}) ==
        "unknown mask 'diagonal'; known: full, causal");
  CHECK(unknown_name("key", "x", Names{}) == "unknown key 'x'; known: none");
}

TEST_CASE("words from outside are shown without control characters and cut") {
  CHECK(in_quotes("a\033[31m\nb") == "'a?[31m?b'");
  CHECK(in_quotes(std::string(100, 'x')) == "'" + std::string(60, 'x') + "...'");
}

}  // namespace
}  // namespace stagger
