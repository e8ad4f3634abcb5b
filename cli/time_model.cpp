#include "cli/time_model.hpp"

#include "cli/files.hpp"
#include "cli/options.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/limits.hpp"
#include "gpu/check/attention.hpp"

#include <fmt/format.h>

#include <optional>

namespace stagger::cli {
namespace {

constexpr const char* kSpinning = "replay";  ///< the kernel that only spins

/// Replaces what was given on the command line or in the config.
void apply(const Options& options, Timing& timing) {
  if (!options.model.empty()) {
    timing.model = options.model == "overlap" ? Model::overlap : Model::chain;
  }
  const auto set = [](const auto& given, auto& value) {
    if (given) value = *given;
  };
  // A compute time that is given holds for partial tiles too, unless theirs is.
  if (options.compute) timing.compute_partial.reset();
  set(options.compute, timing.compute);
  if (options.compute_partial) timing.compute_partial = options.compute_partial;
  set(options.reduce, timing.reduce);
  set(options.latency, timing.latency);
  set(options.launch, timing.launch);
  set(options.epilogue, timing.epilogue);
  if (!options.release.empty()) {
    timing.release = options.release == "delayed" ? Release::delayed : Release::immediate;
  }
}

Ticks passes_on(const Problem& problem, const KernelTimes& times) {
  if (!times.passes_per_mi) return 0;
  const gpu::AttentionShape shape = gpu::attention_shape(problem, times.key.head_dim);
  return times.passes_ns(static_cast<std::int64_t>(shape.q_elements()));
}

}  // namespace

KernelKey kernel_key(const Options& options, const TileShape& tile) {
  if (options.kernel == kSpinning) return {.kernel = options.kernel};
  return {
      .kernel = options.kernel, .dtype = options.dtype, .head_dim = options.head_dim, .tile = tile};
}

void fit(Timing& timing, const Problem& problem, std::int32_t sms) {
  if (resident_lanes(problem, timing.residency) > sms) timing.residency = sms;
}

Timing in_ns(const Timing& timing, std::int64_t tick_ns) {
  constexpr Ticks kMostNs = Ticks{1} << 60;
  Timing ns = timing;
  const auto scale = [&](Ticks& ticks) {
    if (ticks > kMostNs / tick_ns) {
      throw Error(ErrorKind::limit, "a phase would spin for more than 2^60 ns");
    }
    ticks *= tick_ns;
  };
  for (Ticks* ticks : {&ns.compute, &ns.reduce, &ns.latency, &ns.launch, &ns.epilogue})
    scale(*ticks);
  if (ns.compute_partial) scale(*ns.compute_partial);
  return ns;
}

TimeModel time_model_of(const Machine& machine, const KernelTimes& times, const Problem& problem,
                        const Timing& spun) {
  TimeModel model{.timing = times.timing(),
                  .clock = Clock::ns,
                  .machine = machine.name,
                  .device = machine.device,
                  .kernel = times.key,
                  .start = times.start.value};
  if (!times.key.dtype.empty()) {
    model.passes = passes_on(problem, times);
  } else {
    Timing& timing = model.timing;
    if (timing.compute_partial || spun.compute_partial) {
      timing.compute_partial =
          timing.compute_of(TileKind::partial) + spun.compute_of(TileKind::partial);
    }
    timing.compute += spun.compute;
    timing.reduce += spun.reduce;
    timing.launch += spun.launch;
    timing.epilogue += spun.epilogue;
  }
  return model;
}

TimeModel time_model_of(const Options& options, const Problem& problem) {
  if (options.residency > kMaxSms) {
    throw Error(ErrorKind::limit, "--residency is above " + std::to_string(kMaxSms));
  }
  TimeModel model;
  if (options.machine.empty()) {
    apply(options, model.timing);
    model.timing.residency = static_cast<std::int32_t>(options.residency);
    return model;
  }
  const Machine machine = read_machine_json(read_file(options.machine), options.machine);
  const KernelTimes& times = times_of(machine, kernel_key(options, problem.shape));
  const bool spins = times.key.dtype.empty();
  model = time_model_of(machine, times, problem,
                        spins ? in_ns(spun_timing(options), options.replay_tick_ns()) : Timing{});
  if (!spins) apply(options, model.timing);
  model.timing.residency = static_cast<std::int32_t>(options.residency);
  fit(model.timing, problem, machine.sms);
  return model;
}

Timing spun_timing(const Options& options) {
  Timing timing;
  apply(options, timing);
  return timing;
}

std::string short_duration(Ticks ticks, Clock clock) {
  if (clock == Clock::ticks) return std::to_string(ticks);
  const auto ns = static_cast<double>(ticks);
  if (ticks < 10'000) return fmt::format("{} ns", ticks);
  if (ticks < 10'000'000) return fmt::format("{:.2f} us", 1e-3 * ns);
  return fmt::format("{:.3f} ms", 1e-6 * ns);
}

std::string duration(Ticks ticks, Clock clock) {
  return short_duration(ticks, clock) + (clock == Clock::ticks ? " ticks" : "");
}

}  // namespace stagger::cli
