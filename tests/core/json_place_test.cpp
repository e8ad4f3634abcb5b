#include "core/json_place.hpp"

#include "tests/support/catch.hpp"

#include <string>
#include <vector>

namespace stagger {
namespace {

TEST_CASE("values of a JSON text are found by their pointers") {
  const std::string text =
      "\xEF\xBB\xBF{\"a\": [1, {\"b\": \"x,]}\\\"\"},\n  [[], [2]]],\n \"c\": {\"a\": null}}";
  const std::vector<std::string> pointers = {"",     "/a", "/a/0", "/a/1/b",   "/a/2/1/0", "/c/a",
                                             "/a/3", "/b", "/a/2", "/a/1/b/0", "/a/2/1",   "/c"};
  const std::vector<TextPlace> expected = {{1, 1}, {1, 7}, {1, 8}, {1, 17}, {2, 9}, {3, 13},
                                           {0, 0}, {0, 0}, {2, 3}, {0, 0},  {2, 8}, {3, 7}};
  CHECK(json_places(text, pointers) == expected);
}

}  // namespace
}  // namespace stagger
