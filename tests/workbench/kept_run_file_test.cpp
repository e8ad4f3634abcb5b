// What is understood of run files with a piece missing or wrong, kept in
// tests/golden/runs-broken.txt, of every kind of run that is kept there.

#include "schedules/schedule.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"
#include "workbench/reference.hpp"
#include "workbench/run_file.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace stagger::workbench {
namespace {

std::string understood(const std::string& text) {
  const MeasuredRuns all = read_runs(text, "run");
  std::ostringstream words;
  const auto number = [&](const std::optional<Ticks>& value) {
    words << " " << (value ? std::to_string(*value) : "-");
  };
  for (const MeasuredRun& run : all.runs) {
    const Timing& timing = run.timing;
    words << run.source << " " << describe(run.problem) << " " << run.problem.span << " "
          << run.schedule << (run.from_file ? " of a file " : " ") << run.kernel.kernel << " "
          << run.kernel.dtype << " " << run.kernel.head_dim << " " << run.kernel.tile.q << " "
          << static_cast<int>(timing.model) << " " << timing.compute << " "
          << timing.compute_of(TileKind::partial) << " " << timing.reduce << " " << timing.latency
          << " " << timing.launch << " " << timing.epilogue << " " << timing.residency << " spun "
          << run.spun.compute << " " << run.spun.reduce << " of " << run.tick_ns << " orders "
          << run.orders << " took " << run.measured;
    number(run.predicted);
    number(run.elapsed);
    number(run.predicted_elapsed);
    words << ";";
  }
  for (const std::string& skipped : all.skipped)
    words << " skipped " << skipped << ";";
  return words.str();
}

TEST_CASE("what is understood of runs with a piece missing or wrong is as kept") {
  std::ostringstream text;
  for (const char* run :
       {"atomic", "cpu", "faulty", "gpu", "hangs", "invalid", "no-reduce", "predicted",
        "predicted-rested", "predicted-stamped", "refused", "spins"}) {
    const std::string path = std::string(STAGGER_SOURCE_DIR "/tests/golden/run-") + run + ".json";
    std::ifstream file(path);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    REQUIRE(whole.size() > 500);
    std::ostringstream broken;
    if (std::string_view("gpu predicted-rested predicted-stamped spins").find(run) !=
        std::string_view::npos) {
      test::break_everywhere(broken, whole, ",:[{", understood);
    }
    text << run << ": " << test::said([&] { return understood(whole); }) << "\n"
         << test::text_digest(broken.str()) << "\n";
  }
  CHECK(test::golden_difference("runs-broken.txt", text.str()) == "");
}

TEST_CASE("beside a GPU the host's reference does up to 2^28 pairs of tokens times head_dim") {
  const gpu::AttentionShape shape{.heads = 4, .seq_q = 1'024, .seq_kv = 1'024, .head_dim = 64};
  CHECK_FALSE(uses_device_reference(std::nullopt, true, shape));
  const auto above = [&](auto change) {
    gpu::AttentionShape larger = shape;
    change(larger);
    CHECK_FALSE(uses_device_reference(std::nullopt, false, larger));
    CHECK_FALSE(uses_device_reference(Reference::host, true, larger));
    CHECK_FALSE(uses_device_reference(Reference::none, true, larger));
    return uses_device_reference(std::nullopt, true, larger);
  };
  CHECK(above([](gpu::AttentionShape& larger) { ++larger.heads; }));
  CHECK(above([](gpu::AttentionShape& larger) { ++larger.seq_q; }));
  CHECK(above([](gpu::AttentionShape& larger) { ++larger.seq_kv; }));
  CHECK(above([](gpu::AttentionShape& larger) { ++larger.head_dim; }));
  CHECK(uses_device_reference(Reference::device, true, shape));
}

}  // namespace
}  // namespace stagger::workbench
