#include "core/formats/mask_export.hpp"

#include "core/error.hpp"
#include "core/index.hpp"

#include <algorithm>
#include <array>

namespace stagger::formats {
namespace {

constexpr std::array kFormats = {
    ExportFormat{"flex", "FlexAttention's BlockMask, without its mask_mod", true, Ragged::flex},
    ExportFormat{"fa4",
                 "FlashAttention-4's BlockSparseTensors of both passes; with a table its "
                 "dq_write_order",
                 true, Ragged::in_bounds, true},
    ExportFormat{"flashmask", "FlashMask's startend_row_indices", false, Ragged::in_bounds},
    ExportFormat{"magi", "MagiAttention's slices", false, Ragged::in_bounds},
    ExportFormat{"bsr", "FlashInfer's block-sparse rows", false, Ragged::in_bounds},
    ExportFormat{"cu-seqlens", "sequences of several lengths", false, Ragged::in_bounds}};

/// What safetensors keep as words in their metadata, as FlashAttention-4's objects have them.
bool is_metadata(const std::string& name) {
  return std::ranges::any_of(std::array{"block_size", "spt", "causal"},
                             [&](const char* end) { return name.ends_with(end); });
}

std::string words_of(const Tensor& tensor) {
  if (tensor.dtype == Dtype::boolean) return tensor.elements.front() != 0 ? "true" : "false";
  std::string words;
  for (const std::int64_t element : tensor.elements)
    words += (words.empty() ? "" : ", ") + std::to_string(element);
  return words;
}

/// The grid with no full tile at the ends that are ragged.
TileGrid with_partial_ends(const TileGrid& grid, bool ragged_q, bool ragged_kv) {
  std::vector<TileKind> kinds;
  kinds.reserve(at(grid.kv_tiles()) * at(grid.q_tiles()));
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      const bool beyond = (ragged_q && q.value + 1 == grid.q_tiles()) ||
                          (ragged_kv && kv.value + 1 == grid.kv_tiles());
      const TileKind kind = grid.kind(kv, q);
      kinds.push_back(beyond && kind == TileKind::full ? TileKind::partial : kind);
    }
  }
  return {grid.kv_tiles(), grid.q_tiles(), std::move(kinds)};
}

}  // namespace

std::span<const ExportFormat> export_formats() {
  return kFormats;
}

const ExportFormat* find_export_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &ExportFormat::name);
  return found == kFormats.end() ? nullptr : &*found;
}

HeadGrids by_rule(const Problem& problem, Ragged ragged) {
  const bool ragged_q = problem.lengths.q % problem.shape.q != 0;
  const bool ragged_kv = problem.lengths.kv % problem.shape.kv != 0;
  if (ragged == Ragged::in_bounds || !(ragged_q || ragged_kv)) return problem.grids;
  std::vector<TileGrid> ruled;
  for (const TileGrid& grid : problem.grids.distinct())
    ruled.push_back(with_partial_ends(grid, ragged_q, ragged_kv));
  if (problem.grids.all_alike()) return std::move(ruled.front());
  return {ruled, problem.grids.places()};
}

void refuse_tile(const char* format, KvTile kv, QTile q, const std::string& why,
                 std::optional<Head> head) {
  const std::string whose = head ? " of head " + std::to_string(head->value) : "";
  throw Error(ErrorKind::unsupported, format + (" cannot hold the mask" + whose) +
                                          ": in tile (kv " + std::to_string(kv.value) + ", q " +
                                          std::to_string(q.value) + ") " + why);
}

void expect_known_pairs(const Problem& problem, const char* format, std::optional<Head> head) {
  if (problem.mask.family->tiles == nullptr) return;
  const TileGrid& grid = problem.common_grid();
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < grid.q_tiles(); ++q) {
      if (grid.kind(kv, q) == TileKind::partial) {
        refuse_tile(format, kv, q, "some pairs attend, and a block-sparse mask does not say which",
                    head);
      }
    }
  }
}

void expect_room(const Checked& numbers, const char* format) {
  if (numbers.within(kMaxElements)) return;
  throw Error(ErrorKind::limit, std::string(format) + ": more than " +
                                    std::to_string(kMaxElements) +
                                    " numbers in a file are neither written nor read");
}

Bundle export_mask(const Problem& problem, const ExportFormat& format, Ragged ragged,
                   const Table* table, std::vector<std::string>& notes) {
  const std::string_view name = format.name;
  if (name == "flex") return flex_bundle(by_rule(problem, ragged), problem);
  if (name == "fa4") return fa4_bundle(by_rule(problem, ragged), problem, table, notes);
  if (name == "flashmask") return flashmask_bundle(problem);
  expect_one_mask(problem, (std::string("--as ") + format.name).c_str());
  if (name == "magi") return magi_bundle(problem);
  if (name == "bsr") return bsr_bundle(problem);
  return cu_seqlens_bundle(problem);
}

std::string write_bundle(Bundle bundle, std::string_view path) {
  if (path.ends_with(".npz")) return write_npz(bundle);
  if (path.ends_with(".json")) return write_json_tensors(bundle);
  if (!path.ends_with(".safetensors")) {
    throw Error(ErrorKind::usage,
                std::string(path) + ": tensors are written as .npz, .safetensors or .json");
  }
  std::erase_if(bundle.tensors, [&](const NamedTensor& each) {
    if (!is_metadata(each.name)) return false;
    bundle.words.emplace(each.name, words_of(each.tensor));
    return true;
  });
  return write_safetensors(bundle);
}

}  // namespace stagger::formats
