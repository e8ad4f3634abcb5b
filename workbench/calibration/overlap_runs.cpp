#include "workbench/calibration/overlap_runs.hpp"

#include "core/error.hpp"
#include "core/median.hpp"
#include "gpu/check/dropout.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace stagger::workbench {
namespace {

using block::DropoutShape;
using block::MeasuredOverlap;
using block::RngChoice;
using gpu::overlap::BitsPlace;
using gpu::overlap::Dropping;
using gpu::overlap::Room;
using gpu::overlap::Way;
using gpu::overlap::WayTimes;

constexpr double kDropped = 0.1;
constexpr Way kBitsAlone{.gemms = false, .bits = BitsPlace::before};

gpu::DropoutRule rule_of(const RngChoice& rng) {
  return gpu::dropout_rule({.probability = kDropped,
                            .rounds = static_cast<int>(rng.rounds),
                            .bits = static_cast<int>(rng.bits)});
}

/// A problem's ways, timed in turns, so that they find the device as warm as each other. A GPU at
/// its power limit lowers its clock for a third of a second and raises it again, once a second or
/// so: an order that is another one in every round keeps that from meeting the same ways each time.
class Turns {
 public:
  Turns(const LoadedOverlap& runs, std::vector<Way> ways, const TurnsRequest& request)
      : ways_(std::move(ways)), times_(ways_.size()), order_(ways_.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    for (double elapsed_ms = 0; elapsed_ms < request.warm_up_ms;)
      elapsed_ms += round(runs, false);
    double elapsed_ms = 0;
    for (int rounds = 0; elapsed_ms < request.least_ms || rounds < request.least_rounds; ++rounds)
      elapsed_ms += round(runs, true);
  }

  [[nodiscard]] double median_of(std::size_t way, double WayTimes::*which) const {
    return median_of(way, [which](const WayTimes& times) { return times.*which; });
  }
  template <class Value>
  [[nodiscard]] double median_of(std::size_t way, const Value& value) const {
    std::vector<double> values;
    for (const WayTimes& times : times_[way])
      values.push_back(value(times));
    return median(std::move(values));
  }

 private:
  /// Runs every way once, and returns what all took, ms.
  double round(const LoadedOverlap& runs, bool counts) {
    std::shuffle(order_.begin(), order_.end(), random_);
    double ms = 0;
    for (const std::size_t way : order_) {
      const WayTimes times = runs.run(ways_[way]);
      ms += times.ms;
      if (counts) times_[way].push_back(times);
    }
    return ms;
  }

  std::vector<Way> ways_;
  std::vector<std::vector<WayTimes>> times_;
  std::vector<std::size_t> order_;
  std::mt19937 random_{1};
};

/// What precedes attention.
double before_attention(const WayTimes& times) {
  return times.ms - times.attention_ms;
}

/// Measures on the device, and adds to what was found.
class OverlapMeasurement {
 public:
  explicit OverlapMeasurement(const OverlapRequest& request) : request_(request) {}

  OverlapRuns run() {
    constexpr std::size_t kRules = 8;
    const std::size_t all = kRules + request_.shapes.size() + 1;
    for (const std::int64_t bits : {8, 32}) {
      for (const std::int64_t rounds : {3, 5, 7, 10}) {
        tell(all);
        rng({.rounds = rounds, .bits = bits});
      }
    }
    for (const DropoutShape& shape : request_.shapes) {
      tell(all);
      measure(shape);
    }
    tell(all);
    crowds();
    return std::move(found_);
  }

 private:
  void tell(std::size_t all) {
    if (request_.progress) {
      request_.progress(static_cast<double>(done_++) / static_cast<double>(all));
    }
  }

  gpu::overlap::WayCheck check(const LoadedOverlap& runs, const Way& way) {
    const gpu::overlap::WayCheck check = runs.check(way);
    found_.words_checked += check.words;
    found_.samples_checked += check.samples;
    if (check.right()) return check;
    throw Error(ErrorKind::device, "wrong results: " + std::to_string(check.words_wrong) + " of " +
                                       std::to_string(check.words) + " words of bits, " +
                                       std::to_string(check.words_off) + " words and " +
                                       std::to_string(check.elements_off) + " elements of " +
                                       std::to_string(check.samples) + " samples");
  }

  static void expect_same(std::uint64_t one, std::uint64_t other, const char* what) {
    if (one == other) return;
    throw Error(ErrorKind::device, std::string(what) + " has other bits in another way");
  }

  void rng(const RngChoice& choice) {
    constexpr std::int64_t kHeads = 64;
    constexpr std::int64_t kSeq = 16384;  // 2^34 elements
    const gpu::DropoutRule rule = rule_of(choice);
    const LoadedOverlap runs =
        request_.device.load({.gemms = {}, .heads = kHeads, .seq = kSeq, .rule = rule});
    static_cast<void>(check(runs, kBitsAlone));
    const Turns turns(runs, {kBitsAlone}, request_.turns);
    found_.rng.push_back({.measured = {.rng = choice,
                                       .ps = 1e9 * turns.median_of(0, &WayTimes::ms) /
                                             static_cast<double>(kHeads * kSeq * kSeq)},
                          .registers = request_.device.registers(rule)});
  }

  void measure(const DropoutShape& shape) {
    const LoadedOverlap runs = request_.device.load({.gemms = gemms_of(shape),
                                                     .batch = shape.batch,
                                                     .heads = shape.heads,
                                                     .seq = shape.seq,
                                                     .rule = rule_of({}),
                                                     .attention = true});
    std::vector<Way> ways = {{.attention = Dropping::no},
                             {.attention = Dropping::makes},
                             {.bits = BitsPlace::before, .attention = Dropping::reads}};
    const std::size_t plain = ways.size();
    for (const BesideWay& beside : beside_ways()) {
      ways.push_back({.room = beside.room, .attention = Dropping::makes});
      ways.push_back({.room = beside.room, .bits = beside.bits, .attention = Dropping::reads});
    }
    check_all(runs, ways);
    // Behind each other bits keep the full clock, which those beside GEMMs are compared with.
    const Turns bits(runs, {kBitsAlone}, request_.turns);
    const Turns turns(runs, ways, request_.turns);
    MeasuredOverlap measured{.shape = shape,
                             .rng = {},
                             .gemms = turns.median_of(1, before_attention),
                             .bits = bits.median_of(0, &WayTimes::ms),
                             .attention = turns.median_of(0, &WayTimes::attention_ms),
                             .attention_makes = turns.median_of(1, &WayTimes::attention_ms),
                             .attention_reads = turns.median_of(2, &WayTimes::attention_ms),
                             .baseline = turns.median_of(1, &WayTimes::ms),
                             .serial = turns.median_of(2, &WayTimes::ms)};
    OverlapRun run{.ways = {}, .clock_ghz = turns.median_of(1, &WayTimes::clock_ghz)};
    for (std::size_t way = plain; way < ways.size(); way += 2) {
      measured.with_room = turns.median_of(way, before_attention);
      measured.beside_gemms = turns.median_of(way + 1, &WayTimes::gemms_ms);
      measured.beside_bits = turns.median_of(way + 1, &WayTimes::bits_ms);
      measured.overlap = turns.median_of(way + 1, &WayTimes::ms);
      run.ways.push_back(measured);
      run.clocks_ghz.push_back(turns.median_of(way + 1, &WayTimes::clock_ghz));
    }
    found_.shapes.push_back(std::move(run));
  }

  /// Checks all ways that leave something, but for attention alone that would read what is not
  /// there: products and attention's output must be the same bits in all that have them.
  void check_all(const LoadedOverlap& runs, const std::vector<Way>& ways) {
    std::optional<std::uint64_t> products;
    std::optional<std::uint64_t> dropped;
    for (const Way& way : ways) {
      const bool reads = way.attention == Dropping::reads;
      if (reads && way.bits == BitsPlace::nowhere) continue;
      const gpu::overlap::WayCheck found = check(runs, way);
      if (way.gemms) {
        expect_same(products.value_or(found.gemm_digest), found.gemm_digest, "a product");
        products = found.gemm_digest;
      }
      if (reads || way.attention == Dropping::makes) {
        expect_same(dropped.value_or(found.out_digest), found.out_digest, "attention");
        dropped = found.out_digest;
      }
    }
  }

  /// One GEMM that fills every SM, and behind it kernels of few CTAs.
  void crowds() {
    constexpr std::int64_t kHeads = 32;
    constexpr std::int64_t kSeq = 16384;
    constexpr gpu::overlap::GemmShape kGemm{.m = 16384, .n = 24576, .k = 8192};
    const LoadedOverlap runs =
        request_.device.load({.gemms = {kGemm}, .heads = kHeads, .seq = kSeq, .rule = rule_of({})});
    const gpu::overlap::Residents residents = request_.device.residents(rule_of({}));
    const std::int64_t full = residents.sms * residents.ctas_per_sm;
    for (const std::int64_t ctas : {residents.sms, 2 * residents.sms, 4 * residents.sms}) {
      const Turns turns(runs,
                        {{},
                         {.gemms = false,
                          .bits = BitsPlace::before,
                          .bits_ctas = static_cast<std::int32_t>(full)},
                         {.bits = BitsPlace::behind, .bits_ctas = static_cast<std::int32_t>(ctas)}},
                        request_.turns);
      CrowdRun crowd{.ctas = ctas,
                     .ctas_per_sm = residents.ctas_per_sm,
                     .gemm = turns.median_of(0, &WayTimes::ms),
                     .full = turns.median_of(1, &WayTimes::ms),
                     .measured = turns.median_of(2, &WayTimes::ms)};
      crowd.predicted =
          block::crowded(crowd.gemm, crowd.full, residents.sms, ctas, residents.ctas_per_sm);
      found_.crowds.push_back(crowd);
    }
  }

  const OverlapRequest& request_;
  OverlapRuns found_;
  std::size_t done_ = 0;
};

}  // namespace

const std::vector<BesideWay>& beside_ways() {
  static const std::vector<BesideWay> ways = {
      {"three warps of the GEMM's", Room::warps, BitsPlace::inside},
      {"four warps of the GEMM's", Room::warpgroup, BitsPlace::inside},
      {"a second stream", Room::streams, BitsPlace::behind}};
  return ways;
}

OverlapDevice overlap_gpu() {
  return {.load =
              [](const gpu::overlap::OverlapProblem& problem) {
                const auto runs = std::make_shared<gpu::overlap::OverlapRuns>(problem);
                return LoadedOverlap{.run = [runs](const Way& way) { return runs->run(way); },
                                     .check = [runs](const Way& way) { return runs->check(way); }};
              },
          .registers =
              [](const gpu::DropoutRule& rule) { return gpu::overlap::bits_cta(rule).registers; },
          .residents = gpu::overlap::bits_residents};
}

OverlapRequest usual_overlap_request() {
  OverlapRequest request;
  for (const std::int64_t heads : {48, 64, 96}) {
    for (const std::int64_t seq : {2048, 4096, 8192, 16384})
      request.shapes.push_back({.heads = heads, .seq = seq});
  }
  return request;
}

std::vector<gpu::overlap::GemmShape> gemms_of(const DropoutShape& shape) {
  const std::int64_t tokens = shape.batch * shape.seq;
  const std::int64_t hidden = shape.heads * shape.head_dim;
  return {{.m = tokens, .n = 3 * hidden, .k = hidden},
          {.m = tokens, .n = hidden, .k = hidden},
          {.m = tokens, .n = 4 * hidden, .k = hidden},
          {.m = tokens, .n = hidden, .k = 4 * hidden}};
}

OverlapRuns measure_overlap(const OverlapRequest& request) {
  return OverlapMeasurement(request).run();
}

std::size_t best_way(const OverlapRuns& runs) {
  const auto total = [&](std::size_t way) {
    return std::accumulate(
        runs.shapes.begin(), runs.shapes.end(), 0.0,
        [way](double sum, const OverlapRun& run) { return sum + run.ways[way].overlap; });
  };
  std::size_t best = 0;
  for (std::size_t way = 1; way < beside_ways().size(); ++way) {
    if (total(way) < total(best)) best = way;
  }
  return best;
}

block::Calibration overlap_calibration(const block::Calibration& base, const OverlapRuns& runs,
                                       std::size_t way) {
  std::vector<MeasuredOverlap> shapes;
  for (const OverlapRun& run : runs.shapes)
    shapes.push_back(run.ways[way]);
  std::vector<block::MeasuredRng> rng;
  for (const RngRun& run : runs.rng)
    rng.push_back(run.measured);
  return block::fitted(base, shapes, rng);
}

}  // namespace stagger::workbench
