// Every word of masks, and of those that are refused, kept in tests/golden/core-masks.txt. What the
// words must say is tested elsewhere; here no letter of them changes unseen.

#include "core/files.hpp"
#include "core/problem.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/refusal.hpp"

#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace stagger {
namespace {

TEST_CASE("masks from words, and what is said of wrong ones, are as kept") {
  std::ostringstream text;
  for (const char* words :
       {"full",
        "causal",
        "sliding:left=2,right=1",
        "sliding:left=-1",
        "sliding:left=-2",
        "sliding:right=-2",
        "sliding:left=0,right=0",
        "sliding:left=67108864,right=67108865",
        "sliding:left=1,left=2",
        "sliding:left",
        "sliding:left=x",
        "sliding:left=",
        "sliding:=1",
        "sliding:lft=1",
        "slding",
        "sliding:",
        "sliding:,",
        "prefix",
        "prefix:length=3",
        "prefix:length=0",
        "prefix:length=-1",
        "document:lengths=2+3+1",
        "document:lengths=2+3+1,causal=true",
        "document:lengths=2+3+1,causal=1",
        "document:lengths=6,causal=0",
        "document:lengths=6,causal=maybe",
        "document:lengths=2+3",
        "document:lengths=7",
        "document:lengths=-1+7",
        "document:lengths=67108865",
        "document:lengths=67108864+67108864+67108864",
        "document:lengths=6+0",
        "document",
        "block-causal:q_blocks=0+0+1+1+2+3,kv_blocks=0+1+1+2+2+4",
        "block-causal:q_blocks=0+0+1+1+2,kv_blocks=0+1+1+2+2+4",
        "block-causal:q_blocks=1+0+1+1+2+3,kv_blocks=0+1+1+2+2+4",
        "block-causal:q_blocks=0+0+1+1+2+3,kv_blocks=0+1+1+2+2+1",
        "tiles:rows=ffffff+fpfpfp+p.....+......+ppffpp+.p.p.p",
        "tiles:rows=fff",
        "tiles:rows=ffffff+fffff+ffffff+ffffff+ffffff+ffffff",
        "tiles:rows=ffffxf+......+f.....",
        "csr:mask_block_cnt=1+1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=1+0,"
        "full_block_offset=0+1,full_block_idx=1"}) {
    text << words << ": " << test::said([&] {
      const Mask mask = parse_mask(words);
      const Problem problem = make_problem(mask, {6, 6}, {}, 1, 2);
      return mask_words(mask) + "; " + describe(problem) + " " +
             write_mask_json(problem.common_grid());
    }) << "\n";
  }
  const std::string count = "csr:mask_block_cnt=";
  for (const char* rest :
       {"1+1,mask_block_offset=0+1+2,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1,mask_block_offset=0,mask_block_idx=0,full_block_cnt=1+1,full_block_offset=0+1,"
        "full_block_idx=0+1",
        "1+1,mask_block_offset=0+1,mask_block_idx=0+2,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0+2,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+2,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0+1,mask_block_idx=0+-1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=-1+1,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+-1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx=",
        "1+1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=1+0,full_block_offset=0+0,"
        "full_block_idx=0",
        "0+2,mask_block_offset=2+0,mask_block_idx=0+1,full_block_cnt=0+0,full_block_offset=0+0,"
        "full_block_idx="}) {
    text << rest << ": " << test::said([&] {
      const Problem problem = make_problem(parse_mask(count + rest), {2, 2}, {}, 1, 2);
      return describe(problem) + " " + write_mask_json(problem.common_grid());
    }) << "\n";
  }
  for (const MaskFamily& family : mask_families()) {  // each without one of its keys
    for (const MaskKey& missing : family.keys) {
      std::map<std::string, MaskValue, std::less<>> values = parse_mask(family.example).values;
      values.erase(missing.name);
      text << family.name << " without " << missing.name << ": "
           << test::said([&] { return mask_words(make_mask(family.name, std::move(values))); })
           << "\n";
    }
  }
  CHECK(test::golden_difference("core-masks.txt", text.str()) == "");
}

}  // namespace
}  // namespace stagger
