#include "workbench/tickets/rules/launch.hpp"

namespace stagger::tickets {

extern const Rule kStg009;

namespace {

constexpr const char* kShift = "P0: q0@0 q1@1 q2@2\nP1: q1@0 q2@1 q0@2\nP2: q2@0 q0@1 q1@2";
constexpr Example kStg009Examples[] = {
    {.notation = kShift, .outcome = "hangs", .residency = 2, .dispatch = Dispatch::static_},
    {.notation = kShift, .outcome = "ends", .residency = 3, .dispatch = Dispatch::static_},
};

void check_stg009(const Facts& facts, Findings& findings) {
  const std::int64_t needed = facts.ordered.residency_needed;
  const bool hangs = needed > facts.tickets.resident();
  const bool is_static = facts.tickets.dispatch == Dispatch::static_;
  if (needed < 2 || (is_static && !hangs)) return;
  const LaunchOrder order = launch_order(facts);
  if (!is_static && order.meant) return;  // STG008's
  const std::string resident = std::to_string(facts.tickets.resident());
  findings.push_back(
      {.rule = &kStg009,
       .level = hangs ? Level::error : Level::warning,
       .message = "programs wait for each other: " + std::to_string(needed) +
                  " must be resident at once, " +
                  (hangs ? "and there are " + resident + ": it hangs"
                         : "as there are (" + resident +
                               "): launch it so that it is refused elsewhere (cooperatively, or as "
                               "a persistent grid)"),
       .step = order.contrary.empty() ? -1 : order.contrary.front()});
}

}  // namespace

const Rule kStg009{
    .id = "STG009",
    .title = "programs that wait for each other are resident at once",
    .level = Level::error,
    .what =
        "In schedules like DASH's shift every program waits for every other at some time. They "
        "run if all are resident, and hang if one has to wait for a place: give the kernel as "
        "many programs as there are SMs for it, and launch it cooperatively or as a persistent "
        "grid, so that it is refused where it does not fit.\n"
        "An error where it hangs on this machine (--residency); where it does not, a warning "
        "for an ordinary grid (--dispatch in-order), and nothing for --dispatch static.",
    .seen =
        "DASH, section 3.4: https://arxiv.org/abs/2601.21824\n"
        "the same class: https://github.com/vllm-project/vllm/issues/41189",
    .examples = kStg009Examples,
    .check = check_stg009};

}  // namespace stagger::tickets
