#include "core/machine.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <utility>

namespace stagger {

std::string describe(const KernelKey& key) {
  if (key.dtype.empty()) return key.kernel;
  return key.kernel + ", " + key.dtype + ", head_dim " + std::to_string(key.head_dim) +
         ", tiles of " + std::to_string(key.tile.kv) + " x " + std::to_string(key.tile.q) +
         " tokens";
}

Timing KernelTimes::timing() const {
  Timing timing{.model = model,
                .compute = compute.value,
                .reduce = reduce.value,
                .latency = latency.value + spread.value_or(MeasuredNs{}).value,
                .launch = launch.value,
                .epilogue = epilogue.value,
                .release = release,
                .steps = steps,
                .cut_partial = cut_partial};
  if (compute_partial) timing.compute_partial = compute_partial->value;
  if (next_lane && model == Model::overlap) timing.next_lane = next_lane->value;
  return timing;
}

Timing KernelTimes::timing(const Memory& memory) const {
  Timing with = timing();
  with.latency = latency.value;
  with.memory = memory;
  with.memory->congestion = congestion.value_or(MeasuredNs{}).value;
  with.memory->spread = spread.value_or(MeasuredNs{}).value;
  with.memory->dip = dip.value_or(MeasuredNs{}).value;
  with.memory->dip_loss = dip_loss.value_or(MeasuredNs{}).value;
  return with;
}

Ticks KernelTimes::passes_ns(std::int64_t q_elements) const {
  constexpr Ticks kLongestNs = Ticks{1} << 61;
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  if (!passes_per_mi || passes_per_mi->value == 0) return 0;
  const Ticks rate = passes_per_mi->value;
  if (q_elements / kMi >= kLongestNs / rate) {
    throw Error(ErrorKind::limit, "the passes over " + std::to_string(q_elements) +
                                      " elements of Q would take more than 2^61 ns");
  }
  return q_elements / kMi * rate + q_elements % kMi * rate / kMi;
}

TileBytes tile_bytes(const KernelKey& key) {
  const std::int64_t element = key.dtype == "fp32" ? 4 : 2;
  const std::int64_t row = 2 * key.head_dim * element;  // of Q and dO, of K and V, of dK and dV
  return {.q = key.tile.q * (row + 8),
          .dq = key.tile.q * key.head_dim * 4,
          .kv = key.tile.kv * row,
          .gradient = key.tile.kv * row};
}

Memory memory_of(const DeviceMemory& memory, const KernelKey& key) {
  return {.l2 = memory.l2_bytes,
          .rate = memory.bytes_per_ns,
          .stream_rate = memory.stream_bytes_per_ns,
          .tile = tile_bytes(key),
          .add_permille = memory.add_permille,
          .latency = memory.latency_ns};
}

const KernelTimes& times_of(const Machine& machine, const KernelKey& key) {
  std::string known;
  for (const KernelTimes& times : machine.kernels) {
    if (times.key == key) return times;
    known += "\n  " + describe(times.key);
  }
  throw Error(ErrorKind::usage,
              "the machine profile '" + machine.name + "' has no times of " + describe(key) +
                  (known.empty() ? "; it has none at all" : "; it has those of" + known));
}

void put(Machine& machine, KernelTimes times) {
  const auto same = std::find_if(machine.kernels.begin(), machine.kernels.end(),
                                 [&](const KernelTimes& other) { return other.key == times.key; });
  if (same == machine.kernels.end()) {
    machine.kernels.push_back(std::move(times));
  } else {
    *same = std::move(times);
  }
}

const BlockRates& block_rates_of(const Machine& machine, std::optional<Load> load) {
  std::string known;
  for (const BlockRates& rates : machine.blocks) {
    if (!load || rates.load == load) return rates;
    known += known.empty() ? "" : ", ";
    known += rates.load ? name(*rates.load) + std::string(" load") : "a load that it does not say";
  }
  const std::string of = load ? " under " + std::string(name(*load)) + " load" : "";
  throw Error(ErrorKind::usage,
              "the machine profile '" + machine.name + "' has no rates of blocks" + of +
                  (known.empty() ? " (its key 'block')" : "; it has those under " + known));
}

void put(Machine& machine, BlockRates rates) {
  std::vector<BlockRates>& blocks = machine.blocks;
  auto same = std::ranges::find(blocks, rates.load, &BlockRates::load);
  if (same == blocks.end())
    same = std::ranges::find(blocks, std::optional<Load>(), &BlockRates::load);
  if (same == blocks.end()) {
    blocks.push_back(std::move(rates));
  } else {
    *same = std::move(rates);
  }
}

}  // namespace stagger
