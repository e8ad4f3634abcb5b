#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg015;

namespace {

constexpr Example kStg015Examples[] = {
    {.notation = "P0:\nP1: q0@1\nP2: q0@2",
     .outcome = "hangs: the order is that of three tiles, the lists have two",
     .origin = Origin::block_lists},
    {.notation = "P0:\nP1: q0@0\nP2: q0@1", .outcome = "ends"},
};

void check_stg015(const Facts& facts, Findings& findings) {
  report_cause(kStg015, Cause::stale,
               "The order has ranks of tiles that the lists do not have: make it again from these "
               "lists",
               facts, findings);
}

const char* beside_stg015(const Facts& facts) {
  return facts.origin == Origin::given ? "there are no block lists in it" : nullptr;
}

}  // namespace

const Rule kStg015{
    .id = "STG015",
    .title = "the write order was made for these lists",
    .level = Level::error,
    .what =
        "A write order is a table of ranks for one mask. After slicing, adjusting or other "
        "lengths the lists have other tiles, and the ranks are those of the mask before. Make "
        "the order again from the lists that the kernel gets.",
    .seen = "PyTorch BlockMask: https://github.com/pytorch/pytorch/pull/188208",
    .examples = kStg015Examples,
    .check = check_stg015,
    .beside = beside_stg015};

}  // namespace stagger::tickets
