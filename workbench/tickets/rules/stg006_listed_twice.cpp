#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg006;

namespace {

constexpr Example kStg006Examples[] = {
    {.notation = "P0: q0@0\nP1: q0@1 q0@1\nP2: q0@2", .outcome = "hangs"},
    {.notation = "P0: q0@0\nP1: q0@1\nP2: q0@2", .outcome = "ends"},
};

void check_stg006(const Facts& facts, Findings& findings) {
  report_cause(kStg006, Cause::listed_twice,
               "The same tile is there twice: in two lists, or twice in one", facts, findings);
}

}  // namespace

const Rule kStg006{
    .id = "STG006",
    .title = "a tile is listed once",
    .level = Level::error,
    .what =
        "A tile in the partial list and in the full list, or twice in one, waits for its "
        "value twice. The second time that is past, so it hangs, and everything behind it. "
        "Give each tile to one list, once.",
    .seen = "block lists made by separate tools: each tile goes to one list",
    .examples = kStg006Examples,
    .check = check_stg006};

}  // namespace stagger::tickets
