#include "tests/support/attention.hpp"

namespace stagger::test {

std::vector<Problem> every_mask() {
  struct Case {
    const char* mask;
    Lengths lengths;
    TileShape shape;
  };
  const Case cases[] = {
      {"full", {.q = 12, .kv = 16}, {.q = 4, .kv = 4}},
      {"full", {.q = 13, .kv = 10}, {.q = 5, .kv = 3}},
      {"causal", {.q = 16, .kv = 16}, {.q = 4, .kv = 4}},
      {"causal", {.q = 8, .kv = 8}, {}},
      {"causal", {.q = 15, .kv = 9}, {.q = 4, .kv = 2}},
      {"causal", {.q = 7, .kv = 18}, {.q = 2, .kv = 8}},
      {"sliding:left=5,right=2", {.q = 20, .kv = 20}, {.q = 4, .kv = 4}},
      {"sliding:left=3,right=0", {.q = 17, .kv = 12}, {.q = 3, .kv = 5}},
      {"prefix:length=5", {.q = 16, .kv = 16}, {.q = 4, .kv = 4}},
      {"document:lengths=5+1+9+3", {.q = 18, .kv = 18}, {.q = 4, .kv = 4}},
      {"document:lengths=7+0+6,causal=true", {.q = 13, .kv = 13}, {.q = 2, .kv = 4}},
      {"block-causal:q_blocks=0+1+1+3+4,kv_blocks=1+1+2+3", {.q = 5, .kv = 4}, {.q = 2, .kv = 2}},
      {"tiles:rows=f.p+pf.+...+pp.", {.q = 11, .kv = 15}, {.q = 4, .kv = 4}},
      {"tiles:rows=fpf+.fp", {.q = 3, .kv = 2}, {}},
      {"csr:mask_block_cnt=1+1,mask_block_offset=0+1,mask_block_idx=0+1,full_block_cnt=1+0,"
       "full_block_offset=0+1,full_block_idx=1",
       {.q = 12, .kv = 10},
       {.q = 6, .kv = 5}},
  };
  std::vector<Problem> problems;
  for (const Case& each : cases) {
    for (const std::int64_t heads : {1, 2})
      problems.push_back(make_problem(parse_mask(each.mask), each.lengths, each.shape, heads, 0));
  }
  return problems;
}

}  // namespace stagger::test
