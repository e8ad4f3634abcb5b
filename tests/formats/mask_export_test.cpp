#include "core/formats/mask_export.hpp"

#include "core/error.hpp"
#include "core/formats/mask_import.hpp"
#include "core/token_mask.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/masks.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagger::formats {
namespace {

using Elements = std::vector<std::int64_t>;

Bundle exported(const Problem& problem, const ExportFormat& format, Ragged ragged) {
  std::vector<std::string> notes;
  return export_mask(problem, format, ragged, nullptr, notes);
}

std::string refusal(const Problem& problem, const char* format) {
  try {
    const ExportFormat& row = *find_export_format(format);
    static_cast<void>(exported(problem, row, row.ragged));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::unsupported);
    return error.what();
  }
  return "";
}

std::string refusal(const char* mask, Lengths lengths, TileShape shape, const char* format) {
  return refusal(make_problem(parse_mask(mask), lengths, shape, 1, 1), format);
}

/// The grid of what was written, read again.
TileGrid read_again(const std::string& bytes, const char* file, const Problem& problem) {
  const ImportedMask imported =
      read_mask_file(bytes, file, {.lengths = problem.lengths, .shape = problem.shape});
  return make_problem(imported.mask, imported.lengths, problem.shape, 1, 1).common_grid();
}

/// Writes a mask twice as each kind of file and reads it again; what a layout refuses it must
/// refuse with a tile. Returns whether it was written.
bool survives(const Problem& problem, const ExportFormat& format, Ragged ragged) {
  CAPTURE(format.name, mask_words(problem.mask), problem.lengths.q, problem.lengths.kv,
          problem.shape.q, problem.shape.kv, static_cast<int>(ragged));
  Bundle bundle;
  try {
    bundle = exported(problem, format, ragged);
  } catch (const Error& error) {
    REQUIRE(error.kind() == ErrorKind::unsupported);
    CAPTURE(error.what());
    CHECK(std::string_view(error.what()).find("in tile (kv ") != std::string_view::npos);
    return false;
  }
  for (const char* file : {"x.npz", "x.safetensors", "x.json"}) {
    CAPTURE(file);
    const std::string bytes = write_bundle(bundle, file);
    CHECK(bytes == write_bundle(exported(problem, format, ragged), file));
    REQUIRE(read_again(bytes, file, problem) == by_rule(problem, ragged));
  }
  return true;
}

TEST_CASE(
    "every mask is written in every layout, the same bytes, and read again as the same tiles") {
  std::map<std::string, int> written;
  std::map<std::string, int> refused;
  for (const Problem& problem : test::every_small_mask()) {
    for (const ExportFormat& format : export_formats()) {
      for (const Ragged ragged : {Ragged::flex, Ragged::in_bounds}) {
        if (!format.has_ragged && ragged != format.ragged) continue;
        ++(survives(problem, format, ragged) ? written : refused)[format.name];
      }
    }
  }
  for (const ExportFormat& format : export_formats()) {
    CAPTURE(format.name, refused[format.name]);
    CHECK(written[format.name] > 4);
  }
  CHECK(refused["flex"] == 0);
  CHECK(refused["fa4"] == 0);
  CHECK(refused["bsr"] > 4);
}

TEST_CASE("columns and slices keep every pair of tokens, not only the tiles") {
  int kept = 0;
  for (const Problem& problem : test::every_small_mask()) {
    for (const char* name : {"flashmask", "magi"}) {
      CAPTURE(name, mask_words(problem.mask));
      Bundle bundle;
      try {
        bundle = exported(problem, *find_export_format(name), Ragged::in_bounds);
      } catch (const Error&) {
        continue;
      }
      const ImportedMask imported =
          read_mask_file(write_bundle(bundle, "x.npz"), "x.npz", {.lengths = problem.lengths});
      const Problem again = make_problem(imported.mask, imported.lengths, problem.shape, 1, 1);
      const TokenMask before(problem);
      const TokenMask after(again);
      for (std::int64_t query = 0; query < problem.lengths.q; ++query)
        REQUIRE(before.keys(query) == after.keys(query));
      ++kept;
    }
  }
  CHECK(kept > 20);
}

/// What was written of a problem with masks by head, read again for as many heads.
Problem read_heads_again(const std::string& bytes, const char* file, const Problem& problem) {
  const ImportedMask imported = read_mask_file(bytes, file,
                                               {.lengths = problem.lengths,
                                                .shape = problem.shape,
                                                .heads = problem.heads,
                                                .heads_kv = problem.heads_kv});
  return make_problem(imported.mask, imported.lengths, problem.shape, problem.heads, 1);
}

TEST_CASE("masks by head are written with a dimension of heads, and read again as each head's") {
  int written = 0;
  for (const Problem& problem : test::small_masks_by_head()) {
    for (const char* name : {"flex", "fa4"}) {
      const ExportFormat& format = *find_export_format(name);
      CAPTURE(name, mask_words(problem.mask), problem.heads);
      const Bundle bundle = exported(problem, format, format.ragged);
      const std::int64_t heads = problem.grids.all_alike() ? 1 : problem.heads;
      const char* counts =
          name == std::string("flex") ? "full_q_num_blocks" : "forward.full_block_cnt";
      CHECK(bundle.at(counts).shape[1] == heads);
      for (const char* file : {"x.npz", "x.safetensors", "x.json"}) {
        CAPTURE(file);
        const std::string bytes = write_bundle(bundle, file);
        CHECK(bytes == write_bundle(exported(problem, format, format.ragged), file));
        const Problem again = read_heads_again(bytes, file, problem);
        const HeadGrids before = by_rule(problem, format.ragged);
        for (Head head{0}; head.value < problem.heads; ++head)
          REQUIRE(again.grid_of(head) == before.of(head));
        ++written;
      }
    }
  }
  CHECK(written == 6 * std::ssize(test::small_masks_by_head()));
}

TEST_CASE("FlashMask's columns of masks by head keep every head's pairs of tokens") {
  // Those of both forms, alike in tiles and not, of heads that share K and V, for a batch.
  struct Case {
    const char* mask;
    std::int64_t heads;
    std::int64_t heads_kv;
    std::int64_t columns;
    std::int64_t written;
  };
  const Case cases[] = {
      {"heads; causal; sliding:left=9,right=0", 2, 2, 1, 2},
      {"heads; causal; full", 2, 2, 2, 2},
      {"heads:heads=0+0+1+1; causal; sliding:left=2,right=1", 8, 4, 2, 4},
      {"heads:heads=1+0+0; full; sliding:left=3,right=3 | global:first=2,symmetric=true", 6, 6, 4,
       6},
      {"heads:heads=1+1; causal; prefix:length=4", 4, 2, 2, 1}};
  for (const Case& each : cases) {
    CAPTURE(each.mask);
    const Problem problem = make_problem(parse_mask(each.mask), {15, 15}, {4, 4}, each.heads, 1,
                                         {.heads_kv = each.heads_kv, .span = 1});
    const Bundle bundle = exported(problem, *find_export_format("flashmask"), Ragged::in_bounds);
    CHECK(bundle.at("startend_row_indices").shape == Elements{1, each.written, 15, each.columns});
    const Problem again = read_heads_again(write_bundle(bundle, "x.npz"), "x.npz", problem);
    const HeadMasks before(problem);
    const HeadMasks after(again);
    for (Head head{0}; head.value < problem.heads; ++head) {
      CAPTURE(head.value);
      for (std::int64_t query = 0; query < problem.lengths.q; ++query)
        REQUIRE(before.of(head).keys(query) == after.of(head).keys(query));
    }
  }
}

TEST_CASE("what cannot hold masks by head says whose") {
  const auto refused = [](const char* mask, const char* format, std::int64_t heads_kv) {
    const Problem problem =
        make_problem(parse_mask(mask), {6, 2}, {}, 4, 1, {.heads_kv = heads_kv, .span = 1});
    return refusal(problem, format);
  };
  CHECK(refused("heads; full; tiles:rows=f.f.f.+ffffff", "flashmask", 4) ==
        "flashmask cannot hold the mask of head 1: in tile (kv 0, q 5) key 0 has more than two "
        "ranges of queries that do not see it");
  CHECK(refused("heads; full; tiles:rows=pfffff+ffffff", "flashmask", 4) ==
        "flashmask cannot hold the mask of head 1: in tile (kv 0, q 0) some pairs attend, and a "
        "block-sparse mask does not say which");
  CHECK(refused("heads; full; causal", "flashmask", 2) ==
        "flashmask has one mask for the heads that share K and V, and heads 0 and 1 have masks of "
        "their own");
  for (const std::string format : {"magi", "bsr", "cu-seqlens"}) {
    CHECK(refused("heads; full; causal", format.c_str(), 4) ==
          "--as " + format +
              " does not know heads with masks of their own yet: give one mask for all heads");
  }
}

TEST_CASE("sequences keep every pair of tokens, whatever window they share") {
  int kept = 0;
  for (const bool causal : {false, true}) {
    for (const std::int64_t left : {-1, 0, 2, 5}) {
      for (const std::int64_t right : {-1, 0, 1, 6}) {
        if (causal && right != -1) continue;
        const Mask mask = make_mask("varlen", {{"q_lengths", Elements{8, 4, 8}},
                                               {"kv_lengths", Elements{4, 8, 12}},
                                               {"causal", causal},
                                               {"left", left},
                                               {"right", right}});
        const Problem problem = make_problem(mask, {20, 24}, {4, 4}, 1, 1);
        const Bundle bundle =
            exported(problem, *find_export_format("cu-seqlens"), Ragged::in_bounds);
        CAPTURE(causal, left, right);
        CHECK(bundle.at("cu_seqlens_q").elements == Elements{0, 8, 12, 20});
        CHECK(bundle.at("cu_seqlens_k").elements == Elements{0, 4, 12, 24});
        CHECK(bundle.at("max_seqlen_q").elements == Elements{8});
        CHECK(bundle.at("max_seqlen_k").elements == Elements{12});
        CHECK(bundle.at("causal").elements == Elements{causal ? 1 : 0});
        CHECK(bundle.at("window_size").elements == Elements{left, causal ? 0 : right});
        const ImportedMask imported = read_mask_file(write_bundle(bundle, "x.npz"), "x.npz", {});
        const TokenMask before(problem);
        const TokenMask after(make_problem(imported.mask, imported.lengths, {4, 4}, 1, 1));
        for (std::int64_t query = 0; query < 20; ++query)
          REQUIRE(before.keys(query) == after.keys(query));
        ++kept;
      }
    }
  }
  CHECK(kept == 4 * 4 + 4);
}

TEST_CASE("sequences that begin in the next tile are written, others are refused") {
  const auto problem = [](const char* align) {
    const Mask mask = parse_mask(std::string("varlen:q_lengths=7+4,kv_lengths=7+4,") + align);
    const Lengths lengths = implied_lengths(mask, {});
    return make_problem(mask, lengths, {4, 4}, 1, 1);
  };
  CHECK(refusal(problem("align_q=8,align_kv=8"), "cu-seqlens").empty());
  CHECK(refusal(problem("align_q=2,align_kv=4"), "cu-seqlens").empty());  // from 8 on
  CHECK(refusal(problem("align_q=12,align_kv=8"), "cu-seqlens") ==
        "cu-seqlens cannot hold the mask: in tile (kv 2, q 3) sequence 1 begins at query 12 and "
        "key 8, where a kernel begins it at 8 and 8: it has no tiles of padding (align_q and "
        "align_kv of a tile)");
  for (const char* const align : {"align_q=8,align_kv=12", "align_q=6,align_kv=4"}) {
    CHECK(refusal(problem(align), "cu-seqlens").find("where a kernel begins it at 8 and 8") !=
          std::string::npos);
  }
  for (const char* const align : {"align_q=9,align_kv=4", "align_q=4,align_kv=9"}) {
    CHECK(refusal(problem(align), "cu-seqlens").find("sequence 1 begins within it") !=
          std::string::npos);
  }
}

TEST_CASE("sequences that a mask is cut into are its documents, those of one token too") {
  using Documents = std::vector<Elements>;
  for (const Elements& lengths : Documents{{4}, {1, 4}, {4, 1}, {4, 1, 3}, {1, 1, 4, 1}, {2, 2}}) {
    for (const bool causal : {false, true}) {
      // A composition says nothing of documents: they are found in who sees whom.
      const Mask document = make_mask("document", {{"lengths", lengths}, {"causal", causal}});
      const Mask both = make_mask("and", {{"of", std::vector<Mask>{document, document}}});
      Elements sums = {0};
      for (const std::int64_t length : lengths)
        sums.push_back(sums.back() + length);
      const Problem problem = make_problem(both, {sums.back(), sums.back()}, {1, 1}, 1, 1);
      const Bundle bundle = exported(problem, *find_export_format("cu-seqlens"), Ragged::in_bounds);
      CAPTURE(lengths, causal);
      CHECK(bundle.at("cu_seqlens_q").elements == sums);
      CHECK(bundle.at("cu_seqlens_k").elements == sums);
      CHECK(bundle.at("causal").elements == Elements{causal ? 1 : 0});
    }
  }
  CHECK(refusal("slices:q=0+3+3+6,kv=0+3+3+6,types=0+1", {6, 6}, {}, "cu-seqlens")
            .find("a causal sequence and one that is not meet") != std::string::npos);
}

TEST_CASE("safetensors have the same things as .npz, in words where those are metadata") {
  for (const ExportFormat& format : export_formats()) {
    const Problem problem = make_problem(make_mask("causal"), {16, 16}, {4, 4}, 1, 1);
    const Bundle bundle = exported(problem, format, format.ragged);
    const Bundle npz = read_npz(write_bundle(bundle, "x.npz"), "x");
    const Bundle safe = read_safetensors(write_bundle(bundle, "x.safetensors"), "x");
    CAPTURE(format.name);
    for (const std::string& name : npz.names()) {
      CAPTURE(name);
      CHECK((safe.find(name) != nullptr) != safe.words.contains(name));
      if (const Tensor* tensor = safe.find(name)) CHECK(*tensor == npz.at(name));
    }
  }
}

TEST_CASE("blocks of any size are written, and the pairs of partial ones up to a limit") {
  constexpr std::int64_t kSide = 16'384;
  static_assert(kSide * kSide > kMaxElements);
  const auto problem = [](const char* mask) {
    return make_problem(parse_mask(mask), {kSide, kSide}, {.q = kSide, .kv = kSide}, 1, 1);
  };
  const ExportFormat& bsr = *find_export_format("bsr");
  const Bundle full = exported(problem("full"), bsr, bsr.ragged);
  CHECK(full.at("indices").elements == Elements{0});
  CHECK_FALSE(full.has("mask"));
  try {
    static_cast<void>(exported(problem("causal"), bsr, bsr.ragged));
    FAIL("taken");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::limit);
    CHECK(std::string(error.what()) == "bsr: masks of 1 blocks of 268435456 pairs are not written");
  }
}

TEST_CASE("a layout that cannot hold a mask says which tile breaks it") {
  CHECK(refusal("tiles:rows=ff+.p", {2, 2}, {}, "magi") ==
        "magi cannot hold the mask: in tile (kv 1, q 1) some pairs attend, and a block-sparse mask "
        "does not say which");
  CHECK(refusal("tiles:rows=f.f.f.+ffffff", {6, 2}, {}, "flashmask") ==
        "flashmask cannot hold the mask: in tile (kv 0, q 5) key 0 has more than two ranges of "
        "queries that do not see it");
  CHECK(refusal("causal", {7, 8}, {.q = 2, .kv = 2}, "bsr") ==
        "bsr cannot hold the mask: in tile (kv 3, q 3) tokens are missing; its blocks are whole");
  CHECK(
      refusal("document:lengths=5+3", {8, 8}, {.q = 4, .kv = 4}, "cu-seqlens") ==
      "cu-seqlens cannot hold the mask: in tile (kv 1, q 1) sequence 1 begins within it; a kernel "
      "begins each in a tile of its own (varlen, with align_q and align_kv)");
  CHECK(refusal("prefix:length=2", {8, 8}, {.q = 4, .kv = 4}, "cu-seqlens") ==
        "cu-seqlens cannot hold the mask: in tile (kv 0, q 0) query 0 sees keys up to 2, not 1 as "
        "in a sequence that is causal or full");
  CHECK(refusal("sliding:left=1,right=0 | global:first=1", {8, 8}, {.q = 4, .kv = 4}, "cu-seqlens")
            .find("in tile (kv 0, q 0)") != std::string::npos);
}

TEST_CASE("FlashMask's columns are as few as they can be") {
  const auto columns = [](const char* mask) {
    const Problem problem = make_problem(parse_mask(mask), {16, 16}, {2, 2}, 1, 1);
    const Bundle bundle = exported(problem, *find_export_format("flashmask"), Ragged::in_bounds);
    const bool causal = bundle.at("causal").elements.front() != 0;
    return std::pair(causal, bundle.at("startend_row_indices").shape.back());
  };
  CHECK(columns("causal") == std::pair(true, std::int64_t{1}));
  CHECK(columns("sliding:left=5,right=0") == std::pair(true, std::int64_t{1}));
  CHECK(columns("full") == std::pair(false, std::int64_t{2}));
  CHECK(columns("document:lengths=5+3+8") == std::pair(false, std::int64_t{2}));
  CHECK(columns("prefix:length=5") == std::pair(false, std::int64_t{2}));
  CHECK(columns("sliding:left=3,right=3 | global:first=2,symmetric=true") ==
        std::pair(false, std::int64_t{4}));
  CHECK(columns("sliding:left=2,right=0 | causal & slices:q=12+16,kv=0+8") ==
        std::pair(true, std::int64_t{2}));
}

/// The queries that do not see a key, as bits.
using Masked = std::uint32_t;

Masked between(std::int64_t begin, std::int64_t end) {
  Masked bits = 0;
  for (std::int64_t query = begin; query < end; ++query)
    bits |= 1U << query;
  return bits;
}

/// Whether FlashMask's columns of a form can say who does not see a key, by trying all numbers.
bool can_say(bool causal, int columns, std::int64_t key, const Lengths& lengths, Masked masked) {
  const std::int64_t end = lengths.q;
  const std::int64_t diagonal = std::clamp<std::int64_t>(key - lengths.kv + end, 0, end);
  for (std::int64_t lts = 0; lts <= end; ++lts) {
    for (std::int64_t other = 0; other <= end; ++other) {
      if (causal) {
        const std::int64_t lte = columns == 1 ? end : other;
        if ((between(0, diagonal) | between(lts, lte)) == masked) return true;
        continue;
      }
      if (columns == 2 && (between(lts, end) | between(0, other)) == masked) return true;
      for (std::int64_t pair = 0; columns == 4 && pair < (end + 1) * (end + 1); ++pair) {
        const Masked upper = between(pair / (end + 1), pair % (end + 1));
        if ((between(lts, other) | upper) == masked) return true;
      }
    }
  }
  return false;
}

TEST_CASE("FlashMask's form is the first that can say who sees what, of all small masks") {
  constexpr std::array kForms = {std::pair(true, 1), std::pair(true, 2), std::pair(false, 2),
                                 std::pair(false, 4)};
  std::map<int, int> chosen;
  for (const Lengths& lengths : {Lengths{4, 2}, Lengths{3, 3}, Lengths{2, 4}, Lengths{7, 1}}) {
    for (Masked all = 0; all < 1U << (lengths.q * lengths.kv); ++all) {
      std::vector<std::string> rows;
      std::vector<Masked> masked;
      for (std::int64_t key = 0; key < lengths.kv; ++key) {
        masked.push_back(all >> (key * lengths.q) & between(0, lengths.q));
        rows.emplace_back();
        for (std::int64_t query = 0; query < lengths.q; ++query)
          rows.back() += (masked.back() >> query & 1U) != 0 ? '.' : 'f';
      }
      int form = 0;
      const auto says = [&](std::int64_t key) {
        const auto [causal, columns] = kForms[at(form)];
        return can_say(causal, columns, key, lengths, masked[at(key)]);
      };
      const auto all_say = [&] {
        bool every = true;
        for (std::int64_t key = 0; key < lengths.kv; ++key)
          every = every && says(key);
        return every;
      };
      while (form < std::ssize(kForms) && !all_say())
        ++form;
      ++chosen[form];
      const Problem problem =
          make_problem(make_mask("tiles", {{"rows", rows}}), lengths, {1, 1}, 1, 1);
      CAPTURE(lengths.q, lengths.kv, all, form);
      if (form == std::ssize(kForms)) {
        REQUIRE(refusal(problem, "flashmask").find("more than two ranges") != std::string::npos);
        continue;
      }
      const Bundle bundle = exported(problem, *find_export_format("flashmask"), Ragged::in_bounds);
      REQUIRE((bundle.at("causal").elements.front() != 0) == kForms[at(form)].first);
      REQUIRE(bundle.at("startend_row_indices").shape.back() == kForms[at(form)].second);
      REQUIRE(read_again(write_bundle(bundle, "x.npz"), "x.npz", problem) == problem.common_grid());
    }
  }
  for (int form = 0; form <= std::ssize(kForms); ++form)
    CHECK(chosen[form] > 5);
}

TEST_CASE("FlexAttention's lists are those that PyTorch makes, up to the ids beyond the counts") {
  const Problem problem =
      make_problem(parse_mask("sliding:left=5,right=0"), {16, 16}, {2, 2}, 1, 1);
  const Bundle bundle = exported(problem, *find_export_format("flex"), Ragged::flex);
  const auto elements = [&](const char* name) { return bundle.at(name).elements; };
  CHECK(elements("kv_num_blocks") == Elements{1, 1, 1, 2, 2, 2, 2, 2});
  CHECK(elements("full_kv_num_blocks") == Elements{0, 1, 2, 2, 2, 2, 2, 2});
  CHECK(elements("q_num_blocks") == Elements{2, 2, 2, 2, 2, 1, 1, 1});
  CHECK(elements("full_q_num_blocks") == Elements{2, 2, 2, 2, 2, 2, 1, 0});
  const Elements kv = elements("kv_indices");
  CHECK(Elements(kv.begin() + 24, kv.begin() + 32) == Elements{0, 3, 1, 2, 4, 5, 6, 7});
  const Elements full_q = elements("full_q_indices");
  CHECK(Elements(full_q.begin() + 24, full_q.begin() + 26) == Elements{4, 5});
  CHECK(bundle.at("kv_indices").shape == Elements{1, 1, 8, 8});
  CHECK(elements("seq_lengths") == Elements{16, 16});
}

}  // namespace
}  // namespace stagger::formats
