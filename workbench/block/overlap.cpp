// Four GEMMs of 3, 1, 4 and 4 h'^2 multiplications a token (h' = heads * head_dim), attention of
// two products over seq^2 pairs a head, and one bit for each pair. Over G all are functions of
// x = seq / heads: A / G = P_g / (6 d P_a) x and R / G = gamma P_g / (24 d^2) x.
//
// Source: "Reducing the Cost of Dropout in Flash-Attention by Hiding RNG with GEMM", section 3.2.

#include "workbench/block/overlap.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace stagger::block {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

Amount gemm_amount(const DropoutShape& shape) {
  const double tokens = static_cast<double>(shape.batch) * static_cast<double>(shape.seq);
  const double hidden = static_cast<double>(shape.heads) * static_cast<double>(shape.head_dim);
  // In and out of 1 + 3, 1 + 1, 1 + 4 and 4 + 1 times the hidden size, and the weights.
  return {.flops = 24 * tokens * hidden * hidden,
          .bytes = 2 * (16 * tokens * hidden + 12 * hidden * hidden)};
}

Amount attention_amount(const DropoutShape& shape) {
  const auto elements = static_cast<double>(elements_of(shape));
  const double rows =
      static_cast<double>(shape.batch * shape.heads) * static_cast<double>(shape.seq);
  return {.flops = 4 * elements * static_cast<double>(shape.head_dim),
          .elements = elements,
          .rows = rows,
          .bytes = 2 * 4 * rows * static_cast<double>(shape.head_dim)};
}

Amount backward_of(const Amount& forward) {
  return {.flops = 2.5 * forward.flops,
          .elements = forward.elements,
          .rows = forward.rows,
          .bytes = 2 * forward.bytes};
}

Amount rng_amount(const DropoutShape& shape) {
  return {.elements = static_cast<double>(elements_of(shape)),
          .bytes = static_cast<double>(mask_bytes_of(shape))};
}

/// The time without device memory, and without what rows take: both are little where x is large.
double computed(const std::vector<Limiter>& limiters, Amount amount) {
  amount.rows = 0;
  double longest = 0;
  for (const Limiter& limiter : limiters) {
    if (limiter.unit != LimitUnit::bytes) longest = std::max(longest, limiter.ms(amount));
  }
  if (longest == 0) throw Error(ErrorKind::usage, "a kernel is limited by device memory alone");
  return longest;
}

/// What attention takes by x, without the RNG and beside it: of all passes that count.
struct AttentionSlopes {
  double making = 0;   ///< when it makes its bits
  double reading = 0;  ///< when it reads them
};

AttentionSlopes attention_slopes(const Ratios& ratios, const Slowdown& slowdown) {
  AttentionSlopes slopes{.making = ratios.alpha + ratios.phi,
                         .reading = slowdown.dropping * ratios.alpha};
  if (ratios.backward) {
    slopes.making += ratios.backward->alpha + ratios.backward->phi;
    slopes.reading += ratios.backward->alpha + (slowdown.dropping - 1) * ratios.alpha;
  }
  return slopes;
}

/// Where two values differ by less than this part of their sum, they are the same.
constexpr double kSame = 1e-12;

double difference(double more, double less) {
  return std::abs(more - less) <= kSame * (more + less) ? 0 : more - less;
}

/// What overlapping takes longer than the baseline, by x.
struct Difference {
  double at_zero = 0;
  double slope = 0;
};

/// Up to region 3, from there until bits are waited for, and behind that.
std::array<Difference, 3> differences(const Ratios& ratios, const Slowdown& slowdown) {
  const auto [making, reading] = attention_slopes(ratios, slowdown);
  const double slowed = slowdown.gemm * slowdown.room;
  const double hindered = (slowdown.gemm - 1) * slowdown.rng * ratios.beta;
  return {
      {{difference(slowdown.room, 1), difference(hindered + reading, making)},
       {difference(slowed, 1), difference(reading, making)},
       {difference(slowed, 1 + slowed / slowdown.rng), difference(ratios.beta + reading, making)}}};
}

std::vector<XRange> losing_of(const Borders& borders, const std::array<Difference, 3>& lines) {
  constexpr double kEver = std::numeric_limits<double>::infinity();
  const double ends[] = {0, borders.region3, borders.exposed, kEver};
  std::vector<XRange> losing;
  for (std::size_t line = 0; line < lines.size(); ++line) {
    const auto& [at_zero, slope] = lines[line];
    double from = ends[line];
    double to = ends[line + 1];
    if (slope == 0 && at_zero <= 0) continue;
    if (slope > 0) from = std::max(from, -at_zero / slope);
    if (slope < 0) to = std::min(to, -at_zero / slope);
    if (!(to > from * (1 + kSame))) continue;
    const bool goes_on = !losing.empty() && from <= *losing.back().to * (1 + kSame);
    if (!goes_on) losing.push_back({.from = from});
    losing.back().to = to;
  }
  if (!losing.empty() && losing.back().to == kEver) losing.back().to = std::nullopt;
  return losing;
}

/// Between borders baseline and overlap are linear in x, so that the speedup rises or falls: the
/// largest at a whole x is beside a border or at the first, unless it rises behind the last border
/// towards what the slopes say.
void find_peak(Borders& borders, const Ratios& ratios, const Slowdown& slowdown) {
  for (const double x : {1.0, std::floor(borders.region3), std::ceil(borders.region3),
                         std::floor(borders.exposed), std::ceil(borders.exposed)}) {
    if (x < 1 || x > 1e15) continue;
    const double speedup = speedup_at(ratios, slowdown, x);
    if (speedup <= borders.peak_speedup) continue;
    borders.peak_x = static_cast<std::int64_t>(x);
    borders.peak_speedup = speedup;
  }
  const auto [making, reading] = attention_slopes(ratios, slowdown);
  const double limit = making / (ratios.beta + reading);
  if (limit <= borders.peak_speedup * (1 + kSame)) return;
  borders.peak_x = std::nullopt;
  borders.peak_speedup = limit;
}

std::int64_t registers_of(const CtaSize& kernel) {
  // Registers are given to warps, 256 at a time.
  return divide_up(kernel.threads, 32) * divide_up(kernel.registers * 32, 256) * 256;
}

}  // namespace

void check(const DropoutShape& shape) {
  const Checked tokens = Checked(shape.batch) * shape.seq;
  const Checked hidden = Checked(shape.heads) * shape.head_dim;
  if (!(tokens * shape.heads * shape.seq).within(kMostElements) ||
      !(tokens * hidden).within(kMostElements) || !(hidden * hidden).within(kMostElements)) {
    throw Error(ErrorKind::limit, "more than 2^60 bits or elements in one layer");
  }
}

std::int64_t elements_of(const DropoutShape& shape) {
  return shape.batch * shape.heads * shape.seq * shape.seq;
}

std::int64_t mask_bytes_of(const DropoutShape& shape) {
  return shape.batch * shape.heads * shape.seq * divide_up(shape.seq, 32) * 4;
}

Ways ways_of(const Alone& alone, const Slowdown& slowdown) {
  const double gemm = slowdown.room * alone.gemm;
  const double beside = slowdown.rng * alone.rng;  // what the RNG takes if a GEMM always runs
  Ways ways{.baseline = alone.gemm + alone.attention + alone.exposed,
            .gemm_slowed = gemm + (slowdown.gemm - 1) * std::min(gemm, beside),
            .rng_exposed = std::max(0.0, alone.rng - slowdown.gemm * gemm / slowdown.rng),
            .attention_dropping = slowdown.dropping * alone.attention};
  ways.rng_slowed = ways.rng_exposed > 0 ? ways.gemm_slowed + ways.rng_exposed : beside;
  ways.overlap = ways.gemm_slowed + ways.rng_exposed + ways.attention_dropping;
  return ways;
}

Ratios ratios_of(const Calibration& calibration, const RngChoice& rng, std::int64_t head_dim,
                 bool both) {
  const DropoutShape unit{.heads = 1, .seq = 1, .head_dim = head_dim};  // x = 1
  const double gemm = computed(calibration.gemm, gemm_amount(unit));
  const Amount attention = attention_amount(unit);
  const Amount bits = rng_amount(unit);
  const double alone = computed(rng_of(calibration, rng.rounds, rng.bits).limiters, bits);
  Ratios ratios{.alpha = computed(calibration.attention, attention) / gemm,
                .beta = alone / gemm,
                .phi = calibration.forward.ms(alone, bits.elements) / gemm};
  if (both) {
    ratios.backward = {
        .alpha = computed(calibration.attention_backward, backward_of(attention)) / gemm,
        .phi = calibration.backward.ms(alone, bits.elements) / gemm};
  }
  return ratios;
}

double speedup_at(const Ratios& ratios, const Slowdown& slowdown, double x) {
  const Ways ways = ways_of(
      {.gemm = 1, .attention = ratios.alpha * x, .rng = ratios.beta * x, .exposed = ratios.phi * x},
      slowdown);
  if (!ratios.backward) return ways.speedup();
  const Ratios::Backward& backward = *ratios.backward;
  const double dropping = backward.alpha + (slowdown.dropping - 1) * ratios.alpha;
  return (ways.baseline + backward.gemm + (backward.alpha + backward.phi) * x) /
         (ways.overlap + backward.gemm + dropping * x);
}

Borders borders_of(const Ratios& ratios, const Slowdown& slowdown) {
  const double beside = slowdown.rng * ratios.beta;
  Borders borders{.region2 = 0.5 * slowdown.room / beside,
                  .region3 = slowdown.room / beside,
                  .exposed = slowdown.gemm * slowdown.room / beside};
  find_peak(borders, ratios, slowdown);
  borders.losing = losing_of(borders, differences(ratios, slowdown));
  if (!borders.losing.empty() && !borders.losing.back().to) {
    borders.break_even = borders.losing.back().from;
  }
  return borders;
}

Overlap overlap_of(const DropoutShape& shape, const RngChoice& rng, const Calibration& calibration,
                   bool both) {
  check(shape);
  const Amount attention = attention_amount(shape);
  Overlap result{
      .shape = shape,
      .rng = rng,
      .elements = elements_of(shape),
      .mask_bytes = mask_bytes_of(shape),
      .gemm = limited(calibration.gemm, gemm_amount(shape)),
      .attention = limited(calibration.attention, attention),
      .rng_alone = limited(rng_of(calibration, rng.rounds, rng.bits).limiters, rng_amount(shape)),
      .x = static_cast<double>(shape.seq) / static_cast<double>(shape.heads)};
  const double exposed = calibration.forward.ms(result.rng_alone.ms, attention.elements);
  result.fused_ms = result.attention.ms + exposed;
  result.ways = ways_of({.gemm = result.gemm.ms,
                         .attention = result.attention.ms,
                         .rng = result.rng_alone.ms,
                         .exposed = exposed},
                        calibration.slowdown);
  const double gemm = calibration.slowdown.room * result.gemm.ms;
  const double beside = calibration.slowdown.rng * result.rng_alone.ms;
  result.region = beside < 0.5 * gemm ? 1 : beside < gemm ? 2 : 3;
  result.baseline_ms = result.ways.baseline;
  result.overlap_ms = result.ways.overlap;
  if (!both) return result;
  BackwardWays backward{
      .gemm_ms = 2 * result.gemm.ms,
      .attention_ms = limited(calibration.attention_backward, backward_of(attention)).ms};
  backward.fused_ms =
      backward.attention_ms + calibration.backward.ms(result.rng_alone.ms, attention.elements);
  backward.dropping_ms =
      backward.attention_ms + (calibration.slowdown.dropping - 1) * result.attention.ms;
  result.baseline_ms += backward.gemm_ms + backward.fused_ms;
  result.overlap_ms += backward.gemm_ms + backward.dropping_ms;
  result.backward = backward;
  return result;
}

Representable representable(double probability, std::int64_t bits) {
  STAGGER_EXPECTS(probability >= 0 && probability < 1 && bits >= 1 && bits <= 32);
  const double steps = std::ldexp(1.0, static_cast<int>(bits));
  Representable result{.threshold =
                           std::max<std::int64_t>(1, std::llround(steps * (1 - probability)))};
  result.kept = static_cast<double>(result.threshold) / steps;
  result.dropped = 1 - result.kept;
  result.bias = result.kept / (1 - probability) - 1;
  return result;
}

std::int64_t resident_ctas(const SmSize& sm, const CtaSize& kernel) {
  constexpr std::int64_t kMostCtas = 32;
  constexpr std::int64_t kMostThreads = 2048;
  if (kernel.ctas_per_sm > 0) return kernel.ctas_per_sm;
  return std::min({kMostCtas, kMostThreads / kernel.threads, sm.registers / registers_of(kernel)});
}

Room room_of(const SmSize& sm, const CtaSize& gemm, const CtaSize& rng) {
  constexpr std::int64_t kReservedBytes = 1024;  ///< of shared memory, by the driver, a CTA
  const std::int64_t ctas = resident_ctas(sm, gemm);
  Room room{.registers = sm.registers - ctas * registers_of(gemm),
            .shared_bytes = sm.shared_bytes - ctas * (gemm.shared_bytes + kReservedBytes)};
  if (room.registers < 0 || room.shared_bytes < 0) {
    throw Error(ErrorKind::usage, gemm.name + ": more registers or shared memory than an SM has");
  }
  room.ctas = std::min(room.registers / registers_of(rng),
                       room.shared_bytes / (rng.shared_bytes + kReservedBytes));
  return room;
}

double crowded(double gemm_time, double full_time, std::int64_t sms, std::int64_t grid,
               std::int64_t ctas_per_sm) {
  STAGGER_EXPECTS(sms > 0 && grid > 0 && ctas_per_sm > 0);
  const double used = static_cast<double>(grid) / static_cast<double>(ctas_per_sm);
  return gemm_time + full_time * std::max(1.0, static_cast<double>(sms) / used);
}

}  // namespace stagger::block
