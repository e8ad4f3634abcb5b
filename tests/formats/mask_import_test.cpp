// What no single format asks for.

#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/refusal.hpp"

namespace stagger::formats {
namespace {

TEST_CASE("an answer that a format does not ask for is refused") {
  CHECK(
      refusal_of(bundle_of({{"kv_num_blocks", ints({1}, {1})}, {"kv_indices", ints({1, 1}, {0})}}),
                 {.causal = true}) == "--mask-causal means nothing to flex, which says itself");
  const Bundle slices =
      bundle_of({{"q_ranges", ints({1, 2}, {0, 4})}, {"k_ranges", ints({1, 2}, {0, 4})}});
  CHECK(refusal_of(slices, {.head = 0}) ==
        "--mask-head means nothing to magi, which has one mask for all");
  Bundle columns = bundle_of({{"startend_row_indices", ints({1, 1, 4, 1}, {4, 4, 4, 4})}});
  columns.words["causal"] = "true";
  CHECK_THROWS_WITH(read_mask_file(write_safetensors(columns), "x", {.causal = false}),
                    "--mask-causal false, where the file says the other");
  CHECK_THROWS_WITH(read_mask_file(R"({"kind": "full"})", "x", {.head = 1}),
                    Catch::Contains("--mask-head means nothing to a mask description of ours"));
}

TEST_CASE("a file that is named like a container and is none is refused as what it is not") {
  for (const auto& [name, what] :
       {std::pair("x.npz", "x.npz: no zip archive"),
        std::pair("x.npy", "x.npy: no array of numpy's"),
        std::pair("x.safetensors", "x.safetensors: no file of safetensors")}) {
    for (const char* text : {"", "kv_num_blocks", R"({"kind": "causal"})"}) {
      CAPTURE(name, text);
      CHECK_THROWS_WITH(read_mask_file(text, name, {}), what);
    }
    // It is the first bytes that say what a file is.
    CHECK(container_of(write_npz({}), name) == Container::npz);
    CHECK(container_of(write_safetensors({}), name) == Container::safetensors);
    CHECK(read_mask_file(R"({"kind": "causal"})", name, {.format = "stagger"}).mask ==
          make_mask("causal"));
  }
  CHECK(container_of("x.npz", "x.json") == Container::other);
  CHECK(container_of("", "npz") == Container::other);
}

TEST_CASE("a description of ours is read as before, and an unknown format named") {
  const ImportedMask own =
      read_mask_file(R"({"kind": "sliding", "left": 5, "right": 0})", "x.json", {});
  CHECK(own.mask == parse_mask("sliding:left=5,right=0"));
  CHECK(own.mask.origin.format.empty());
  CHECK_THROWS_WITH(read_mask_file("{}", "x.json", {.format = "flx"}),
                    Catch::Contains("unknown mask format 'flx'; did you mean flex"));
  CHECK_THROWS_WITH(read_mask_file("{\"a\": 1}", "x.json", {}),
                    Catch::Contains("no mask that is known: it has a"));
}

TEST_CASE("words that are metadata say true and false in three ways each, and nothing else") {
  Bundle bundle = bundle_of({{"startend_row_indices", ints({1, 1, 2, 2}, {2, 2, 2, 2})}});
  const auto causal = [&](const std::string& word) {
    bundle.words["causal"] = word;
    return test::said([&] {
      const ImportedMask imported = read_mask_file(write_safetensors(bundle), "x", {});
      return std::string(imported.mask.boolean("causal") ? "causal" : "two-way");
    });
  };
  for (const char* word : {"true", "True", "1"})
    CHECK(causal(word) == "causal");
  for (const char* word : {"false", "False", "0"})
    CHECK(causal(word) == "two-way");
  for (const char* word : {"", "TRUE", "no", "2", "false "})
    CHECK(causal(word).find("is neither true nor false") != std::string::npos);
}

}  // namespace
}  // namespace stagger::formats
