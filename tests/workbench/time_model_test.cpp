// Timing models: written and read again, and what is not said of a second accumulation.

#include "workbench/time_model.hpp"

#include "core/error.hpp"
#include "core/json_value.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "workbench/json.hpp"

#include <utility>

namespace stagger::workbench {
namespace {

TEST_CASE("a timing comes back from JSON as it was") {
  test::Random random(test::seed(139));
  int with_memory = 0;
  int in_order = 0;
  for (int round = 0; round < 500; ++round) {
    Problem problem = test::random_problem(random, 4);
    if (random.chance(2)) problem = test::with_random_groups(random, std::move(problem), 4);
    TimeModel model{.timing = test::random_timing(random, problem)};
    if (problem.combine == Combine::ordered) {
      model.timing = test::with_random_combination(random, model.timing);
    }
    model.timing.cut_partial = random.chance(2);
    if (model.timing.release == Release::immediate) {
      model.timing.steps = static_cast<std::int32_t>(random.between(1, 3));
    }
    if (random.chance(3)) {
      model.timing.memory = Memory{.l2 = random.between(1, 99),
                                   .rate = random.between(1, 99),
                                   .stream_rate = random.between(0, 9),
                                   .tile = {.q = random.between(0, 9),
                                            .dq = random.between(0, 9),
                                            .kv = random.between(0, 9),
                                            .gradient = random.between(0, 9)},
                                   .add_permille = random.between(0, 3),
                                   .latency = random.between(0, 3),
                                   .congestion = random.between(0, 3),
                                   .spread = random.between(0, 3),
                                   .dip = random.between(6, 9),
                                   .dip_loss = random.between(0, 3),
                                   .draw = random.between(0, 2)};
    }
    const std::string text = model_json(problem, model).text();
    CAPTURE(round, text);
    const Timing read = read_model(JsonDocument(text, "model").root(), problem);
    const Timing& was = model.timing;
    REQUIRE(read.model == was.model);
    REQUIRE(read.compute == was.compute);
    for (const TileKind kind : {TileKind::full, TileKind::partial})
      REQUIRE(read.compute_of(kind) == was.compute_of(kind));
    REQUIRE(read.reduce == was.reduce);
    REQUIRE(read.latency == was.latency);
    REQUIRE(read.launch == was.launch);
    REQUIRE(read.epilogue == was.epilogue);
    REQUIRE(read.release == was.release);
    REQUIRE(read.steps == was.steps);
    REQUIRE(read.cut_partial == was.cut_partial);
    REQUIRE(read.next_lane == was.next_lane);
    REQUIRE(read.reduce_kv == was.reduce_kv);
    REQUIRE(read.reduce_kv_async == was.reduce_kv_async);
    REQUIRE(resident_lanes(problem, read.residency) == resident_lanes(problem, was.residency));
    REQUIRE(read.memory.has_value() == was.memory.has_value());
    with_memory += was.memory ? 1 : 0;
    in_order += problem.combine == Combine::ordered ? 1 : 0;
    if (was.memory) REQUIRE(*read.memory == *was.memory);
    if (was.memory) REQUIRE(model_json(problem, {.timing = read}).text() == text);
  }
  CHECK(with_memory > 50);
  CHECK(in_order > 20);
}

TEST_CASE("a part is reduced into dK and dV in as long as two tiles of its shape, rounded up") {
  const auto problem = [](const TileShape& shape, Combine combine) {
    return make_problem(
        make_mask("full"), {256, 256}, shape, 4, 2,
        {.heads_kv = 1, .span = combine == Combine::none ? 4 : 1, .combine = combine});
  };
  const auto reduce_kv = [&](const TileShape& shape, Ticks reduce) {
    GivenTiming given;
    given.reduce = reduce;
    return time_model_of({.given = given}, problem(shape, Combine::ordered)).timing.reduce_kv;
  };
  for (const Ticks reduce : {0, 1, 7}) {
    CHECK(reduce_kv({64, 128}, reduce) == 4 * reduce);
    CHECK(reduce_kv({128, 64}, reduce) == reduce);
  }
  CHECK(reduce_kv({3, 2}, 1) == 2);    // 4 / 3
  CHECK(reduce_kv({80, 64}, 3) == 5);  // 24 / 5
  constexpr Ticks kMost = Ticks{1} << 60;
  CHECK(reduce_kv({1, 64}, kMost / 128) == kMost);
  CHECK_THROWS_AS(reduce_kv({1, 64}, kMost / 128 + 1), Error);
  // What is given wins, and is refused where nothing is added in order.
  GivenTiming given;
  given.reduce_kv = 3;
  CHECK(time_model_of({.given = given}, problem({64, 128}, Combine::ordered)).timing.reduce_kv ==
        3);
  CHECK_THROWS_AS(time_model_of({.given = given}, problem({64, 128}, Combine::partials)), Error);
  CHECK_THROWS_AS(time_model_of({.given = given}, problem({64, 128}, Combine::none)), Error);
  given = {.reduce_kv_async = true};
  CHECK(
      time_model_of({.given = given}, problem({64, 128}, Combine::ordered)).timing.reduce_kv_async);
  CHECK_THROWS_AS(time_model_of({.given = given}, problem({64, 128}, Combine::none)), Error);
}

TEST_CASE("a profile says how long parts take and how soon an SM takes a lane, to whoever asks") {
  const KernelKey key{.kernel = "hopper", .dtype = "bf16", .head_dim = 64, .tile = {64, 128}};
  KernelTimes times{.key = key, .model = Model::overlap};
  times.compute.value = 100;
  times.reduce.value = 30;
  Machine machine{.name = "toy", .device = "toy", .driver = "", .sms = 4, .kernels = {times}};
  const auto problem = [](Combine combine) {
    return make_problem(make_mask("full"), {256, 256}, {64, 128}, 4, 2,
                        {.heads_kv = 1, .span = 1, .combine = combine});
  };
  const auto asked = [&](const GivenTiming& given, Combine combine = Combine::ordered) {
    return time_model_of({.given = given, .kernel = key, .machine = machine}, problem(combine))
        .timing;
  };
  const auto played = [&](Combine combine) {  // as predictions and plans do
    return time_model_of(machine, machine.kernels.front(), problem(combine), {}).timing;
  };
  CHECK(asked({}).reduce_kv == 120);
  CHECK(played(Combine::ordered).reduce_kv == 120);
  CHECK_FALSE(asked({}).next_lane.has_value());
  machine.kernels.front().reduce_kv = MeasuredNs{.value = 77};
  machine.kernels.front().next_lane = MeasuredNs{.value = 0};
  CHECK(asked({}).reduce_kv == 77);
  CHECK(played(Combine::ordered).reduce_kv == 77);
  CHECK(played(Combine::partials).reduce_kv == 0);
  CHECK(asked({.reduce = 40}).reduce_kv == 160);
  CHECK(asked({.reduce_kv = 5}).reduce_kv == 5);
  CHECK(asked({}).next_lane == 0);
  CHECK(asked({.next_lane = 9}, Combine::partials).next_lane == 9);
  CHECK_FALSE(asked({.model = Model::chain}).next_lane.has_value());
  CHECK_THROWS_AS(asked({.model = Model::chain, .next_lane = 9}), Error);
  machine.kernels.front().model = Model::chain;
  CHECK_FALSE(asked({}).next_lane.has_value());
}

TEST_CASE("a profile's congestion is of its device's SMs, of which a problem may have fewer") {
  const KernelKey key{.kernel = "hopper", .dtype = "bf16", .head_dim = 64, .tile = {64, 128}};
  KernelTimes times;
  times.key = key;
  times.compute.value = 9;
  times.congestion = MeasuredNs{.value = 600};
  Machine machine;
  machine.name = "m";
  machine.sms = 100;
  machine.kernels = {times};
  machine.memory = DeviceMemory{.l2_bytes = 1, .bytes_per_ns = 1};
  const auto congestion = [&](std::int64_t sms) {
    const Problem problem = make_problem(make_mask("full"), {256, 256}, {64, 128}, 1, sms);
    return time_model_of({.kernel = key, .machine = machine}, problem).timing.memory->congestion;
  };
  CHECK(congestion(100) == 600);
  CHECK(congestion(25) == 150);
  CHECK(congestion(1) == 6);
  CHECK(congestion(400) == 600);
  machine.kernels.front().congestion.reset();
  CHECK(congestion(100) == 0);
}

TEST_CASE("the clock dips less where fewer SMs are busy, and not where half of them are") {
  const KernelKey key{.kernel = "hopper", .dtype = "bf16", .head_dim = 64, .tile = {64, 128}};
  KernelTimes times{.key = key, .compute = {.value = 9}};
  times.dip = MeasuredNs{.value = 5'000};
  times.dip_loss = MeasuredNs{.value = 400};
  Machine machine;
  machine.sms = 100;
  machine.kernels = {times};
  machine.memory = DeviceMemory{.l2_bytes = 1, .bytes_per_ns = 1};
  const auto memory = [&](std::int64_t sms) {
    const Problem problem = make_problem(make_mask("full"), {256, 256}, {64, 128}, 1, sms);
    return *time_model_of({.kernel = key, .machine = machine}, problem).timing.memory;
  };
  CHECK(memory(100).dip == 5'000);
  CHECK(memory(100).dip_loss == 400);
  CHECK(memory(400).dip_loss == 400);
  CHECK(memory(75).dip_loss == 200);
  CHECK(memory(51).dip_loss == 8);
  CHECK(memory(50).dip_loss == 0);
  CHECK(memory(1).dip_loss == 0);
}

TEST_CASE("what chance adds to hand-overs is in their latency where no memory is modelled") {
  const KernelKey key{.kernel = "hopper", .dtype = "bf16", .head_dim = 64, .tile = {64, 128}};
  KernelTimes times{.key = key, .compute = {.value = 9}, .latency = {.value = 700}};
  times.spread = MeasuredNs{.value = 200};
  Machine machine;
  machine.sms = 100;
  machine.kernels = {times};
  const Problem problem = make_problem(make_mask("full"), {256, 256}, {64, 128}, 1, 4);
  const auto timing = [&] {
    return time_model_of({.kernel = key, .machine = machine}, problem).timing;
  };
  CHECK(timing().latency == 900);
  CHECK_FALSE(timing().memory.has_value());
  machine.memory = DeviceMemory{.l2_bytes = 5,
                                .bytes_per_ns = 7,
                                .stream_bytes_per_ns = 2,
                                .add_permille = 3,
                                .latency_ns = 11};
  const Timing with = timing();
  CHECK(with.latency == 700);
  REQUIRE(with.memory.has_value());
  CHECK(with.memory->spread == 200);
  CHECK(with.memory->latency == 11);
  CHECK(with.memory->add_permille == 3);
  CHECK(with.memory->streamed() == 2);
}

TEST_CASE("a memory is modelled where both its size and its rate are given") {
  const Problem problem = make_problem(make_mask("full"), {256, 256}, {64, 128}, 1, 2);
  const auto memory = [&](GivenTiming given) {
    return time_model_of({.given = std::move(given)}, problem).timing.memory;
  };
  CHECK_FALSE(memory({}).has_value());
  CHECK_THROWS_AS(memory({.l2 = 5}), Error);
  CHECK_THROWS_AS(memory({.bandwidth = 5}), Error);
  CHECK_THROWS_AS(memory({.congestion = 5}), Error);
  CHECK_THROWS_AS(memory({.spread = 5}), Error);
  CHECK_THROWS_AS(memory({.draw = 5}), Error);
  CHECK_THROWS_AS(memory({.dip = 5}), Error);
  CHECK_THROWS_AS(memory({.dip_loss = 5}), Error);
  CHECK_THROWS_AS(memory({.memory_latency = 5}), Error);
  CHECK_THROWS_AS(memory({.add_permille = 5}), Error);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .add_permille = 9})->add_permille == 9);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .congestion = 9})->congestion == 9);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .spread = 9})->spread == 9);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .spread = 9})->draw == 0);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .spread = 9, .draw = 63})->draw == 63);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .memory_latency = 9})->latency == 9);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .dip = 9, .dip_loss = 4})->dip == 9);
  CHECK(memory({.l2 = 5, .bandwidth = 7, .dip = 9, .dip_loss = 4})->dip_loss == 4);
  const auto both = memory({.l2 = 5, .bandwidth = 7});
  REQUIRE(both.has_value());
  CHECK(both->l2 == 5);
  CHECK(both->rate == 7);
  // Tiles of a head of 64 in fp32.
  CHECK(both->tile.dq == 64 * 64 * 4);
  CHECK_THROWS_AS(
      time_model_of({.given = {.l2 = 5, .bandwidth = 7}, .kernel = {.kernel = "replay"}}, problem),
      Error);
}

}  // namespace
}  // namespace stagger::workbench
