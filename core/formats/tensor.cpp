#include "core/formats/tensor.hpp"

#include "core/checked.hpp"
#include "core/error.hpp"
#include "core/index.hpp"

#include <limits>

namespace stagger::formats {

std::string shape_words(const std::vector<std::int64_t>& shape) {
  std::string words;
  for (const std::int64_t size : shape)
    words += (words.empty() ? "" : ",") + std::to_string(size);
  return "[" + words + "]";
}

std::int64_t element_count(const std::vector<std::int64_t>& shape, std::int64_t most,
                           const std::string& where) {
  Checked count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      throw Error(ErrorKind::invalid_input, where + ": a shape of " + shape_words(shape));
    }
    count = count * size;
  }
  if (!count.within(std::numeric_limits<std::int64_t>::max())) {
    // A size of 0 would make it none again, and no such array is written.
    throw Error(ErrorKind::invalid_input,
                where + ": a shape of " + shape_words(shape) + " has more than 2^63 elements");
  }
  if (!count.within(most)) {
    throw Error(ErrorKind::invalid_input, where + ": " + std::to_string(count.value()) +
                                              " elements; at most " + std::to_string(most) +
                                              " in a file are read");
  }
  return count.value();
}

std::int64_t element_of(const char* bytes, Dtype dtype, bool big_endian, const std::string& where) {
  const DtypeRow& row = row_of(dtype);
  std::uint64_t bits = 0;
  for (std::int32_t index = 0; index < row.bytes; ++index) {
    const std::int32_t place = big_endian ? row.bytes - 1 - index : index;
    bits |= std::uint64_t{static_cast<unsigned char>(bytes[place])} << (8 * index);
  }
  const auto width = static_cast<unsigned>(8 * row.bytes);
  if (row.is_signed && width < 64 && (bits >> (width - 1) & 1) != 0) {
    bits |= ~std::uint64_t{0} << width;
  }
  if (dtype == Dtype::boolean && bits > 1) {
    throw Error(ErrorKind::invalid_input, where + ": a boolean that is " + std::to_string(bits));
  }
  if (dtype == Dtype::uint64 && bits >> 63 != 0) {
    throw Error(ErrorKind::invalid_input, where + ": " + std::to_string(bits) + " is above 2^63");
  }
  return static_cast<std::int64_t>(bits);
}

std::string element_bytes(const Tensor& tensor) {
  const std::int32_t width = row_of(tensor.dtype).bytes;
  std::string bytes;
  bytes.reserve(tensor.elements.size() * at(width));
  for (const std::int64_t element : tensor.elements) {
    const auto bits = static_cast<std::uint64_t>(element);
    for (std::int32_t index = 0; index < width; ++index)
      bytes += static_cast<char>(bits >> (8 * index) & 0xFF);
  }
  return bytes;
}

}  // namespace stagger::formats
