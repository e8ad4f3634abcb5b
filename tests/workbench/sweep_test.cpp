#include "workbench/block/sweep.hpp"

#include "core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/block/overlap.hpp"
#include "workbench/block/transformer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace stagger::block {
namespace {

Calibration papers_calibration() {
  return read_calibration(find_builtin(builtin_calibrations(), "paper"), "paper");
}

TEST_CASE("a sweep is read strictly") {
  const SweepRange range = parse_sweep("seq=2048:65536,heads=48,64,96,128");
  CHECK(range.first_seq == 2048);
  CHECK(range.last_seq == 65536);
  CHECK(range.heads == std::vector<std::int64_t>{48, 64, 96, 128});
  CHECK(parse_sweep("heads=4,seq=7").last_seq == 7);
  CHECK(sweep(range, {}, {}, papers_calibration(), false).size() == 4 * 6);
  for (const char* text : {"", "seq=1:2", "heads=3", "seq=2:1,heads=3", "seq=1:2,heads=",
                           "seq=a,heads=1", "seq=1:2:3,heads=1", "seq=1,heads=1,x=2",
                           "seq=0,heads=1", "48,seq=1", "seq=1:2,heads=3,", "heads=3,seq=1:2,4"}) {
    CAPTURE(text);
    static_cast<void>(
        test::message_of([&] { static_cast<void>(parse_sweep(text)); }, ErrorKind::usage));
  }
  const auto refused = [](const char* text) {
    return test::message_of([&] { static_cast<void>(parse_sweep(text)); }, ErrorKind::usage);
  };
  CHECK_THAT(refused("seq=1:2,heads=1,heads=2,seq=5:9"), Catch::Contains("seq= is given twice"));
  CHECK_THAT(refused("seq=1,heads=48,96,48"), Catch::Contains("heads=48 is given twice"));
  CHECK(parse_sweep("heads=1,seq=5,heads=2").heads == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("a sweep's picture says where its curves end") {
  const auto picture = [](std::int64_t first, std::int64_t last) {
    return sweep_svg("", {.first_seq = first, .last_seq = last, .heads = {48}}, {}, {},
                     papers_calibration(), false);
  };
  CHECK_THAT(picture(2048, 5000), Catch::Contains(">4096<") && Catch::Contains(">5000<"));
  // Too near for two numbers: the end's is there.
  CHECK_THAT(picture(2048, 4200), !Catch::Contains(">4096<") && Catch::Contains(">4200<"));
  CHECK_THAT(picture(2048, 8192), Catch::Contains(">4096<") && Catch::Contains(">8192<"));
  // One sequence is in the middle, with a box that has its region (x is 85) and no strip.
  const std::string single = picture(4096, 4096);
  CHECK_THAT(single, Catch::Contains("x=\"385.00\" y=\"358.00\" text-anchor=\"middle\">4096<"));
  CHECK_THAT(single, Catch::Contains("<rect x=\"361.00\" y=\"384.00\" width=\"48.00\""));
  CHECK_THAT(single, Catch::Contains("font-size=\"10\">2<"));
  CHECK_THAT(single, !Catch::Contains("width=\"630.00\""));
}

TEST_CASE("a sweep takes the longest sequence, as many heads as there are and 16 numbers of them") {
  const std::string most = std::to_string(std::int64_t{1} << 26);
  const std::string heads = std::to_string(std::int64_t{1} << 24);
  const SweepRange range = parse_sweep("seq=1:" + most + ",heads=" + heads);
  CHECK(range.last_seq == std::int64_t{1} << 26);
  CHECK(range.heads.front() == std::int64_t{1} << 24);
  CHECK(parse_sweep("seq=5:5,heads=1").last_seq == 5);
  const auto refused = [](const std::string& text) {
    return test::message_of([&] { static_cast<void>(parse_sweep(text)); }, ErrorKind::usage);
  };
  CHECK_THAT(refused("seq=67108865,heads=1"), Catch::Contains("no number from 1 to 67108864"));
  CHECK_THAT(refused("seq=1,heads=16777217"), Catch::Contains("no number from 1 to 16777216"));
  std::string text = "seq=1,heads=1";
  for (int number = 2; number <= 16; ++number)
    text += "," + std::to_string(number);
  CHECK(parse_sweep(text).heads.size() == 16);
  CHECK_THAT(refused(text + ",17"), Catch::Contains("more than 16 numbers of heads"));
}

}  // namespace
}  // namespace stagger::block
