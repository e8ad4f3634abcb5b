#include "core/formats/bundle.hpp"

#include "core/error.hpp"
#include "core/formats/cursor.hpp"
#include "core/formats/npy.hpp"
#include "core/formats/zip.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <utility>

namespace stagger::formats {
namespace {

constexpr std::string_view kNpyExtension = ".npy";

/// Reads an array, unless its elements are of a type that is no integer's.
NamedTensor read_array(std::string_view bytes, const std::string& name, const std::string& where,
                       std::int64_t& left) {
  NamedTensor named{.name = name};
  if (!read_npy_header(bytes, where).dtype()) {
    try {
      static_cast<void>(read_npy(bytes, where, left));
    } catch (const Error& error) {
      named.refused = error.what();
    }
    return named;
  }
  named.tensor = read_npy(bytes, where, left);
  left -= std::ssize(named.tensor.elements);
  return named;
}

Container container_by_bytes(std::string_view bytes) {
  if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06")) return Container::npz;
  if (bytes.starts_with("\x93NUMPY")) return Container::npy;
  constexpr std::size_t kBeforeHeader = 8;
  if (bytes.size() <= kBeforeHeader || bytes[kBeforeHeader] != '{') return Container::other;
  Cursor cursor(bytes, "");
  const std::uint64_t header = cursor.number(kBeforeHeader);
  // A text has letters where a header's length has zeros.
  return header >> 32 == 0 ? Container::safetensors : Container::other;
}

}  // namespace

bool Bundle::has(std::string_view name) const {
  return std::ranges::any_of(tensors, [&](const NamedTensor& each) { return each.name == name; });
}

const Tensor* Bundle::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end()) return nullptr;
  if (!found->refused.empty()) throw Error(ErrorKind::invalid_input, found->refused);
  return &found->tensor;
}

const Tensor& Bundle::at(std::string_view name) const {
  const Tensor* const tensor = find(name);
  if (tensor == nullptr) reject(std::string(name) + " is missing; there are: " + listed(names()));
  return *tensor;
}

std::vector<std::string> Bundle::names() const {
  std::vector<std::string> all;
  for (const NamedTensor& each : tensors)
    all.push_back(each.name);
  return all;
}

void Bundle::reject(const std::string& what) const {
  throw Error(ErrorKind::invalid_input, source + ": " + what);
}

Container container_of(std::string_view bytes, const std::string& source) {
  const Container container = container_by_bytes(bytes);
  if (container != Container::other) return container;
  for (const auto& [extension, what] :
       {std::pair(".npz", "zip archive"), std::pair(".npy", "array of numpy's"),
        std::pair(".safetensors", "file of safetensors")}) {
    if (source.ends_with(extension)) {
      throw Error(ErrorKind::invalid_input, source + ": no " + what);
    }
  }
  return container;
}

Bundle read_npz(std::string_view bytes, const std::string& source) {
  Bundle bundle{.source = source};
  std::int64_t left = kMaxElements;
  for (const ZipEntry& entry : read_zip(bytes, source)) {
    std::string name = entry.name;
    if (name.ends_with(kNpyExtension)) name.resize(name.size() - kNpyExtension.size());
    if (bundle.has(name)) bundle.reject(name + " is there twice");
    if (!entry.bytes.starts_with("\x93NUMPY")) {
      NamedTensor& other = bundle.tensors.emplace_back();
      other.name = name;
      other.refused = source + ": " + name + " is no array of numpy's";
      continue;
    }
    bundle.tensors.push_back(read_array(entry.bytes, name, source + ": " + name, left));
  }
  return bundle;
}

Bundle read_npy_bundle(std::string_view bytes, const std::string& source) {
  Bundle bundle{.source = source};
  NamedTensor only;
  only.tensor = read_npy(bytes, source, kMaxElements);
  bundle.tensors.push_back(std::move(only));
  return bundle;
}

std::string write_npz(const Bundle& bundle) {
  std::vector<ZipEntry> entries;
  for (const NamedTensor& each : bundle.tensors)
    entries.push_back({each.name + std::string(kNpyExtension), write_npy(each.tensor)});
  return write_zip(entries);
}

}  // namespace stagger::formats
