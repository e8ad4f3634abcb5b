#include "core/formats/npy.hpp"

#include "core/error.hpp"
#include "core/formats/cursor.hpp"
#include "core/index.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <charconv>

namespace stagger::formats {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostNpyHeader = 10'000;
constexpr std::size_t kAlignment = 64;

/// Reads the header: a dict literal of Python with three keys.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  NpyHeader run() {
    NpyHeader header;
    bool descr = false;
    bool order = false;
    bool shape = false;
    expect('{');
    while (!next('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !descr) {
        header.descr = type();
        descr = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = boolean();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = tuple();
        shape = true;
      } else {
        fail("unknown or repeated key " + in_quotes(key));
      }
      if (!next(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) fail("something behind the dict");
    if (!descr || !order || !shape) fail("needs descr, fortran_order and shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::invalid_input, where_ + ": the header of the .npy: " + what);
  }
  void skip() { at_ = std::min(text_.find_first_not_of(" \n\t", at_), text_.size()); }
  bool next(char letter) {
    skip();
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  void expect(char letter) {
    if (!next(letter))
      fail("'" + std::string(1, letter) + "' is missing at byte " + std::to_string(at_));
  }
  std::string string() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') fail("a string is missing at byte " + std::to_string(at_));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a string does not end");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  /// The type of a record is a list, which is passed over as text.
  std::string type() {
    skip();
    if (at_ == text_.size() || text_[at_] != '[') return string();
    const std::size_t begin = at_;
    int depth = 0;
    do {
      if (at_ == text_.size()) fail("a list does not end");
      depth += text_[at_] == '[' ? 1 : text_[at_] == ']' ? -1 : 0;
      ++at_;
    } while (depth > 0);
    return std::string(text_.substr(begin, at_ - begin));
  }
  bool boolean() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail("fortran_order is neither True nor False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!next(')')) {
      skip();
      std::int64_t size = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc{} || size < 0) fail("the shape is no tuple of sizes");
      at_ += static_cast<std::size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote it
      sizes.push_back(size);
      if (sizes.size() > kMostDimensions) fail("too many dimensions");
      if (!next(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

/// Elements that are stored by columns, by rows.
std::vector<std::int64_t> by_rows(const std::vector<std::int64_t>& columns,
                                  const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> rows(columns.size());
  std::vector<std::int64_t> place(shape.size(), 0);
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t axis = 1; axis < shape.size(); ++axis)
    stride[axis] = stride[axis - 1] * shape[axis - 1];
  std::int64_t from = 0;
  for (std::int64_t& element : rows) {
    element = columns[at(from)];
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      from += stride[axis];
      if (++place[axis] < shape[axis]) break;
      from -= stride[axis] * shape[axis];
      place[axis] = 0;
    }
  }
  return rows;
}

}  // namespace

std::optional<Dtype> NpyHeader::dtype() const {
  if (descr.size() != 3 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos) {
    return std::nullopt;
  }
  const auto row = std::ranges::find_if(
      kDtypes, [&](const DtypeRow& each) { return descr.substr(1) == each.numpy; });
  if (row == kDtypes.end()) return std::nullopt;
  return static_cast<Dtype>(row - kDtypes.begin());
}

NpyHeader read_npy_header(std::string_view bytes, const std::string& where) {
  Cursor cursor(bytes, where);
  if (!bytes.starts_with(kMagic)) cursor.reject("is no .npy");
  cursor.go_to(kMagic.size());
  const std::uint64_t major = cursor.number(1);
  const std::uint64_t minor = cursor.number(1);
  if (major < 1 || major > 3 || minor != 0) {
    cursor.reject("version " + std::to_string(major) + "." + std::to_string(minor) +
                  " of .npy; known: 1.0, 2.0, 3.0");
  }
  const std::uint64_t size = cursor.number(major == 1 ? 2 : 4);
  if (size > kMostNpyHeader) {
    cursor.reject("a header of " + std::to_string(size) + " bytes; at most " +
                  std::to_string(kMostNpyHeader));
  }
  NpyHeader header = HeaderParser(cursor.take(size), where).run();
  header.data = cursor.place();
  return header;
}

Tensor read_npy(std::string_view bytes, const std::string& where, std::int64_t most) {
  const NpyHeader header = read_npy_header(bytes, where);
  const std::optional<Dtype> dtype = header.dtype();
  if (!dtype) {
    const bool pickled = header.descr.find('O') != std::string::npos;
    throw Error(ErrorKind::invalid_input, where + ": its elements are " + in_quotes(header.descr) +
                                              (pickled ? ", pickled objects, which are not read"
                                                       : ", neither integers nor booleans"));
  }
  const std::int64_t count = element_count(header.shape, most, where);
  const std::size_t width = at(row_of(*dtype).bytes);
  const std::string_view data = bytes.substr(header.data);
  if (data.size() / width != at(count) || data.size() % width != 0) {
    throw Error(ErrorKind::invalid_input,
                where + ": " + std::to_string(data.size()) + " bytes of elements for a shape of " +
                    shape_words(header.shape) + " of " + std::to_string(width) + " bytes each");
  }
  Tensor tensor{.dtype = *dtype, .shape = header.shape};
  tensor.elements.reserve(at(count));
  for (std::int64_t index = 0; index < count; ++index) {
    tensor.elements.push_back(
        element_of(data.data() + at(index) * width, *dtype, header.descr[0] == '>', where));
  }
  if (header.fortran_order) tensor.elements = by_rows(tensor.elements, tensor.shape);
  return tensor;
}

std::string write_npy(const Tensor& tensor) {
  const DtypeRow& row = row_of(tensor.dtype);
  std::string sizes;
  for (const std::int64_t size : tensor.shape)
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  if (tensor.shape.size() == 1) sizes += ",";
  std::string header = std::string("{'descr': '") + (row.bytes == 1 ? "|" : "<") + row.numpy +
                       "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  constexpr std::size_t kBefore = 10;
  while ((kBefore + header.size() + 1) % kAlignment != 0)
    header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  put_number(bytes, 1, 1);
  put_number(bytes, 0, 1);
  put_number(bytes, header.size(), 2);
  return bytes + header + element_bytes(tensor);
}

}  // namespace stagger::formats
