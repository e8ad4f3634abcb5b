#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stagger::formats {

/// What one element is: the integers that masks and tickets are made of.
enum class Dtype { boolean, int8, uint8, int16, uint16, int32, uint32, int64, uint64 };

struct DtypeRow {
  const char* numpy;        ///< `descr` without its byte order; `b1`
  const char* safetensors;  ///< `BOOL`
  std::int32_t bytes;
  bool is_signed;
};
inline constexpr std::array kDtypes = {
    DtypeRow{"b1", "BOOL", 1, false}, DtypeRow{"i1", "I8", 1, true},
    DtypeRow{"u1", "U8", 1, false},   DtypeRow{"i2", "I16", 2, true},
    DtypeRow{"u2", "U16", 2, false},  DtypeRow{"i4", "I32", 4, true},
    DtypeRow{"u4", "U32", 4, false},  DtypeRow{"i8", "I64", 8, true},
    DtypeRow{"u8", "U64", 8, false}};
[[nodiscard]] constexpr const DtypeRow& row_of(Dtype dtype) {
  return kDtypes[static_cast<std::size_t>(dtype)];
}

inline constexpr std::size_t kMostDimensions = 16;  ///< of a tensor that is read

/// An array of integers: a value.
struct Tensor {
  Dtype dtype = Dtype::int32;
  std::vector<std::int64_t> shape = {};  ///< none: one element
  std::vector<std::int64_t> elements =
      {};  ///< as many as the shape says; the last index is fastest
  friend bool operator==(const Tensor&, const Tensor&) = default;
};

/// `[1,2,8]`.
[[nodiscard]] std::string shape_words(const std::vector<std::int64_t>& shape);

/// The elements of a shape. Throws Error{invalid_input} if that is negative or leaves 64 bits,
/// Error{limit} above `most`; `where` names the tensor.
[[nodiscard]] std::int64_t element_count(const std::vector<std::int64_t>& shape, std::int64_t most,
                                         const std::string& where);

/// One element from its bytes in the file's order. Requires as many as the dtype has. Throws
/// Error{invalid_input} if it is no int64, or a boolean above 1.
[[nodiscard]] std::int64_t element_of(const char* bytes, Dtype dtype, bool big_endian,
                                      const std::string& where);

/// The elements' bytes, little-endian. Requires that they fit the dtype.
[[nodiscard]] std::string element_bytes(const Tensor& tensor);

}  // namespace stagger::formats
