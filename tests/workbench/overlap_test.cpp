#include "workbench/block/overlap.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/block/streams.hpp"
#include "workbench/block/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace stagger::block {
namespace {

Calibration builtin(const std::string& name) {
  const char* text = find_builtin(builtin_calibrations(), name);
  REQUIRE(text != nullptr);
  return read_calibration(text, name);
}

double speedup(const Calibration& calibration, double x) {
  return speedup_at(ratios_of(calibration, {}, 128), calibration.slowdown, x);
}

/// The end of both ways, played step by step in small steps of time: how far GEMMs and RNG are.
Ways played(const Alone& alone, const Slowdown& slowdown, int steps) {
  Ways ways{.baseline = alone.gemm + alone.attention + alone.exposed};
  const double step = (alone.gemm + alone.rng) / steps;
  double rng = 0;
  double time = 0;
  // Up to the slowed end of the GEMMs the RNG makes 1 / slowdown of its progress; the GEMMs lose
  // for as long as it runs, their own time at most.
  double lost = 0;
  for (; time < slowdown.room * alone.gemm + lost; time += step) {
    if (rng >= alone.rng) continue;
    rng += step / slowdown.rng;
    if (time < slowdown.room * alone.gemm) lost += (slowdown.gemm - 1) * step;
  }
  ways.gemm_slowed = time;
  for (; rng < alone.rng; rng += step)
    time += step;
  ways.rng_exposed = time - ways.gemm_slowed;
  ways.overlap = time + slowdown.dropping * alone.attention;
  return ways;
}

TEST_CASE("the paper's calibration gives the paper's speedups") {
  const Calibration paper = builtin("paper");
  const Ratios ratios = ratios_of(paper, {}, 128);
  CHECK(ratios.alpha == Approx(0.0060));
  CHECK(ratios.phi == Approx(0.0042));
  CHECK(ratios.beta == Approx(0.0042 / 0.9));
  CHECK(std::abs(speedup(paper, 2048.0 / 96) - 1.0594) < 5e-4);   // GPT-3: 1.06
  CHECK(std::abs(speedup(paper, 4096.0 / 64) - 1.1414) < 5e-4);   // Llama 2: 1.14
  CHECK(std::abs(speedup(paper, 16384.0 / 48) - 1.0587) < 5e-4);  // region 3
  CHECK(std::abs(speedup(paper, 148) - 1.2335) < 5e-4);           // the largest: 1.23
  CHECK(std::abs(speedup(paper, 59) - 1.13) < 5e-3);              // MoE
  CHECK(std::abs(speedup(paper, 228) - 1.13) < 5e-3);
  constexpr std::pair<double, double> kRow[] = {{85, 1.171},  {128, 1.216}, {171, 1.197},
                                                {256, 1.107}, {512, 1.007}, {4096.0 / 3, 0.939}};
  for (const auto& [x, expected] : kRow) {
    CAPTURE(x);
    CHECK(std::abs(speedup(paper, x) - expected) < 1.1e-3);
  }
}

TEST_CASE("borders and the peak are where a search finds them") {
  for (const char* name : {"paper", "h200-cudnn", "h200-fa2"}) {
    CAPTURE(name);
    const Calibration calibration = builtin(name);
    const Borders borders = borders_of(ratios_of(calibration, {}, 128), calibration.slowdown);
    std::int64_t peak = 1;
    for (std::int64_t x = 1; x < 3000; ++x) {
      if (speedup(calibration, double(x)) > speedup(calibration, double(peak))) peak = x;
    }
    CHECK(borders.peak_x == peak);
    CHECK(borders.peak_speedup == Approx(speedup(calibration, double(peak))));
    if (borders.break_even) {
      CHECK(speedup(calibration, *borders.break_even) == Approx(1));
      CHECK(speedup(calibration, *borders.break_even * 1.01) < 1);
      CHECK(speedup(calibration, *borders.break_even * 0.99) > 1);
    }
    CHECK(borders.region_of(borders.region3 * 0.999) == 2);
    CHECK(borders.region_of(borders.region3 * 1.001) == 3);
  }
  const Borders paper = borders_of(ratios_of(builtin("paper"), {}, 128), builtin("paper").slowdown);
  CHECK(paper.peak_x == 148);
  CHECK(paper.region3 == Approx(1 / (1.5 * 0.0042 / 0.9)));  // 142.9
  // 6.9K, 9.1K, 13.7K and 18.3K tokens.
  CHECK(std::abs(48 * paper.region3 - 6900) < 50);
  CHECK(std::abs(64 * paper.region3 - 9100) < 50);
  CHECK(std::abs(96 * paper.region3 - 13700) < 50);
  CHECK(std::abs(128 * paper.region3 - 18300) < 50);
  // An H200's RNG is cheap: region 3 is far away.
  const Calibration h200 = builtin("h200-fa2");
  CHECK(std::abs(borders_of(ratios_of(h200, {}, 128), h200.slowdown).region3 - 1038) < 2);
}

TEST_CASE("the peak is at a whole x that can be counted, the first of equal ones") {
  const Slowdown none{.gemm = 1, .rng = 1, .room = 1, .dropping = 1};
  // Bits that are made beside the GEMMs from the start cost nothing: as fast at every border.
  CHECK(borders_of({.alpha = 0, .beta = 0.01, .phi = 0}, none).peak_x == 1);
  // The RNG is behind the GEMMs at once, and slow: nothing is gained, least at 1.
  const Borders early = borders_of({.alpha = 0.1, .beta = 3, .phi = 0}, {.gemm = 1.1, .rng = 1.5});
  CHECK(early.region3 < 1);
  CHECK(early.peak_x == 1);
  CHECK(early.peak_speedup < 1);
  // The borders are beyond everything: what is left is the first, or what the speedup rises to.
  const Borders far = borders_of({.alpha = 0.1, .beta = 1e-20, .phi = 0}, {.dropping = 1.1});
  CHECK(far.region3 > 1e15);
  CHECK(far.peak_x == 1);
  const Borders rising = borders_of({.alpha = 0.1, .beta = 1e-20, .phi = 0.1}, none);
  CHECK(rising.peak_x == std::nullopt);
  CHECK(rising.peak_speedup == Approx(2));
}

/// Whether some range has x; absent: x is as good as at an end.
std::optional<bool> within(const std::vector<XRange>& ranges, double x) {
  constexpr double kNear = 1e-6;
  bool found = false;
  for (const XRange& range : ranges) {
    if (std::abs(x / range.from - 1) < kNear) return std::nullopt;
    if (range.to && std::abs(x / *range.to - 1) < kNear) return std::nullopt;
    found |= x > range.from && (!range.to || x < *range.to);
  }
  return found;
}

TEST_CASE("ranges that lose, and what the speedup rises to, are where shapes have them") {
  int rising = 0;
  int everywhere = 0;
  int twice = 0;
  for (const BuiltinFile& file : builtin_calibrations()) {
    Calibration calibration = builtin(file.name);
    for (auto* limiters : {&calibration.attention, &calibration.attention_backward}) {
      for (Limiter& limiter : *limiters)
        limiter.row_ns = 0;  // no function of x
    }
    for (const std::int64_t head_dim : {64, 80, 128}) {
      for (const bool both : {false, true}) {
        for (const std::int64_t rounds : {3, 7}) {
          const RngChoice rng{.rounds = rounds};
          const Borders borders =
              borders_of(ratios_of(calibration, rng, head_dim, both), calibration.slowdown);
          CAPTURE(file.name, head_dim, both, rounds);
          double largest = 0;
          double last = 0;
          // Heads enough for device memory not to matter.
          for (double seq = 1024; seq < 30'000'000; seq = std::ceil(1.02 * seq / 1024) * 1024) {
            const DropoutShape shape{
                .heads = 1024, .seq = static_cast<std::int64_t>(seq), .head_dim = head_dim};
            last = overlap_of(shape, rng, calibration, both).speedup();
            largest = std::max(largest, last);
            const std::optional<bool> loses = within(borders.losing, seq / 1024);
            CAPTURE(seq / 1024, last);
            if (loses) CHECK(*loses == (last < 1));
          }
          CHECK(largest <= borders.peak_speedup * (1 + 1e-9));
          CHECK(largest > borders.peak_speedup * (1 - 5e-3));
          CHECK((last == largest) == !borders.peak_x.has_value());
          rising += borders.peak_x ? 0 : 1;
          if (borders.losing.size() == 2) ++twice;
          if (borders.break_even == 0.0) ++everywhere;
        }
      }
    }
  }
  CHECK(rising > 0);
  CHECK(everywhere > 0);
  CHECK(twice > 0);
}

TEST_CASE("ranges that lose are those of speedups below 1") {
  test::Random random(test::seed(29));
  const auto part = [&](std::int64_t most) { return 1e-3 * double(random.between(0, most)); };
  for (int round = 0; round < 500; ++round) {
    const Ratios ratios{.alpha = part(20), .beta = 0.001 + part(20), .phi = part(20)};
    const Slowdown slowdown{.gemm = 1 + part(300),
                            .rng = 1 + part(5000),
                            .room = 1 + part(20),
                            .dropping = 1 + part(200)};
    const Borders borders = borders_of(ratios, slowdown);
    CAPTURE(ratios.alpha, ratios.beta, ratios.phi, slowdown.gemm, slowdown.rng, slowdown.room,
            slowdown.dropping);
    for (double x = 0.01; x < 1e7; x *= 1.3) {
      const double speedup = speedup_at(ratios, slowdown, x);
      const std::optional<bool> loses = within(borders.losing, x);
      CAPTURE(x, speedup);
      if (loses && std::abs(speedup - 1) > 1e-9) CHECK(*loses == (speedup < 1));
      if (x >= 1 && borders.peak_x) {
        CHECK(speedup_at(ratios, slowdown, std::floor(x)) <= borders.peak_speedup * (1 + 1e-9));
      }
    }
    if (!borders.peak_x) {
      CHECK(speedup_at(ratios, slowdown, 1e12) == Approx(borders.peak_speedup).epsilon(1e-6));
    }
  }
}

TEST_CASE("what is the same but for rounding loses nowhere") {
  // 0.1 + 0.3 - 0.3 is more than 0.1.
  const Borders borders = borders_of({.alpha = 0.3, .beta = 0.1, .phi = 0.1},
                                     {.gemm = 1.04, .rng = 1.5, .room = 1, .dropping = 1});
  CHECK(borders.losing.empty());
  CHECK(borders.break_even == std::nullopt);
}

TEST_CASE("what is computed is what a play in small steps comes to") {
  test::Random random(test::seed(3));
  for (int round = 0; round < 100; ++round) {
    const Alone alone{.gemm = 0.1 * double(random.between(1, 100)),
                      .attention = 0.1 * double(random.between(0, 100)),
                      .rng = 0.1 * double(random.between(1, 150)),
                      .exposed = 0.1 * double(random.between(0, 100))};
    const Slowdown slowdown{.gemm = 1 + 0.01 * double(random.between(0, 10)),
                            .rng = 1 + 0.1 * double(random.between(0, 10)),
                            .room = 1 + 0.01 * double(random.between(0, 30)),
                            .dropping = 1 + 0.01 * double(random.between(0, 20))};
    const Ways ways = ways_of(alone, slowdown);
    const Ways steps = played(alone, slowdown, 20'000);
    CAPTURE(alone.gemm, alone.rng, slowdown.gemm, slowdown.rng, slowdown.room);
    const double near = 1e-3 * (alone.gemm + alone.rng) + 1e-9;
    CHECK(std::abs(ways.gemm_slowed - steps.gemm_slowed) < near);
    CHECK(std::abs(ways.rng_exposed - steps.rng_exposed) < near);
    CHECK(std::abs(ways.overlap - steps.overlap) < near);
    CHECK(ways.baseline == steps.baseline);
  }
}

TEST_CASE("the speedup is a function of tokens over heads") {
  const Calibration paper = builtin("paper");
  for (const std::int64_t scale : {1, 2, 5}) {
    const Overlap overlap =
        overlap_of({.batch = scale, .heads = 64 * scale, .seq = 4096 * scale}, {}, paper, false);
    CHECK(overlap.speedup() == Approx(speedup(paper, 64)));
    CHECK(overlap.region == 1);
  }
}

TEST_CASE("an H200's own numbers give its table") {
  struct Row {
    std::int64_t heads;
    std::int64_t seq;
    double gemm_bf16;
    double gemm_fp8;
    double attention;
    double fused;
    double rng;
    double cudnn_bf16;
    double cudnn_fp8;
    double fa2_bf16;
    double fa2_fp8;
  };
  constexpr Row kRows[] = {{96, 2048, 10.45, 5.58, 0.32, 0.33, 0.14, 1.027, 1.048, 1.005, 1.010},
                           {64, 4096, 9.29, 4.96, 0.85, 0.89, 0.38, 1.075, 1.129, 1.015, 1.024},
                           {64, 8192, 18.6, 9.92, 3.38, 3.56, 1.53, 1.136, 1.222, 1.025, 1.038},
                           {48, 16384, 20.9, 11.2, 10.2, 10.7, 4.58, 1.282, 1.403, 1.046, 1.060}};
  for (const Row& row : kRows) {
    CAPTURE(row.heads, row.seq);
    const DropoutShape shape{.heads = row.heads, .seq = row.seq};
    Calibration cudnn = builtin("h200-cudnn");
    Calibration fa2 = builtin("h200-fa2");
    const Overlap bf16 = overlap_of(shape, {}, cudnn, false);
    CHECK(std::abs(bf16.gemm.ms / row.gemm_bf16 - 1) < 0.005);
    CHECK(std::abs(bf16.attention.ms / row.attention - 1) < 0.015);
    CHECK(std::abs((bf16.fused_ms - bf16.attention.ms) / row.fused - 1) < 0.015);
    CHECK(std::abs(bf16.rng_alone.ms / row.rng - 1) < 0.03);
    CHECK(bf16.gemm.by == "MMA");
    CHECK(bf16.rng_alone.by == "ALU");
    CHECK(std::abs(bf16.speedup() - row.cudnn_bf16) < 1e-3);
    CHECK(std::abs(overlap_of(shape, {}, fa2, false).speedup() - row.fa2_bf16) < 1e-3);
    cudnn.gemm[0].rate = fa2.gemm[0].rate = 1330;
    const Overlap fp8 = overlap_of(shape, {}, cudnn, false);
    CHECK(std::abs(fp8.gemm.ms / row.gemm_fp8 - 1) < 0.005);
    CHECK(std::abs(fp8.speedup() - row.cudnn_fp8) < 1e-3);
    CHECK(std::abs(overlap_of(shape, {}, fa2, false).speedup() - row.fa2_fp8) < 1e-3);
  }
}

TEST_CASE("overlapping wins by the condition of its parts") {
  test::Random random(test::seed(5));
  int wins = 0;
  for (int round = 0; round < 300; ++round) {
    const Alone alone{.gemm = double(random.between(1, 100)),
                      .attention = double(random.between(1, 100)),
                      .rng = double(random.between(1, 100)),
                      .exposed = double(random.between(0, 40))};
    const Slowdown slowdown{.gemm = 1.04, .rng = 1.5, .room = 1.1, .dropping = 1.12};
    const double room = 1.1 * alone.gemm;
    const bool expected = alone.exposed - 0.12 * alone.attention >
                          std::max(0.0, alone.rng - 1.04 * room / 1.5) +
                              0.04 * std::min(room, 1.5 * alone.rng) + (room - alone.gemm);
    CHECK((ways_of(alone, slowdown).speedup() > 1) == expected);
    wins += expected ? 1 : 0;
  }
  CHECK(wins > 5);
}

TEST_CASE("bits take a word for 32 keys") {
  const auto bytes = [](std::int64_t heads, std::int64_t seq) {
    return mask_bytes_of({.heads = heads, .seq = seq});
  };
  CHECK(bytes(96, 2048) == 50'331'648);              // GPT-3 2K
  CHECK(bytes(64, 4096) == 134'217'728);             // Llama 2 4K
  CHECK(bytes(64, 16384) == std::int64_t{2} << 30);  // 2 GiB
  CHECK(bytes(64, 32768) == std::int64_t{8} << 30);  // 8 GiB exactly
  CHECK(bytes(48, 32768) == std::int64_t{6} << 30);
  CHECK(bytes(96, 32768) == std::int64_t{12} << 30);
  CHECK(bytes(1, 33) == 33 * 2 * 4);
  CHECK(elements_of({.batch = 3, .heads = 5, .seq = 7}) == 3 * 5 * 49);
}

TEST_CASE("a probability becomes a multiple of what its bits tell apart") {
  const Representable tenth = representable(0.1, 8);
  CHECK(tenth.threshold == 230);
  CHECK(tenth.kept == Approx(0.8984).margin(5e-5));
  CHECK(tenth.dropped == Approx(0.1016).margin(5e-5));
  CHECK(tenth.bias == Approx(-0.0017).margin(5e-5));
  CHECK(representable(0, 8).threshold == 256);
  CHECK(representable(0.5, 1).threshold == 1);
  CHECK(representable(0.999, 8).threshold == 1);  // never nothing
  CHECK(std::abs(representable(0.1, 32).bias) < 1e-9);
}

TEST_CASE("a kernel behind GEMMs without room crowds on the first SMs") {
  // Measured on an H200: a GEMM of 8.66 ms, bits of 2^33 elements.
  CHECK(std::abs(crowded(8.66, 2.89, 132, 132, 12) / 42.96 - 1) < 0.03);
  CHECK(std::abs(crowded(8.66, 2.89, 132, 132, 32) / 101.4 - 1) < 0.03);
  CHECK(std::abs(crowded(8.66, 2.89, 132, 264, 12) / 25.67 - 1) < 0.03);
  CHECK(crowded(8.66, 2.89, 132, 132 * 12, 12) == Approx(8.66 + 2.89));
  CHECK(crowded(8.66, 2.89, 132, 1'000'000, 12) == Approx(8.66 + 2.89));
  const SmSize sm{.count = 132, .registers = 65536, .shared_bytes = 233472};
  CHECK(resident_ctas(sm, {.name = "RNG", .threads = 128, .registers = 40}) == 12);
  CHECK(resident_ctas(sm, {.name = "RNG", .threads = 32, .registers = 32}) == 32);
}

TEST_CASE("room is what a GEMM leaves of an SM") {
  const Calibration h200 = builtin("h200-cudnn");
  REQUIRE(h200.gemms.size() == 4);
  const Room cublas = room_of(h200.sm, h200.gemms[0], *h200.rng_kernel);
  CHECK(cublas.registers == 1024);  // one warp of 32
  CHECK(cublas.shared_bytes == 19244);
  CHECK(cublas.ctas == 0);
  const Room triton = room_of(h200.sm, h200.gemms[1], *h200.rng_kernel);
  CHECK(triton.registers == 24576);
  CHECK(triton.ctas == 4);
  // Registers for three CTAs, of which shared memory has room for two: each reserves 1 KB.
  const Room stagger = room_of(h200.sm, h200.gemms[3], *h200.rng_kernel);
  CHECK(stagger.registers == 16384);
  CHECK(stagger.shared_bytes == 2048);
  CHECK(stagger.ctas == 2);
  CtaSize huge = h200.gemms[0];
  huge.ctas_per_sm = 2;
  CHECK_THAT(test::message_of([&] { static_cast<void>(room_of(h200.sm, huge, *h200.rng_kernel)); },
                              ErrorKind::usage),
             Catch::Contains("more registers or shared memory than an SM has"));
}

TEST_CASE("both passes are the forward one and what is behind it") {
  const Calibration fa2 = builtin("h200-fa2");
  const DropoutShape shape{.heads = 64, .seq = 16384};
  const Overlap forward = overlap_of(shape, {}, fa2, false);
  const Overlap both = overlap_of(shape, {}, fa2, true);
  REQUIRE(both.backward);
  CHECK(both.backward->gemm_ms == Approx(2 * forward.gemm.ms));
  CHECK(both.backward->attention_ms == Approx(70.22).epsilon(0.01));  // measured, and with dropout:
  CHECK(both.backward->fused_ms == Approx(73.47).epsilon(0.01));
  CHECK(both.baseline_ms ==
        Approx(forward.baseline_ms + both.backward->gemm_ms + both.backward->fused_ms));
  CHECK(both.overlap_ms ==
        Approx(forward.overlap_ms + both.backward->gemm_ms + both.backward->dropping_ms));
}

TEST_CASE("Philox of fewer rounds or bits is cheaper by what was measured") {
  const Calibration h200 = builtin("h200-fa2");
  const auto rng = [&](std::int64_t rounds, std::int64_t bits) {
    return limited(rng_of(h200, rounds, bits).limiters,
                   {.elements = std::exp2(34), .bytes = std::exp2(31)})
        .ms;
  };
  CHECK(rng(7, 8) == Approx(6.11).epsilon(1e-3));
  CHECK(rng(5, 8) / rng(7, 8) == Approx(0.898).epsilon(2e-3));
  CHECK(rng(3, 32) / rng(7, 32) == Approx(0.496).epsilon(2e-3));
  const Calibration paper = builtin("paper");
  const auto part = [&](std::int64_t rounds) {
    return rng_of(paper, rounds, 8).limiters[0].rate / rng_of(paper, 7, 8).limiters[0].rate;
  };
  CHECK(part(5) == Approx(0.81));
  CHECK(part(3) == Approx(0.67));
  CHECK_THAT(test::message_of([&] { static_cast<void>(rng_of(paper, 10, 8)); }, ErrorKind::usage),
             Catch::Contains("no Philox of 10 rounds"));
}

TEST_CASE("streams end when the ways end, and never overlap on themselves") {
  for (const std::int64_t seq : {2048, 8192, 16384, 65536}) {
    const Overlap overlap = overlap_of({.heads = 48, .seq = seq}, {}, builtin("paper"), false);
    const std::vector<Stream> streams = streams_of(overlap);
    REQUIRE(streams.size() == 3);
    CHECK(streams[0].spans.back().end_ms == Approx(overlap.ways.baseline));
    CHECK(streams[1].spans.back().end_ms == Approx(overlap.ways.overlap));
    CHECK(streams[2].spans.back().end_ms == Approx(overlap.ways.rng_slowed));
    CHECK(streams[1].spans.back().start_ms >= streams[2].spans.back().end_ms - 1e-9);
    for (const Stream& stream : streams) {
      double end = 0;
      for (const Span& span : stream.spans) {
        CHECK(span.start_ms >= end - 1e-9);
        CHECK(span.end_ms >= span.start_ms);
        end = span.end_ms;
      }
    }
  }
}

TEST_CASE("bits beside GEMMs end with them, and those left over are made alone, however few") {
  Overlap overlap;
  overlap.gemm.ms = 3.6;
  overlap.ways.baseline = 10;
  overlap.ways.gemm_slowed = 4.8;
  overlap.ways.rng_exposed = 0.25;
  overlap.ways.rng_slowed = 5.05;
  overlap.ways.attention_dropping = 3;
  overlap.ways.overlap = 8.05;
  const std::vector<Stream> streams = streams_of(overlap);
  const auto times = [](const Stream& stream) {
    std::vector<std::pair<double, double>> spans;
    for (const Span& span : stream.spans)
      spans.emplace_back(span.start_ms, span.end_ms);
    return spans;
  };
  using Times = std::vector<std::pair<double, double>>;
  const auto near = [](const Times& found, const Times& want) {
    return std::ranges::equal(found, want, [](const auto& left, const auto& right) {
      return std::abs(left.first - right.first) < 1e-9 &&
             std::abs(left.second - right.second) < 1e-9;
    });
  };
  // Twelfths: projection 1, FFN 4 and 4, QKV 3.
  CHECK(near(times(streams[0]), {{0, 0.3}, {0.3, 1.5}, {1.5, 2.7}, {2.7, 3.6}, {3.6, 10}}));
  CHECK(near(times(streams[1]), {{0, 0.4}, {0.4, 2.0}, {2.0, 3.6}, {3.6, 4.8}, {5.05, 8.05}}));
  CHECK(near(times(streams[2]), {{0, 4.8}, {4.8, 5.05}}));
  overlap.ways.rng_exposed = 0;
  overlap.ways.rng_slowed = 2.5;
  CHECK(near(times(streams_of(overlap)[2]), {{0, 2.5}}));
}

TEST_CASE("shapes too large are refused") {
  const DropoutShape shape{.batch = 1 << 20, .heads = 1 << 20, .seq = 1 << 20};
  CHECK_THAT(
      test::message_of([&] { static_cast<void>(overlap_of(shape, {}, builtin("paper"), false)); },
                       ErrorKind::limit),
      Catch::Contains("2^60"));
}

}  // namespace
}  // namespace stagger::block
