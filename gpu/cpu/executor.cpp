// The executor plays every lane as a state machine: its next slot, and what its SM keeps to itself
// (SmMemory). A worker thread takes a lane, plays one task and gives the lane back. If the task's
// turn has not come, the lane is parked with its dQ partial ready, and the worker takes another; a
// chain that ends waits likewise for its turn at dK and dV, where those are combined in order.
//
// Two things order memory between workers, as two things order it between CTAs: a lane's own state
// passes from worker to worker through the mutex of Lanes, and dQ[head, q] passes from rank to
// rank through its semaphore alone, released after the addition and acquired before the next.

#include "gpu/cpu/executor.hpp"

#include "core/error.hpp"
#include "core/rank_places.hpp"
#include "gpu/check/perturbation.hpp"
#include "gpu/cpu/lanes.hpp"
#include "gpu/cpu/semaphores.hpp"
#include "gpu/cpu/tile.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

namespace stagger::gpu {
namespace {

using Clock = std::chrono::steady_clock;

class Executor {
 public:
  Executor(const Table& table, const Attention& attention, const BackwardOptions& options)
      : table_(table),
        options_(options),
        tile_(table.problem, attention, options.dtype),
        places_(table.problem),
        perturbation_(options.perturb),
        scale_(static_cast<float>(attention.shape.scale())),
        sms_(std::min(resident_lanes(table.problem, options.residency), table.lanes())),
        q_tiles_(table.problem.q_tiles()),
        q_locks_(at(table.problem.heads * q_tiles_)),
        locks_(q_locks_ + at(dkv_locks(table.problem))),
        semaphores_(locks_),
        lanes_(table.lanes(), sms_, locks_, semaphores_, options),
        memories_(at(sms_), tile_.memory()),
        states_(at(table.lanes())),
        reduced_(locks_, 0) {
    const AttentionShape& shape = attention.shape;
    result_.gradients.dq.assign(shape.q_elements(), 0);
    result_.gradients.dk.assign(shape.kv_elements(), 0);
    result_.gradients.dv.assign(shape.kv_elements(), 0);
    make_sums(table.problem, shape);
    result_.witness.assign(places_.size(), -1);
    result_.times.resize(table.slots.size());
    if (options.keep_partials) {
      result_.partials.assign(table.slots.size() * tile_.partial_elements(), 0);
    }
    for (Lane lane{0}; lane.value < table.lanes(); ++lane)
      states_[at(lane)].slot = table.begin_of(lane);
  }

  Backward run(std::int32_t threads) {
    start_ = Clock::now();
    play_on(threads);
    result_.elapsed_ns = now();
    result_.outcome = lanes_.outcome();
    end_dq(result_, scale_, options_.dtype);
    if (table_.problem.combine == Combine::partials) {
      add_parts(result_.dk_partials, result_.dk_sums);
      add_parts(result_.dv_partials, result_.dv_sums);
    }
    end_dkv(result_, scale_, options_.dtype);
    if (!options_.keep_partials) {
      result_.dk_partials = {};
      result_.dv_partials = {};
    }
    result_.lane_sms = lanes_.lane_sms();
    for (const LaneState& state : states_)
      result_.next_slots.push_back(state.slot);
    for (std::size_t lock = 0; lock < locks_; ++lock)
      (lock < q_locks_ ? result_.lock_values : result_.dkv_lock_values)
          .push_back(semaphores_.value(lock));
    return std::move(result_);
  }

 private:
  /// How far a lane has come.
  struct LaneState {
    std::int64_t slot = 0;    ///< the next to reduce
    bool computed = false;    ///< whether its dQ partial is ready
    bool reduced = false;     ///< whether only its chain's end is left of it
    std::int64_t holds = -1;  ///< delayed release: the tile whose semaphore is still held
  };

  /// Where dK and dV are combined in order every KV tile that is somebody's has a lock.
  static std::int64_t dkv_locks(const Problem& problem) {
    if (problem.combine != Combine::ordered) return 0;
    return std::int64_t{problem.heads_kv} * problem.kv_tiles();
  }

  void make_sums(const Problem& problem, const AttentionShape& shape) {
    if (problem.combine == Combine::none) return;
    result_.dk_sums.assign(shape.kv_elements(), 0);
    result_.dv_sums.assign(shape.kv_elements(), 0);
    if (problem.combine == Combine::partials || options_.keep_partials) {
      const std::size_t elements = shape.kv_elements() * at(problem.group_parts());
      result_.dk_partials.assign(elements, 0);
      result_.dv_partials.assign(elements, 0);
    }
    if (problem.combine == Combine::partials) return;
    result_.chain_times.resize(at(problem.chains()));
    result_.dkv_witness.assign(at(dkv_locks(problem) * problem.group_parts()), -1);
  }

  /// Plays the whole table; returns when all workers have left.
  void play_on(std::int32_t threads) {
    std::vector<std::jthread> workers;
    workers.reserve(at(threads));
    try {
      while (std::ssize(workers) < threads)
        workers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // The machine gives no more threads; any number of them will do.
      if (workers.empty()) throw;
    }
  }

  void work() {
    while (const auto turn = lanes_.take())
      play(turn->lane, turn->sm);
  }

  /// Plays a lane's next task, or what is left of it, and gives the lane back.
  void play(Lane lane, Sm sm) {
    LaneState& state = states_[at(lane)];
    if (state.slot == table_.end_of(lane)) return lanes_.end(lane);
    cpu::SmMemory& memory = memories_[at(sm)];
    if (!state.computed) compute(lane, state, memory);
    const Slot& slot = table_.slots[state.slot];
    if (options_.mode != Mode::no_reduce && !state.reduced) {
      const std::size_t tile = tile_of(slot.task);
      if (!acquire(tile, slot.rank)) return lanes_.park(lane, tile, slot.rank);
      result_.times[at(state.slot)].turn = now();
      reduce(lane, slot, tile, state, memory);
    }
    if (table_.ends_chain(lane, state.slot)) {
      const std::size_t tile = dkv_tile_of(slot.task);
      if (!end_chain(slot.task, tile, memory)) {
        state.reduced = true;
        return lanes_.park(lane, tile, table_.dkv_rank(slot.task));
      }
    }
    state.computed = false;
    state.reduced = false;
    if (++state.slot == table_.end_of(lane)) return lanes_.end(lane);
    lanes_.go_on(lane);
  }

  void compute(Lane lane, LaneState& state, cpu::SmMemory& memory) {
    const Slot& slot = table_.slots[state.slot];
    TaskTimes& times = result_.times[at(state.slot)];
    perturbation_.delay(state.slot, 0);
    times.compute_start = now();
    if (table_.begins_chain(lane, state.slot)) tile_.begin_chain(slot.task, memory);
    tile_.compute(slot.task, memory);
    times.compute_end = now();
    if (options_.keep_partials) {
      std::copy(memory.dq.begin(), memory.dq.end(),
                result_.partials.begin() + state.slot * std::ssize(memory.dq));
    }
    state.computed = true;
    perturbation_.delay(state.slot, 1);
  }

  [[nodiscard]] bool acquire(std::size_t tile, std::int32_t rank) {
    if (options_.mode != Mode::atomic) return semaphores_.try_acquire(tile, rank);
    semaphores_.acquire_any(tile);
    return true;
  }

  /// Leaves a chain's dK and dV where they belong; false if its turn has not come.
  [[nodiscard]] bool end_chain(const Task& task, std::size_t tile, const cpu::SmMemory& memory) {
    const Problem& problem = table_.problem;
    if (problem.combine == Combine::none) {
      tile_.end_chain(task, memory, result_.gradients);
      return true;
    }
    if (!result_.dk_partials.empty()) {
      tile_.store_partial(task, memory, result_.dk_partials, result_.dv_partials);
    }
    if (problem.combine == Combine::partials) return true;
    ChainTimes& times = result_.chain_times[at(problem.chain_place(task))];
    if (times.ready < 0) times.ready = now();
    if (!acquire(tile, table_.dkv_rank(task))) return false;
    times.turn = now();
    const std::int32_t added = reduced_[tile]++;
    tile_.add_dkv(task, memory, added == 0, result_.dk_sums, result_.dv_sums);
    result_.dkv_witness[at(problem.dkv_place(task) * problem.group_parts() + added)] =
        problem.part_of(task.head).value;
    times.end = now();
    semaphores_.release(tile);
    if (options_.mode != Mode::atomic) lanes_.wake(tile);
    return true;
  }

  /// Adds the partial and leaves the witness. The caller holds the tile.
  void reduce(Lane lane, const Slot& slot, std::size_t tile, LaneState& state,
              const cpu::SmMemory& memory) {
    if (state.holds >= 0) release(at(std::exchange(state.holds, -1)), state);
    tile_.add_dq(slot.task, memory.dq, result_.gradients.dq);
    result_.witness[places_.of(slot.task, reduced_[tile]++)] = state.slot;
    result_.times[at(state.slot)].reduce_end = now();
    perturbation_.delay(state.slot, 2);
    const bool delayed = options_.mode == Mode::deterministic &&
                         options_.release == Release::delayed &&
                         !table_.ends_chain(lane, state.slot);
    if (delayed) {
      state.holds = static_cast<std::int64_t>(tile);
    } else {
      release(tile, state);
    }
  }

  void release(std::size_t tile, const LaneState& state) {
    semaphores_.release(tile);
    perturbation_.delay(state.slot, 3);
    if (options_.mode == Mode::deterministic) lanes_.wake(tile);
  }

  /// The pass that combines parts: each KV head's, upwards.
  void add_parts(const std::vector<float>& partials, std::vector<float>& sums) const {
    const std::size_t parts = at(table_.problem.group_parts());
    const std::size_t elements = sums.size() / at(table_.problem.heads_kv);
    for (std::size_t index = 0; index < partials.size(); ++index) {
      const std::size_t part = index / elements;
      float& sum = sums[part / parts * elements + index % elements];
      sum = part % parts == 0 ? partials[index] : sum + partials[index];
    }
  }

  [[nodiscard]] std::size_t tile_of(const Task& task) const {
    return at(task.head.value * q_tiles_ + task.q.value);
  }

  [[nodiscard]] std::size_t dkv_tile_of(const Task& task) const {
    return q_locks_ + at(table_.problem.dkv_place(task));
  }

  [[nodiscard]] std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }

  const Table& table_;
  const BackwardOptions& options_;
  const cpu::Tile tile_;
  const RankPlaces places_;
  const Perturbation perturbation_;
  const float scale_;
  const std::int32_t sms_;
  const std::int64_t q_tiles_;
  const std::size_t q_locks_;  ///< a lock for every (head, q), then those of dK and dV
  const std::size_t locks_;
  cpu::Semaphores semaphores_;
  cpu::Lanes lanes_;
  std::vector<cpu::SmMemory> memories_;  ///< by SM
  std::vector<LaneState> states_;        ///< by lane
  std::vector<std::int32_t> reduced_;    ///< by lock: additions so far; the holder's
  Clock::time_point start_;
  Backward result_;
};

}  // namespace

std::int32_t default_threads(const Table& table, const BackwardOptions& options) {
  const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  const std::int32_t sms = resident_lanes(table.problem, options.residency);
  return std::clamp(std::min(sms, table.lanes()), 1, std::clamp(cores, 2, kMaxThreads));
}

Backward backward_on_cpu(const Table& table, const Attention& attention,
                         const BackwardOptions& options) {
  STAGGER_EXPECTS(options.threads >= 0 && options.threads <= kMaxThreads);
  STAGGER_EXPECTS(is_complete(table));
  STAGGER_EXPECTS(attention.shape == attention_shape(table.problem, attention.shape.head_dim));
  STAGGER_EXPECTS(is_exact(attention.inputs, options.dtype));
  const std::int32_t threads =
      options.threads == 0 ? default_threads(table, options) : options.threads;
  return Executor(table, attention, options).run(threads);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "cpu";
}

}  // namespace stagger::gpu
