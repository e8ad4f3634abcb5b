// What a task's phases take, and whose they are.

#include "cli/rows.hpp"

#include <algorithm>
#include <array>
#include <iterator>

namespace stagger::cli {
namespace {

/// Where a machine profile is the only reason to name a kernel.
constexpr const char* kPredicting = "show analyze compare advise verify export optimize bench";

constexpr Range kBytes = {.least = 1, .most = std::int64_t{1} << 40};

constexpr std::array kModels = {
    Named<Model>{model_name(Model::chain), Model::chain, "the paper's: an SM computes or reduces"},
    Named<Model>{model_name(Model::overlap), Model::overlap, "a writer of its own reduces dQ"}};

std::vector<Word> words_of_all_models() {
  std::vector<Word> words = words_of<kModels>();
  words.push_back({"slot", "no collisions, in rounds"});
  return words;
}

/// What `optimize` can search in: a timing model, or the slot model.
Choice one_of_all_models() {
  return {.words = words_of_all_models, .put = [](Options& options, std::size_t index) {
            options.slot_model = index == kModels.size();
            if (!options.slot_model) options.model = kModels[index].value;
          }};
}

OptionRow phase_row(const char* name, std::optional<Ticks> Options::*target, const char* meaning,
                    const char* fallback, const char* commands) {
  return {.name = name,
          .metavar = "TICKS",
          .meaning = meaning,
          .target = target,
          .commands = commands,
          .group = Group::timing,
          .fallback = fallback,
          .range = {.least = 0}};
}

/// A duration of the device's that a profile knows: none without it, or what it needs.
OptionRow device_row(const char* name, std::optional<Ticks> Options::*target, const char* meaning,
                     const char* needs) {
  OptionRow row =
      phase_row(name, target, meaning, "the profile's with --machine, else 0", kOnProblems);
  row.needs = needs;
  return row;
}

/// A phase that a profile knows, on a problem and in files, which have no profile.
struct Phase {
  const char* name;
  std::optional<Ticks> Options::*target;
  const char* meaning;
  const char* by_profile;
  const char* in_files;
};
constexpr Phase kPhases[] = {
    {"compute", &Options::compute, "c: compute phase of a task",
     "the profile's with --machine, else 5", "5"},
    {"compute-partial", &Options::compute_partial, "compute phase of a task on a partial tile",
     "the profile's with --machine, else as --compute", "as --compute"},
    {"reduce", &Options::reduce, "r: reduction of a task into dQ",
     "the profile's with --machine, else 1", "1"},
    {"latency", &Options::latency, "from a release until the next rank may start",
     "the profile's with --machine, else 0", "0"},
    {"launch", &Options::launch, "before each KV tile's chain",
     "the profile's with --machine, else 0", "0"},
    {"epilogue", &Options::epilogue, "after each KV tile's chain",
     "the profile's with --machine, else 0", "0"},
};

std::vector<OptionRow> rows_of_models() {
  constexpr Group kGroup = Group::timing;
  return {
      {.name = "model",
       .metavar = "MODEL",
       .meaning = "how an SM's phases overlap",
       .target = one_of<kModels, &Options::model>(),
       .commands = "show analyze compare advise verify export run bench",
       .group = kGroup,
       .fallback = "the profile's with --machine, else chain"},
      {.name = "model",
       .metavar = "MODEL",
       .meaning = "how an SM's phases overlap",
       .target = one_of<kModels, &Options::model>(),
       .commands = "diff",
       .group = kGroup,
       .fallback = "chain, as files do not say one"},
      {.name = "model",
       .metavar = "MODEL",
       .meaning = "how an SM's phases overlap",
       .target = one_of_all_models(),
       .commands = "optimize",
       .group = kGroup,
       .fallback = "the profile's with --machine, else chain"},
  };
}

constexpr const char* kReduceKv =
    "of a chain into its KV tile's dK and dV, where parts are combined in order";
constexpr const char* kNextLane =
    "overlap model, dispatch in order: from a lane's last reduction until its SM can launch the "
    "next, beside the epilogue";

/// Of locks, of dK and dV, and of the memory.
std::vector<OptionRow> rows_behind_phases() {
  constexpr Group kGroup = Group::timing;
  return {
      phase_row("reduce-kv", &Options::reduce_kv, kReduceKv,
                "the profile's with --machine and without --reduce, else 2 --reduce, times KV "
                "tile / Q tile",
                kOnProblems),
      phase_row("reduce-kv", &Options::reduce_kv, kReduceKv, "2 --reduce, times KV tile / Q tile",
                "diff"),
      {.name = "reduce-kv-async",
       .meaning = "that reduction is a writer's, beside the SM's next chain",
       .target = &Options::reduce_kv_async,
       .commands = kTimed,
       .group = kGroup},
      phase_row("next-lane", &Options::next_lane, kNextLane,
                "the profile's with --machine, else the epilogue comes first", kOnProblems),
      phase_row("next-lane", &Options::next_lane, kNextLane, "the epilogue comes first", "diff"),
      {.name = "steps",
       .metavar = "N",
       .meaning = "parts that a task is taken in, one after the other, each with a dQ and a turn "
                  "of its own",
       .target = &Options::steps,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else 1",
       .range = {.least = 1, .most = kMaxSteps}},
      {.name = "steps",
       .metavar = "N",
       .meaning = "parts that a task is taken in, one after the other, each with a dQ and a turn "
                  "of its own",
       .target = &Options::steps,
       .commands = "diff",
       .group = kGroup,
       .fallback = "1",
       .range = {.least = 1, .most = kMaxSteps}},
      {.name = "cut-partial",
       .meaning = "a KV tile that the sequence ends within computes as a partial one, as it does "
                  "where the profile says so",
       .target = &Options::cut_partial,
       .commands = kOnProblems,
       .group = kGroup},
      {.name = "cut-partial",
       .meaning = "a KV tile that the sequence ends within computes as a partial one",
       .target = &Options::cut_partial,
       .commands = "diff",
       .group = kGroup},
      {.name = "release",
       .metavar = "WHEN",
       .meaning = "when a lock shows the next rank",
       .target = one_of<kReleases, &Options::release>(),
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else immediate"},
      {.name = "release",
       .metavar = "WHEN",
       .meaning = "when a lock shows the next rank",
       .target = one_of<kReleases, &Options::release>(),
       .commands = "diff",
       .group = kGroup,
       .fallback = "immediate, as files do not say one"},
      {.name = "residency",
       .metavar = "SMS",
       .meaning = "SMs that are really there",
       .target = &Options::residency,
       .commands = kTimed,
       .group = kGroup,
       .fallback = "all of them",
       .range = kSms},
      {.name = "l2",
       .metavar = "BYTES",
       .meaning = "bytes that stay in the L2 cache before device memory",
       .target = &Options::l2,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else no memory is modelled",
       .range = kBytes,
       .needs = "bandwidth machine"},
      {.name = "bandwidth",
       .metavar = "BYTES",
       .meaning = "bytes that device memory moves in a tick, for passes too",
       .target = &Options::bandwidth,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine",
       .range = kBytes,
       .needs = "l2 machine"},
      {.name = "add-permille",
       .metavar = "N",
       .meaning = "what an addition takes of that, in L2 or not, in thousandths of its bytes",
       .target = &Options::add_permille,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "the profile's with --machine, else 0",
       .range = {.least = 0, .most = kMostAddPermille},
       .needs = "l2 machine"},
      device_row("memory-latency", &Options::memory_latency,
                 "from device memory's having moved a tile until it is there", "l2 machine"),
      device_row("congestion", &Options::congestion,
                 "what a hand-over takes longer than --latency while every SM reduces, in "
                 "proportion while fewer do",
                 "l2 machine"),
      device_row("spread", &Options::spread,
                 "what a hand-over takes longer than --latency by chance, in the mean",
                 "l2 machine"),
      device_row("dip", &Options::dip,
                 "from a kernel's begin on, how long its clock dips if it makes more than half of "
                 "the SMs reduce at once",
                 "l2 machine"),
      device_row("dip-loss", &Options::dip_loss,
                 "what is lost of that where all SMs reduce, half of it at most", "dip machine"),
      {.name = "draw",
       .metavar = "N",
       .meaning = "which of 64 sequences chance is drawn from: the same hand-overs with other luck",
       .target = &Options::draw,
       .commands = kOnProblems,
       .group = kGroup,
       .fallback = "0",
       .range = {.least = 0, .most = kMemoryDraws - 1},
       .needs = "spread machine"},
  };
}

}  // namespace

std::vector<OptionRow> timing_rows() {
  std::vector<OptionRow> rows = rows_of_models();
  for (const auto& [name, target, meaning, by_profile, in_files] : kPhases) {
    rows.push_back(phase_row(name, target, meaning, by_profile, kOnProblems));
    rows.push_back(phase_row(name, target, meaning, in_files, "diff"));
  }
  std::ranges::copy(rows_behind_phases(), std::back_inserter(rows));
  return rows;
}

std::vector<OptionRow> machine_rows() {
  constexpr Group kGroup = Group::machine;
  return {
      {.name = "machine",
       .metavar = "MACHINE",
       .meaning = "a profile's name, or a file of one: phases as `stagger calibrate` measured "
                  "them; a tick is then 1 ns",
       .target = &Options::machine,
       .commands = kOnProblems,
       .group = kGroup,
       .proposed = machine_words},
      {.name = "machine",
       .metavar = "MACHINE",
       .meaning = "the profile that predicts: its name, or a file of one",
       .target = &Options::machine,
       .commands = "predict",
       .group = kGroup,
       .fallback = "what the runs say themselves",
       .proposed = machine_words},
      {.name = "kernel",
       .metavar = "KERNEL",
       .meaning = "whose phases",
       .target = one_kernel(),
       .commands = kPredicting,
       .group = kGroup,
       .fallback = "portable",
       .needs = "machine"},
      {.name = "dtype",
       .metavar = "DTYPE",
       .meaning = "its number format",
       .target = one_dtype(),
       .commands = kPredicting,
       .group = kGroup,
       .fallback = "fp32",
       .needs = "machine l2 design designs"},
      {.name = "head-dim",
       .metavar = "ELEMENTS",
       .meaning = "its elements of a query, key or value",
       .target = &Options::head_dim,
       .commands = kPredicting,
       .group = kGroup,
       .fallback = "64",
       .range = kHeadDims,
       .needs = "machine l2 design designs"},
      {.name = "tick-ns",
       .metavar = "NS",
       .meaning = "what a tick lasts in a replay",
       .target = &Options::tick_ns,
       .commands = "show analyze compare advise verify optimize bench",
       .group = kGroup,
       .fallback = "1000",
       .range = kTickNs,
       .needs = "machine"},
      {.name = "tick-ns",
       .metavar = "NS",
       .meaning = "what a tick lasts in a replay (1000), or beside a timeline in ns",
       .target = &Options::tick_ns,
       .commands = "export",
       .group = kGroup,
       .range = kTickNs,
       .needs = "machine timeline"},
  };
}

}  // namespace stagger::cli
