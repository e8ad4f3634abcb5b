#include "gpu/cuda/table.cuh"

namespace stagger::gpu::cuda {
std::vector<std::int32_t> masked_places(const Problem& problem, const MaskedTiles& masked) {
  const std::int64_t q_tiles = problem.q_tiles();
  std::vector<std::int32_t> places(at(problem.kv_tiles() * q_tiles), -1);
  std::int32_t next = 0;
  for (const auto& [kv, q] : masked.tiles)
    places[at(kv.value * q_tiles + q.value)] = next++;
  return places;
}

std::vector<DeviceSlot> device_slots(const Table& table, const MaskedTiles& masked) {
  const std::vector<std::int32_t> places = masked_places(table.problem, masked);
  const std::int64_t q_tiles = table.problem.q_tiles();
  std::vector<DeviceSlot> slots;
  slots.reserve(table.slots.size());
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t index = table.begin_of(lane); index < table.end_of(lane); ++index) {
      const auto& [task, rank] = table.slots[index];
      slots.push_back({.head = task.head.value,
                       .kv = task.kv.value,
                       .q = task.q.value,
                       .rank = rank,
                       .partial = places[at(task.kv.value * q_tiles + task.q.value)],
                       .begins_chain = table.begins_chain(lane, index),
                       .ends_chain = table.ends_chain(lane, index)});
    }
  }
  return slots;
}

std::vector<std::int32_t> dkv_ranks(const Table& table) {
  const Problem& problem = table.problem;
  std::vector<std::int32_t> ranks;
  ranks.reserve(at(problem.chains()));
  for (Part part{0}; part.value < problem.parts(); ++part) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv)
      ranks.push_back(problem.chain_length(part, kv) == 0 ? -1 : table.dkv_rank(part, kv));
  }
  return ranks;
}

}  // namespace stagger::gpu::cuda
