// Lists of tiles: FlexAttention's and FlashAttention-4's.

#include "tests/formats/imported.hpp"
#include "tests/support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace stagger::formats {
namespace {

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

TEST_CASE(
    "lists that are said to be FlashAttention-4's and lack its counts are told what they have") {
  const Bundle bundle = bundle_of({{"a", ints({1}, {0})}, {"b", ints({1}, {0})}});
  CHECK(refusal_of(bundle, {.format = "fa4"}) ==
        "x.npz: mask_block_cnt is missing; there are: a, b");
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
    return refusal_of(bundle);
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
  CHECK(
      refusal_of(bundle).find("q_indices are not the transpose of kv_indices: tile (kv 0, q 0)") !=
      std::string::npos);
  CHECK(refusal_of(bundle_of({{"arr_0", ints({1}, {1})}, {"arr_1", ints({1}, {1})}}))
            .find("save them by name") != std::string::npos);
}

using Places = std::vector<std::int64_t>;

TEST_CASE("as many tiles as a request's lengths have are there where the file does not say") {
  // Two rows of two tiles of the other side, with room for three.
  const Tensor counts = ints({1, 1, 2}, {1, 2});
  const Tensor ids = ints({1, 1, 2, 3}, {0, 9, 9, 1, 0, 9});
  const Tensor block = ints({2}, {8, 8});
  struct Case {
    const char* what;
    Bundle bundle;
    bool rows_are_q = true;
    TileShape shape = {.q = 0, .kv = 0};  ///< of the request, where the file has no blocks
  };
  const std::vector<Case> cases = {
      {"flex", bundle_of({{"kv_num_blocks", counts}, {"kv_indices", ids}, {"BLOCK_SIZE", block}})},
      {"flex, tiles of the request",
       bundle_of({{"kv_num_blocks", counts}, {"kv_indices", ids}}),
       true,
       {8, 8}},
      {"flex, transposes alone",
       bundle_of({{"q_num_blocks", counts}, {"q_indices", ids}, {"BLOCK_SIZE", block}}), false},
      {"fa4", bundle_of({{"forward.mask_block_cnt", counts},
                         {"forward.mask_block_idx", ids},
                         {"forward.block_size", block}})},
      {"fa4, tiles of the request",
       bundle_of({{"forward.mask_block_cnt", counts}, {"forward.mask_block_idx", ids}}),
       true,
       {8, 8}},
      {"fa4, the backward pass",
       bundle_of({{"backward.mask_block_cnt", counts}, {"backward.mask_block_idx", ids}}),
       false,
       {8, 8}},
      {"fa4-linear",
       bundle_of({{"mask_block_cnt", counts},
                  {"mask_block_offset", ints({2}, {0, 1})},
                  {"mask_block_idx", ints({3}, {0, 1, 0})}}),
       false,
       {8, 8}}};
  for (const Case& each : cases) {
    CAPTURE(each.what);
    const bool is_linear = each.bundle.has("mask_block_offset");
    const auto lengths = [&](std::int64_t rows, std::int64_t others) {
      return each.rows_are_q ? Lengths{rows, others} : Lengths{others, rows};
    };
    for (const std::int64_t tiles : {0, 2, 3, 4, 5}) {
      for (const std::int64_t last : {8, 3}) {
        if (tiles == 0 && last == 3) continue;
        const std::int64_t tokens = tiles == 0 ? 0 : 8 * (tiles - 1) + last;
        const std::int64_t expected = tiles > 0 ? tiles : is_linear ? 2 : 3;
        CAPTURE(tiles, last);
        const ImportedMask imported =
            read(each.bundle, {.lengths = lengths(16, tokens), .shape = each.shape});
        CHECK(imported.lengths == lengths(16, tokens == 0 ? 8 * expected : tokens));
        const std::vector<std::string> rows = rows_of(imported);
        const std::size_t wide = each.rows_are_q ? rows.size() : rows.front().size();
        CHECK(wide == static_cast<std::size_t>(expected));
        CHECK(rows[0].substr(0, 2) == (each.rows_are_q ? "pp" : "p."));
        CHECK(rows[1].substr(0, 2) == (each.rows_are_q ? ".p" : "pp"));
      }
    }
    // Fewer than the ids are, and other rows than there are.
    CHECK(refusal_of(each.bundle, {.lengths = lengths(16, 8), .shape = each.shape}) ==
          (each.rows_are_q ? "8 keys are" : "8 queries are") +
              std::string(" no 2 tiles of 8 tokens, which the file has"));
    CHECK(refusal_of(each.bundle, {.lengths = lengths(24, 16), .shape = each.shape}) ==
          (each.rows_are_q ? "24 queries are" : "24 keys are") +
              std::string(" no 2 tiles of 8 tokens, which the file has"));
  }
}

TEST_CASE("FlexAttention's transposed lists say how many tiles there are where lengths do not") {
  // The last of four KV tiles is empty, and rows of queries have room for three.
  Bundle bundle = bundle_of({{"kv_num_blocks", ints({1, 1, 2}, {1, 2})},
                             {"kv_indices", ints({1, 1, 2, 3}, {0, 0, 0, 1, 2, 0})},
                             {"q_num_blocks", ints({1, 1, 4}, {1, 1, 1, 0})},
                             {"q_indices", ints({1, 1, 4, 1}, {0, 1, 1, 0})},
                             {"BLOCK_SIZE", ints({2}, {8, 8})}});
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{"p.", ".p", ".p", ".."});
  CHECK(says(read(bundle), "no seq_lengths"));
  CHECK(read(bundle, {.lengths = {16, 30}}).lengths == Lengths{16, 30});
  CHECK_FALSE(says(read(bundle, {.lengths = {16, 30}}), "no seq_lengths"));
  CHECK(refusal_of(bundle, {.lengths = {16, 40}}) ==
        "40 keys are no 4 tiles of 8 tokens, which the file has");
  bundle.tensors[1].tensor.elements[4] = 4;
  CHECK(refusal_of(bundle) == "x.npz: kv_indices[0,0,1,1] = 4 is no KV tile; there are 4");
  bundle.tensors[1].tensor.elements[4] = 2;
  bundle.tensors.push_back(bundle_of({{"seq_lengths", ints({2}, {16, 24})}}).tensors[0]);
  CHECK(refusal_of(bundle) == "x.npz: q_num_blocks has 4 rows for 3 KV tiles");
}

TEST_CASE("FlexAttention's lists that have a tile beyond the last token full are in-bounds") {
  struct Case {
    Lengths lengths;
    Elements full;  ///< two ids of each of two rows
    bool is_in_bounds;
  };
  for (const bool by_q : {true, false}) {
    for (const bool in_file : {true, false}) {
      for (const Case& each :
           {Case{{4, 4}, {0, 1, 0, 1}, false}, Case{{3, 4}, {0, 1, -1, -1}, false},
            Case{{3, 4}, {-1, -1, 0, -1}, true}, Case{{4, 3}, {0, -1, 0, -1}, false},
            Case{{4, 3}, {0, 1, -1, -1}, true}, Case{{3, 3}, {0, -1, -1, -1}, false},
            Case{{3, 3}, {-1, -1, 1, -1}, true}}) {
        Elements counts;
        for (std::size_t row = 0; row < 2; ++row)
          counts.push_back(
              2 - std::count(each.full.begin() + static_cast<std::ptrdiff_t>(2 * row),
                             each.full.begin() + static_cast<std::ptrdiff_t>(2 * row) + 2, -1));
        const std::string side = by_q ? "kv" : "q";
        Bundle bundle = bundle_of({{side + "_num_blocks", ints({2}, {0, 0})},
                                   {side + "_indices", ints({2, 2}, {0, 0, 0, 0})},
                                   {"full_" + side + "_num_blocks", ints({2}, counts)},
                                   {"full_" + side + "_indices", ints({2, 2}, each.full)},
                                   {"BLOCK_SIZE", ints({2}, {2, 2})}});
        // Rows, then the other side.
        const Lengths lengths = by_q ? each.lengths : Lengths{each.lengths.kv, each.lengths.q};
        if (in_file) {
          bundle.tensors.push_back(
              bundle_of({{"seq_lengths", ints({2}, {lengths.q, lengths.kv})}}).tensors[0]);
        }
        const ImportedMask imported = read(bundle, {.lengths = in_file ? Lengths{} : lengths});
        CAPTURE(by_q, in_file, each.lengths.q, each.lengths.kv, each.full);
        CHECK(imported.lengths == lengths);
        CHECK(says(imported, "ragged rule in-bounds") == each.is_in_bounds);
        CHECK(says(imported, "ragged rule flex") != each.is_in_bounds);
      }
    }
  }
}

TEST_CASE("masks that differ by head are masks by head, or one of them") {
  const Bundle bundle = bundle_of({{"kv_num_blocks", ints({1, 2, 2}, {1, 1, 1, 1})},
                                   {"kv_indices", ints({1, 2, 2, 1}, {0, 1, 1, 0})}});
  const ImportedMask imported = read(bundle);
  CHECK(rows_of(imported) == std::vector<std::string>{"p.", ".p", "|", ".p", "p."});
  CHECK(imported.mask.integers("heads") == Places{0, 1});
  CHECK(says(imported, "2 masks that differ for 1 batch of 2 heads"));
  CHECK(rows_of(read(bundle, {.head = 1})) == std::vector<std::string>{".p", "p."});
  CHECK(says(read(bundle, {.head = 1}), "the masks of the other heads"));
  CHECK(refusal_of(bundle, {.head = 2}).find("0 to 1") != std::string::npos);
  // A batch has the masks of one over and over; heads that are no such batch have none.
  CHECK(read(bundle, {.heads = 6}).mask.integers("heads") == Places{0, 1});
  CHECK(refusal_of(bundle, {.heads = 3}) ==
        "x.npz: masks for 1 batch of 2 heads are none for --heads 3; --mask-head chooses one for "
        "all");
  // The same tiles in another order are the same mask.
  const Bundle same = bundle_of({{"kv_num_blocks", ints({2, 1, 1}, {2, 2})},
                                 {"kv_indices", ints({2, 1, 1, 2}, {0, 1, 1, 0})}});
  CHECK(says(read(same), "the same mask for 2 batches of 1 head"));
}

TEST_CASE("masks of batches alone are for all heads of their batch") {
  const Bundle bundle = bundle_of({{"kv_num_blocks", ints({3, 1, 1}, {1, 1, 1})},
                                   {"kv_indices", ints({3, 1, 1, 2}, {0, 1, 1, 0, 0, 1})}});
  CHECK(read(bundle).mask.integers("heads") == Places{0, 1, 0});
  CHECK(read(bundle, {.heads = 6}).mask.integers("heads") == Places{0, 0, 1, 1, 0, 0});
  for (const std::int64_t heads : {1, 2, 4, 8}) {
    CAPTURE(heads);
    CHECK(refusal_of(bundle, {.heads = heads}).find("are none for --heads") != std::string::npos);
  }
}

TEST_CASE("transposed lists of every head are held against its own") {
  Bundle bundle = bundle_of({{"kv_num_blocks", ints({1, 2, 2}, {1, 1, 1, 1})},
                             {"kv_indices", ints({1, 2, 2, 1}, {0, 1, 1, 1})},
                             {"q_num_blocks", ints({1, 2, 2}, {1, 1, 0, 2})},
                             {"q_indices", ints({1, 2, 2, 2}, {0, 1, 1, 0, 0, 0, 0, 1})}});
  CHECK(rows_of(read(bundle)) == std::vector<std::string>{"p.", ".p", "|", "..", "pp"});
  bundle.tensors[2].tensor.elements = {1, 1, 1, 1};
  CHECK(refusal_of(bundle).find("q_indices are not the transpose of kv_indices") !=
        std::string::npos);
}

TEST_CASE("an order of FlexAttention's lists is no part of the mask, and that is said") {
  const auto lists = [](bool ordered) {
    Bundle bundle = bundle_of({{"kv_num_blocks", ints({1, 1, 2}, {1, 2})},
                               {"kv_indices", ints({1, 1, 2, 2}, {0, 0, 0, 1})}});
    if (!ordered) return bundle;
    for (const char* const name : {"dq_write_order", "dq_kv_order"})
      bundle.tensors.push_back(bundle_of({{name, ints({1, 1, 2, 2}, {0, 0, 0, 0})}}).tensors[0]);
    return bundle;
  };
  for (const char* const name : {"dq_write_order: `stagger lint`", "dq_kv_order: in which order"}) {
    CHECK(says(read(lists(true)), name));
    CHECK_FALSE(says(read(lists(false)), name));
  }
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
  CHECK(refusal_of(bundle, {.shape = {.q = 3, .kv = 4}}).find("does not divide") !=
        std::string::npos);
  CHECK(refusal_of(bundle, {.lengths = {9, 8}}).find("where the file says 7") != std::string::npos);
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

/// The lists of both passes.
Bundle w8_fa4_both() {
  Bundle both = w8_fa4(true);
  for (const NamedTensor& each : w8_fa4(false).tensors)
    both.tensors.push_back(each);
  return both;
}

Tensor& tensor_of(Bundle& bundle, const std::string& name) {
  return std::ranges::find(bundle.tensors, name, &NamedTensor::name)->tensor;
}

/// The lists of ids with room for so many a row.
void widen(Bundle& bundle, const std::string& name, std::int64_t width) {
  Tensor& tensor = tensor_of(bundle, name);
  Elements ids;
  for (std::size_t place = 0; place < tensor.elements.size(); ++place) {
    ids.push_back(tensor.elements[place]);
    if (place % 2 == 1) ids.resize(ids.size() + static_cast<std::size_t>(width) - 2, 99);
  }
  tensor.elements = std::move(ids);
  tensor.shape.back() = width;
}

TEST_CASE("FlashAttention-4's lists of either pass are read, and held against each other") {
  CHECK(rows_of(read(w8_fa4(true))) == kW8);
  CHECK(rows_of(read(w8_fa4(false))) == kW8);
  Bundle both = w8_fa4_both();
  CHECK(rows_of(read(both)) == kW8);
  CHECK(says(read(both), "the forward pass's lists are the same tiles"));
  for (NamedTensor& each : both.tensors) {
    if (each.name == "forward.full_block_cnt") each.tensor.elements[7] = 1;
  }
  CHECK(refusal_of(both).find("tile (kv 6, q 7) is another in them") != std::string::npos);
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

TEST_CASE("there are as many tiles as the larger of the partial and the full lists names") {
  const Tensor block = ints({2}, {2, 2});
  const auto lists = [&](const Elements& partial, const Elements& full, bool fa4) {
    const char* const names[] = {"forward.mask_block_cnt",
                                 "forward.mask_block_idx",
                                 "forward.full_block_cnt",
                                 "forward.full_block_idx",
                                 "forward.block_size",
                                 "kv_num_blocks",
                                 "kv_indices",
                                 "full_kv_num_blocks",
                                 "full_kv_indices",
                                 "BLOCK_SIZE"};
    const char* const* name = fa4 ? names : names + 5;
    const Tensor counts = ints({1, 1, 2}, {1, 1});  // in lists that are as wide as they are long
    return bundle_of({{name[0], counts},
                      {name[1], ints({1, 1, 2, 1}, partial)},
                      {name[2], counts},
                      {name[3], ints({1, 1, 2, 1}, full)},
                      {name[4], block}});
  };
  for (const bool fa4 : {true, false}) {
    CAPTURE(fa4);
    CHECK(rows_of(read(lists({0, 1}, {4, 0}, fa4))) ==
          std::vector<std::string>{"pf", ".p", "..", "..", "f."});
    CHECK(rows_of(read(lists({0, 3}, {1, 0}, fa4))) ==
          std::vector<std::string>{"pf", "f.", "..", ".p"});
  }
}

TEST_CASE("FlashAttention-4's lists of both passes that are padded are compared all the same") {
  for (const std::string prefix : {"forward.", "backward."}) {
    Bundle both = w8_fa4_both();
    widen(both, prefix + "mask_block_idx", 11);
    widen(both, prefix + "full_block_idx", 12);
    CAPTURE(prefix);
    CHECK(rows_of(read(both)) == kW8);
    CHECK(says(read(both), "the forward pass's lists are the same tiles"));
    tensor_of(both, "forward.full_block_cnt").elements[7] = 1;
    CHECK(refusal_of(both).find("tile (kv 6, q 7) is another in them") != std::string::npos);
  }
}

TEST_CASE("FlashAttention-4's lists that contradict each other beyond their tiles are refused") {
  Bundle beyond = w8_fa4_both();
  tensor_of(beyond, "forward.mask_block_idx").elements[14] = 8;
  CHECK(refusal_of(beyond) ==
        "x.npz: forward.mask_block_idx[0,0,7,0] = 8 is no KV tile; there are 8");
  Bundle shorter = w8_fa4_both();
  for (const std::string name : {"forward.mask_block_cnt", "forward.mask_block_idx",
                                 "forward.full_block_cnt", "forward.full_block_idx"}) {
    Tensor& tensor = tensor_of(shorter, name);
    tensor.elements.resize(tensor.elements.size() / 8 * 7);
    tensor.shape[2] = 7;
  }
  CHECK(refusal_of(shorter) ==
        "x.npz: backward.mask_block_idx[0,0,4,1] = 7 is no Q tile; there are 7");
  // Whose blocks are others, or may be, is not compared, and that is what is said.
  tensor_of(shorter, "forward.block_size").elements = {4, 2};
  CHECK(rows_of(read(shorter)) == kW8);
  CHECK(says(read(shorter), "the forward pass's lists are of other blocks, and are not compared"));
  std::erase_if(shorter.tensors,
                [](const NamedTensor& each) { return each.name == "forward.block_size"; });
  CHECK(rows_of(read(shorter)) == kW8);
  CHECK(says(read(shorter), "nothing says that the forward pass's lists are of the same blocks"));
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
  for (const std::string prefix : {"", "forward.", "fwd.", "forward_", "fwd_", "q2k.", "q2k_",
                                   "backward.", "bwd.", "backward_", "bwd_", "k2q.", "k2q_"}) {
    for (const std::string name : {"cu_total_m_blocks", "cu_block_idx_offsets"}) {
      Bundle varlen = w8_fa4(false);
      NamedTensor sums{.name = prefix + name};
      sums.tensor = ints({2}, {0, 8});
      varlen.tensors.push_back(sums);
      CHECK(refusal_of(varlen) == "x.npz: lists of sequences of several lengths (" + prefix + name +
                                      ") have no backward pass; export the mask as cu-seqlens");
    }
  }
}

TEST_CASE("lists whose shapes do not go together, and blocks of no size, are refused") {
  CHECK(refusal_of(bundle_of({{"kv_num_blocks", ints({2}, {1, 1})},
                              {"kv_indices", ints({3, 1}, {0, 1, 0})}}))
            .find("kv_num_blocks has a shape of [2], kv_indices one of [3,1]") !=
        std::string::npos);
  CHECK(refusal_of(bundle_of({{"kv_num_blocks", ints({1, 2, 1}, {1, 1})},
                              {"kv_indices", ints({1, 3, 1, 1}, {0, 0, 0})}}))
            .find("kv_num_blocks has a shape of [1,2,1]") != std::string::npos);
  const auto with_block = [](std::int64_t q, std::int64_t kv) {
    Bundle bundle = bundle_of({{"mask_block_cnt", ints({1, 1, 1}, {1})},
                               {"mask_block_idx", ints({1, 1, 1, 1}, {0})},
                               {"block_size", ints({2}, {q, kv})}});
    return refusal_of(bundle);
  };
  CHECK(with_block(2, 2).empty());
  for (const auto& [q, kv] :
       {std::pair(0, 2), std::pair(2, 0), std::pair(67'108'865, 2), std::pair(2, 67'108'865)}) {
    CHECK(with_block(q, kv).find("block_size is " + std::to_string(q) + ", " +
                                 std::to_string(kv)) != std::string::npos);
  }
}

}  // namespace
}  // namespace stagger::formats
