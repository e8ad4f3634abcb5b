// Blocks that are there or not: FlashInfer's rows and boolean masks.

#include "core/token_mask.hpp"
#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
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
  bundle.tensors.back().tensor.shape = {5, 2, 1};
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{".p.", "..f", "f.p"});
  bundle.tensors.back().tensor.shape = {10, 1, 1};
  CHECK(refusal_of(bundle).find("mask has a shape of [10,1,1], not [5,R,C]") != std::string::npos);
  bundle.tensors.back().name = "packed_mask";
  CHECK(refusal_of(bundle).find("packed_mask is not read: save mask [5,R,C]") != std::string::npos);
  CHECK(refusal_of(bundle_of({{"indptr", ints({2}, {0, 2})}, {"indices", ints({2}, {1, 1})}}))
            .find("block row 0 has column 1 twice") != std::string::npos);
  CHECK(refusal_of(bundle_of({{"indptr", ints({2}, {0, 3})}, {"indices", ints({2}, {1, 1})}}))
            .find("indptr goes upwards") != std::string::npos);
}

TEST_CASE("the pairs of FlashInfer's blocks are kept, whatever the tiles and the order of blocks") {
  test::Random random(17);
  int partial = 0;
  for (int round = 0; round < 60; ++round) {
    const std::int64_t r = random.between(1, 4);
    const std::int64_t c = random.between(1, 4);
    const std::int64_t rows = random.between(1, 4);
    const std::int64_t columns = random.between(1, 4);
    Elements indptr = {0};
    Elements indices;
    Elements pairs;
    std::vector<std::vector<bool>> sees(static_cast<std::size_t>(rows * r),
                                        std::vector<bool>(static_cast<std::size_t>(columns * c)));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = columns - 1; column >= 0; --column) {  // downwards
        if (random.between(0, 2) == 0) continue;
        indices.push_back(column);
        for (std::int64_t pair = 0; pair < r * c; ++pair) {
          pairs.push_back(random.between(0, 1));
          sees[static_cast<std::size_t>(row * r + pair / c)]
              [static_cast<std::size_t>(column * c + pair % c)] = pairs.back() != 0;
        }
      }
      indptr.push_back(std::ssize(indices));
    }
    const Bundle bundle = bundle_of({{"indptr", ints({rows + 1}, indptr)},
                                     {"indices", ints({std::ssize(indices)}, indices)},
                                     {"mask", ints({std::ssize(indices), r, c}, pairs)},
                                     {"M", ints({}, {rows * r})},
                                     {"N", ints({}, {columns * c})}});
    const ImportedMask imported = read(bundle);
    CAPTURE(round, r, c, rows, columns);
    CHECK(imported.shape == TileShape{.q = r, .kv = c});
    for (const TileShape shape : {imported.shape, TileShape{.q = 3, .kv = 2}}) {
      const TokenMask tokens(make_problem(imported.mask, imported.lengths, shape, 1, 1));
      for (std::int64_t query = 0; query < rows * r; ++query) {
        for (std::int64_t key = 0; key < columns * c; ++key) {
          REQUIRE(tokens.sees(query, key) ==
                  sees[static_cast<std::size_t>(query)][static_cast<std::size_t>(key)]);
        }
      }
    }
    partial += std::ranges::count(pairs, 0) > 0 ? 1 : 0;
  }
  CHECK(partial > 20);
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
