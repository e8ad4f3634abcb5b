// safetensors: the length of a JSON header, the header, and the tensors' bytes without a hole.

#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/formats/cursor.hpp"
#include "core/index.hpp"
#include "core/json.hpp"
#include "core/limits.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace stagger::formats {
namespace {

constexpr std::uint64_t kMostJsonHeader = 100'000'000;
constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";

/// A tensor's place among the bytes behind the header.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;
};

std::optional<Dtype> dtype_of(const std::string& name) {
  const auto row =
      std::ranges::find_if(kDtypes, [&](const DtypeRow& each) { return name == each.safetensors; });
  if (row == kDtypes.end()) return std::nullopt;
  return static_cast<Dtype>(row - kDtypes.begin());
}

class Reader {
 public:
  Reader(std::string_view data, const std::string& source) : data_(data) {
    bundle_.source = source;
  }

  Bundle run(const JsonValue& header) {
    for (const std::string& name : header.keys()) {
      const JsonValue value = header.at(name);
      if (name == kMetadata) {
        for (const std::string& key : value.keys())
          bundle_.words.emplace(key, value.at(key).string());
      } else {
        bundle_.tensors.push_back(read(name, value));
      }
    }
    check_extents();
    return std::move(bundle_);
  }

 private:
  NamedTensor read(const std::string& name, const JsonValue& value) {
    value.expect_keys({"dtype", "shape", "data_offsets"});
    NamedTensor named{.name = name};
    const JsonValue sizes = value.at("shape");
    if (sizes.size() > kMostDimensions) sizes.reject("too many dimensions");
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      named.tensor.shape.push_back(
          sizes.item(axis).integer(0, std::numeric_limits<std::int64_t>::max()));
    }
    const JsonValue offsets = value.at("data_offsets");
    if (offsets.size() != 2) offsets.reject("is a begin and an end");
    const std::int64_t begin = offsets.item(0).integer(0, std::ssize(data_));
    const std::int64_t end = offsets.item(1).integer(begin, std::ssize(data_));
    extents_.push_back({begin, end, name});
    const std::string type = value.at("dtype").string();
    const std::optional<Dtype> dtype = dtype_of(type);
    const std::string where = bundle_.source + ": " + name;
    if (!dtype) {
      named.refused = where + ": its elements are " + type + ", neither integers nor booleans";
      return named;
    }
    named.tensor.dtype = *dtype;
    const std::int64_t count = element_count(named.tensor.shape, left_, where);
    const std::int64_t width = row_of(*dtype).bytes;
    if (count * width != end - begin) {
      offsets.reject("are " + std::to_string(end - begin) + " bytes for a shape of " +
                     shape_words(named.tensor.shape) + " of " + std::to_string(width) +
                     " bytes each");
    }
    left_ -= count;
    named.tensor.elements.reserve(stagger::at(count));
    for (std::int64_t place = begin; place < end; place += width)
      named.tensor.elements.push_back(element_of(data_.data() + place, *dtype, false, where));
    return named;
  }

  /// The tensors' bytes must follow each other without a hole, up to the end of the file.
  void check_extents() {
    std::ranges::sort(extents_, [](const Extent& left, const Extent& right) {
      return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
    });
    std::int64_t end = 0;
    for (const Extent& extent : extents_) {
      if (extent.begin != end) {
        bundle_.reject(extent.name + " begins at byte " + std::to_string(extent.begin) +
                       ", where the tensor before ends at " + std::to_string(end));
      }
      end = extent.end;
    }
    if (end != std::ssize(data_)) {
      bundle_.reject("the file has " + std::to_string(data_.size()) +
                     " bytes of tensors, the header " + std::to_string(end));
    }
  }

  std::string_view data_;
  Bundle bundle_;
  std::vector<Extent> extents_;
  std::int64_t left_ = kMaxElements;
};

}  // namespace

Bundle read_safetensors(std::string_view bytes, const std::string& source) {
  Cursor cursor(bytes, source);
  const std::uint64_t length = cursor.number(kLengthBytes);
  if (length > kMostJsonHeader) {
    cursor.reject("a header of " + std::to_string(length) + " bytes; at most " +
                  std::to_string(kMostJsonHeader));
  }
  const JsonDocument header(cursor.take(length), source);
  return Reader(bytes.substr(cursor.place()), source).run(header.root());
}

std::string write_safetensors(const Bundle& bundle) {
  std::vector<const NamedTensor*> tensors;
  for (const NamedTensor& each : bundle.tensors)
    tensors.push_back(&each);
  // The widest first, so that each begins at a multiple of its elements.
  std::ranges::stable_sort(tensors, [](const NamedTensor* left, const NamedTensor* right) {
    return row_of(left->tensor.dtype).bytes > row_of(right->tensor.dtype).bytes;
  });
  Json header = Json::object();
  if (!bundle.words.empty()) {
    for (const auto& [key, value] : bundle.words)
      header[kMetadata][key] = value;
  }
  std::string data;
  for (const NamedTensor* each : tensors) {
    const std::size_t begin = data.size();
    data += element_bytes(each->tensor);
    header[each->name] = {{"dtype", row_of(each->tensor.dtype).safetensors},
                          {"shape", each->tensor.shape},
                          {"data_offsets", std::vector<std::size_t>{begin, data.size()}}};
  }
  std::string text = header.line();
  while (text.size() % kLengthBytes != 0)
    text += ' ';
  std::string bytes;
  put_number(bytes, text.size(), kLengthBytes);
  return bytes + text + data;
}

}  // namespace stagger::formats
