#pragma once

#include "core/mask.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stagger::formats {

/// How a file is to be read, where it leaves that open.
struct MaskFileRequest {
  std::string format = {};                ///< of mask_formats(); empty: by what is in the file
  Lengths lengths = {};                   ///< tokens; 0: not given
  TileShape shape = {.q = 0, .kv = 0};    ///< tokens a tile; 0: not given
  std::optional<std::int64_t> head = {};  ///< batch * heads + head: that one mask for all
  std::int64_t heads = 0;                 ///< of the problem, the batch folded in; 0: not given
  std::int64_t heads_kv = 0;              ///< likewise
  std::optional<bool> causal = {};
};

/// A mask from a file, and the size that the file says; 0 where it says none. Where heads of the
/// file have different masks it is a mask by head, for as many heads as were given. The mask's
/// `origin` says what was understood, and what was lost.
struct ImportedMask {
  Mask mask = {};
  Lengths lengths = {};
  TileShape shape = {.q = 0, .kv = 0};
};

/// A layout of other people's masks.
struct MaskFormat {
  const char* name;     ///< `flex`
  const char* summary;  ///< whose it is, and the names by which it is known
};
[[nodiscard]] std::span<const MaskFormat> mask_formats();

/// Reads a mask of any known format: `.npz`, `.npy`, `.safetensors` or JSON, by content. Throws
/// Error{invalid_input} with the tensor and indices of what is wrong, Error{limit} above
/// core/limits.hpp, Error{usage} where the request contradicts the file or leaves open what it
/// needs.
[[nodiscard]] ImportedMask read_mask_file(std::string_view bytes, const std::string& source,
                                          const MaskFileRequest& request);

}  // namespace stagger::formats
