#include "cli/report/run.hpp"

#include "cli/commands.hpp"
#include "cli/designs.hpp"
#include "cli/device.hpp"
#include "cli/files.hpp"
#include "cli/heed.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "workbench/execution.hpp"
#include "workbench/run_file.hpp"

#include <fmt/format.h>

namespace stagger::cli {
namespace {

using workbench::Execution;

void check_run(const Options& options) {
  const std::string kernel = std::string("--kernel ") + options.kernel->name;
  const bool spins = options.kernel->spins();
  if (options.device == Device::cpu && options.kernel->on_cpu == nullptr) {
    throw Error(ErrorKind::usage, kernel + " is for --device cuda: " +
                                      (spins ? "`stagger analyze` simulates the same"
                                             : "the CPU runs the same table as portable"));
  }
  if (options.device == Device::cpu && options.reference == workbench::Reference::device) {
    throw Error(ErrorKind::usage, "--reference device is for --device cuda");
  }
  if (spins && options.model.value_or(options.kernel->model) != options.kernel->model) {
    throw Error(ErrorKind::usage, kernel + " plays the chain model alone");
  }
  if (spins) {
    reject(given_of(options, "dtype head-dim seed reference no-partials"),
           "means nothing beside " + kernel + ", which computes nothing");
  }
  if (spins && options.dropped) {
    throw Error(ErrorKind::usage,
                "--dropout means nothing beside " + kernel + ", which computes nothing");
  }
  if (options.dropped && !(*options.dropped < 1)) {
    throw Error(ErrorKind::usage, "--dropout is not below 1");
  }
  if (options.mode != gpu::Mode::deterministic) {
    reject(given_of(options, "no-partials"),
           "means nothing beside --mode, as only deterministic partials are kept");
  }
  if (options.runs == 1) {
    reject(given_of(options, "perturb"), "delays all runs but the first; give --repeat 2 or more");
  }
  check_standard_output(options);
  if (options.threads != 0 && options.device != Device::cpu) {
    throw Error(ErrorKind::usage, "--threads is for --device cpu");
  }
  if (!options.output.empty() && options.output != "-" && !options.output.ends_with(".json")) {
    throw Error(ErrorKind::usage, options.output +
                                      ": a run writes its timeline as .json; draw it with "
                                      "`stagger export --timeline`");
  }
}

int code_of(const Execution& execution) {
  if (!execution.refused.empty()) return kDeadlock;
  if (!execution.runs) return exit_code(execution.analysis);
  switch (execution.runs->verdict) {
    case gpu::RunVerdict::ok:
      return execution.cut_short ? kInterrupted : kHolds;
    case gpu::RunVerdict::mismatch:
      return kViolated;
    case gpu::RunVerdict::deadlock:
    case gpu::RunVerdict::timeout:
      break;
  }
  return kDeadlock;
}

int run_command(const Options& options) {
  check_run(options);
  if (!options.design.empty()) {
    if (const auto code = run_design(options)) return *code;
  }
  if (options.device == Device::cuda && !has_device()) return kSkipped;
  Progress progress;
  workbench::ExecutionRequest request = execution_request(options, source_of(options));
  request.progress = [&](const char* what, double fraction) { progress.show(what, fraction); };
  request.begins = finish_on_interrupt;  // before the first run there is nothing to keep
  request.stop = interruption();
  const Execution execution = workbench::execute(std::move(request));
  progress.end();
  if (execution.cut_short) {
    complain(fmt::format("interrupted after {} of {}", execution.runs->repeats,
                         counted(execution.repeats, "run")));
  }
  if (!options.output.empty() && execution.runs) {
    write_file(options.output, write_timeline_json(timeline_of(execution)));
  }
  if (options.output == "-") return code_of(execution);
  if (options.json) {
    write_stdout(workbench::write_run(execution) + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(run_text(execution, terminal), terminal);
  }
  return code_of(execution);
}

}  // namespace

extern const Command kRun;
const Command kRun{
    .name = "run",
    .summary = "The backward pass by a table, for real: gradients, bits, order, time",
    .examples =
        "  stagger run --mask causal --seq 512 --tile-q 64 --tile-kv 64 --heads 4 \\\n"
        "      --schedule symmetric-shift\n"
        "  stagger run --table mine.table.json --perturb 1 --repeat 20 --dtype bf16\n"
        "  stagger run --n 8 --mask full --schedule shift --tile-q 32 --tile-kv 32 \\\n"
        "      --mode atomic\n"
        "  stagger run --n 8 --tile-q 64 --tile-kv 64 --schedule spt --dropout 0.1 \\\n"
        "      --mask-bits stored\n"
        "  stagger run --n 8 --tile-q 64 --tile-kv 64 --schedule spt -o run.timeline.json\n"
        "  stagger run --n 8 --tile-q 64 --tile-kv 64 --heads 2 --sms 8 --design split\n"
        "  stagger run --config configs/varlen_full_1k.json --ranks kv-index\n"
        "  stagger run --mask causal --n 64 --schedule symmetric-shift --device cuda \\\n"
        "      --kernel replay --tick-ns 1000\n"
        "  stagger run --mask causal --seq 8192 --tile-q 64 --tile-kv 128 --heads 32 \\\n"
        "      --sms 132 --schedule symmetric-shift --device cuda --kernel hopper \\\n"
        "      --dtype bf16 --head-dim 128\n",
    .run = run_command,
};

}  // namespace stagger::cli
