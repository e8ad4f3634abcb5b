// What is understood of masks in other people's layouts, what is said of broken ones and what is
// written, kept in tests/golden/formats-*.txt: that it is right is tested beside this, and no word
// or byte of it changes unseen here.

#include "tests/support/kept.hpp"

#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/formats/mask_export.hpp"
#include "core/formats/mask_import.hpp"
#include "core/formats/zip.hpp"
#include "schedules/schedule.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/masks.hpp"
#include "tests/support/refusal.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace stagger::formats {
namespace {

/// All that an import says, and its tiles.
std::string imported_words(const ImportedMask& imported) {
  std::ostringstream text;
  text << imported.mask.origin.format << " " << imported.lengths.q << " x " << imported.lengths.kv
       << " of " << imported.shape.q << " x " << imported.shape.kv;
  for (const std::string& line : imported.mask.origin.understood)
    text << "; " << line;
  for (const std::string& line : imported.mask.origin.lost)
    text << "; lost " << line;
  const TileShape shape = imported.shape.q > 0 ? imported.shape : TileShape{2, 2};
  Lengths lengths = imported.lengths;
  if (lengths.q == 0) lengths.q = 6;
  if (lengths.kv == 0) lengths.kv = 6;
  if (lengths.q > 16 * shape.q || lengths.kv > 16 * shape.kv) return text.str() + "; large";
  const std::int64_t heads = std::max<std::int64_t>(mask_heads(imported.mask), 1);
  const Problem problem = make_problem(imported.mask, lengths, shape, heads, 1);
  text << ";";
  for (const TileGrid& grid : problem.grids.distinct()) {
    if (&grid != &problem.grids.distinct().front()) text << " |";
    const Mask tiles = tiles_mask(grid);
    for (const std::string& row : tiles.strings("rows"))
      text << " " << row;
  }
  return text.str();
}

std::string imported_text(const std::string& bytes, const MaskFileRequest& request = {}) {
  return test::said([&] { return imported_words(read_mask_file(bytes, "x", request)); });
}

/// A file of each layout, small enough to be broken everywhere.
const std::vector<std::string> kLayouts = {
    R"({"kv_num_blocks": [[[1,2]]], "kv_indices": [[[[0,1],[1,0]]]], "full_kv_num_blocks": [[[1,0]]], "full_kv_indices": [[[[1,0],[0,0]]]], "seq_lengths": [4,4], "BLOCK_SIZE": [2,2]})",
    R"({"q_num_blocks": [[[1,1],[0,2]]], "q_indices": [[[[0,1],[1,0]],[[0,1],[0,1]]]], "kv_num_blocks": [[[1,1],[1,1]]], "kv_indices": [[[[0],[1]],[[1],[1]]]], "BLOCK_SIZE": [2,4]})",
    R"({"forward": {"mask_block_cnt": [[[1,1]]], "mask_block_idx": [[[[0],[1]]]], "full_block_cnt": [[[0,1]]], "full_block_idx": [[[[0],[0]]]], "block_size": [2,2]}, "backward": {"mask_block_cnt": [[[1,1]]], "mask_block_idx": [[[[0],[1]]]], "full_block_cnt": [[[1,0]]], "full_block_idx": [[[[1],[0]]]], "block_size": [2,2], "spt": true}})",
    R"({"mask_block_cnt": [[[1,1]]], "mask_block_offset": [0,1,2], "mask_block_idx": [0,1], "full_block_cnt": [[[1,0]]], "full_block_offset": [0,1,1], "full_block_idx": [1]})",
    R"({"startend_row_indices": [[[[4],[4],[2],[4]]]], "causal": true, "window_size": [1]})",
    R"({"startend_row_indices": [[[[4,4,0,0],[3,4,0,1],[4,4,0,0],[4,4,1,2]]]], "window_size": [2,1]})",
    R"({"startend_row_indices": [[[[4,0],[4,1],[3,2],[4,3]]]], "causal": false})",
    R"({"q_ranges": [[0,3],[2,5]], "k_ranges": [[0,3],[1,6]], "attn_type_map": [1,2]})",
    R"({"q_ranges": [[0,3]], "k_ranges": [[0,6]], "attn_type_map": ["bi_causal"]})",
    R"({"cu_seqlens_q": [0,3,4], "cu_seqlens_k": [0,2,6], "max_seqlen_q": 3, "max_seqlen_k": 4, "seqused_k": [2,3], "causal": true, "window_size": [2,0]})",
    R"({"cu_seqlens": [0,3,3,8]})",
    R"({"indptr": [0,1,3], "indices": [0,0,1], "R": 2, "C": 2, "M": 4, "N": 4, "mask": [[[true,false],[true,true]],[[true,true],[true,true]],[[false,false],[false,false]]]})",
    R"({"indptr": [0,1,3], "indices": [0,0,1], "R": 2, "C": 2, "M": 4, "N": 4, "packed_mask": [13,167]})",
    R"({"block_indptr": [[[0,1,2],[2,2,4]]], "block_indices": [1,0,1,0], "q_block_size": 2, "kv_block_size": 2, "seq_len_q": 3, "seq_len_kv": 4})",
    R"({"indptr": [0,1,3], "indices": [0,0,2], "R": 2, "C": 3})",
    R"({"block_mask": [[[[1,0],[1,1]]]]})",
    R"({"mask_id": [[[[1,0,1],[1,1,0]],[[1,0,1],[1,1,0]]]], "causal": true})"};

TEST_CASE("what is said of each layout with a piece missing or wrong is as kept") {
  std::ostringstream text;
  for (const std::string& whole : kLayouts) {
    for (const MaskFileRequest& request :
         {MaskFileRequest{}, MaskFileRequest{.causal = true},
          MaskFileRequest{.lengths = {8, 8}, .shape = {.q = 2, .kv = 2}},
          MaskFileRequest{.shape = {.q = 1, .kv = 1}, .head = 1},
          MaskFileRequest{.lengths = {5, 7}, .shape = {.q = 4, .kv = 2}, .causal = false}}) {
      text << imported_text(whole, request) << "\n";
    }
    std::string last;
    for (std::size_t begin = 0; begin < whole.size();) {
      const std::size_t end = std::min(whole.find_first_of(",:[{", begin + 1), whole.size());
      for (const char* other : {"", "[", ",", ", -1", ", 0", "[7", ": 99999999999", ": null",
                                ": \"a\"", ", true", ": [[0]]"}) {
        const std::string line = imported_text(whole.substr(0, begin) + other + whole.substr(end));
        if (line.find("parse error") != std::string::npos) continue;
        if (line != last) text << "  at " << begin << " '" << other << "': " << line << "\n";
        last = line;
      }
      begin = end;
    }
  }
  CHECK(test::golden_difference("formats-broken.txt", text.str()) == "");
}

TEST_CASE("block masks that a FlashMask call has beside its columns keep tiles of 128") {
  std::string columns;
  for (int key = 0; key < 256; ++key)
    columns += key == 0 ? "[256]" : ",[256]";
  const std::string file = R"({"startend_row_indices": [[[)" + columns +
                           R"(]]], "causal": true, "block_mask": [[[[0,1],[1,0]]]]})";
  std::ostringstream text;
  for (const TileShape shape : {TileShape{128, 128}, TileShape{64, 128}, TileShape{0, 0}})
    text << imported_text(file, {.shape = shape}) << "\n";
  // Three Q tiles of 128, and two KV tiles.
  const std::string tall = test::replaced(file, "[[0,1],[1,0]]", "[[1,0],[1,1],[0,1]]");
  for (const std::int64_t queries : {384, 256, 0})
    text << imported_text(tall, {.lengths = {queries, 0}, .shape = {128, 128}}) << "\n";
  CHECK(test::golden_difference("formats-block-mask.txt", text.str()) == "");
}

TEST_CASE("what is written of masks in each layout is as kept, or why it is not") {
  std::ostringstream text;
  std::vector<Problem> problems = test::every_small_mask();
  for (const auto& [mask, lengths, shape] :
       {std::tuple("sliding:left=3,right=3 | global:first=2,symmetric=true", Lengths{16, 16},
                   TileShape{4, 2}),
        std::tuple("sliding:left=2,right=0 | causal & slices:q=12+16,kv=0+8", Lengths{16, 16},
                   TileShape{2, 4}),
        std::tuple("slices:q=0+4+0+4+0+4,kv=0+1+2+3+5+7", Lengths{6, 8}, TileShape{3, 2}),
        std::tuple("varlen:q_lengths=3+5,kv_lengths=4+6,causal=true,align_q=4,align_kv=2",
                   Lengths{9, 10}, TileShape{4, 2})}) {
    problems.push_back(make_problem(parse_mask(mask), lengths, shape, 1, 1));
  }
  for (const Problem& problem : problems) {
    text << describe(problem) << "\n";
    for (const ExportFormat& format : export_formats()) {
      for (const Ragged ragged : {Ragged::flex, Ragged::in_bounds}) {
        if (!format.has_ragged && ragged != format.ragged) continue;
        const std::string words = test::said([&] {
          std::vector<std::string> notes;
          return write_bundle(export_mask(problem, format, ragged, nullptr, notes), "x.json");
        });
        text << "  " << format.name << " "
             << (words.size() > 400 ? test::text_digest(words) : words) << "\n";
      }
    }
  }
  CHECK(test::golden_difference("formats-written.txt", text.str()) == "");
}

TEST_CASE("write orders of every schedule are as kept, or why there is none") {
  std::ostringstream text;
  for (const char* mask : {"causal", "sliding:left=5,right=0", "full"}) {
    const Problem problem = make_problem(parse_mask(mask), {10, 12}, {2, 2}, 2, 3);
    for (const schedules::Schedule* schedule : test::kept_schedules()) {
      if (schedule->searches()) continue;
      text << mask << " " << schedule->name << ": " << test::said([&] {
        const Table table = schedules::build(schedules::select(schedule->name), problem);
        std::vector<std::string> notes;
        std::string words = write_bundle(
            export_mask(problem, *find_export_format("fa4"), Ragged::in_bounds, &table, notes),
            "x.json");
        for (const std::string& note : notes)
          words += note + "\n";
        return words;
      }) << "\n";
    }
  }
  CHECK(test::golden_difference("formats-orders.txt", text.str()) == "");
}

/// What is said of bytes with each of them changed, or cut off behind it: names that are no text
/// are among it, so that its digest is kept.
std::string said_of_bytes(const std::string& whole) {
  std::string text;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (const char other : {'\0', '\x01', ' ', '9', '}', '\xff'}) {
      std::string changed = whole;
      changed[place] = other;
      text += imported_text(changed) + "\n";
    }
    text += imported_text(whole.substr(0, place)) + "\n";
  }
  return test::text_digest(text);
}

TEST_CASE("what is said of containers with a byte changed is as kept") {
  const Problem problem = make_problem(make_mask("causal"), {4, 4}, {2, 2}, 1, 1);
  std::vector<std::string> notes;
  const Bundle bundle =
      export_mask(problem, *find_export_format("flex"), Ragged::flex, nullptr, notes);
  std::ostringstream text;
  for (const char* file : {"x.npz", "x.safetensors"}) {
    text << file << " " << test::text_digest(write_bundle(bundle, file)) << " "
         << said_of_bytes(write_bundle(bundle, file)) << "\n";
  }
  Bundle one;
  NamedTensor named{.name = "block_mask"};
  named.tensor = {.dtype = Dtype::uint8, .shape = {2, 2}, .elements = {1, 0, 1, 1}};
  one.tensors.push_back(named);
  const std::string npy = read_zip(write_npz(one), "x").front().bytes;
  text << "x.npy " << test::text_digest(npy) << " " << said_of_bytes(npy) << "\n";
  CHECK(test::golden_difference("formats-bytes.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::formats
