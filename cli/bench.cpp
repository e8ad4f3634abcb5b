#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/requests.hpp"
#include "cli/terminal.hpp"
#include "core/as_played.hpp"
#include "core/error.hpp"
#include "core/json.hpp"
#include "core/median.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "dag/bounds.hpp"
#include "dag/lemma1.hpp"
#include "dag/verify.hpp"
#include "sim/bubbles.hpp"
#include "sim/critical_path.hpp"
#include "sim/simulate.hpp"

#include <fmt/format.h>

#include <chrono>

namespace stagger::cli {
namespace {

/// A step of `analyze` and its wall times.
struct BenchStep {
  const char* name;
  std::vector<double> seconds;
};

template <class Work>
auto timed(BenchStep& step, Work work) {
  const auto start = std::chrono::steady_clock::now();
  auto result = work();
  step.seconds.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return result;
}

/// Unless it is said how many runs there are to be, none but the first begins after so long: a
/// schedule that searches may take seconds.
constexpr std::chrono::seconds kLongEnough(4);

struct Measured {
  std::vector<BenchStep> steps;
  dag::Verdict verdict = dag::Verdict::ok;  ///< of the table; the other steps are for sound ones
};

Measured measure(const Options& options, const Problem& problem) {
  const schedules::Selection selection = schedules::select(options.schedule);
  const Timing timing = time_model_of(options, problem).timing;
  check_timing(timing, problem);
  Measured measured;
  measured.steps = {{"generate", {}},      {"verify", {}},  {"simulate", {}}, {"bubbles", {}},
                    {"critical path", {}}, {"Lemma 1", {}}, {"bounds", {}}};
  const bool asked = !given_of(options, "repeat").empty();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t run = 0; run < options.repeat; ++run) {
    if (run > 0 && !asked && std::chrono::steady_clock::now() - begin > kLongEnough) break;
    auto step = measured.steps.begin();
    const Table table =
        timed(*step++, [&] { return schedules::build(selection, problem, timing); });
    measured.verdict = timed(*step++, [&] { return dag::verify(table, timing); }).verdict;
    if (measured.verdict != dag::Verdict::ok) return measured;
    const AsPlayed played(table, timing);
    const Table& steps = played.table();
    const Timing& of_steps = played.timing();
    const auto simulation = timed(*step++, [&] { return sim::simulate(steps, of_steps); });
    timed(*step++, [&] { return sim::bubbles(steps, of_steps, simulation); });
    timed(*step++, [&] { return sim::critical_path(steps, of_steps, simulation); });
    timed(*step++, [&] { return dag::check_lemma1(steps, of_steps, 0, false); });
    timed(*step++, [&] { return dag::lower_bounds(problem, timing, table.dispatch); });
  }
  return measured;
}

int bench_command(const Options& given) {
  Options options = given;
  if (options.schedule.empty()) options.schedule = "symmetric-shift";
  if (!options.problem_given) {
    options.n = 256;
    if (given_of(options, "heads").empty()) options.heads = 64;
  }
  const Problem problem = problem_of(options);
  const auto [steps, verdict] = measure(options, problem);
  if (verdict != dag::Verdict::ok) {
    complain(options.schedule + ": " + dag::verdict_name(verdict) + "; see `stagger analyze`");
    return exit_code(verdict);
  }
  const auto tasks = static_cast<double>(problem.tasks());
  const auto runs = std::ssize(steps.front().seconds);
  Json json = {
      {"schema", "stagger.bench/1"}, {"version", version()}, {"schedule", options.schedule},
      {"tasks", problem.tasks()},    {"runs", runs},         {"steps", Json::array()}};
  const int width = terminal_of(options).width;
  std::string text = wrapped(fmt::format("{}, {}; {}\n", describe(problem), options.schedule,
                                         counted(runs, "run")),
                             width, 6) +
                     fmt::format("{:<14} {:>10} {:>16}\n", "step", "median ms", "million tasks/s");
  for (const BenchStep& step : steps) {
    const double seconds = median(step.seconds);
    json["steps"].push_back(
        {{"name", step.name}, {"seconds", seconds}, {"tasks_per_s", tasks / seconds}});
    text += fmt::format("{:<14} {:>10.2f} {:>16.1f}\n", step.name, 1e3 * seconds,
                        1e-6 * tasks / seconds);
  }
  write_stdout(options.json ? json.text() + "\n" : text);
  return kHolds;
}

}  // namespace

extern const Command kBench;
const Command kBench{
    .name = "bench",
    .summary = "Time generation, verification and simulation on this machine",
    .examples =
        "  stagger bench\n"
        "  stagger bench --mask full --n 128 --heads 64 --sms 132 --schedule shift\n",
    .run = bench_command,
};

}  // namespace stagger::cli
