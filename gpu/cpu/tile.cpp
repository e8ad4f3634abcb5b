#include "gpu/cpu/tile.hpp"

#include "gpu/numerics/exponential.hpp"
#include "gpu/numerics/rounding.hpp"

#include <algorithm>

namespace stagger::gpu::cpu {
namespace {

/// Adds factor * row to sum.
void add(float factor, const float* row, float* sum, std::size_t count) {
  for (std::size_t index = 0; index < count; ++index)
    sum[index] += factor * row[index];
}

/// Copies `rows` rows of `dim` elements as columns that are `stride` apart.
void transpose(const float* from, std::size_t rows, std::size_t dim, std::size_t stride,
               std::vector<float>& to) {
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < dim; ++column)
      to[column * stride + row] = from[row * dim + column];
  }
}

std::optional<DropoutWords> words_of(const Attention& attention) {
  if (!attention.dropout) return std::nullopt;
  return dropout_words(*attention.dropout, attention.shape.dropout_layout());
}

}  // namespace

Tile::Tile(const Problem& problem, const Attention& attention, Dtype dtype)
    : problem_(problem),
      attention_(attention),
      tile_q_(std::min(problem.shape.q, problem.lengths.q)),
      tile_kv_(std::min(problem.shape.kv, problem.lengths.kv)),
      dtype_(dtype),
      dropout_(words_of(attention)),
      scale_(static_cast<float>(attention.shape.scale())),
      dq_scale_(dtype == Dtype::fp32 ? scale_ : 1) {}

std::size_t Tile::partial_elements() const {
  return at(tile_q_) * attention_.shape.dim();
}

SmMemory Tile::memory() const {
  const std::size_t tile = at(tile_kv_) * attention_.shape.dim();
  SmMemory memory;
  for (auto* part : {&memory.k_columns, &memory.v_columns, &memory.dk, &memory.dv})
    part->assign(tile, 0);
  memory.dq.assign(partial_elements(), 0);
  memory.p.assign(at(tile_kv_), 0);
  memory.ds.assign(at(tile_kv_), 0);
  memory.weights.assign(at(tile_kv_), 1);
  return memory;
}

Tile::Tokens Tile::queries(QTile q) const {
  const std::int64_t begin = q.value * problem_.shape.q;
  return {begin, std::min(begin + problem_.shape.q, problem_.lengths.q)};
}

Tile::Tokens Tile::keys(KvTile kv) const {
  const std::int64_t begin = kv.value * problem_.shape.kv;
  return {begin, std::min(begin + problem_.shape.kv, problem_.lengths.kv)};
}

void Tile::begin_chain(const Task& task, SmMemory& memory) const {
  const AttentionShape& shape = attention_.shape;
  const Tokens tile = keys(task.kv);
  const std::size_t first = shape.kv_row(task.head, tile.begin) * shape.dim();
  const std::size_t rows = at(tile.end - tile.begin);
  transpose(&attention_.inputs.k[first], rows, shape.dim(), at(tile_kv_), memory.k_columns);
  transpose(&attention_.inputs.v[first], rows, shape.dim(), at(tile_kv_), memory.v_columns);
  std::fill(memory.dk.begin(), memory.dk.end(), 0.0F);
  std::fill(memory.dv.begin(), memory.dv.end(), 0.0F);
}

void Tile::compute(const Task& task, SmMemory& memory) const {
  const AttentionShape& shape = attention_.shape;
  const Tokens rows = queries(task.q);
  const Tokens tile = keys(task.kv);
  const bool partial = problem_.kind(task) == TileKind::partial;
  std::fill(memory.dq.begin(), memory.dq.end(), 0.0F);
  for (std::int64_t query = rows.begin; query < rows.end; ++query) {
    if (dropout_) {
      weigh_row({.head = static_cast<std::uint32_t>(task.head.value),
                 .query = static_cast<std::uint32_t>(query)},
                tile, memory);
    }
    const auto compute_range = [&](const KeyRange& seen) {
      compute_row(shape.q_row(task.head, query), shape.kv_row(task.head, tile.begin),
                  at(seen.begin - tile.begin), at(seen.end - tile.begin),
                  &memory.dq[at(query - rows.begin) * shape.dim()], memory);
    };
    if (partial) {
      attention_.masks.of(task.head).each_range(query, task.kv, compute_range);
    } else {
      compute_range({tile.begin, tile.end});
    }
  }
}

void Tile::weigh_row(const DropoutRow& row, const Tokens& tile, SmMemory& memory) const {
  for (std::int64_t key = tile.begin; key < tile.end;) {
    const std::int64_t word = key / 32;
    const std::uint32_t kept = dropout_->word(row, static_cast<std::uint32_t>(word));
    for (; key < std::min(32 * (word + 1), tile.end); ++key)
      memory.weights[at(key - tile.begin)] = (kept >> key % 32 & 1) != 0 ? dropout_->scale : 0;
  }
}

void Tile::compute_row(std::size_t q_row, std::size_t k_row, std::size_t begin, std::size_t end,
                       float* dq, SmMemory& memory) const {
  const std::size_t dim = attention_.shape.dim();
  const float* q = &attention_.inputs.q[q_row * dim];
  const float* d_out = &attention_.inputs.d_out[q_row * dim];
  const auto lse = static_cast<float>(attention_.forward.lse[q_row]);
  const auto delta = static_cast<float>(attention_.forward.delta[q_row]);
  const std::size_t count = end - begin;
  float* p = &memory.p[begin];
  float* ds = &memory.ds[begin];
  const float* weights = &memory.weights[begin];

  std::fill_n(p, count, 0.0F);
  std::fill_n(ds, count, 0.0F);
  for (std::size_t column = 0; column < dim; ++column) {
    add(q[column], &memory.k_columns[column * at(tile_kv_) + begin], p, count);
    add(d_out[column], &memory.v_columns[column * at(tile_kv_) + begin], ds, count);
  }
  for (std::size_t key = 0; key < count; ++key) {
    const float probability = exponential(p[key] * scale_ - lse);
    ds[key] = rounded(probability * (ds[key] * weights[key] - delta), dtype_);
    p[key] = rounded(probability * weights[key], dtype_);
  }
  for (std::size_t key = begin; key < end; ++key) {
    add(memory.p[key], d_out, &memory.dv[key * dim], dim);
    add(memory.ds[key], q, &memory.dk[key * dim], dim);
    add(memory.ds[key] * dq_scale_, &attention_.inputs.k[(k_row + key) * dim], dq, dim);
  }
}

void Tile::add_dq(const Task& task, std::span<const float> partial, std::vector<float>& dq) const {
  const AttentionShape& shape = attention_.shape;
  const Tokens rows = queries(task.q);
  const std::size_t count = at(rows.end - rows.begin) * shape.dim();
  float* sum = &dq[shape.q_row(task.head, rows.begin) * shape.dim()];
  for (std::size_t index = 0; index < count; ++index)
    sum[index] += partial[index];
}

Tile::Elements Tile::elements(KvTile kv) const {
  const Tokens tile = keys(kv);
  const std::size_t dim = attention_.shape.dim();
  return {.first = at(tile.begin) * dim, .count = at(tile.end - tile.begin) * dim};
}

void Tile::add_dkv(const Task& task, const SmMemory& memory, bool first, std::vector<float>& dk,
                   std::vector<float>& dv) const {
  const auto [begin, count] = elements(task.kv);
  const std::size_t head = attention_.shape.kv_row(task.head, 0) * attention_.shape.dim();
  float* const to_dk = &dk[head + begin];
  float* const to_dv = &dv[head + begin];
  for (std::size_t index = 0; index < count; ++index) {
    to_dk[index] = first ? memory.dk[index] : to_dk[index] + memory.dk[index];
    to_dv[index] = first ? memory.dv[index] : to_dv[index] + memory.dv[index];
  }
}

void Tile::store_partial(const Task& task, const SmMemory& memory, std::vector<float>& dk,
                         std::vector<float>& dv) const {
  const auto [begin, count] = elements(task.kv);
  const std::size_t part =
      at(problem_.part_of(task.head)) * at(attention_.shape.seq_kv) * attention_.shape.dim();
  std::copy_n(memory.dk.begin(), count, dk.begin() + static_cast<std::ptrdiff_t>(part + begin));
  std::copy_n(memory.dv.begin(), count, dv.begin() + static_cast<std::ptrdiff_t>(part + begin));
}

void Tile::end_chain(const Task& task, const SmMemory& memory, Gradients& gradients) const {
  const auto [begin, count] = elements(task.kv);
  const std::size_t first = attention_.shape.kv_row(task.head, 0) * attention_.shape.dim() + begin;
  for (std::size_t index = 0; index < count; ++index) {
    gradients.dk[first + index] = rounded(memory.dk[index] * scale_, dtype_);
    gradients.dv[first + index] = rounded(memory.dv[index], dtype_);
  }
}

}  // namespace stagger::gpu::cpu
