#include "core/rank_places.hpp"
#include "gpu/check/perturbation.hpp"
#include "gpu/cuda/runner.cuh"
#include "gpu/cuda/stopwatch.cuh"

#include <algorithm>
#include <span>
#include <string>
#include <thread>
#include <utility>

namespace stagger::gpu::cuda {
namespace {

constexpr int kMinusOne = 0xff;  ///< in every byte

/// A kernel without a deadline could hang the GPU for everybody.
constexpr std::chrono::milliseconds kLongestWait{60'000};

/// The least pause before a run that is timed rested, and it is as long as the run before: on an
/// H200 a millisecond was too short for runs of ten, five were not.
constexpr std::chrono::nanoseconds kRest = std::chrono::milliseconds(5);

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  STAGGER_CUDA_TRY(cudaGetDevice(&device));
  STAGGER_CUDA_TRY(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

std::vector<std::int64_t> places_of(const Problem& problem) {
  const RankPlaces places(problem);
  std::vector<std::int64_t> first;
  for (Head head{0}; head.value < problem.heads; ++head) {
    for (QTile q{0}; q.value < problem.q_tiles(); ++q)
      first.push_back(static_cast<std::int64_t>(places.of({head, {}, q}, 0)));
  }
  return first;
}

/// Whether a slot ends a chain that waits for its turn at dK and dV.
bool ends_waiting_chain(const Table& table, Lane lane, std::int64_t slot,
                        const std::vector<ChainTimes>& chains) {
  if (chains.empty() || !table.ends_chain(lane, slot)) return false;
  const ChainTimes& times = chains[at(table.problem.chain_place(table.slots[slot].task))];
  return times.ready >= 0 && times.turn < 0;
}

/// Finds each lane's first slot that has not reduced, or whose chain has not.
std::vector<std::int64_t> next_slots(const Table& table, const std::vector<std::int64_t>& witness,
                                     const std::vector<ChainTimes>& chains, Mode mode) {
  std::vector<bool> done(table.slots.size(), mode == Mode::no_reduce);
  for (const std::int64_t slot : witness) {
    if (slot >= 0) done[at(slot)] = true;
  }
  std::vector<std::int64_t> next;
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    std::int64_t slot = table.begin_of(lane);
    while (slot < table.end_of(lane) && done[at(slot)] &&
           !ends_waiting_chain(table, lane, slot, chains)) {
      ++slot;
    }
    next.push_back(slot);
  }
  return next;
}

std::vector<std::uint8_t> delays_of(const Table& table, std::optional<std::uint64_t> seed) {
  std::vector<std::uint8_t> delays;
  if (!seed) return delays;
  const auto slots = static_cast<std::int64_t>(table.slots.size());
  delays.reserve(table.slots.size() * kDelayPlaces);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    for (std::uint32_t place = 0; place < kDelayPlaces; ++place)
      delays.push_back(static_cast<std::uint8_t>(delay_us(*seed, slot, place)));
  }
  return delays;
}

/// Returns the least of every `count` values: a tile's turn is that of the step which is furthest
/// behind.
std::vector<std::int32_t> least_of(const std::vector<std::int32_t>& values, std::int32_t count) {
  std::vector<std::int32_t> least;
  for (auto first = values.begin(); first != values.end(); first += count)
    least.push_back(*std::min_element(first, first + count));
  return least;
}

/// Whether parts had their turns as the ranks say; -1: the run has stopped.
bool in_order(const Table& table, KvTile kv, std::span<const std::int32_t> parts) {
  std::int32_t n = 0;
  for (const std::int32_t part : parts) {
    if (part >= 0 && table.dkv_rank(Part{part}, kv) != n) return false;
    ++n;
  }
  return true;
}

/// Returns one order of parts for each KV tile, of those that its `count` semaphores have seen: one
/// that is not the table's, if there is one.
std::vector<std::int32_t> worst_of(const Table& table, const std::vector<std::int32_t>& witness,
                                   std::int32_t count) {
  std::vector<std::int32_t> worst;
  const std::size_t parts = at(table.problem.group_parts());
  const std::size_t of_tile = parts * at(count);
  for (std::size_t first = 0; first < witness.size(); first += of_tile) {
    const auto tile = static_cast<std::int32_t>(first / of_tile);
    const KvTile kv{tile % table.problem.kv_tiles()};
    std::span<const std::int32_t> taken(&witness[first], parts);
    for (std::size_t next = parts; next < of_tile && in_order(table, kv, taken); next += parts)
      taken = {&witness[first + next], parts};
    worst.insert(worst.end(), taken.begin(), taken.end());
  }
  return worst;
}

std::int64_t timeout_ns(const BackwardOptions& options) {
  const auto timeout = options.timeout.count() == 0 ? kLongestWait : options.timeout;
  return std::chrono::nanoseconds(timeout).count();
}

/// Returns the length of a cycle by the clock rate that the device says it has, which it need not
/// run at.
double nominal_ns_per_cycle() {
  constexpr double kNsOfKilohertz = 1e6;
  return kNsOfKilohertz / std::max(1, attribute(cudaDevAttrClockRate));
}

}  // namespace

void admit_shared_bytes(const Kernel& kernel) {
  STAGGER_CUDA_TRY(cudaFuncSetAttribute(kernel.function,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(kernel.shared_bytes)));
}

void launch(const Kernel& kernel, std::int32_t ctas, void** arguments, Start start,
            cudaStream_t stream) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  config.dynamicSmemBytes = kernel.shared_bytes;
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = start == Start::together ? 1 : 0;
  STAGGER_CUDA_TRY(cudaLaunchKernelExC(&config, kernel.function, arguments));
}

Runner::Runner(const Table& table, const BackwardOptions& options, Semaphores semaphores)
    : source_(table),
      semaphores_(semaphores),
      ctas_(std::min(resident_lanes(table.problem, options.residency), table.lanes())),
      slots_(device_slots(table, masked_tiles(table.problem, TokenMask(table.problem)))),
      lane_begin_(table.lane_begin),
      places_(places_of(table.problem)),
      locks_(at(table.problem.heads * std::int64_t{table.problem.q_tiles()} * semaphores.of_q)),
      counts_(at(table.problem.heads * std::int64_t{table.problem.q_tiles()})),
      witness_(table.slots.size()),
      delays_(delays_of(table, options.perturb)),
      times_(options.stamped ? table.slots.size() : 0),
      lane_sms_(at(table.lanes())),
      smids_(at(ctas_)),
      flags_(2) {
  locks_.fill(0);
  counts_.fill(0);
  flags_.fill(0);
  witness_.fill(kMinusOne);
  times_.fill(kMinusOne);
  lane_sms_.fill(kMinusOne);
  table_ = {.slots = slots_.data(),
            .lane_begin = lane_begin_.data(),
            .places = places_.data(),
            .lanes = table.lanes(),
            .q_tiles = table.problem.q_tiles(),
            .kv_tiles = table.problem.kv_tiles(),
            .span = table.problem.span,
            .parts = table.problem.group_parts()};
  run_ = {
      .mode = options.mode,
      .delayed_release = options.mode == Mode::deterministic && options.release == Release::delayed,
      .delays = delays_.data(),
      .timeout_ns = timeout_ns(options),
      .locks = locks_.data(),
      .counts = counts_.data(),
      .witness = witness_.data(),
      .times = times_.data(),
      .lane_sms = lane_sms_.data(),
      .smids = smids_.data(),
      .lanes_taken = flags_.data(),
      .stop = flags_.data() + 1};
  if (table.problem.combine == Combine::ordered) make_dkv_locks(table.problem);
}

void Runner::make_dkv_locks(const Problem& problem) {
  const std::size_t locks =
      at(std::int64_t{problem.heads_kv} * problem.kv_tiles() * semaphores_.of_kv);
  dkv_ranks_ = DeviceBuffer<std::int32_t>(dkv_ranks(source_));
  dkv_locks_ = DeviceBuffer<std::int32_t>(locks);
  dkv_counts_ = DeviceBuffer<std::int32_t>(locks);
  dkv_witness_ = DeviceBuffer<std::int32_t>(locks * at(problem.group_parts()));
  chain_times_ = DeviceBuffer<ChainTimes>(at(problem.chains()));
  dkv_locks_.fill(0);
  dkv_counts_.fill(0);
  dkv_witness_.fill(kMinusOne);
  chain_times_.fill(kMinusOne);
  table_.dkv_ranks = dkv_ranks_.data();
  run_.dkv_locks = dkv_locks_.data();
  run_.dkv_counts = dkv_counts_.data();
  run_.dkv_witness = dkv_witness_.data();
  run_.chain_times = chain_times_.data();
}

std::size_t Runner::shared_bytes(std::size_t needed) {
  const auto most = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  const auto of_sm =
      static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  if (needed > most) {
    throw Error(ErrorKind::unsupported,
                "a tile of this size needs " + std::to_string(needed >> 10) +
                    " KiB of shared memory; this device has " + std::to_string(most >> 10));
  }
  return std::max(needed, of_sm / 2 + 1);
}

Backward Runner::play(const Kernel& kernel, const Enqueue& before, const Enqueue& after,
                      bool warm) {
  if (ctas_ == 0) return results(0);
  prepare(kernel);
  std::int64_t passes_ns = 0;
  std::int64_t untimed_ns = 0;
  // A first run finds cold caches and address translations, and its times are no other's. One that
  // has stopped has shown what there is to see, after a timeout.
  if (warm) static_cast<void>(time_one(kernel, untimed(), before, after));
  if (warm && !has_stopped()) passes_ns = time_passes(kernel, untimed(), before, after);
  if (warm && !has_stopped()) untimed_ns = time_one(kernel, untimed(), before, after);
  const bool finished = !has_stopped();
  lane_sms_.fill(kMinusOne);  // no lane of the run that counts
  Backward result = results(time_one(kernel, run_, before, after));
  result.passes_ns = finished ? passes_ns : 0;
  result.untimed_ns = finished ? untimed_ns : 0;
  return result;
}

UntimedRuns Runner::untimed_runs(const Kernel& kernel, const Enqueue& before, const Enqueue& after,
                                 int warmups, int runs) {
  UntimedRuns result;
  if (ctas_ == 0) {
    result.rested_ns.resize(at(runs));
    result.elapsed_ns.resize(at(runs));
    return result;
  }
  prepare(kernel);
  std::int64_t ns = 0;
  for (int run = -warmups; run < 2 * runs; ++run) {
    const bool rested = run < runs;
    if (rested) std::this_thread::sleep_for(std::max(kRest, std::chrono::nanoseconds(ns)));
    ns = time_one(kernel, untimed(), before, after);
    if (has_stopped()) {
      // Without stamps nobody can tell a deadlock from a long wait.
      result.last.outcome = Outcome::timeout;
      break;
    }
    if (run >= 0) (rested ? result.rested_ns : result.elapsed_ns).push_back(ns);
  }
  return result;
}

std::int64_t Runner::time_one(const Kernel& kernel, const DeviceRun& run, const Enqueue& before,
                              const Enqueue& after) const {
  Stopwatch stopwatch;
  hold_stream();
  stopwatch.begin();
  before(run);
  launch(kernel, run);
  after(run);
  stopwatch.end();
  return stopwatch.elapsed();
}

std::int64_t Runner::time_passes(const Kernel& kernel, const DeviceRun& run, const Enqueue& before,
                                 const Enqueue& after) const {
  Stopwatch all;
  Stopwatch alone;
  hold_stream();
  all.begin();
  before(run);
  alone.begin();
  launch(kernel, run);
  alone.end();
  after(run);
  all.end();
  return all.elapsed() - alone.elapsed();
}

DeviceRun Runner::untimed() const {
  DeviceRun run = run_;
  run.counts = nullptr;
  run.times = nullptr;
  run.dkv_counts = nullptr;
  return run;
}

void Runner::prepare(const Kernel& kernel) const {
  admit_shared_bytes(kernel);
  int by_sm = 0;
  STAGGER_CUDA_TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &by_sm, kernel.function, kernel.threads, kernel.shared_bytes));
  const int resident = by_sm * attribute(cudaDevAttrMultiProcessorCount);
  if (ctas_ <= resident) return;
  throw Error(ErrorKind::device, "the table would have " + std::to_string(ctas_) +
                                     " CTAs resident at once; this device holds " +
                                     std::to_string(resident));
}

void Runner::launch(const Kernel& kernel, const DeviceRun& run) const {
  void* arguments[] = {const_cast<DeviceTable*>(&table_), const_cast<DeviceRun*>(&run),
                       const_cast<void*>(kernel.parameters)};
  cuda::launch(kernel, ctas_, arguments, Start::together, nullptr);
}

Backward Runner::results(std::int64_t elapsed_ns) const {
  Backward result;
  result.witness = witness_.download();
  result.lock_values = least_of(locks_.download(), semaphores_.of_q);
  result.lane_sms = lane_sms_.download();
  result.smids = smids_.download();
  result.elapsed_ns = elapsed_ns;
  AnchoredTimes anchored =
      anchored_times(source_, result.lane_sms, times_.download(), nominal_ns_per_cycle());
  result.times = std::move(anchored.times);
  result.times_error_ns = anchored.error_ns;
  result.dip = anchored.dip;
  result.dkv_witness = worst_of(source_, dkv_witness_.download(), semaphores_.of_kv);
  result.dkv_lock_values = least_of(dkv_locks_.download(), semaphores_.of_kv);
  result.chain_times = chain_times_.download();
  result.next_slots = next_slots(source_, result.witness, result.chain_times, run_.mode);
  for (ChainTimes& chain : result.chain_times) {
    for (auto time : {&ChainTimes::ready, &ChainTimes::turn, &ChainTimes::end}) {
      if (chain.*time >= 0) chain.*time -= anchored.start_ns;
    }
  }
  if (has_stopped()) result.outcome = outcome_when_stopped(source_, result, ctas_);
  return result;
}

}  // namespace stagger::gpu::cuda
