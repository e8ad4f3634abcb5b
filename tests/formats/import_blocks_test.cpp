// Blocks that are there or not: FlashInfer's rows and boolean masks.

#include "core/formats/npy.hpp"
#include "core/limits.hpp"
#include "core/token_mask.hpp"
#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace stagger::formats {
namespace {

/// The mask of each block as FlashInfer packs it: of a block row query by query, of these block by
/// block, in bytes of its own, low bits first.
Bundle packed(Bundle bundle) {
  const Elements indptr = bundle.at("indptr").elements;
  Tensor& mask = bundle.tensors[2].tensor;
  const std::int64_t queries = mask.shape[1];
  const std::int64_t keys = mask.shape[2];
  Elements bytes;
  for (std::size_t row = 0; row + 1 < indptr.size(); ++row) {
    std::string bits;
    for (std::int64_t query = 0; query < queries; ++query) {
      for (std::int64_t block = indptr[row]; block < indptr[row + 1]; ++block) {
        for (std::int64_t key = 0; key < keys; ++key) {
          const std::int64_t place = (block * queries + query) * keys + key;
          bits += mask.elements[static_cast<std::size_t>(place)] != 0 ? '1' : '0';
        }
      }
    }
    for (std::size_t first = 0; first < bits.size(); first += 8) {
      std::string byte = bits.substr(first, 8);
      std::ranges::reverse(byte);
      bytes.push_back(std::stoll(byte, nullptr, 2));
    }
  }
  mask = {.dtype = Dtype::uint8, .shape = {std::ssize(bytes)}, .elements = bytes};
  bundle.tensors[2].name = "packed_mask";
  bundle.tensors.push_back(bundle_of({{"R", ints({}, {queries})}}).tensors[0]);
  bundle.tensors.push_back(bundle_of({{"C", ints({}, {keys})}}).tensors[0]);
  return bundle;
}

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
    REQUIRE(mask_words(read(packed(bundle)).mask) == mask_words(imported.mask));
  }
  CHECK(partial > 20);
}

TEST_CASE("FlashInfer's packed bits fit their blocks, and its mask where both are there") {
  Bundle bundle = bundle_of({{"indptr", ints({3}, {0, 1, 3})},
                             {"indices", ints({3}, {1, 0, 1})},
                             {"R", ints({}, {1})},
                             {"C", ints({}, {3})},
                             {"packed_mask", ints({2}, {0b101, 0b001011})}});
  CHECK(rows_of(read(bundle, {.shape = {.q = 1, .kv = 1}})) ==
        std::vector<std::string>{".f", ".f", "..", "ff", "..", "f."});
  bundle.tensors.push_back(
      bundle_of({{"mask", ints({3, 1, 3}, {1, 0, 1, 1, 1, 0, 1, 0, 0})}}).tensors[0]);
  CHECK(refusal_of(bundle).empty());
  bundle.tensors.back().tensor.elements[7] = 1;
  CHECK(refusal_of(bundle) == "x.npz: mask[2,0,1] is 1, and packed_mask has another bit for it");
  bundle.tensors.pop_back();
  bundle.tensors.back().tensor = ints({2}, {5, 256});
  CHECK(refusal_of(bundle) == "x.npz: packed_mask[1] = 256 is no byte");
  bundle.tensors.back().tensor = ints({1}, {5});
  CHECK(refusal_of(bundle) ==
        "x.npz: packed_mask has 1 bytes, not 2: 3 bits a block, and each block row begins a byte");
  bundle.tensors.erase(bundle.tensors.begin() + 3);
  CHECK(refusal_of(bundle) == "x.npz: packed_mask needs R and C");
}

TEST_CASE("FlashInfer's newer rows have pointers of every KV head into one array") {
  Bundle bundle = bundle_of({{"block_indptr", ints({1, 2, 3}, {0, 1, 3, 3, 4, 6})},
                             {"block_indices", ints({6}, {0, 0, 1, 1, 0, 1})},
                             {"q_block_size", ints({}, {4})},
                             {"kv_block_size", ints({}, {4})},
                             {"seq_len_q", ints({}, {8})},
                             {"seq_len_kv", ints({}, {8})}});
  const ImportedMask plain = read(bundle);
  CHECK(rows_of(plain) == std::vector<std::string>{"ff", ".f", "|", ".f", "ff"});
  CHECK(plain.lengths == Lengths{8, 8});
  const ImportedMask shared = read(bundle, {.heads = 4, .heads_kv = 2});
  CHECK(shared.mask.integers("heads") == std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(rows_of(read(bundle, {.causal = true})) ==
        std::vector<std::string>{"pf", ".p", "|", ".f", ".p"});
  bundle.words["mask_type"] = "causal";
  const std::string named = write_safetensors(bundle);
  CHECK(rows_of(read_mask_file(named, "x.safetensors", {})) ==
        std::vector<std::string>{"pf", ".p", "|", ".f", ".p"});
  bundle.words["mask_type"] = "sliding";
  CHECK_THROWS_WITH(read_mask_file(write_safetensors(bundle), "x.safetensors", {}),
                    "x.safetensors: mask_type = 'sliding' is neither dense nor causal");
  bundle.tensors[0].tensor.elements[5] = 7;
  CHECK(refusal_of(bundle) ==
        "x.npz: block_indptr goes upwards from 0 to the 6 entries of block_indices");
  bundle.tensors[0].tensor.elements[5] = 6;
  bundle.tensors.push_back(bundle_of({{"kv_valid_bits", ints({1, 1}, {255})}}).tensors[0]);
  CHECK(refusal_of(bundle).find("kv_valid_bits is not read") != std::string::npos);
  bundle.tensors.back() = bundle_of({{"mask", ints({6, 4, 4}, Elements(96, 1))}}).tensors[0];
  CHECK(refusal_of(bundle) == "x.npz: a mask of each block is of one mask for all heads");
}

TEST_CASE("FlashInfer's rows are as wide as a request's keys where the file does not say") {
  // Two rows of blocks of 2 x 2; the last column of the first is the second.
  const std::vector<std::pair<std::string, Tensor>> rows = {{"indptr", ints({3}, {0, 1, 3})},
                                                            {"indices", ints({3}, {0, 0, 1})}};
  std::vector<std::pair<std::string, Tensor>> sized = rows;
  sized.insert(sized.end(), {{"R", ints({}, {2})}, {"C", ints({}, {2})}});
  std::vector<std::pair<std::string, Tensor>> paired = rows;
  paired.emplace_back("mask", ints({3, 2, 2}, Elements(12, 1)));
  std::vector<std::pair<std::string, Tensor>> of_heads = {
      {"block_indptr", ints({1, 1, 3}, {0, 1, 3})},
      {"block_indices", ints({3}, {0, 0, 1})},
      {"q_block_size", ints({}, {2})},
      {"kv_block_size", ints({}, {2})}};
  for (const auto& tensors : {rows, sized, paired, of_heads}) {
    const Bundle bundle = bundle_of(tensors);
    CAPTURE(tensors.back().first);
    for (const std::int64_t keys : {0, 3, 4, 5, 8}) {
      const ImportedMask imported =
          read(bundle, {.lengths = {0, keys}, .shape = {.q = 2, .kv = 2}});
      std::vector<std::string> expected = {"ff", ".f"};
      expected.resize(static_cast<std::size_t>(std::max<std::int64_t>((keys + 1) / 2, 2)), "..");
      CAPTURE(keys);
      CHECK(imported.lengths == Lengths{4, keys == 0 ? 4 : keys});
      CHECK(rows_of(imported) == expected);
    }
    CHECK(read(bundle, {.lengths = {3, 8}, .shape = {.q = 2, .kv = 2}}).lengths == Lengths{3, 8});
    CHECK(refusal_of(bundle, {.lengths = {0, 2}, .shape = {.q = 2, .kv = 2}}) ==
          "2 keys are no 2 tiles of 2 tokens, which the file has");
    CHECK(refusal_of(bundle, {.lengths = {1, 4}, .shape = {.q = 2, .kv = 2}}) ==
          "1 query is no 2 tiles of 2 tokens, which the file has");
  }
  sized.emplace_back("N", ints({}, {4}));
  CHECK(refusal_of(bundle_of(sized), {.lengths = {0, 8}}) ==
        "8 keys are asked for, where the file says 4");
}

TEST_CASE("a causal mask that FlashInfer's kernel does not heed beside pairs is said") {
  for (const bool has_pairs : {true, false}) {
    for (const std::string causal : {"", "causal", "dense"}) {
      Bundle bundle = bundle_of({{"indptr", ints({2}, {0, 1})}, {"indices", ints({1}, {0})}});
      if (has_pairs) {
        bundle.tensors.push_back(bundle_of({{"mask", ints({1, 2, 2}, {1, 1, 1, 1})}}).tensors[0]);
      }
      if (!causal.empty()) bundle.words["mask_type"] = causal;
      const ImportedMask imported = read_mask_file(write_safetensors(bundle), "x", {});
      CAPTURE(has_pairs, causal);
      const bool is_causal = causal == "causal";
      CHECK(says(imported, "the file says causal, which is not heeded") ==
            (has_pairs && is_causal));
      CHECK(says(imported, "and causal, bottom-right aligned") == (!has_pairs && is_causal));
    }
  }
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

TEST_CASE("a boolean block mask whose blocks have no size, or that has no tiles, is refused") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [q, kv] : {std::pair<std::int64_t, std::int64_t>{-4, -4},
                              {0, 4},
                              {4, 0},
                              {most, most},
                              {kMaxTokens + 1, 4},
                              {4, kMaxTokens + 1}}) {
    const Bundle bundle = bundle_of(
        {{"block_mask", ints({1, 1}, {1})}, {"BLOCK_SIZE", Tensor{Dtype::int64, {2}, {q, kv}}}});
    CHECK(refusal_of(bundle) == "x.npz: BLOCK_SIZE is " + std::to_string(q) + ", " +
                                    std::to_string(kv) + ", not 1 to 67108864 tokens each");
  }
  const Bundle sized =
      bundle_of({{"block_mask", ints({1, 1}, {1})}, {"BLOCK_SIZE", ints({2}, {4, 8})}});
  CHECK(read(sized).lengths == Lengths{4, 8});
  Bundle scalar;
  scalar.tensors.push_back(bundle_of({{"", ints({}, {1})}}).tensors[0]);
  const std::string bytes = write_npy(scalar.tensors[0].tensor);
  CHECK_THROWS_WITH(read_mask_file(bytes, "x.npy", {}),
                    "x.npy: the array has a shape of [], not 2 to 4 dimensions");
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

TEST_CASE("Video Sparse Attention's lists are read, either way or both, with short KV blocks") {
  // Rows of queries with two of three KV blocks; what lies beyond a count is nothing.
  const Tensor counts = ints({1, 1, 2}, {2, 1});
  const Tensor ids = ints({1, 1, 2, 2}, {2, 0, 1, 9});
  const Tensor key_counts = ints({1, 1, 3}, {1, 1, 1});
  const Tensor key_ids = ints({1, 1, 3, 1}, {0, 1, 0});
  Bundle rows = bundle_of({{"q2k_block_sparse_num", counts}, {"q2k_block_sparse_index", ids}});
  const Bundle columns =
      bundle_of({{"k2q_block_sparse_num", key_counts}, {"k2q_block_sparse_index", key_ids}});
  const std::vector<std::string> expected = {"f.", ".f", "f."};
  const ImportedMask imported = read(rows);
  CHECK(rows_of(imported) == expected);
  CHECK(imported.mask.origin.format == "vsa");
  CHECK(make_problem(imported.mask, imported.lengths, imported.shape, 1, 1).shape ==
        TileShape{.q = 64, .kv = 64});
  CHECK(imported.lengths == Lengths{128, 192});
  CHECK(rows_of(read(columns)) == expected);

  // As wide as the keys that are asked for, or the queries.
  CHECK(rows_of(read(rows, {.lengths = {128, 256}})) ==
        std::vector<std::string>{"f.", ".f", "f.", ".."});
  CHECK(rows_of(read(columns, {.lengths = {192, 192}})) ==
        std::vector<std::string>{"f..", ".f.", "f.."});
  CHECK(refusal_of(rows, {.lengths = {128, 128}}) ==
        "128 keys are no 3 tiles of 64 tokens, which the file has");

  Bundle both = rows;
  both.tensors.insert(both.tensors.end(), columns.tensors.begin(), columns.tensors.end());
  CHECK(rows_of(read(both)) == expected);
  for (const std::size_t absent : {0U, 1U, 2U, 3U}) {  // a way is not passed over for its half
    Bundle half = both;
    half.tensors.erase(half.tensors.begin() + static_cast<std::ptrdiff_t>(absent));
    CHECK(refusal_of(half).find(both.tensors[absent].name + " is missing") != std::string::npos);
  }
  both.tensors.back().tensor.elements = {0, 0, 0};
  CHECK(refusal_of(both).find("tile (kv 1, q 0) is in one of them") != std::string::npos);

  rows.tensors.push_back(
      bundle_of({{"variable_block_sizes", ints({4}, {64, 64, 48, 64})}}).tensors.front());
  CHECK(rows_of(read(rows)) == std::vector<std::string>{"f.", ".f", "p.", ".."});
  CHECK(says(read(rows), "which tokens of a KV block are padding"));
  const auto understands = [](const ImportedMask& mask, const std::string& what) {
    return std::ranges::count(mask.mask.origin.understood, what) == 1;
  };
  CHECK(understands(imported, "every live tile is full"));
  CHECK(understands(read(rows),
                    "every live tile is full, but partial in KV blocks of fewer than "
                    "64 tokens"));
  CHECK(understands(read(columns), "of the transposed lists alone (k2q)"));
  rows.tensors.back().tensor.elements[3] = 65;
  CHECK(refusal_of(rows).find("variable_block_sizes[3] = 65, not 1 to 64") != std::string::npos);
  both.tensors.push_back(
      bundle_of({{"variable_block_sizes", ints({2}, {64, 64})}}).tensors.front());
  CHECK(refusal_of(both).find("variable_block_sizes are 2, and there are 3 KV blocks") !=
        std::string::npos);
}

TEST_CASE("rows of pairs reach 2^26 tokens either way, and no more") {
  constexpr std::int64_t kBlock = 128;
  const auto reaching = [&](std::int64_t column) {
    const Elements seen(kBlock, 1);
    return bundle_of(
        {{"indptr", ints({2}, {0, 1})},
         {"indices", ints({1}, {column})},
         {"mask", {.dtype = Dtype::boolean, .shape = {1, 1, kBlock}, .elements = seen}}});
  };
  const std::int64_t most = kMaxTokens / kBlock - 1;
  CHECK(implied_lengths(read(reaching(most)).mask, {}).kv == kMaxTokens);
  CHECK_THROWS_WITH(read(reaching(most + 1)), Catch::Contains("more than 67108864 tokens"));
}

}  // namespace
}  // namespace stagger::formats
