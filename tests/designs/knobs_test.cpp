// What advice turns of a problem, value by value: lists worked out by hand, and requests against
// those that are made anew.

#include "workbench/designs/knobs.hpp"

#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace stagger::designs {
namespace {

using Values = std::vector<std::int64_t>;
using Looked = std::vector<std::pair<std::string, Values>>;

Looked looked_at(const Request& request) {
  Looked looked;
  for (const Knob& knob : knobs_of(request))
    looked.emplace_back(knob.what, knob.values);
  return looked;
}

std::optional<Request> by_knob(const Request& request, const std::string& what,
                               std::int64_t value) {
  const std::vector<Knob> knobs = knobs_of(request);
  // Of two that are called alike the heads are first.
  const auto knob =
      std::ranges::find_if(knobs, [&](const Knob& each) { return each.what == what; });
  REQUIRE(knob != knobs.end());
  return knob->with(request, value);
}

Request tiles_request(std::int64_t n, std::int64_t heads, const Grouping& grouping = {}) {
  return {.problem = make_problem(make_mask("causal"), {n, n}, {}, heads, 4, grouping)};
}

TEST_CASE("heads are doubled up to four times as many, by group where they share K and V") {
  Request request = tiles_request(1, 3);
  request.model.timing.compute = 16;
  CHECK(looked_at(request) ==
        Looked{{"heads", {1, 2, 4, 8}}, {"reduce", {0, 2, 4, 8, 16, 32}}, {"heads_kv", {1, 3}}});
  // Groups of 1, 2 and 4 heads: seven heads have 7, 3 and 1 KV heads.
  request.problem.heads = request.problem.heads_kv = 7;
  CHECK(looked_at(request)[0].second == Values{1, 2, 4, 8, 16});
  CHECK(looked_at(request)[2].second == Values{1, 3, 7});
  request.problem.heads = request.problem.heads_kv = 8;
  CHECK(looked_at(request)[0].second == Values{1, 2, 4, 8, 16, 32});
  CHECK(looked_at(request)[2].second == Values{1, 2, 4, 8});
  request.problem.heads = request.problem.heads_kv = 1;
  CHECK(looked_at(request) == Looked{{"heads", {1, 2, 4}}, {"reduce", {0, 2, 4, 8, 16, 32}}});
  request = tiles_request(1, 6, {.heads_kv = 2, .span = 3});
  request.model.timing.compute = 16;
  CHECK(looked_at(request) == Looked{{"heads_kv", {1, 2, 4, 8}}, {"reduce", {0, 2, 4, 8, 16, 32}}});
  const auto other = by_knob(request, "heads_kv", 4);
  REQUIRE(other.has_value());
  CHECK(other->problem.heads == 12);
  CHECK(other->problem.heads_kv == 4);
  CHECK(other->problem.span == 3);
  // No more KV heads than 2^24 / 64.
  request = tiles_request(1, std::int64_t{1} << 20);
  CHECK(looked_at(request)[0].second.back() == std::int64_t{1} << 18);
}

TEST_CASE("reductions are parts of a compute phase, no two alike, and at last twice of it") {
  const auto reductions = [](Ticks compute) {
    Request request = tiles_request(1, 1);
    request.model.timing.compute = compute;
    const Looked looked = looked_at(request);
    return looked.size() == 2 && looked[1].first == "reduce" ? looked[1].second : Values{};
  };
  CHECK(reductions(0) == Values{0, 1, 2, 3, 4, 8});
  CHECK(reductions(5) == Values{0, 1, 2, 3, 5, 10});
  CHECK(reductions(9) == Values{0, 1, 2, 4, 9, 18});
  CHECK(reductions(4'080) == Values{0, 510, 1'020, 2'040, 4'080, 8'160});
  constexpr Ticks kMost = Ticks{1} << 40;
  CHECK(reductions(kMost - 1).back() == 2 * (kMost - 1));
  CHECK(reductions(kMost).empty());
  Request request = tiles_request(1, 1);
  request.model.timing.compute = 0;
  CHECK_FALSE(by_knob(request, "reduce", 0).has_value());
  CHECK(by_knob(request, "reduce", 1)->model.timing.reduce == 1);
  request.model.timing.compute_partial = 0;
  request.model.timing.compute = 1;
  CHECK_FALSE(by_knob(request, "reduce", 0).has_value());
  request.model.timing.compute_partial = 1;
  CHECK(by_knob(request, "reduce", 0)->model.timing.reduce == 0);
}

TEST_CASE("KV heads are those that divide the heads, and one chain has a whole group") {
  Request request = tiles_request(4, 6);
  const std::vector<Knob> knobs = knobs_of(request);
  const Knob& knob = knobs.back();
  REQUIRE(knob.what == std::string("heads_kv"));
  CHECK(knob.values == Values{1, 3, 6});
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    CAPTURE(kv_heads);
    const auto other = knob.with(request, kv_heads);
    REQUIRE(other.has_value());
    CHECK(other->problem.heads == 6);
    CHECK(other->problem.heads_kv == kv_heads);
    CHECK(other->problem.span == 6 / kv_heads);
    CHECK(other->problem.parts() == kv_heads);
  }
  CHECK_FALSE(knob.with(request, 4).has_value());
  CHECK_FALSE(knob.with(request, 5).has_value());
}

Request masked(const std::string& mask, std::int64_t seq, std::int64_t tile,
               const Grouping& grouping = {}) {
  return {.problem = make_problem(parse_mask(mask), {seq, seq}, {.q = tile, .kv = tile},
                                  grouping.heads_kv > 0 ? 4 : 1, 4, grouping)};
}

/// Values of sinks that are looked at; empty: none are.
Values sinks_of(const Request& request) {
  for (const auto& [what, values] : looked_at(request)) {
    if (what == "sinks") return values;
  }
  return {};
}

TEST_CASE("sinks are tiles of keys, up to an eighth of them, where a mask does not have them all") {
  const std::string window = "sliding:left=3,right=0";
  CHECK(sinks_of(masked(window, 64, 1)) == Values{0, 1, 2, 4, 8});
  CHECK(sinks_of(masked(window, 128, 4)) == Values{0, 4, 8, 16});
  CHECK(sinks_of(masked(window, 124, 4)) == Values{0, 4, 8});
  CHECK(sinks_of(masked(window + " | global:first=2", 64, 1)) == Values{0, 1, 2, 4, 8});
  CHECK(sinks_of(masked(window, 32, 4)) == Values{0, 4});
  CHECK(sinks_of(masked(window, 31, 4)).empty());
  CHECK(sinks_of(masked("full", 64, 4)).empty());
  // A causal mask's queries do not see a key after them: as many tiles of one as of the other.
  CHECK(sinks_of(masked("causal", 64, 64)).empty());
  CHECK(sinks_of(masked("causal", 64, 4)).empty());
  // What is given in tiles has no keys, nor has what is one tile.
  CHECK(sinks_of(masked("tiles:rows=ff..+.ff.+..ff+...f", 4, 1)).empty());
  CHECK(sinks_of(masked("document:lengths=8+24,causal=false", 32, 32)).empty());
}

TEST_CASE("a mask has other sinks in the place of its own, and keeps all else") {
  const std::string window = "sliding:left=3,right=0";
  const std::string seen = "global:tokens=5+9";
  const std::string both = "global:tokens=5,symmetric=true";
  const auto with = [&](const std::string& mask, std::int64_t keys) {
    return mask_words(by_knob(masked(mask, 64, 1), "sinks", keys)->problem.mask);
  };
  const auto text = [](const std::string& mask) { return mask_words(parse_mask(mask)); };
  CHECK(with(window, 4) == text(window + " | global:first=4"));
  CHECK(with(window, 0) == text(window));
  CHECK(with(window + " | global:first=2", 4) == text(window + " | global:first=4"));
  CHECK(with(window + " | global:first=2", 0) == text(window));
  // Tokens that all see, and that see all, are no sinks.
  CHECK(with(window + " | " + seen, 4) == text(window + " | " + seen + " | global:first=4"));
  CHECK(with(window + " | " + both + " | global:first=2", 8) ==
        text(window + " | " + both + " | global:first=8"));
  CHECK(with(window + " | " + both + " | global:first=2", 0) == text(window + " | " + both));
  // Keys that see all queries are not taken away, and every query sees them already.
  CHECK(sinks_of(masked(window + " | global:first=3,symmetric=true", 64, 1)).empty());
}

TEST_CASE("with sinks heads are grouped as they were") {
  for (const Grouping& grouping : {Grouping{.heads_kv = 2, .span = 2},
                                   Grouping{.heads_kv = 2, .span = 1, .combine = Combine::ordered},
                                   Grouping{.heads_kv = 4, .span = 1}}) {
    const Request request = masked("sliding:left=3,right=0", 64, 4, grouping);
    const auto other = by_knob(request, "sinks", 4);
    REQUIRE(other.has_value());
    CHECK(other->problem.heads == 4);
    CHECK(other->problem.heads_kv == request.problem.heads_kv);
    CHECK(other->problem.span == request.problem.span);
    CHECK(other->problem.combine == request.problem.combine);
    CHECK(other->problem.sms == 4);
    // Window: the diagonal and the tile before; the first KV tile is seen by all 16 Q tiles.
    CHECK(request.problem.tasks() == 4 * 31);
    CHECK(other->problem.tasks() == 4 * (31 + 14));
  }
}

TEST_CASE("a mask of nothing but sinks has no others") {
  const Request request = masked("global:first=2 | global:first=8", 64, 4);
  for (const std::int64_t value : sinks_of(request)) {
    CAPTURE(value);
    CHECK_NOTHROW(by_knob(request, "sinks", value));
  }
}

TEST_CASE("phases grow with head_dim where a memory is known, and dS's bytes do not") {
  Request request = tiles_request(1, 1);
  request.head_dim = 64;
  request.model.timing = {.compute = 400, .compute_partial = 500, .reduce = 100, .launch = 7};
  CHECK(looked_at(request).size() == 2);
  request.model.timing.memory = Memory{.l2 = 1'000, .rate = 5, .tile = {.q = 1, .kv = 2}};
  REQUIRE(looked_at(request).size() == 3);
  CHECK(looked_at(request)[2] ==
        std::pair<std::string, Values>("head_dim", {32, 64, 96, 128, 192, 256, 512}));
  const auto other = by_knob(request, "head_dim", 96);
  REQUIRE(other.has_value());
  CHECK(other->head_dim == 96);
  CHECK(other->model.timing.compute == 600);
  CHECK(other->model.timing.compute_partial == 750);
  CHECK(other->model.timing.reduce == 150);
  CHECK(other->model.timing.launch == 7);
  CHECK(other->model.timing.memory->rate == 5);
  // A tick and a half is one tick; half of one is none, which is nothing to ask.
  request.model.timing.compute_partial.reset();
  request.model.timing.compute = 1;
  request.model.timing.reduce = 0;
  CHECK(by_knob(request, "head_dim", 96)->model.timing.compute == 1);
  CHECK_FALSE(by_knob(request, "head_dim", 96)->model.timing.compute_partial.has_value());
  CHECK_FALSE(by_knob(request, "head_dim", 32).has_value());
  request.model.timing.compute = Ticks{1} << 40;
  CHECK(looked_at(request).size() == 1);
}

}  // namespace
}  // namespace stagger::designs
