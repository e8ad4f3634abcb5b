#include "core/printable.hpp"

#include "tests/support/catch.hpp"

namespace stagger {
namespace {

using namespace std::string_literals;

const std::string kReplaced = "\xef\xbf\xbd";

TEST_CASE("letters of any language are printable") {
  for (const std::string& text :
       {"mine"s, ""s, " ~"s, "Grün, 表, 🙂"s, "\xc2\xa0"s, "\xf4\x8f\xbf\xbf"s})
    CHECK(printable(text) == text);
  CHECK(printable_ascii("Grün, 表, 🙂") == "Gr?n, ?, ?");
}

TEST_CASE("what is XML's own is written by name") {
  CHECK(printable_xml("a & \"b\" <c>'s\x1b") == "a &amp; &quot;b&quot; &lt;c&gt;'s" + kReplaced);
}

TEST_CASE("what steers a terminal is not printable") {
  CHECK(printable("a\x1b[31mb") == "a" + kReplaced + "[31mb");
  CHECK(printable("\0\a\n\x7f"s) == kReplaced + kReplaced + kReplaced + kReplaced);
  CHECK(printable("\xc2\x9b"
                  "31m") == kReplaced + "31m");  // CSI as one C1 character
  CHECK(printable("\xc2\x80") == kReplaced);
  CHECK(printable_ascii("\x1b") == "?");
}

TEST_CASE("what is not UTF-8 is not printable, byte by byte") {
  for (const char* bytes : {"\x80", "\xbf", "\xc0", "\xc1", "\xf5", "\xff", "\xc3", "\xe2"})
    CHECK(printable(bytes) == kReplaced);
  CHECK(printable("\xc0\xaf") == kReplaced + kReplaced);                  // overlong
  CHECK(printable("\xe0\x9f\xbf") == kReplaced + kReplaced + kReplaced);  // overlong
  CHECK(printable("\xed\xa0\x80") == kReplaced + kReplaced + kReplaced);  // a surrogate
  CHECK(printable("\xf4\x90\x80\x80").size() == 4 * kReplaced.size());    // above U+10FFFF
  CHECK(printable("\xe2\x82x") == kReplaced + kReplaced + "x");           // cut short
}

}  // namespace
}  // namespace stagger
