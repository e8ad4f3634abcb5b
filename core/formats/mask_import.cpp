#include "core/formats/mask_import.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/formats/import_context.hpp"
#include "core/json_value.hpp"
#include "core/nearest.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>

namespace stagger::formats {
namespace {

bool has_any(const Bundle& bundle, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* name) { return bundle.has(name); });
}

bool has_fa4(const Bundle& bundle) {
  return fa4_prefix(bundle, Direction::forward) || fa4_prefix(bundle, Direction::backward);
}

bool is_linear(const Bundle& bundle) {
  return std::ranges::any_of(bundle.tensors, [](const NamedTensor& each) {
    return each.name.ends_with("mask_block_offset") || each.name.ends_with("full_block_offset");
  });
}

/// A format, how it is told and how it is read; the first that is told so is it.
struct Row {
  MaskFormat format;
  bool (*is)(const Bundle&);
  ImportedMask (*read)(Import&);
};

constexpr std::array kRows = {
    Row{{"flex", "FlexAttention's BlockMask: kv_num_blocks, kv_indices, full_kv_..., q_..."},
        [](const Bundle& bundle) {
          return has_any(bundle, {"kv_num_blocks", "q_num_blocks"});
        },
        read_flex},
    Row{{"fa4-linear", "lists by offsets, a fork of FlashAttention-4: mask_block_offset, ..."},
        [](const Bundle& bundle) { return has_fa4(bundle) && is_linear(bundle); },
        read_fa4_linear},
    Row{{"fa4", "FlashAttention-4's BlockSparseTensors: forward.mask_block_cnt, backward...."},
        has_fa4,
        read_fa4},
    Row{{"flashmask", "FlashMask: startend_row_indices of 1, 2 or 4 columns"},
        [](const Bundle& bundle) { return bundle.has("startend_row_indices"); },
        read_flashmask},
    Row{{"magi", "MagiAttention's slices: q_ranges, k_ranges, attn_type_map"},
        [](const Bundle& bundle) {
          return has_any(bundle, {"q_ranges", "k_ranges"});
        },
        read_magi},
    Row{{"cu-seqlens", "sequences of several lengths: cu_seqlens_q, cu_seqlens_k"},
        [](const Bundle& bundle) {
          return has_any(bundle, {"cu_seqlens", "cu_seqlens_q"});
        },
        read_cu_seqlens},
    Row{{"bsr", "FlashInfer's block-sparse rows: indptr, indices, R, C, mask; block_indptr, ..."},
        [](const Bundle& bundle) {
          return has_any(bundle, {"indptr", "block_indptr"});
        },
        read_bsr},
    Row{{"vsa", "Video Sparse Attention: q2k_block_sparse_index, ..._num, or k2q_..., 64 x 64"},
        [](const Bundle& bundle) {
          return has_any(bundle, {"q2k_block_sparse_num", "q2k_block_sparse_index",
                                  "k2q_block_sparse_num", "k2q_block_sparse_index"});
        },
        read_vsa},
    Row{{"block-mask", "an array of 0 and 1 by Q and KV tile: mask_id, block_mask, or a .npy"},
        [](const Bundle& bundle) {
          return has_any(bundle, {"mask_id", "block_mask", "blockmask", "base_blockmask"}) ||
                 (bundle.tensors.size() == 1 && bundle.tensors.front().name.empty());
        },
        read_block_mask}};

constexpr const char* kOwn = "stagger";

const Row& row_of(const Bundle& bundle, const std::string& format) {
  for (const Row& row : kRows) {
    if (format.empty() ? row.is(bundle) : format == row.format.name) return row;
  }
  if (!format.empty()) {
    std::vector<std::string> known = {kOwn};
    for (const MaskFormat& each : mask_formats())
      known.emplace_back(each.name);
    throw Error(ErrorKind::usage, unknown_name("mask format", format, known));
  }
  const bool positions = bundle.has("arr_0");
  bundle.reject("no mask that is known: it has " + listed(bundle.names()) +
                (positions ? "; arrays without names are not told apart: save them by name, "
                             "np.savez(p, kv_num_blocks=bm.kv_num_blocks, ...)"
                           : "; `stagger list masks` shows the names of each format"));
}

/// A description of ours, unless the JSON is of tensors.
bool is_description(const JsonValue& root) {
  return root.has("kind") || (root.has("schema") && root.at("schema").string() == "stagger.mask/1");
}

ImportedMask imported(const Bundle& bundle, const MaskFileRequest& request) {
  const Row& row = row_of(bundle, request.format);
  Import import(bundle, request);
  ImportedMask mask = row.read(import);
  import.expect_heeded(row.format.name);
  import.origin.format = row.format.name;
  mask.mask.origin = std::move(import.origin);
  return mask;
}

}  // namespace

std::span<const MaskFormat> mask_formats() {
  static const auto table = [] {
    std::array<MaskFormat, kRows.size()> formats{};
    std::ranges::transform(kRows, formats.begin(), &Row::format);
    return formats;
  }();
  return table;
}

ImportedMask read_mask_file(std::string_view bytes, const std::string& source,
                            const MaskFileRequest& request) {
  const bool own = request.format == kOwn;
  switch (own ? Container::other : container_of(bytes, source)) {
    case Container::npz:
      return imported(read_npz(bytes, source), request);
    case Container::npy:
      return imported(read_npy_bundle(bytes, source), request);
    case Container::safetensors:
      return imported(read_safetensors(bytes, source), request);
    case Container::other:
      break;
  }
  const JsonDocument document(bytes, source);
  if (own || (request.format.empty() && is_description(document.root()))) {
    const Bundle none;
    Import(none, request).expect_heeded("a mask description of ours");
    return {.mask = read_mask_json(without_bom(bytes), source)};
  }
  return imported(read_json_tensors(document.root(), source), request);
}

}  // namespace stagger::formats
