// Whole run files, kept in tests/golden, of runs that ended in every way. Times, bits and names are
// made up, so that they are the same everywhere: what is checked is which number goes where.

#include "core/version.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/made_runs.hpp"
#include "tests/support/refusal.hpp"
#include "workbench/run_file.hpp"

#include <string>
#include <utility>

namespace stagger::workbench {
namespace {

using test::causal_source;
using test::made_run;
using test::on_gpu;
using test::predicted_run;
using test::toy_model;

std::string difference(const std::string& name, const Execution& execution) {
  const std::string version = std::string("\"version\": \"") + stagger::version() + "\"";
  const std::string text = test::replaced(write_run(execution), version, "\"version\": \"x\"");
  return test::golden_difference("run-" + name + ".json", text);
}

TEST_CASE("run files say everything of a run, each number in its place") {
  CHECK(difference("cpu", made_run(causal_source())) == "");
  CHECK(difference("gpu", on_gpu(made_run(causal_source()))) == "");
  CHECK(difference("predicted", on_gpu(made_run(causal_source(toy_model())))) == "");
  CHECK(difference("atomic", made_run(causal_source(), gpu::Mode::atomic, false)) == "");
  CHECK(difference("no-reduce", made_run(causal_source(), gpu::Mode::no_reduce)) == "");
}

TEST_CASE("run files say how wrong a prediction is, of each time that was measured") {
  CHECK(difference("predicted-untimed", predicted_run(4'100, std::nullopt)) == "");
  CHECK(difference("predicted-rested", predicted_run(4'100, 3'900)) == "");
  // Without its own time of an untimed run no makespan is told from an untimed median.
  Execution stamped = predicted_run(std::nullopt, 4'400);
  stamped.runs->run.untimed_ns = 0;
  stamped.runs->run.passes_ns = 0;
  stamped.analysis.model.passes = 0;
  CHECK(difference("predicted-stamped", stamped) == "");
}

TEST_CASE("run files of heads that share K and V say which of their sums hang") {
  Source source{.table = {}, .model = {}, .selection = {}};
  source.table.name = "mine";
  source.table.problem = make_problem(make_mask("full"), {2, 4}, {2, 2}, 4, 2,
                                      {.heads_kv = 2, .span = 1, .combine = Combine::ordered});
  // The second KV head's heads are in each other's way on the first KV tile.
  for (const std::int32_t kv : {0, 1}) {
    for (const std::int32_t head : {0, 1})
      source.table.slots.push_back({{Head{head}, KvTile{kv}, QTile{0}}, kv});
  }
  source.table.end_lane();
  for (const std::int32_t kv : {1, 0}) {
    for (const std::int32_t head : {3, 2})
      source.table.slots.push_back({{Head{head}, KvTile{kv}, QTile{0}}, 1 - kv});
  }
  source.table.end_lane();
  CHECK(difference("groups", made_run(std::move(source))) == "");
}

TEST_CASE("run files say what is wrong with a run") {
  Source hanging = causal_source();
  hanging.table.slots.front().rank = 5;
  CHECK(difference("hangs", made_run(std::move(hanging))) == "");

  Source broken = causal_source();
  std::swap(broken.table.slots[5], broken.table.slots[6]);
  CHECK(difference("invalid", made_run(std::move(broken))) == "");

  Execution refused = on_gpu(made_run(causal_source()));
  refused.refused = "the table is too large";
  refused.runs.reset();
  CHECK(difference("refused", refused) == "");

  Execution faulty = on_gpu(made_run(causal_source()));
  faulty.runs->verdict = gpu::RunVerdict::mismatch;
  faulty.runs->faults = {{.kind = "bits", .message = "run 2 gives other bits"}};
  faulty.runs->identical = false;
  faulty.runs->order_matches = false;
  faulty.runs->reaccumulated = false;
  faulty.runs->untimed_median_ns.reset();
  faulty.runs->run.untimed_ns = 0;
  faulty.runs->run.passes_ns = 0;
  faulty.lost_partials = 123;
  faulty.device_reference = true;
  faulty.options.perturb = 9;
  CHECK(difference("faulty", faulty) == "");
}

TEST_CASE("run files of a kernel that spins say for how long, and no arithmetic") {
  Execution spins = on_gpu(made_run(causal_source()));
  spins.kernel = &kernel_of("replay");
  spins.tick_ns = 250;
  spins.spun = {.compute = 8, .reduce = 3};
  spins.runs->errors.reset();
  spins.runs->digests = {};
  CHECK(difference("spins", spins) == "");
}

TEST_CASE("a measured timeline is named by its device, threads with their number") {
  const Execution threads = made_run(causal_source());
  CHECK(timeline_of(threads).device == "a processor, 2 threads");
  CHECK(timeline_of(on_gpu(threads)).device == "a GPU");
}

TEST_CASE("what is left of a run that stopped, tile by tile") {
  Source hanging = causal_source();
  const Problem problem = hanging.table.problem;
  hanging.table.slots.back().rank = 5;
  const Execution execution = made_run(std::move(hanging));
  REQUIRE(execution.stopped());
  std::vector<dag::Liveness::Hanging> left;
  std::size_t lock = 0;
  for (Head head{0}; head.value < problem.heads; ++head) {
    for (QTile q{0}; q.value < problem.q_tiles(); ++q, ++lock) {
      std::int32_t live = 0;
      for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
        live += problem.common_grid().live(kv, q) ? 1 : 0;
      if (execution.runs->run.lock_values[lock] < live) left.push_back({head, q});
    }
  }
  const std::vector<dag::Liveness::Hanging> hangs = hanging_tiles(execution);
  REQUIRE(hangs.size() == left.size());
  REQUIRE_FALSE(left.empty());
  CHECK(left.size() < lock);
  for (std::size_t index = 0; index < left.size(); ++index) {
    CHECK(hangs[index].head == left[index].head);
    CHECK(hangs[index].q == left[index].q);
  }
}

}  // namespace
}  // namespace stagger::workbench
