#include "workbench/time_model.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/table.hpp"
#include "gpu/check/attention.hpp"

#include <algorithm>

namespace stagger::workbench {
namespace {

/// Counts the elements of Q whose passes move as many bytes as those of a problem: of one, dO, O
/// and a sum of dQ are read and dQ is written; where parts are added in a pass, of an element of K
/// dK and dV of every part are read and their sums are written, all in 16 bits.
std::int64_t pass_elements(const Problem& problem, const gpu::AttentionShape& shape) {
  constexpr std::int64_t kBytesOfQ = 10;
  constexpr std::int64_t kBytesOfPart = 4;
  const auto elements = static_cast<std::int64_t>(shape.q_elements());
  if (problem.combine != Combine::partials) return elements;
  const auto parts = static_cast<std::int64_t>(shape.kv_elements()) * (problem.group_parts() + 1);
  return elements + parts * kBytesOfPart / kBytesOfQ;
}

Ticks passes_on(const Problem& problem, const KernelTimes& times) {
  if (!times.passes_per_mi) return 0;
  return times.passes_ns(pass_elements(problem, gpu::attention_shape(problem, times.key.head_dim)));
}

/// Tells a memory what the problem's SMs, which may be fewer than the device's, ask of it at most.
void load_with(Memory& memory, const Problem& problem, const Machine& machine) {
  memory.congestion = memory.congestion * std::min(problem.sms, machine.sms) / machine.sms;
  memory.dip_loss = lost_on(memory.dip_loss, problem.sms, machine.sms);
}

void check_combination(const GivenTiming& given, const Problem& problem) {
  if (problem.combine == Combine::ordered) return;
  if (!given.reduce_kv && !given.reduce_kv_async) return;
  throw Error(ErrorKind::usage,
              "--reduce-kv and --reduce-kv-async are for parts that are combined in order "
              "(--heads-kv, --span, --combine ordered)");
}

/// How long a chain's reduction into dK and dV takes, where nobody measured it: two tiles of the KV
/// tile's shape instead of one of the Q tile's.
Ticks two_reductions(const Problem& problem, Ticks reduce) {
  constexpr Ticks kMost = Ticks{1} << 60;
  const Checked twice = Checked(2) * reduce * problem.shape.kv;
  if (!twice.within(kMost)) throw Error(ErrorKind::limit, "--reduce is too long");
  return divide_up(twice.value(), problem.shape.q);
}

/// The same by a profile.
Ticks reduce_kv_on(const Problem& problem, const KernelTimes& times) {
  if (problem.combine != Combine::ordered) return 0;
  return times.reduce_kv ? times.reduce_kv->value : two_reductions(problem, times.reduce.value);
}

}  // namespace

Timing GivenTiming::over(Timing timing) const {
  const auto set = [](const auto& given, auto& value) {
    if (given) value = *given;
  };
  set(model, timing.model);
  if (compute) timing.compute_partial.reset();
  set(compute, timing.compute);
  if (compute_partial) timing.compute_partial = compute_partial;
  set(reduce, timing.reduce);
  set(latency, timing.latency);
  set(launch, timing.launch);
  set(epilogue, timing.epilogue);
  set(reduce_kv, timing.reduce_kv);
  timing.reduce_kv_async = reduce_kv_async;
  if (next_lane) timing.next_lane = next_lane;
  if (timing.model == Model::chain) timing.next_lane.reset();
  set(release, timing.release);
  if (steps) timing.steps = static_cast<std::int32_t>(*steps);
  timing.cut_partial = timing.cut_partial || cut_partial;
  const bool of_memory = l2 || bandwidth || add_permille || memory_latency || congestion ||
                         spread || dip || dip_loss || draw;
  if (of_memory && !timing.memory) timing.memory = Memory{};
  if (l2) timing.memory->l2 = *l2;
  if (bandwidth) {
    timing.memory->rate = *bandwidth;
    timing.memory->stream_rate = 0;
  }
  if (add_permille) timing.memory->add_permille = *add_permille;
  if (memory_latency) timing.memory->latency = *memory_latency;
  if (congestion) timing.memory->congestion = *congestion;
  if (spread) timing.memory->spread = *spread;
  if (dip) timing.memory->dip = *dip;
  if (dip_loss) timing.memory->dip_loss = *dip_loss;
  if (draw) timing.memory->draw = *draw;
  return timing;
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
  for (Ticks* ticks :
       {&ns.compute, &ns.reduce, &ns.latency, &ns.launch, &ns.epilogue, &ns.reduce_kv})
    scale(*ticks);
  if (ns.compute_partial) scale(*ns.compute_partial);
  if (ns.next_lane) scale(*ns.next_lane);
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
    if (machine.memory) {
      model.timing = times.timing(memory_of(*machine.memory, times.key));
      load_with(*model.timing.memory, problem, machine);
    }
    model.timing.reduce_kv = reduce_kv_on(problem, times);
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
    timing.reduce_kv = spun.reduce_kv;
  }
  return model;
}

TimeModel time_model_of(const TimeRequest& request, const Problem& problem) {
  TimeModel model{.timing = request.given.over({})};
  const bool spins = request.kernel.dtype.empty();
  KernelKey kernel = request.kernel;
  if (!spins) kernel.tile = problem.shape;
  if (request.machine) {
    const KernelTimes& times = times_of(*request.machine, kernel);
    const Timing spun = spins ? in_ns(model.timing, request.tick_ns) : Timing{};
    model = time_model_of(*request.machine, times, problem, spun);
    if (!spins) model.timing = request.given.over(model.timing);
  }
  if (model.timing.memory) {
    Memory& memory = *model.timing.memory;
    if (memory.l2 == 0 || memory.rate == 0) {
      throw Error(ErrorKind::usage,
                  "a memory needs both its L2 cache's size and its bandwidth (--l2, --bandwidth)");
    }
    if (spins) throw Error(ErrorKind::usage, kernel.kernel + " spins, and touches no memory");
    if (memory.tile == TileBytes{}) memory.tile = tile_bytes(kernel);
  }
  if (request.given.next_lane && model.timing.model == Model::chain) {
    throw Error(ErrorKind::usage,
                "--next-lane is for the overlap model: in the chain model a lane's "
                "end frees its SM");
  }
  check_combination(request.given, problem);
  const bool says_all = request.machine && !spins && !request.given.reduce;
  if (problem.combine == Combine::ordered && !request.given.reduce_kv && !says_all) {
    model.timing.reduce_kv = two_reductions(problem, model.timing.reduce);
  }
  model.timing.residency = request.residency;
  if (request.machine) fit(model.timing, problem, request.machine->sms);
  return model;
}

}  // namespace stagger::workbench
