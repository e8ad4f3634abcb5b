#pragma once

#include "core/problem.hpp"
#include "gpu/check/attention.hpp"
#include "gpu/check/backward.hpp"

#include <optional>
#include <span>
#include <vector>

namespace stagger::gpu::cpu {

/// What an SM keeps to itself: a chain's K and V, its sums dK and dV, one task's partial dQ.
struct SmMemory {
  std::vector<float> k_columns;  ///< (head_dim, key in the tile)
  std::vector<float> v_columns;
  std::vector<float> dk;  ///< (key in the tile, head_dim), still without the scale
  std::vector<float> dv;
  std::vector<float> dq;       ///< (query in the tile, head_dim)
  std::vector<float> p;        ///< one query's row: scores, then probabilities
  std::vector<float> ds;       ///< one query's row: dP, then dS
  std::vector<float> weights;  ///< one query's row: what dropout multiplies P by; without it 1
};

/// The arithmetic of the backward pass by tiles, as Dtype says. Sums over head_dim run upwards,
/// dQ's over the tile's keys and dK's and dV's over its queries too: the bits depend on the order
/// of tasks alone.
class Tile {
 public:
  /// Keeps references to both.
  Tile(const Problem& problem, const Attention& attention, Dtype dtype);

  /// Returns memory for any tile of the problem.
  [[nodiscard]] SmMemory memory() const;

  /// Loads the KV tile of a task and clears dK and dV.
  void begin_chain(const Task& task, SmMemory& memory) const;
  /// Adds a task to dK and dV and leaves its dQ partial in memory.dq.
  void compute(const Task& task, SmMemory& memory) const;
  /// Adds a partial to dQ[head, q]: it is (query in the tile, head_dim).
  void add_dq(const Task& task, std::span<const float> partial, std::vector<float>& dq) const;
  /// Writes dK and dV of the chain, rounded.
  void end_chain(const Task& task, const SmMemory& memory, Gradients& gradients) const;
  /// Adds the chain's dK and dV to sums that are a KV head's, still without the scale; a first one
  /// is stored.
  void add_dkv(const Task& task, const SmMemory& memory, bool first, std::vector<float>& dk,
               std::vector<float>& dv) const;
  /// Stores the chain's dK and dV, still without the scale, as its part's own.
  void store_partial(const Task& task, const SmMemory& memory, std::vector<float>& dk,
                     std::vector<float>& dv) const;

  /// Returns the elements of one task's dQ partial: rows of a whole tile.
  [[nodiscard]] std::size_t partial_elements() const;

 private:
  struct Tokens {
    std::int64_t begin;
    std::int64_t end;
  };
  [[nodiscard]] Tokens queries(QTile q) const;
  [[nodiscard]] Tokens keys(KvTile kv) const;
  /// The elements of a task's KV tile in a tensor whose row 0 is its head's first key.
  struct Elements {
    std::size_t first;
    std::size_t count;
  };
  [[nodiscard]] Elements elements(KvTile kv) const;
  /// Leaves what dropout multiplies P of a query by, for the keys of a tile.
  void weigh_row(const DropoutRow& row, const Tokens& tile, SmMemory& memory) const;
  /// Computes a query against keys [begin, end) of the tile that starts at row `k_row`.
  void compute_row(std::size_t q_row, std::size_t k_row, std::size_t begin, std::size_t end,
                   float* dq, SmMemory& memory) const;

  const Problem& problem_;
  const Attention& attention_;
  std::int64_t tile_q_;   ///< tokens of the largest Q tile
  std::int64_t tile_kv_;  ///< tokens of the largest KV tile
  Dtype dtype_;
  std::optional<DropoutWords> dropout_;
  float scale_;
  float dq_scale_;  ///< what a dQ partial has of it
};

}  // namespace stagger::gpu::cpu
