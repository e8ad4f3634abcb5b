// Letters and numbers against their definitions, all of them.

#include "core/text.hpp"

#include "core/printable.hpp"
#include "core/time_unit.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <cstdint>
#include <string>

namespace stagger {
namespace {

/// A number's bits after a mark of so many bytes, whether that is its shortest form or not.
std::string encoded(std::uint32_t code, int bytes) {
  if (bytes == 1) return {static_cast<char>(code)};
  constexpr std::uint32_t kMarks[] = {0, 0, 0xc0, 0xe0, 0xf0};
  std::string text;
  for (int left = bytes - 1; left > 0; --left)
    text += static_cast<char>(0x80U | (code >> (6 * (left - 1)) & 0x3fU));
  return static_cast<char>(kMarks[bytes] | code >> (6 * (bytes - 1))) + text;
}

int shortest(std::uint32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

TEST_CASE("every character but controls and surrogates is shown, in its shortest form alone") {
  const std::string replacement = "\xef\xbf\xbd";
  for (std::uint32_t code = 0; code <= 0x10ffff; ++code) {
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    const std::string character = encoded(code, shortest(code));
    // The bytes of a surrogate are no UTF-8, one by one; a control character is one.
    std::string wanted = character;
    if (control) wanted = replacement;
    if (surrogate) wanted = replacement + replacement + replacement;
    if (printable("a" + character + "b") != "a" + wanted + "b") {
      CAPTURE(code);
      REQUIRE(printable("a" + character + "b") == "a" + wanted + "b");
    }
    if (code % 7 != 0 && code > 0x900) continue;
    const std::string other = control || surrogate ? std::string(surrogate ? 3U : 1U, '?')
                              : code < 0x80        ? character
                                                   : "?";
    if (printable_ascii(character) != other) {
      CAPTURE(code);
      REQUIRE(printable_ascii(character) == other);
    }
  }
  for (int bytes = 2; bytes <= 4; ++bytes) {
    for (std::uint32_t code = 0; code < 0x10000 && shortest(code) < bytes; code += 3) {
      std::string wanted;
      for (int byte = 0; byte < bytes; ++byte)
        wanted += replacement;
      CAPTURE(bytes, code);
      REQUIRE(printable(encoded(code, bytes)) == wanted);
    }
  }
}

TEST_CASE("what is cut short, or goes on wrongly, is replaced byte by byte") {
  const std::string replacement = "\xef\xbf\xbd";
  for (const std::uint32_t code : {0xa9U, 0x7ffU, 0x20acU, 0xfffdU, 0x1f600U, 0x10ffffU}) {
    const std::string character = encoded(code, shortest(code));
    for (std::size_t length = 1; length < character.size(); ++length) {
      std::string wanted;
      for (std::size_t byte = 0; byte < length; ++byte)
        wanted += replacement;
      CAPTURE(code, length);
      CHECK(printable(character.substr(0, length)) == wanted);
      CHECK(printable(character.substr(0, length) + "x") == wanted + "x");
      // Bytes around those that may go on: 0x7f, 0xc0.
      CHECK(printable(character.substr(0, length) + '\x7f') == wanted + replacement);
      CHECK(printable(character.substr(0, length) + '\xc0') == wanted + replacement);
    }
  }
  for (const int byte : {0x80, 0xbf, 0xc0, 0xc1, 0xf5, 0xff}) {
    CAPTURE(byte);
    const std::string text = {static_cast<char>(byte), '\xbf'};
    CHECK(printable(text) == replacement + replacement);
  }
}

/// A number of units by long division, digit by digit.
std::string divided(Ticks time, Ticks unit, int decimals) {
  __extension__ using Wide = unsigned __int128;
  Wide size = time < 0 ? Wide{0} - static_cast<Wide>(time) : static_cast<Wide>(time);
  Wide scale = 1;
  for (int decimal = 0; decimal < decimals; ++decimal)
    scale *= 10;
  Wide steps = (2 * size * scale + static_cast<Wide>(unit)) / (2 * static_cast<Wide>(unit));
  std::string fraction;
  for (int decimal = 0; decimal < decimals; ++decimal) {
    fraction.insert(fraction.begin(), static_cast<char>('0' + static_cast<int>(steps % 10)));
    steps /= 10;
  }
  std::string whole;
  int digits = 0;
  do {
    if (digits > 0 && digits % 3 == 0) whole.insert(whole.begin(), ',');
    whole.insert(whole.begin(), static_cast<char>('0' + static_cast<int>(steps % 10)));
    ++digits;
    steps /= 10;
  } while (steps > 0);
  return (time < 0 ? "-" : "") + whole + (decimals > 0 ? "." + fraction : "");
}

TEST_CASE("times in every unit are what long division gives") {
  test::Random random(test::seed(57));
  const TimeUnit units[] = {TimeUnit{}, unit_of_ns(1), unit_of_ns(10'000), unit_of_ns(100'000'000)};
  for (int round = 0; round < 20'000; ++round) {
    const std::int64_t bits = random.between(0, 62);
    Ticks time = random.between(0, (std::int64_t{1} << bits) - 1) * (random.chance(4) ? -1 : 1);
    if (random.chance(4)) time = (time / 1'000'000) * 1'000'000 + random.between(-501, 501);
    for (const TimeUnit& unit : units) {
      const std::string wanted = divided(time, unit.ticks, unit.decimals);
      CAPTURE(time, unit.name);
      REQUIRE(unit.number(time) == wanted);
      std::string mark = wanted;
      if (mark.find('.') != std::string::npos) {
        while (mark.back() == '0')
          mark.pop_back();
        if (mark.back() == '.') mark.pop_back();
      }
      REQUIRE(unit.mark(time) == mark);
      REQUIRE(unit.text(time) == wanted + " " + (time == unit.ticks ? unit.one : unit.name));
    }
  }
  for (const Ticks time : {INT64_MAX, INT64_MIN, INT64_MIN + 1}) {
    for (const TimeUnit& unit : units)
      CHECK(unit.number(time) == divided(time, unit.ticks, unit.decimals));
  }
}

TEST_CASE("a unit suits times up to ten thousand, then hundred million nanoseconds") {
  CHECK(std::string(unit_of_ns(9'999).name) == "ns");
  CHECK(std::string(unit_of_ns(10'000).ascii) == "us");
  CHECK(std::string(unit_of_ns(99'999'999).ascii) == "us");
  CHECK(std::string(unit_of_ns(100'000'000).name) == "ms");
  CHECK(std::string(unit_of("ns", 5).name) == "ns");
  CHECK(std::string(unit_of("ticks", 100'000'000).name) == "ticks");
}

TEST_CASE("bytes are written in a unit that leaves at most three digits before the point") {
  CHECK(decimal_bytes(0) == "0 bytes");
  CHECK(decimal_bytes(1) == "1 byte");
  CHECK(decimal_bytes(999) == "999 bytes");
  CHECK(decimal_bytes(1'000) == "1.0 kB");
  CHECK(decimal_bytes(1'049) == "1.0 kB");
  CHECK(decimal_bytes(1'050) == "1.1 kB");
  CHECK(decimal_bytes(32'768) == "32.8 kB");
  CHECK(decimal_bytes(999'949) == "999.9 kB");
  CHECK(decimal_bytes(999'950) == "1.0 MB");
  CHECK(decimal_bytes(51'736'832) == "51.7 MB");
  CHECK(decimal_bytes(17'860'000'000) == "17.9 GB");
  CHECK(decimal_bytes(INT64_MAX) == "9.2 EB");
  for (std::int64_t bytes = 1; bytes < INT64_MAX / 10; bytes *= 10)
    CHECK(decimal_bytes(bytes).size() <= 9);
}

}  // namespace
}  // namespace stagger
