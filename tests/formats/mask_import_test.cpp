#include "core/formats/mask_import.hpp"

#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/problem.hpp"
#include "core/token_mask.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace stagger::formats {
namespace {

using Elements = std::vector<std::int64_t>;

Bundle bundle_of(std::vector<std::pair<std::string, Tensor>> tensors) {
  Bundle bundle;
  for (auto& [name, tensor] : tensors) {
    NamedTensor named{.name = name};
    named.tensor = std::move(tensor);
    bundle.tensors.push_back(std::move(named));
  }
  return bundle;
}

Tensor ints(std::vector<std::int64_t> shape, Elements elements) {
  return {.dtype = Dtype::int32, .shape = std::move(shape), .elements = std::move(elements)};
}

ImportedMask read(const Bundle& bundle, const MaskFileRequest& request = {}) {
  return read_mask_file(write_npz(bundle), "x.npz", request);
}

std::vector<std::string> rows_of(const ImportedMask& imported, TileShape shape = {}) {
  if (imported.shape.q > 0) shape = imported.shape;
  const Problem problem = make_problem(imported.mask, imported.lengths, shape, 1, 1);
  return tiles_mask(problem.grid).strings("rows");
}

std::string refusal(const Bundle& bundle, const MaskFileRequest& request = {}) {
  try {
    static_cast<void>(rows_of(read(bundle, request)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool says(const ImportedMask& imported, const std::string& words) {
  const auto has = [&](const std::vector<std::string>& lines) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  };
  return has(imported.mask.origin.understood) || has(imported.mask.origin.lost);
}

// 16 tokens, tiles of 2, a window of 5 before the query and none behind it.
const std::vector<std::string> kW8 = {"pffp....", ".pffp...", "..pffp..", "...pffp.",
                                      "....pffp", ".....pff", "......pf", ".......p"};

/// The lists as formats.md has them, with any padding.
Bundle w8_flex(std::int64_t width, std::int64_t padding) {
  const std::vector<Elements> partial = {{0}, {1}, {2}, {0, 3}, {1, 4}, {2, 5}, {3, 6}, {4, 7}};
  const std::vector<Elements> full = {{}, {0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}};
  const auto list = [&](const std::vector<Elements>& rows, Elements& counts) {
    Elements ids;
    for (Elements row : rows) {
      counts.push_back(std::ssize(row));
      row.resize(static_cast<std::size_t>(width), padding);
      ids.insert(ids.end(), row.begin(), row.end());
    }
    return ids;
  };
  Elements partial_counts;
  Elements full_counts;
  const Elements partial_ids = list(partial, partial_counts);
  const Elements full_ids = list(full, full_counts);
  return bundle_of({{"kv_num_blocks", ints({1, 1, 8}, partial_counts)},
                    {"kv_indices", ints({1, 1, 8, width}, partial_ids)},
                    {"full_kv_num_blocks", ints({1, 1, 8}, full_counts)},
                    {"full_kv_indices", ints({1, 1, 8, width}, full_ids)},
                    {"seq_lengths", ints({2}, {16, 16})},
                    {"BLOCK_SIZE", ints({2}, {2, 2})}});
}

TEST_CASE("FlexAttention's lists are read, padded or compact") {
  for (const auto& [width, padding] : {std::pair{8, -1}, std::pair{8, 7}, std::pair{2, -1}}) {
    const ImportedMask imported = read(w8_flex(width, padding));
    CHECK(rows_of(imported) == kW8);
    CHECK(imported.lengths == Lengths{16, 16});
    CHECK(imported.shape == TileShape{2, 2});
    CHECK(imported.mask.origin.format == "flex");
    CHECK(says(imported, "ragged rule flex"));
    CHECK(says(imported, "mask_mod"));
  }
}

TEST_CASE("FlexAttention's lists may lack lengths, the full ones or the leading dimensions") {
  Bundle bundle = w8_flex(2, -1);
  std::erase_if(bundle.tensors, [](const NamedTensor& each) { return each.name == "seq_lengths"; });
  CHECK(rows_of(read(bundle)) == kW8);
  CHECK(says(read(bundle), "no seq_lengths"));
  const ImportedMask partial = read(bundle_of({{"kv_num_blocks", ints({2}, {1, 2})},
                                               {"kv_indices", ints({2, 2}, {0, 5, 1, 0})},
                                               {"BLOCK_SIZE", ints({2}, {4, 8})}}));
  CHECK(rows_of(partial) == std::vector<std::string>{"pp", ".p"});
  CHECK(partial.lengths == Lengths{8, 16});
  CHECK(says(partial, "every live tile is partial"));
  // pytorch issue 153344: three rows of one entry each are three KV tiles.
  CHECK(rows_of(read(bundle_of({{"kv_num_blocks", ints({1, 1, 3}, {1, 1, 1})},
                                {"kv_indices", ints({1, 1, 3, 1}, {0, 1, 2})}}))) ==
        std::vector<std::string>{"p..", ".p.", "..p"});
  // pytorch pull 188208: ids beyond the count mean nothing.
  CHECK(rows_of(read(bundle_of({{"kv_num_blocks", ints({1, 1, 1}, {1})},
                                {"kv_indices", ints({1, 1, 1, 5}, {2, 0, 1, 3, 4})},
                                {"full_kv_num_blocks", ints({1, 1, 1}, {2})},
                                {"full_kv_indices", ints({1, 1, 1, 5}, {0, 3, 1, 2, 4})},
                                {"seq_lengths", ints({2}, {128, 640})},
                                {"BLOCK_SIZE", ints({2}, {128, 128})}}))) ==
        std::vector<std::string>{"f", ".", "p", "f", "."});
}

TEST_CASE("FlexAttention's lists that contradict themselves are refused with the entry") {
  const auto with = [](const char* name, std::size_t at, std::int64_t value) {
    Bundle bundle = w8_flex(2, -1);
    for (NamedTensor& each : bundle.tensors) {
      if (each.name == name) each.tensor.elements[at] = value;
    }
    return refusal(bundle);
  };
  CHECK(with("kv_indices", 6, 8) == "x.npz: kv_indices[0,0,3,0] = 8 is no KV tile; there are 8");
  CHECK(with("kv_indices", 6, -1) == "x.npz: kv_indices[0,0,3,0] = -1 is no KV tile; there are 8");
  CHECK(with("kv_indices", 7, 0) ==
        "x.npz: kv_indices[0,0,3,1] = 0: that tile of this row is listed twice");
  CHECK(with("full_kv_indices", 6, 3) ==
        "x.npz: full_kv_indices[0,0,3,0] = 3: that tile of this row is listed twice");
  CHECK(with("kv_num_blocks", 3, 3) ==
        "x.npz: kv_num_blocks[0,0,3] = 3, and kv_indices has room for 2");
  Bundle bundle = w8_flex(2, -1);
  NamedTensor counts{.name = "q_num_blocks"};
  counts.tensor = ints({1, 1, 8}, Elements(8, 0));
  NamedTensor ids{.name = "q_indices"};
  ids.tensor = ints({1, 1, 8, 1}, Elements(8, 0));
  bundle.tensors.push_back(counts);
  bundle.tensors.push_back(ids);
  CHECK(refusal(bundle).find("q_indices are not the transpose of kv_indices: tile (kv 0, q 0)") !=
        std::string::npos);
  CHECK(refusal(bundle_of({{"arr_0", ints({1}, {1})}, {"arr_1", ints({1}, {1})}}))
            .find("save them by name") != std::string::npos);
}

TEST_CASE("masks that differ by head are chosen among") {
  const Bundle bundle = bundle_of({{"kv_num_blocks", ints({1, 2, 2}, {1, 1, 1, 1})},
                                   {"kv_indices", ints({1, 2, 2, 1}, {0, 1, 1, 0})}});
  CHECK(refusal(bundle).find("batch 0, head 0 and batch 0, head 1 in row 0") != std::string::npos);
  CHECK(refusal(bundle).find("--mask-head 0 to 1") != std::string::npos);
  CHECK(rows_of(read(bundle, {.head = 1})) == std::vector<std::string>{".p", "p."});
  CHECK(refusal(bundle, {.head = 2}).find("0 to 1") != std::string::npos);
  // The same tiles in another order are the same mask.
  const Bundle same = bundle_of({{"kv_num_blocks", ints({2, 1, 1}, {2, 2})},
                                 {"kv_indices", ints({2, 1, 1, 2}, {0, 1, 1, 0})}});
  CHECK(says(read(same), "the same mask for 2 batches of 1 heads"));
}

TEST_CASE("blocks are cut into the tiles that are asked for") {
  const Bundle bundle = bundle_of({{"kv_num_blocks", ints({2}, {1, 1})},
                                   {"kv_indices", ints({2, 1}, {0, 1})},
                                   {"full_kv_num_blocks", ints({2}, {0, 1})},
                                   {"full_kv_indices", ints({2, 1}, {0, 0})},
                                   {"seq_lengths", ints({2}, {7, 8})},
                                   {"BLOCK_SIZE", ints({2}, {4, 4})}});
  const ImportedMask imported = read(bundle, {.shape = {.q = 2, .kv = 4}});
  CHECK(rows_of(imported) == std::vector<std::string>{"ppff", "..pp"});
  CHECK(imported.shape == TileShape{2, 4});
  CHECK(says(imported, "each block is 1 x 2 tiles"));
  CHECK(refusal(bundle, {.shape = {.q = 3, .kv = 4}}).find("does not divide") != std::string::npos);
  CHECK(refusal(bundle, {.lengths = {9, 8}}).find("where the file says 7") != std::string::npos);
}

Bundle w8_fa4(bool backward) {
  const std::vector<Elements> partial =
      backward ? std::vector<Elements>{{0, 3}, {1, 4}, {2, 5}, {3, 6}, {4, 7}, {5}, {6}, {7}}
               : std::vector<Elements>{{0}, {1}, {2}, {0, 3}, {1, 4}, {2, 5}, {3, 6}, {4, 7}};
  const std::vector<Elements> full =
      backward ? std::vector<Elements>{{1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7}, {}}
               : std::vector<Elements>{{}, {0}, {0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}};
  const std::string prefix = backward ? "backward." : "forward.";
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [name, rows] : {std::pair{"mask", &partial}, std::pair{"full", &full}}) {
    Elements counts;
    Elements ids;
    for (Elements row : *rows) {
      counts.push_back(std::ssize(row));
      row.resize(2, 0);
      ids.insert(ids.end(), row.begin(), row.end());
    }
    tensors.emplace_back(prefix + name + "_block_cnt", ints({1, 1, 8}, counts));
    tensors.emplace_back(prefix + name + "_block_idx", ints({1, 1, 8, 2}, ids));
  }
  tensors.emplace_back(prefix + "block_size", ints({2}, {2, 2}));
  return bundle_of(std::move(tensors));
}

TEST_CASE("FlashAttention-4's lists of either pass are read, and held against each other") {
  CHECK(rows_of(read(w8_fa4(true))) == kW8);
  CHECK(rows_of(read(w8_fa4(false))) == kW8);
  Bundle both = w8_fa4(true);
  for (const NamedTensor& each : w8_fa4(false).tensors)
    both.tensors.push_back(each);
  CHECK(rows_of(read(both)) == kW8);
  CHECK(says(read(both), "the forward pass's lists are the same tiles"));
  for (NamedTensor& each : both.tensors) {
    if (each.name == "forward.full_block_cnt") each.tensor.elements[7] = 1;
  }
  CHECK(refusal(both).find("tile (kv 6, q 7) is another in them") != std::string::npos);
  // Without a prefix lists are the backward pass's where they have a write order.
  Bundle plain = w8_fa4(true);
  for (NamedTensor& each : plain.tensors)
    each.name = each.name.substr(9);
  CHECK(says(read(plain), "the forward pass's lists"));
  plain.words["spt"] = "true";
  const ImportedMask spt = read_mask_file(write_safetensors(plain), "x", {});
  CHECK(says(spt, "the backward pass's lists"));
  CHECK(rows_of(spt) == kW8);
}

TEST_CASE(
    "lists by offsets are read as core's csr is, and FlashAttention-4's of sequences refused") {
  const ImportedMask imported = read(bundle_of({{"mask_block_cnt", ints({1, 1, 2}, {1, 1})},
                                                {"mask_block_offset", ints({3}, {0, 1, 2})},
                                                {"mask_block_idx", ints({2}, {0, 1})},
                                                {"full_block_cnt", ints({1, 1, 2}, {1, 0})},
                                                {"full_block_offset", ints({3}, {0, 1, 1})},
                                                {"full_block_idx", ints({1}, {1})}}));
  CHECK(imported.mask.origin.format == "fa4-linear");
  CHECK(rows_of(imported) == std::vector<std::string>{"pf", ".p"});
  Bundle varlen = w8_fa4(false);
  NamedTensor sums{.name = "cu_total_m_blocks"};
  sums.tensor = ints({2}, {0, 8});
  varlen.tensors.push_back(sums);
  CHECK(refusal(varlen).find("have no backward pass") != std::string::npos);
}

/// [1, 1, keys, columns] from columns.
Bundle flashmask(const std::vector<Elements>& columns) {
  Elements elements;
  for (std::size_t key = 0; key < columns.front().size(); ++key) {
    for (const Elements& column : columns)
      elements.push_back(column[key]);
  }
  return bundle_of(
      {{"startend_row_indices",
        ints({1, 1, std::ssize(columns.front()), std::ssize(columns)}, std::move(elements))}});
}

TEST_CASE("FlashMask's columns are read: the examples of formats.md") {
  const TileShape two{2, 2};
  const Elements ends = {5, 5, 5, 5, 5, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16};
  CHECK(rows_of(read(flashmask({ends})), two) ==
        std::vector<std::string>{"pfp.....", ".pp.....", "..pp....", "...p....", "....pfff",
                                 ".....pff", "......pf", ".......p"});
  const Elements begins = {0, 0, 0, 0, 0, 5, 5, 5, 8, 8, 8, 8, 8, 8, 8, 8};
  CHECK(rows_of(read(flashmask({ends, begins}), {.causal = false}), two) ==
        std::vector<std::string>{"ffp.....", "ffp.....", "pppp....", "..pf....", "....ffff",
                                 "....ffff", "....ffff", "....ffff"});
  CHECK(refusal(flashmask({ends, begins})).find("--mask-causal true or false") !=
        std::string::npos);
  Elements window;
  for (std::int64_t key = 0; key < 16; ++key)
    window.push_back(std::min<std::int64_t>(key + 6, 16));
  CHECK(rows_of(read(flashmask({window})), two) == kW8);
  const Elements never(16, 16);
  const Elements none(16, 0);
  Elements prefix = none;
  for (std::int64_t key = 5; key < 16; ++key)
    prefix[static_cast<std::size_t>(key)] = key;
  CHECK(rows_of(read(flashmask({never, prefix}), {.causal = false}), two) ==
        std::vector<std::string>{"ffffffff", "ffffffff", "pppfffff", "...pffff", "....pfff",
                                 ".....pff", "......pf", ".......p"});
  const Elements lts = {16, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16, 16, 16};
  const Elements uts = {0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
  const Elements ute = {0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  CHECK(rows_of(read(flashmask({lts, never, uts, ute})), two) ==
        std::vector<std::string>{"ffffffff", "fffp....", "ffffp...", "fpfffp..", "f.pfffp.",
                                 "f..pfffp", "f...pfff", "f....pff"});
  CHECK(refusal(flashmask({ends, ends, ends}), {.causal = true}).find("3 columns") !=
        std::string::npos);
}

TEST_CASE("tiles that FlashMask's kernel visits although they are empty are counted") {
  // Keys 2, 3 are masked by the diagonal for query 0, 1, and below it for 1 on: nobody sees them in
  // tile (kv 1, q 0), (kv 1, q 1).
  const ImportedMask imported = read(flashmask({{4, 4, 2, 2}}), {.shape = {.q = 4, .kv = 2}});
  CHECK(says(imported, "1 empty tiles that its kernel visits"));
  const ImportedMask window = read(flashmask({{4, 4, 4, 4}}), {.shape = {.q = 2, .kv = 2}});
  CHECK(says(window, "0 empty tiles that its kernel visits"));
}

TEST_CASE("MagiAttention's slices are read, and what two of them share is said") {
  const Bundle w8 = bundle_of({{"q_ranges", ints({2, 2}, {0, 5, 5, 16})},
                               {"k_ranges", ints({2, 2}, {0, 5, 0, 16})},
                               {"attn_type_map", ints({2}, {1, 3})}});
  CHECK(rows_of(read(w8), {2, 2}) == kW8);
  CHECK(says(read(w8), "no pair of tokens is in two slices"));
  const std::string json =
      R"({"q_ranges": [[0, 5], [5, 16]], "k_ranges": [[0, 5], [0, 16]],
          "attn_type_map": ["causal", "bi_causal"]})";
  CHECK(rows_of(read_mask_file(json, "x.json", {}), {2, 2}) == kW8);
  const Bundle shared = bundle_of({{"q_ranges", ints({2, 2}, {0, 4, 2, 4})},
                                   {"k_ranges", ints({2, 2}, {0, 4, 3, 6})},
                                   {"attn_type_map", ints({2}, {0, 0})}});
  CHECK(says(read(shared), "2 pairs of tokens are in two slices or more"));
  CHECK(says(read(shared), "(query 2, key 3) in slices 0 and 1"));
  CHECK(refusal(bundle_of({{"q_ranges", ints({1, 2}, {3, 1})}, {"k_ranges", ints({1, 2}, {0, 4})}}))
            .find("q of slice 0 is [3, 1)") != std::string::npos);
  CHECK(refusal(
            bundle_of({{"q_ranges", ints({1, 3}, {0, 1, 2})}, {"k_ranges", ints({1, 2}, {0, 4})}}))
            .find("not [slices,2]") != std::string::npos);
}

TEST_CASE("sequences begin a tile each") {
  const Bundle bundle = bundle_of({{"cu_seqlens", ints({4}, {0, 5, 8, 16})}});
  const ImportedMask imported = read(bundle, {.shape = {.q = 2, .kv = 2}, .causal = true});
  CHECK(imported.lengths == Lengths{18, 18});
  CHECK(rows_of(imported, {2, 2}) ==
        std::vector<std::string>{"pfp......", ".pp......", "..p......", "...pp....", "....p....",
                                 ".....pfff", "......pff", ".......pf", "........p"});
  CHECK(says(imported, "window: left=all, right=0, bottom-right aligned in each"));
  CHECK(refusal(bundle_of({{"cu_seqlens_q", ints({3}, {0, 5, 4})}}))
            .find("cu_seqlens_q[2] = 4 after 5") != std::string::npos);
  CHECK(refusal(bundle_of({{"cu_seqlens", ints({2}, {0, 5})}, {"max_seqlen_q", ints({}, {4})}}))
            .find("max_seqlen_q is 4, and sequence 0 has 5 tokens") != std::string::npos);
  CHECK(says(read(bundle_of(
                 {{"cu_seqlens_q", ints({3}, {0, 0, 4})}, {"cu_seqlens_k", ints({3}, {0, 2, 6})}})),
             "1 sequences of no queries"));
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
  CHECK(refusal(bundle_of({{"indptr", ints({2}, {0, 2})}, {"indices", ints({2}, {1, 1})}}))
            .find("block row 0 has column 1 twice") != std::string::npos);
  CHECK(refusal(bundle_of({{"indptr", ints({2}, {0, 3})}, {"indices", ints({2}, {1, 1})}}))
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
  CHECK(refusal(bundle_of({{"mask_id", ints({1, 2}, {0, 7})}}))
            .find("mask_id[0,1] = 7, neither 0 nor 1") != std::string::npos);
}

TEST_CASE("an answer that a format does not ask for is refused") {
  CHECK(refusal(w8_flex(2, -1), {.causal = true}) ==
        "--mask-causal means nothing to flex, which says itself");
  const Bundle slices =
      bundle_of({{"q_ranges", ints({1, 2}, {0, 4})}, {"k_ranges", ints({1, 2}, {0, 4})}});
  CHECK(refusal(slices, {.head = 0}) ==
        "--mask-head means nothing to magi, which has one mask for all");
  Bundle columns = flashmask({{4, 4, 4, 4}});
  columns.words["causal"] = "true";
  CHECK_THROWS_WITH(read_mask_file(write_safetensors(columns), "x", {.causal = false}),
                    "--mask-causal false, where the file says the other");
  CHECK_THROWS_WITH(read_mask_file(R"({"kind": "full"})", "x", {.head = 1}),
                    Catch::Contains("--mask-head means nothing to a mask description of ours"));
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

}  // namespace
}  // namespace stagger::formats
