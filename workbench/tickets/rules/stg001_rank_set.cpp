#include "workbench/tickets/rules/cause.hpp"

namespace stagger::tickets {

extern const Rule kStg001;

namespace {

constexpr Example kStg001Examples[] = {
    {.notation = "P0:\nP1: q0@1", .outcome = "hangs"},
    {.notation = "P0:\nP1: q0@0", .outcome = "ends"},
};

void check_stg001(const Facts& facts, Findings& findings) {
  report_cause(kStg001, Cause::rank_set,
               "The values of a dQ tile are its ranks 0 to k-1, each once", facts, findings);
}

}  // namespace

const Rule kStg001{
    .id = "STG001",
    .title = "the lock values of one dQ tile are its ranks 0 to k-1",
    .level = Level::error,
    .what =
        "A semaphore begins at 0 and each of the k tiles that add to a dQ tile advances it by "
        "1. Whoever waits for a value that is not among 0 to k-1, or for one that another "
        "waits for too, waits for ever. The usual cause is a kernel that waits for its KV "
        "tile's number: right where every tile is live, a hang on a sparse row. Wait for the "
        "rank among the live tiles of the row instead.",
    .seen =
        "FBGEMM: https://github.com/pytorch/FBGEMM/pull/4982\n"
        "cuDNN frontend: https://github.com/NVIDIA/cudnn-frontend/pull/866\n"
        "FlashAttention-4: https://github.com/Dao-AILab/flash-attention/pull/2253",
    .examples = kStg001Examples,
    .check = check_stg001};

}  // namespace stagger::tickets
