#include "core/error.hpp"
#include "workbench/tickets/rules/cause.hpp"

#include <set>
#include <unordered_set>
#include <vector>

namespace stagger::tickets {

extern const Rule kStg016;

namespace {

constexpr Example kStg016Examples[] = {
    {.notation = "P0: q0@0\nP1: q0@1\nP0: q0@2", .outcome = "ends: kv 0 is added twice"},
    {.notation = "P0: q0@0\nP1: q0@1\nP2: q0@2", .outcome = "ends"},
};

class Coverage {
 public:
  Coverage(const Facts& facts, Findings& findings) : facts_(facts), findings_(findings) {
    for (const Broken& broken : facts.chains.broken()) {
      if (broken.fault == Fault::twice) twice_.insert(broken.step);
    }
  }

  void run() {
    for (Program program{0}; program.value < facts_.tickets.programs(); ++program)
      check_program(program);
    if (facts_.grids != nullptr) check_grids();
  }

 private:
  void add(std::int64_t step, const char* what) {
    const bool full = findings_.full(kStg016);
    findings_.push_back({.rule = &kStg016,
                         .level = kStg016.level,
                         .message = full ? "" : describe(facts_.tickets.steps[step].task) + what,
                         .step = step});
  }

  /// Chains that are whole, and no task twice.
  void check_program(Program program) {
    std::int64_t before = -1;
    for (std::int64_t step = facts_.tickets.begin_of(program);
         step < facts_.tickets.end_of(program); ++step) {
      const Step& at = facts_.tickets.steps[step];
      if (!at.reduces) continue;
      const bool begins = before < 0 || facts_.tickets.steps[before].chain != at.chain;
      if (begins && !chains_.insert(at.chain).second) {
        add(step, ": its KV tile was begun before, elsewhere: dK and dV would leave the registers");
      }
      if (!tasks_.insert(at.task).second && !twice_.contains(step)) {
        add(step, " is reduced twice: dQ has it two times");
      }
      before = step;
    }
  }

  void check_grids() {
    for (std::int64_t step = 0; step < std::ssize(facts_.tickets.steps); ++step) {
      const Step& at = facts_.tickets.steps[step];
      if (!at.reduces) continue;
      STAGGER_EXPECTS(at.task.head.value < facts_.heads);
      const TileGrid& grid = facts_.grids->of(at.task.head);
      STAGGER_EXPECTS(grid.contains(at.task.kv, at.task.q));
      if (!grid.live(at.task.kv, at.task.q)) add(step, " is an empty tile of the mask");
    }
    for (Head head{0}; head.value < facts_.heads; ++head) {
      for (KvTile kv{0}; kv.value < facts_.grids->of(head).kv_tiles(); ++kv)
        check_missing(head, kv);
    }
  }

  void check_missing(Head head, KvTile kv) {
    const TileGrid& grid = facts_.grids->of(head);
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const Task task{head, kv, q};
      if (!grid.live(kv, q) || tasks_.contains(task)) continue;
      const bool full = findings_.full(kStg016);
      findings_.push_back({.rule = &kStg016,
                           .level = kStg016.level,
                           .message = full ? "" : describe(task) + " is live and in no program"});
    }
  }

  const Facts& facts_;
  Findings& findings_;
  std::unordered_set<std::int64_t> chains_;
  std::set<Task> tasks_;
  std::set<std::int64_t> twice_;
};

void check_stg016(const Facts& facts, Findings& findings) {
  Coverage(facts, findings).run();
}

}  // namespace

const Rule kStg016{
    .id = "STG016",
    .title = "each live tile is reduced once, in its KV tile's chain, and no other tile is",
    .level = Level::error,
    .what =
        "A tile that is missing, reduced twice, or reduced though it is empty gives wrong "
        "gradients and no hang. The tiles of a KV tile belong together: dK and dV are summed "
        "in registers, and a chain that is begun a second time begins them anew.",
    .seen = "tables and lists made by hand",
    .examples = kStg016Examples,
    .check = check_stg016};

}  // namespace stagger::tickets
