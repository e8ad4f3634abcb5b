#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/block/kernels.hpp"
#include "workbench/block/overlap.hpp"
#include "workbench/block/sweep.hpp"
#include "workbench/block/transformer.hpp"

#include <algorithm>
#include <iterator>
#include <string>

namespace stagger::block {
namespace {

TEST_CASE("a calibration is read strictly") {
  const std::string good = find_builtin(builtin_calibrations(), "h200-fa2");
  const auto refused = [&](const std::string& from, const std::string& to) {
    const std::string text = test::replaced(good, from, to);
    return test::message_of([&] { static_cast<void>(read_calibration(text, "c.json")); },
                            ErrorKind::invalid_input);
  };
  CHECK_THAT(refused("\"tflops\": 710", "\"tflops\": 710, \"ps\": 1"), Catch::Contains("/gemm/0"));
  CHECK_THAT(refused("\"tflops\": 710", "\"tflops\": 0"), Catch::Contains("/gemm/0/tflops"));
  CHECK_THAT(refused("\"rounds\": 10", "\"round\": 10"), Catch::Contains("unknown key 'round'"));
  CHECK_THAT(refused("\"gemm\": 1.04", "\"gemm\": 0.5"), Catch::Contains("/slowdown/gemm"));
  CHECK_THAT(refused("{\"exposed\": 0.9757}", "{}"), Catch::Contains("/fused/forward"));
}

TEST_CASE("files with mistakes end in a message, and never otherwise") {
  test::Random random(test::seed(17));
  constexpr const char* kPieces[] = {
      "0",   "-1",   "1e300", "1e-300", "null", "[]", "{}", "\"x\"", "9223372036854775807",
      "255", "1024", "true",  "0.5"};
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto files = round % 2 == 0 ? builtin_models() : builtin_calibrations();
    std::string text =
        files[static_cast<std::size_t>(random.between(0, std::ssize(files) - 1))].text;
    for (std::int64_t change = random.between(1, 3); change > 0; --change) {
      // A number is replaced by something else.
      std::size_t place = static_cast<std::size_t>(random.between(0, std::ssize(text) - 1));
      place = text.find_first_of("0123456789", place);
      if (place == std::string::npos) continue;
      const std::size_t end = std::min(text.find_first_not_of("0123456789.", place), text.size());
      text.replace(place, end - place, kPieces[random.between(0, std::size(kPieces) - 1)]);
    }
    CAPTURE(text);
    try {
      if (round % 2 == 0) {
        const Transformer model = read_transformer(text, "model.json");
        static_cast<void>(kernels_of(model, random.between(1, 4)));
      } else {
        const Calibration calibration = read_calibration(text, "calibration.json");
        const SweepRange range{.first_seq = 64, .last_seq = 256, .heads = {3}};
        const std::string picture = sweep_svg("", range, {}, {}, calibration, true);
        CHECK(picture.size() < 200'000);
        static_cast<void>(borders_of(ratios_of(calibration, {}, 128), calibration.slowdown));
        for (const CtaSize& gemm : calibration.gemms)
          static_cast<void>(room_of(calibration.sm, gemm, calibration.rng_kernel.value()));
      }
      ++read;
    } catch (const Error&) {
      continue;
    }
  }
  CHECK(read > 100);
}

}  // namespace
}  // namespace stagger::block
