// Arrays of other shapes: what is understood of each layout, of several batches and heads, with
// each of its arrays one shorter, one longer, one deeper or flat, kept in
// tests/golden/formats-shapes.txt.

#include "core/formats/mask_import.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace stagger::formats {
namespace {

/// An array of a JSON text: its brackets, and its elements.
struct Array {
  std::size_t begin = 0;
  std::size_t end = 0;  ///< behind the closing bracket
  std::vector<std::pair<std::size_t, std::size_t>> elements;
};

/// All arrays of a text without brackets or commas in strings.
std::vector<Array> arrays_of(const std::string& text) {
  std::vector<Array> arrays;
  std::vector<std::size_t> open;  // objects too
  std::vector<std::size_t> from;  // where the element at hand begins
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    const bool closes = letter == ']' || letter == '}';
    const auto end_element = [&] {
      if (text[arrays[open.back()].begin] == '[' && from.back() < at) {
        arrays[open.back()].elements.emplace_back(from.back(), at);
      }
    };
    if (letter == '[' || letter == '{') {
      open.push_back(arrays.size());
      arrays.push_back({.begin = at, .end = 0, .elements = {}});
      from.push_back(at + 1);
    } else if (closes) {
      end_element();
      arrays[open.back()].end = at + 1;
      open.pop_back();
      from.pop_back();
    } else if (letter == ',') {
      end_element();
      from.back() = at + 1;
    }
  }
  std::erase_if(arrays, [&](const Array& each) { return text[each.begin] == '{'; });
  return arrays;
}

/// The text with one array changed, for each and every change.
std::vector<std::string> reshaped(const std::string& text) {
  std::vector<std::string> all;
  for (const Array& array : arrays_of(text)) {
    const std::string whole = text.substr(array.begin, array.end - array.begin);
    const auto with = [&](const std::string& other) {
      all.push_back(text.substr(0, array.begin) + other + text.substr(array.end));
    };
    with("[" + whole + "]");
    with("[]");
    if (array.elements.empty()) continue;
    const auto piece = [&](std::size_t element) {
      const auto [begin, end] = array.elements[element];
      return text.substr(begin, end - begin);
    };
    std::string others;
    for (std::size_t element = 1; element < array.elements.size(); ++element)
      others += (element == 1 ? "" : ",") + piece(element);
    with("[" + others + "]");
    with(whole.substr(0, whole.size() - 1) + "," + piece(0) + "]");
    with(piece(0));
  }
  return all;
}

std::string understood(const std::string& text, const MaskFileRequest& request) {
  return test::said([&] {
    const ImportedMask imported = read_mask_file(text, "x", request);
    std::ostringstream words;
    words << imported.lengths.q << " x " << imported.lengths.kv << " of " << imported.shape.q
          << " x " << imported.shape.kv << " " << mask_words(imported.mask);
    for (const std::string& line : imported.mask.origin.understood)
      words << "; " << line;
    for (const std::string& line : imported.mask.origin.lost)
      words << "; lost " << line;
    return words.str();
  });
}

const std::vector<std::string> kFiles = {
    // Two batches of two heads that are alike, and those that are not.
    R"({"kv_num_blocks": [[[1,1],[1,1]],[[1,1],[1,1]]], "kv_indices": [[[[0,1],[1,0]],[[0,1],[1,0]]],[[[0,1],[1,0]],[[0,1],[1,0]]]], "full_kv_num_blocks": [[[1,0],[1,0]],[[1,0],[1,0]]], "full_kv_indices": [[[[1],[0]],[[1],[0]]],[[[1],[0]],[[1],[0]]]], "BLOCK_SIZE": [2,2], "seq_lengths": [4,4]})",
    R"({"kv_num_blocks": [[[1,1],[1,0]]], "kv_indices": [[[[0,1],[1,0]],[[1,0],[0,1]]]], "q_num_blocks": [[[1,1]]], "q_indices": [[[[0],[1]]]], "full_q_num_blocks": [[[0,0]]], "full_q_indices": [[[[0],[1]]]], "BLOCK_SIZE": [2,2]})",
    R"({"forward": {"mask_block_cnt": [[[1,1],[1,1]]], "mask_block_idx": [[[[0],[1]],[[0],[1]]]], "full_block_cnt": [[[0,1],[0,1]]], "full_block_idx": [[[[0],[0]],[[0],[0]]]], "block_size": [2,2]}, "backward": {"mask_block_cnt": [[[1,1],[1,1]]], "mask_block_idx": [[[[0],[1]],[[0],[1]]]], "full_block_cnt": [[[1,0],[1,0]]], "full_block_idx": [[[[1],[0]],[[1],[0]]]], "block_size": [2,2], "spt": true}})",
    R"({"backward": {"mask_block_cnt": [[[2,1,1]]], "mask_block_idx": [[[[0,1],[1,0],[2,0]]]], "block_size": [4,2]}})",
    R"({"mask_block_cnt": [[[1,1],[1,1]]], "mask_block_offset": [0,1,2,3,4], "mask_block_idx": [0,1,0,1], "full_block_cnt": [[[1,0],[1,0]]], "full_block_offset": [0,1,1,2], "full_block_idx": [1,1]})",
    R"({"startend_row_indices": [[[[4],[4],[2],[4]],[[4],[4],[2],[4]]],[[[4],[4],[2],[4]],[[4],[4],[2],[4]]]], "causal": true})",
    R"({"startend_row_indices": [[[[4,4,0,0],[3,4,0,1],[4,4,0,0],[4,4,1,2]]]], "window_size": [2,1]})",
    R"({"q_ranges": [[0,3],[2,5],[4,6]], "k_ranges": [[0,3],[1,6],[0,2]], "attn_type_map": ["full","causal","inv_causal"]})",
    R"({"q_ranges": [[0,3],[2,5]], "k_ranges": [[0,3],[1,6]], "attn_type_map": [3,0]})",
    R"({"cu_seqlens_q": [0,3,4], "cu_seqlens_k": [0,2,6], "seqused_q": [3,1], "seqused_k": [2,3], "max_seqlen_q": 3, "max_seqlen_k": 4, "causal": false, "window_size": [2,0]})",
    R"({"indptr": [0,1,3], "indices": [0,0,1], "R": 2, "C": 2, "M": 4, "N": 4, "mask": [[[true,false],[true,true]],[[true,true],[true,true]],[[false,false],[false,true]]]})",
    R"({"indptr": [0,1,3], "indices": [0,0,1], "R": 2, "C": 2, "M": 4, "N": 4, "packed_mask": [13,167]})",
    R"({"block_indptr": [[[0,1,2],[2,2,4]]], "block_indices": [1,0,1,0], "q_block_size": 2, "kv_block_size": 2, "seq_len_q": 3, "seq_len_kv": 4})",
    R"({"block_mask": [[[[1,0],[1,1]],[[1,0],[1,1]]],[[[1,0],[1,1]],[[1,0],[1,1]]]]})",
    R"({"mask_id": [[[[1,0,1],[1,1,0]],[[1,0,1],[1,1,0]]],[[[1,0,1],[1,1,0]],[[0,0,1],[1,1,0]]]], "causal": true})"};

TEST_CASE("what is understood of arrays of other shapes is as kept") {
  std::ostringstream text;
  for (const std::string& file : kFiles) {
    for (const MaskFileRequest& request :
         {MaskFileRequest{}, MaskFileRequest{.shape = {.q = 2, .kv = 2}, .head = 1},
          MaskFileRequest{.lengths = {7, 5}, .shape = {.q = 2, .kv = 1}, .head = 0}}) {
      std::ostringstream all;
      std::string last;
      for (const std::string& changed : reshaped(file)) {
        const std::string words = understood(changed, request);
        if (words != last) all << "  " << words << "\n";
        last = words;
      }
      text << understood(file, request) << "\n" << test::text_digest(all.str()) << "\n";
    }
  }
  CHECK(test::golden_difference("formats-shapes.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger::formats
