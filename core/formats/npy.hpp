#pragma once

#include "core/formats/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stagger::formats {

/// What a `.npy` says of its array.
struct NpyHeader {
  std::string descr;  ///< `<i4`; of what is no simple type, the text
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data = 0;  ///< byte at which the elements begin

  /// nullopt if the elements are no integers or booleans.
  [[nodiscard]] std::optional<Dtype> dtype() const;
};

/// Reads versions 1.0, 2.0 and 3.0. Throws Error{invalid_input}; `where` names the array.
[[nodiscard]] NpyHeader read_npy_header(std::string_view bytes, const std::string& where);

/// Reads an array of integers or booleans, of either byte order, by rows or by columns. Throws
/// Error{invalid_input} if it is none, or not all there; Error{limit} above `most` elements.
[[nodiscard]] Tensor read_npy(std::string_view bytes, const std::string& where, std::int64_t most);

/// Version 1.0, little-endian, by rows.
[[nodiscard]] std::string write_npy(const Tensor& tensor);

}  // namespace stagger::formats
