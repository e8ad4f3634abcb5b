// Masks as pairs of tokens: MagiAttention's slices and FlashInfer's blocks. What a block-sparse
// mask does not say of a partial tile nobody can write.

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/formats/mask_export.hpp"
#include "core/formats/slices.hpp"
#include "core/index.hpp"
#include "core/limits.hpp"
#include "core/token_mask.hpp"

namespace stagger::formats {
namespace {

void add_tensor(Bundle& bundle, const std::string& name, Dtype dtype,
                std::vector<std::int64_t> shape, std::vector<std::int64_t> elements) {
  NamedTensor named{.name = name};
  named.tensor = {.dtype = dtype, .shape = std::move(shape), .elements = std::move(elements)};
  bundle.tensors.push_back(std::move(named));
}

}  // namespace

Bundle magi_bundle(const Problem& problem) {
  expect_known_pairs(problem, "magi");
  Slices slices = slices_of(key_ranges(problem.mask, problem.lengths, problem.shape));
  const auto count = std::ssize(slices.types);
  Bundle bundle;
  add_tensor(bundle, "q_ranges", Dtype::int32, {count, 2}, std::move(slices.q));
  add_tensor(bundle, "k_ranges", Dtype::int32, {count, 2}, std::move(slices.kv));
  add_tensor(bundle, "attn_type_map", Dtype::int32, {count}, std::move(slices.types));
  return bundle;
}

Bundle bsr_bundle(const Problem& problem) {
  const TileGrid& grid = problem.common_grid();
  const KvTile last_kv{grid.kv_tiles() - 1};
  const QTile last_q{grid.q_tiles() - 1};
  if (problem.lengths.q % problem.shape.q != 0 || problem.lengths.kv % problem.shape.kv != 0) {
    refuse_tile("bsr", last_kv, last_q, "tokens are missing; its blocks are whole");
  }
  expect_known_pairs(problem, "bsr");
  const std::int64_t pairs = problem.shape.q * problem.shape.kv;
  std::vector<std::int64_t> indptr = {0};
  std::vector<std::int64_t> indices;
  bool partial = false;
  for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
    for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
      if (!grid.live(kv, q)) continue;
      indices.push_back(kv.value);
      partial = partial || grid.kind(kv, q) == TileKind::partial;
    }
    indptr.push_back(std::ssize(indices));
  }
  const std::int64_t blocks = std::ssize(indices);
  if (partial && !(Checked(blocks) * pairs).within(kMaxElements)) {
    throw Error(ErrorKind::limit, "bsr: masks of " + std::to_string(blocks) + " blocks of " +
                                      std::to_string(pairs) + " pairs are not written");
  }
  std::vector<std::int64_t> mask;
  if (partial) {
    const TokenMask tokens(problem);
    mask.assign(at(blocks * pairs), 0);
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      for (std::int64_t place = indptr[at(q)]; place < indptr[at(q.value + 1)]; ++place) {
        const KvTile kv{static_cast<std::int32_t>(indices[at(place)])};
        for (std::int64_t row = 0; row < problem.shape.q; ++row) {
          tokens.each_range(q.value * problem.shape.q + row, kv, [&](const KeyRange& range) {
            const std::int64_t first = place * pairs + (row - kv.value) * problem.shape.kv;
            for (std::int64_t key = range.begin; key < range.end; ++key)
              mask[at(first + key)] = 1;
          });
        }
      }
    }
  }
  Bundle bundle;
  add_tensor(bundle, "indptr", Dtype::int32, {std::int64_t{grid.q_tiles()} + 1}, std::move(indptr));
  add_tensor(bundle, "indices", Dtype::int32, {blocks}, std::move(indices));
  if (partial) {
    add_tensor(bundle, "mask", Dtype::boolean, {blocks, problem.shape.q, problem.shape.kv},
               std::move(mask));
  }
  for (const auto& [name, value] :
       {std::pair{"M", problem.lengths.q}, std::pair{"N", problem.lengths.kv},
        std::pair{"R", problem.shape.q}, std::pair{"C", problem.shape.kv}}) {
    add_tensor(bundle, name, Dtype::int64, {}, {value});
  }
  return bundle;
}

}  // namespace stagger::formats
