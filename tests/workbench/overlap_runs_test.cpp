// What is asked of a device, and what is made of its answers: on a device whose times say which way
// and which problem they are of.

#include "workbench/calibration/overlap_runs.hpp"

#include "core/error.hpp"
#include "gpu/check/dropout.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace stagger::workbench {
namespace {

using block::DropoutShape;
using gpu::overlap::BitsPlace;
using gpu::overlap::Dropping;
using gpu::overlap::OverlapProblem;
using gpu::overlap::Room;
using gpu::overlap::Way;

/// A number for a way of a problem, in which each part has digits of its own.
double number_of(const OverlapProblem& problem, const Way& way) {
  const int attention = way.attention ? 1 + static_cast<int>(*way.attention) : 0;
  return static_cast<double>((way.gemms ? 1 : 0) + 10 * static_cast<int>(way.room) +
                             100 * static_cast<int>(way.bits) + 1'000 * attention) +
         1e4 * static_cast<double>(way.bits_ctas) + 1e8 * static_cast<double>(problem.heads);
}

/// Notes what it is asked. The first run of a way is cold; the five after it take 2, 0, 9, 1 and 5
/// more, of which the median is `kMedian`.
class Toy {
 public:
  static constexpr double kMedian = 2;
  static constexpr double kAttention = 7;  ///< of a way with attention

  OverlapDevice device() {
    return {.load =
                [this](const OverlapProblem& problem) {
                  problems.push_back(problem);
                  turns_.clear();
                  return LoadedOverlap{
                      .run = [this, problem](const Way& way) { return run(problem, way); },
                      .check =
                          [this, problem](const Way& way) {
                            checked.emplace_back(problems.size() - 1, way);
                            return check ? check(problem, way) : sound(problem, way);
                          }};
                },
            .registers = [](const gpu::DropoutRule& rule) { return rule.rounds; },
            .residents = [](const gpu::DropoutRule&) { return residents; }};
  }
  static gpu::overlap::WayCheck sound(const OverlapProblem& problem, const Way&) {
    return {.words = 10,
            .samples = 3,
            .gemm_digest = static_cast<std::uint64_t>(problem.heads),
            .out_digest = static_cast<std::uint64_t>(problem.seq)};
  }

  static constexpr gpu::overlap::Residents residents{.sms = 6, .ctas_per_sm = 8};
  std::vector<OverlapProblem> problems;
  std::vector<std::pair<std::size_t, Way>> checked;  ///< by problem
  std::map<double, int> runs;                        ///< of a way of a problem
  std::vector<double> order;                         ///< of all runs
  std::function<gpu::overlap::WayCheck(const OverlapProblem&, const Way&)> check;

 private:
  gpu::overlap::WayTimes run(const OverlapProblem& problem, const Way& way) {
    constexpr double kMore[] = {2, 0, 9, 1, 5};
    const double number = number_of(problem, way);
    const int turn = turns_[number]++;
    ++runs[number];
    order.push_back(number);
    const double ms = number + (turn == 0 ? 1'000 : kMore[(turn - 1) % 5]);
    return {.ms = ms,
            .gemms_ms = ms + 0.25,
            .bits_ms = ms + 0.5,
            .attention_ms = way.attention ? kAttention : 0,
            .clock_ghz = ms + 0.75};
  }

  std::map<double, int> turns_;
};

OverlapRequest request_on(Toy& toy) {
  // A run is longer than the warm-up, and than what must count.
  return {.shapes = {{.batch = 2, .heads = 3, .seq = 256}, {.heads = 5, .seq = 128}},
          .turns = {.warm_up_ms = 1, .least_ms = 1, .least_rounds = 5},
          .device = toy.device()};
}

TEST_CASE("each time of a shape is the median of its way's, and none but that") {
  Toy toy;
  const OverlapRequest request = request_on(toy);
  const OverlapRuns found = measure_overlap(request);
  REQUIRE(found.shapes.size() == 2);
  for (std::size_t index = 0; index < 2; ++index) {
    const DropoutShape& shape = request.shapes[index];
    const OverlapProblem& problem = toy.problems.at(8 + index);
    CHECK(problem.batch == shape.batch);
    CHECK(problem.heads == shape.heads);
    CHECK(problem.seq == shape.seq);
    CHECK(problem.attention);
    CHECK(problem.gemms.size() == 4);
    CHECK(problem.rule.bits == 8);
    const auto ms = [&](const Way& way) { return number_of(problem, way) + Toy::kMedian; };
    const OverlapRun& run = found.shapes[index];
    CHECK(run.clock_ghz == ms({.attention = Dropping::makes}) + 0.75);
    REQUIRE(run.ways.size() == beside_ways().size());
    REQUIRE(run.clocks_ghz.size() == beside_ways().size());
    for (std::size_t way = 0; way < run.ways.size(); ++way) {
      const BesideWay& beside = beside_ways()[way];
      const Way both{.room = beside.room, .bits = beside.bits, .attention = Dropping::reads};
      const block::MeasuredOverlap& times = run.ways[way];
      CHECK(times.shape.heads == shape.heads);
      CHECK(times.gemms == ms({.attention = Dropping::makes}) - Toy::kAttention);
      CHECK(times.bits == ms({.gemms = false, .bits = BitsPlace::before}));
      CHECK(times.attention == Toy::kAttention);
      CHECK(times.attention_makes == Toy::kAttention);
      CHECK(times.attention_reads == Toy::kAttention);
      CHECK(times.baseline == ms({.attention = Dropping::makes}));
      CHECK(times.serial == ms({.bits = BitsPlace::before, .attention = Dropping::reads}));
      CHECK(times.with_room ==
            ms({.room = beside.room, .attention = Dropping::makes}) - Toy::kAttention);
      CHECK(times.overlap == ms(both));
      CHECK(times.beside_gemms == ms(both) + 0.25);
      CHECK(times.beside_bits == ms(both) + 0.5);
      CHECK(run.clocks_ghz[way] == ms(both) + 0.75);
      CHECK(toy.runs[number_of(problem, both)] == 6);
    }
  }
}

TEST_CASE("attention's times are those of the way that has it so") {
  Toy toy;
  OverlapRequest request = request_on(toy);
  // Each way's attention takes what tells it apart.
  const OverlapDevice plain = request.device;
  request.device.load = [&](const OverlapProblem& problem) {
    LoadedOverlap loaded = plain.load(problem);
    loaded.run = [run = loaded.run](const Way& way) {
      gpu::overlap::WayTimes times = run(way);
      times.attention_ms = !way.attention ? 0 : 10 + static_cast<int>(*way.attention);
      if (way.room != Room::none) times.attention_ms += 100;
      return times;
    };
    return loaded;
  };
  for (const OverlapRun& run : measure_overlap(request).shapes) {
    for (const block::MeasuredOverlap& times : run.ways) {
      CHECK(times.attention == 10);
      CHECK(times.attention_makes == 11);
      CHECK(times.attention_reads == 12);
      CHECK(times.baseline - times.gemms == 11);
    }
  }
}

TEST_CASE("ways take turns, in another order each round, until enough counts") {
  Toy toy;
  OverlapRequest request = request_on(toy);
  request.shapes.resize(1);
  static_cast<void>(measure_overlap(request));
  const std::size_t ways = 3 + 2 * beside_ways().size();
  const double heads = 1e8 * 3;
  std::vector<double> order;
  for (const double number : toy.order) {
    if (number >= heads && number < heads + 1e8) order.push_back(number);
  }
  REQUIRE(order.size() == 6 + 6 * ways);  // bits alone, and a round that warms up
  order.erase(order.begin(), order.begin() + 6);
  std::vector<std::vector<double>> rounds;
  for (std::size_t round = 0; round < 6; ++round) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(round * ways);
    rounds.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(ways));
    std::vector<double> sorted = rounds.back();
    std::ranges::sort(sorted);
    CHECK(std::ranges::adjacent_find(sorted) == sorted.end());
  }
  std::ranges::sort(rounds);
  CHECK(std::ranges::adjacent_find(rounds) == rounds.end());

  // What is asked for is time too: as many rounds as fill it.
  const auto runs_for = [](TurnsRequest turns) {
    Toy timed;
    OverlapRequest asked = request_on(timed);
    asked.turns = turns;
    asked.shapes.clear();
    const OverlapDevice plain = asked.device;
    asked.device.load = [plain](const OverlapProblem& problem) {
      LoadedOverlap loaded = plain.load(problem);
      loaded.run = [run = loaded.run](const Way& way) {
        gpu::overlap::WayTimes times = run(way);
        times.ms = 10;
        return times;
      };
      return loaded;
    };
    static_cast<void>(measure_overlap(asked));
    const OverlapProblem bits{.gemms = {}, .heads = 64};  // the eight rules' have one number
    return timed.runs.at(number_of(bits, {.gemms = false, .bits = BitsPlace::before}));
  };
  CHECK(runs_for({.warm_up_ms = 0, .least_ms = 100, .least_rounds = 3}) == 8 * 10);
  CHECK(runs_for({.warm_up_ms = 40, .least_ms = 100, .least_rounds = 3}) == 8 * 14);
  CHECK(runs_for({.warm_up_ms = 35, .least_ms = 95, .least_rounds = 3}) == 8 * 14);
  CHECK(runs_for({.warm_up_ms = 0, .least_ms = 20, .least_rounds = 3}) == 8 * 3);
}

TEST_CASE("bits of every rule are made alone, and a kernel that leaves no room has few behind it") {
  Toy toy;
  const OverlapRuns found = measure_overlap(request_on(toy));
  REQUIRE(found.rng.size() == 8);
  REQUIRE(toy.problems.size() == 11);
  std::size_t rule = 0;
  for (const std::int64_t bits : {8, 32}) {
    for (const std::int64_t rounds : {3, 5, 7, 10}) {
      const OverlapProblem& problem = toy.problems[rule];
      CHECK(problem.rule.bits == bits);
      CHECK(problem.rule.rounds == rounds);
      CHECK(problem.rule.threshold == gpu::dropout_rule({.probability = 0.1,
                                                         .rounds = static_cast<int>(rounds),
                                                         .bits = static_cast<int>(bits)})
                                          .threshold);
      CHECK(problem.heads * problem.seq * problem.seq == std::int64_t{1} << 34);
      CHECK(problem.gemms.empty());
      const RngRun& run = found.rng[rule++];
      CHECK(run.measured.rng.bits == bits);
      CHECK(run.measured.rng.rounds == rounds);
      const double ms =
          number_of(problem, {.gemms = false, .bits = BitsPlace::before}) + Toy::kMedian;
      CHECK(run.measured.ps == Approx(1e9 * ms / (1LL << 34)));
      CHECK(run.registers == rounds);
    }
  }
  const OverlapProblem& crowded = toy.problems.back();
  REQUIRE(crowded.gemms.size() == 1);
  CHECK_FALSE(crowded.attention);
  REQUIRE(found.crowds.size() == 3);
  for (std::size_t index = 0; index < 3; ++index) {
    const CrowdRun& run = found.crowds[index];
    CHECK(run.ctas == (6 << index));
    CHECK(run.ctas_per_sm == 8);
    CHECK(run.gemm == number_of(crowded, {}) + Toy::kMedian);
    const Way full{.gemms = false, .bits = BitsPlace::before, .bits_ctas = 48};
    CHECK(run.full == number_of(crowded, full) + Toy::kMedian);
    const Way behind{.bits = BitsPlace::behind, .bits_ctas = static_cast<std::int32_t>(run.ctas)};
    CHECK(run.measured == number_of(crowded, behind) + Toy::kMedian);
    // So many CTAs share one eighth of as many SMs: the bits take as many times longer.
    CHECK(run.predicted == Approx(run.gemm + run.full * 8 / (1 << index)));
  }
}

TEST_CASE("ways are checked once, but for attention alone that would read what is not there") {
  Toy toy;
  const OverlapRuns found = measure_overlap(request_on(toy));
  for (std::size_t problem = 0; problem < toy.problems.size(); ++problem) {
    std::vector<Way> ways;
    for (const auto& [of, way] : toy.checked) {
      if (of == problem) ways.push_back(way);
    }
    const std::size_t wanted = problem < 8 ? 1 : problem < 10 ? 9 : 0;
    CHECK(ways.size() == wanted);
    const bool reads_nothing = std::ranges::any_of(ways, [](const Way& way) {
      return way.attention == Dropping::reads && way.bits == BitsPlace::nowhere;
    });
    CHECK_FALSE(reads_nothing);
  }
  CHECK(found.words_checked == 10 * std::ssize(toy.checked));
  CHECK(found.samples_checked == 3 * std::ssize(toy.checked));
}

TEST_CASE("one way with other bits is the device's error, whichever it is") {
  const auto said = [](auto change) {
    Toy toy;
    toy.check = [&](const OverlapProblem& problem, const Way& way) {
      gpu::overlap::WayCheck check = Toy::sound(problem, way);
      if (!problem.gemms.empty()) change(way, check);
      return check;
    };
    try {
      static_cast<void>(measure_overlap(request_on(toy)));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::device);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(said([](const Way&, gpu::overlap::WayCheck&) {}).empty());
  const auto is = [](const Way& way, const BesideWay& beside) {
    return way.room == beside.room && way.bits == beside.bits;
  };
  for (const BesideWay& beside : beside_ways()) {
    CHECK(said([&](const Way& way, auto& check) {
            if (is(way, beside)) ++check.gemm_digest;
          }) == "a product has other bits in another way");
    CHECK(said([&](const Way& way, auto& check) {
            if (is(way, beside)) ++check.out_digest;
          }) == "attention has other bits in another way");
    CHECK(said([&](const Way& way, auto& check) {
            if (way.room == beside.room && way.bits == BitsPlace::nowhere) ++check.gemm_digest;
          }) == "a product has other bits in another way");
  }
  CHECK(said([&](const Way& way, auto& check) {
          if (way.attention == Dropping::makes && way.room == Room::none) ++check.out_digest;
        }) == "attention has other bits in another way");
  // Of no GEMM there is no product, and attention that drops nothing has other results.
  CHECK(said([](const Way& way, auto& check) {
          if (!way.gemms) ++check.gemm_digest;
          if (way.attention == Dropping::no || !way.attention) ++check.out_digest;
        }).empty());
  CHECK(said([](const Way&, auto& check) {
          check.words_wrong = 4;
          check.words_off = 2;
          check.elements_off = 1;
        }) == "wrong results: 4 of 10 words of bits, 2 words and 1 elements of 3 samples");
}

TEST_CASE("measuring tells how far it is, from nothing on in equal steps") {
  Toy toy;
  OverlapRequest request = request_on(toy);
  std::vector<double> told;
  request.progress = [&](double fraction) { told.push_back(fraction); };
  static_cast<void>(measure_overlap(request));
  REQUIRE(told.size() == 11);
  for (std::size_t step = 0; step < told.size(); ++step)
    CHECK(told[step] == Approx(static_cast<double>(step) / 11));
  const OverlapRequest usual = usual_overlap_request();
  CHECK(usual.shapes.size() == 12);
  CHECK(usual.turns.least_rounds == 10);
}

TEST_CASE("the best way is that of the least sum, and the first of equal ones") {
  const auto best = [](const std::vector<std::vector<double>>& overlaps) {
    OverlapRuns runs;
    for (const std::vector<double>& shape : overlaps) {
      OverlapRun run;
      for (const double overlap : shape)
        run.ways.push_back({.overlap = overlap});
      runs.shapes.push_back(run);
    }
    return best_way(runs);
  };
  CHECK(best({{1, 2, 3}, {1, 2, 3}}) == 0);
  CHECK(best({{3, 2, 3}, {3, 2, 3}}) == 1);
  CHECK(best({{3, 2, 1}}) == 2);
  CHECK(best({{1, 9, 4}, {8, 1, 4}}) == 2);
  CHECK(best({{2, 2, 2}, {2, 2, 2}}) == 0);
  CHECK(best({{3, 2, 2}}) == 1);
}

TEST_CASE("a block's GEMMs do the work that its model counts") {
  const DropoutShape shape{.batch = 2, .heads = 3, .seq = 256, .head_dim = 64};
  std::int64_t products = 0;
  for (const gpu::overlap::GemmShape& gemm : gemms_of(shape)) {
    CHECK(gemm.m == 512);
    products += gemm.n * gemm.k;
  }
  CHECK(products == 12 * 192 * 192);
}

}  // namespace
}  // namespace stagger::workbench
