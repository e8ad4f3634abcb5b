#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::tickets {

/// The tensor that a value of a text is from.
struct NamedValue {
  std::string pointer;    ///< the value's, in the text: `/backward/dq_write_order`
  std::string tensor;     ///< its name in the file
  std::size_t added = 0;  ///< dimensions of batches and heads that only the text has
};

/// A file of tensors as the text that is read otherwise.
struct TensorText {
  std::string text;
  std::vector<NamedValue> values = {};  ///< none: rows of lock values
};

/// What a file of tensors (`.npz`, `.safetensors`, `.npy`) says: FlashAttention-4's lists, or a
/// BlockMask's with a write order, as `stagger.fa4/1`; a single array as rows of lock values.
/// nullopt if it is no such file. Throws Error{invalid_input}.
[[nodiscard]] std::optional<TensorText> text_of_tensors(std::string_view bytes,
                                                        const std::string& file);

/// `dq_write_order[0,0,3,1]`, of a pointer into the text; empty if no tensor is there.
[[nodiscard]] std::string tensor_place(const std::vector<NamedValue>& values,
                                       const std::string& pointer);

}  // namespace stagger::tickets
