// Blocks that are there or not: FlashInfer's rows and boolean masks.

#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"

#include <string>
#include <vector>

namespace stagger::formats {
namespace {

TEST_CASE("FlashInfer's rows are read, with a mask of each block and without") {
  Bundle bundle =
      bundle_of({{"indptr", ints({4}, {0, 1, 3, 5})}, {"indices", ints({5}, {2, 0, 2, 1, 2})}});
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{".f.", "..f", "fff"});
  Tensor mask{
      .dtype = Dtype::boolean, .shape = {5, 1, 2}, .elements = {1, 1, 0, 1, 0, 0, 1, 1, 1, 0}};
  NamedTensor named{.name = "mask"};
  named.tensor = mask;
  bundle.tensors.push_back(named);
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{".p.", "..f", "f.p"});
  CHECK(refusal_of(bundle_of({{"indptr", ints({2}, {0, 2})}, {"indices", ints({2}, {1, 1})}}))
            .find("block row 0 has column 1 twice") != std::string::npos);
  CHECK(refusal_of(bundle_of({{"indptr", ints({2}, {0, 3})}, {"indices", ints({2}, {1, 1})}}))
            .find("indptr goes upwards") != std::string::npos);
}

TEST_CASE("boolean block masks are read, causal too, with tiles that are not square") {
  const Bundle bundle = bundle_of({{"mask_id", Tensor{Dtype::int8,
                                                      {1, 2, 2, 4},
                                                      {1, 1, 1, 0, 1, 1, 1, 1,  //
                                                       1, 1, 1, 0, 1, 1, 1, 1}}}});
  CHECK(rows_of(read(bundle, {.shape = {.q = 4, .kv = 2}})) ==
        std::vector<std::string>{"ff", "ff", "ff", ".f"});
  const ImportedMask causal = read(bundle, {.shape = {.q = 4, .kv = 2}, .causal = true});
  CHECK(rows_of(causal, {4, 2}) == std::vector<std::string>{"pf", "pf", ".p", ".p"});
  NamedTensor lone;
  lone.tensor = {.dtype = Dtype::boolean, .shape = {1, 2}, .elements = {0, 1}};
  Bundle single;
  single.tensors.push_back(lone);
  CHECK(rows_of(read(single)) == std::vector<std::string>{".", "f"});
  CHECK(refusal_of(bundle_of({{"mask_id", ints({1, 2}, {0, 7})}}))
            .find("mask_id[0,1] = 7, neither 0 nor 1") != std::string::npos);
}

TEST_CASE("boolean block masks of several heads are masks by head, each of them causal too") {
  const Bundle bundle = bundle_of({{"block_mask", ints({2, 2, 2, 2}, {1, 0, 1, 1, 1, 1, 1, 1,  //
                                                                      1, 0, 1, 1, 0, 0, 0, 1})}});
  const ImportedMask plain = read(bundle);
  CHECK(rows_of(plain) == std::vector<std::string>{"ff", ".f", "|", "ff", "ff", "|", "..", ".f"});
  CHECK(plain.mask.integers("heads") == std::vector<std::int64_t>{0, 1, 0, 2});
  CHECK(refusal_of(bundle, {.heads = 8}).find("masks for 2 batches of 2 heads are none") !=
        std::string::npos);
  const ImportedMask causal = read(bundle, {.shape = {.q = 2, .kv = 2}, .causal = true});
  CHECK(rows_of(causal, {2, 2}) ==  // in whole tiles causal leaves of all three what it is
        std::vector<std::string>{"pf", ".p", "|", "..", ".p"});
  CHECK(causal.mask.masks("of").size() == 3);
}

}  // namespace
}  // namespace stagger::formats
