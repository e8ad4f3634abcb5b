#include "workbench/tickets/tensors.hpp"

#include "core/formats/bundle.hpp"
#include "core/formats/import_context.hpp"
#include "core/index.hpp"
#include "core/json_value.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace stagger::tickets {
namespace {

using formats::Bundle;
using formats::Import;
using formats::Leading;
using formats::NamedTensor;
using formats::Tensor;

/// A tensor's name in the file, and among FlashAttention-4's lists; its dimensions.
struct Entry {
  std::string from;
  const char* to;
  std::size_t inner;
};

std::vector<Entry> entries_of(const std::string& prefix) {
  return {{prefix + "mask_block_cnt", "mask_block_cnt", 1},
          {prefix + "mask_block_idx", "mask_block_idx", 2},
          {prefix + "full_block_cnt", "full_block_cnt", 1},
          {prefix + "full_block_idx", "full_block_idx", 2},
          {prefix + "dq_write_order", "dq_write_order", 2},
          {prefix + "dq_write_order_full", "dq_write_order_full", 2}};
}

/// The names that a BlockMask's lists have: `q` the backward pass's, `kv` the forward pass's.
std::vector<Entry> entries_of_block_mask(const std::string& side) {
  std::vector<Entry> entries = {{side + "_num_blocks", "mask_block_cnt", 1},
                                {side + "_indices", "mask_block_idx", 2},
                                {"full_" + side + "_num_blocks", "full_block_cnt", 1},
                                {"full_" + side + "_indices", "full_block_idx", 2}};
  if (side == "q") {
    entries.push_back({"dq_write_order", "dq_write_order", 2});
    entries.push_back({"dq_write_order_full", "dq_write_order_full", 2});
  }
  return entries;
}

/// The lists as a JSON object, with their leading dimensions; `text` is given the object as a key.
void add_object(const Bundle& bundle, const std::string& key, const std::vector<Entry>& entries,
                std::optional<bool> spt, TensorText& text) {
  Bundle lists;
  for (const Entry& entry : entries) {
    const Tensor* const tensor = bundle.find(entry.from);
    if (tensor == nullptr) continue;
    const Leading leading = leading_of(bundle, entry.from, entry.inner);
    NamedTensor named{.name = entry.to};
    named.tensor = *tensor;
    named.tensor.shape = {leading.batches, leading.heads};
    named.tensor.shape.insert(named.tensor.shape.end(), leading.inner.begin(), leading.inner.end());
    lists.tensors.push_back(std::move(named));
    text.values.push_back(
        {"/" + key + "/" + entry.to, entry.from, entry.inner + 2 - tensor->shape.size()});
  }
  if (spt) {
    NamedTensor named{.name = "spt"};
    named.tensor = {.dtype = formats::Dtype::boolean, .shape = {}, .elements = {*spt ? 1 : 0}};
    lists.tensors.push_back(std::move(named));
  }
  text.text += ", \"" + key + "\": " + write_json_tensors(lists);
}

/// What the kernel adds to the lists, where the file says it.
std::string kernel_words(const Import& import) {
  std::string words;
  for (const char* name : {"q_tiles", "q_subtile", "groups", "group_total", "heads_kv"}) {
    if (const auto value = import.numbers(name, 1)) {
      words += std::string(", \"") + name + "\": " + std::to_string(value->front());
    }
  }
  return words;
}

TensorText lists_text(const Bundle& bundle) {
  const formats::MaskFileRequest request;
  const Import import(bundle, request);
  TensorText text{.text = "{\"schema\": \"stagger.fa4/1\"" + kernel_words(import)};
  if (bundle.has("dq_kv_order")) {
    bundle.reject(
        "dq_kv_order, a launch order of its own, is not read: FlashAttention-4 has it in its pull "
        "request 2512 alone");
  }
  if (bundle.has("q_num_blocks")) {
    add_object(bundle, "backward", entries_of_block_mask("q"), import.flag("dq_kv_order_spt"),
               text);
    if (bundle.has("kv_num_blocks")) {
      add_object(bundle, "forward", entries_of_block_mask("kv"), std::nullopt, text);
    }
    text.text += "}";
    return text;
  }
  const auto back = fa4_prefix(bundle, formats::Direction::backward);
  if (!back) {
    bundle.reject(
        "no tickets that are known: neither backward.mask_block_cnt and dq_write_order "
        "nor a BlockMask's q_num_blocks");
  }
  add_object(bundle, "backward", entries_of(*back), import.flag(*back + "spt"), text);
  const auto ahead = fa4_prefix(bundle, formats::Direction::forward);
  if (ahead && fa4_lists_are_alike(import, *back, *ahead))
    add_object(bundle, "forward", entries_of(*ahead), std::nullopt, text);
  text.text += "}";
  return text;
}

/// A JSON object of tensors has no schema, and their names.
bool is_json_of_tensors(std::string_view text) {
  const auto has = [&](std::string_view name) { return text.find(name) != std::string_view::npos; };
  return without_bom(text).starts_with('{') && !has("\"schema\"") &&
         (has("mask_block_cnt\"") || has("q_num_blocks\"") || has("kv_num_blocks\""));
}

/// Whether it has the form of a document of ours, whose other keys tensors do not have: one without
/// its schema is refused, as what it says beside them would be passed over.
bool is_document(const JsonValue& root) {
  return std::ranges::any_of(root.keys(), [&](const std::string& key) {
    return (key == "backward" || key == "forward") && root.at(key).is_object();
  });
}

TensorText lock_values_text(const Bundle& bundle) {
  const Leading leading = leading_of(bundle, "", 2);
  if (leading.masks() != 1) bundle.reject("lock values are of one head: an array [kv, q]");
  const Tensor& tensor = bundle.at("");
  std::string text;
  std::size_t place = 0;
  for (std::int64_t row = 0; row < leading.inner[0]; ++row) {
    for (std::int64_t column = 0; column < leading.inner[1]; ++column) {
      text += (column == 0 ? "" : ",") + std::to_string(tensor.elements[place++]);
    }
    text += '\n';
  }
  return {.text = std::move(text)};
}

}  // namespace

std::string tensor_place(const std::vector<NamedValue>& values, const std::string& pointer) {
  for (const auto& [start, tensor, added] : values) {
    if (!pointer.starts_with(start)) continue;
    std::vector<std::string> indices;
    for (std::size_t slash = start.size(); slash < pointer.size();) {
      if (pointer[slash] != '/') break;
      const std::size_t next = std::min(pointer.find('/', slash + 1), pointer.size());
      indices.push_back(pointer.substr(slash + 1, next - slash - 1));
      slash = next;
    }
    if (indices.empty() && pointer.size() > start.size()) continue;  // a longer name
    std::string place = tensor;
    for (std::size_t index = added; index < indices.size(); ++index)
      place += (index == added ? "[" : ",") + indices[index];
    return indices.size() > added ? place + "]" : place;
  }
  return "";
}

std::optional<TensorText> text_of_tensors(std::string_view bytes, const std::string& file) {
  switch (formats::container_of(bytes, file)) {
    case formats::Container::npz:
      return lists_text(formats::read_npz(bytes, file));
    case formats::Container::safetensors:
      return lists_text(formats::read_safetensors(bytes, file));
    case formats::Container::npy:
      return lock_values_text(formats::read_npy_bundle(bytes, file));
    case formats::Container::other:
      break;
  }
  if (!is_json_of_tensors(bytes)) return std::nullopt;
  const JsonDocument document(bytes, file);
  if (is_document(document.root())) return std::nullopt;
  return lists_text(formats::read_json_tensors(document.root(), file));
}

}  // namespace stagger::tickets
