#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagger::tickets {

/// What a file of tensors (`.npz`, `.safetensors`, `.npy`) says, as the text that is read
/// otherwise: FlashAttention-4's lists, or a BlockMask's with a write order, as `stagger.fa4/1`; a
/// single array as rows of lock values. nullopt if it is no such file. Throws Error{invalid_input}.
[[nodiscard]] std::optional<std::string> text_of_tensors(std::string_view bytes,
                                                         const std::string& file);

}  // namespace stagger::tickets
