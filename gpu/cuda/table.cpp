#include "gpu/cuda/table.cuh"

namespace stagger::gpu::cuda {
std::vector<std::pair<KvTile, QTile>> masked_tiles(const Problem& problem) {
  const TileGrid& grid = problem.grid;
  std::vector<std::pair<KvTile, QTile>> tiles;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    const bool ragged = (kv.value + 1) * problem.shape.kv > problem.lengths.kv;
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const TileKind kind = grid.kind(kv, q);
      if (kind == TileKind::partial || (ragged && kind == TileKind::full)) tiles.push_back({kv, q});
    }
  }
  return tiles;
}

std::vector<std::int32_t> masked_numbers(const Problem& problem) {
  const std::int64_t q_tiles = problem.grid.q_tiles();
  std::vector<std::int32_t> numbers(at(problem.grid.kv_tiles() * q_tiles), -1);
  std::int32_t next = 0;
  for (const auto& [kv, q] : masked_tiles(problem))
    numbers[at(kv.value * q_tiles + q.value)] = next++;
  return numbers;
}

std::vector<DeviceSlot> device_slots(const Table& table) {
  const std::vector<std::int32_t> masked = masked_numbers(table.problem);
  const std::int64_t q_tiles = table.problem.grid.q_tiles();
  std::vector<DeviceSlot> slots;
  slots.reserve(table.slots.size());
  for (Lane lane{0}; lane.value < table.lanes(); ++lane) {
    for (std::int64_t index = table.begin_of(lane); index < table.end_of(lane); ++index) {
      const auto& [task, rank] = table.slots[index];
      slots.push_back({.head = task.head.value,
                       .kv = task.kv.value,
                       .q = task.q.value,
                       .rank = rank,
                       .partial = masked[at(task.kv.value * q_tiles + task.q.value)],
                       .begins_chain = table.begins_chain(lane, index),
                       .ends_chain = table.ends_chain(lane, index)});
    }
  }
  return slots;
}

}  // namespace stagger::gpu::cuda
