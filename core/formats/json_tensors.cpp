// Tensors as JSON: nested arrays, as `tensor.tolist()` gives them.

#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/index.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace stagger::formats {
namespace {

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();

/// Reads nested arrays in two walks: how long they are at each level, then what is in them.
class ArrayReader {
 public:
  ArrayReader(const std::string& where, std::int64_t most) : where_(where), most_(most) {}

  Tensor run(const JsonValue& value) {
    measure(value, 0);
    tensor_.dtype = booleans_ && !integers_ ? Dtype::boolean : Dtype::int64;
    tensor_.elements.reserve(at(element_count(tensor_.shape, most_, where_)));
    fill(value, 0);
    return std::move(tensor_);
  }

 private:
  void measure(const JsonValue& value, std::size_t depth) {
    if (!value.is_array()) {
      if (leaves_ && depth != tensor_.shape.size()) value.reject("is not nested like the others");
      leaves_ = true;
      (value.is_boolean() ? booleans_ : integers_) = true;
      if (!value.is_boolean()) static_cast<void>(value.integer(-kAnyInteger, kAnyInteger));
      return;
    }
    if (depth >= kMostDimensions || (leaves_ && depth >= tensor_.shape.size())) {
      value.reject("is not nested like the others");
    }
    if (tensor_.shape.size() <= depth) tensor_.shape.push_back(0);
    const auto size = static_cast<std::int64_t>(value.size());
    if (depth > 0 && size != tensor_.shape[depth] && seen_[depth]) ragged_[depth] = true;
    seen_[depth] = true;
    tensor_.shape[depth] = std::max(tensor_.shape[depth], size);
    for (std::size_t index = 0; index < value.size(); ++index)
      measure(value.item(index), depth + 1);
  }

  void fill(const JsonValue& value, std::size_t depth) {
    if (depth == tensor_.shape.size()) {
      tensor_.elements.push_back(value.is_boolean() ? (value.boolean() ? 1 : 0)
                                                    : value.integer(-kAnyInteger, kAnyInteger));
      return;
    }
    if (ragged_[depth] && depth + 1 < tensor_.shape.size()) {
      value.reject("has another length than those beside it");
    }
    for (std::size_t index = 0; index < value.size(); ++index)
      fill(value.item(index), depth + 1);
    const std::int64_t missing = tensor_.shape[depth] - static_cast<std::int64_t>(value.size());
    const bool fills = depth + 1 == tensor_.shape.size() && tensor_.dtype != Dtype::boolean;
    if (!fills && missing > 0) {
      value.reject("has another length than those beside it");
    }
    tensor_.elements.insert(tensor_.elements.end(), at(missing), -1);
  }

  const std::string& where_;
  std::int64_t most_;
  Tensor tensor_;
  bool leaves_ = false;
  bool booleans_ = false;
  bool integers_ = false;
  bool seen_[kMostDimensions] = {};
  bool ragged_[kMostDimensions] = {};
};

bool is_list_of_words(const JsonValue& value) {
  return value.is_array() && value.size() > 0 && value.item(0).is_string();
}

/// Reads an object's members; `names` are those that the bundle has so far.
void read_members(const JsonValue& object, const std::string& prefix, Bundle& bundle,
                  std::set<std::string>& names, std::int64_t& left) {
  for (const std::string& key : object.keys()) {
    const std::string name = prefix + key;
    const JsonValue value = object.at(key);
    if (value.is_null()) continue;
    if (value.is_object()) {
      read_members(value, name + ".", bundle, names, left);
      continue;
    }
    if (!names.insert(name).second) bundle.reject(name + " is there twice");
    if (value.is_string()) {
      bundle.words.emplace(name, value.string());
    } else if (is_list_of_words(value)) {
      for (std::size_t index = 0; index < value.size(); ++index)
        bundle.lists[name].push_back(value.item(index).string());
    } else if (value.is_array() || value.is_integer() || value.is_boolean()) {
      const std::string where = bundle.source + ": " + name;
      NamedTensor named{.name = name};
      named.tensor = ArrayReader(where, left).run(value);
      left -= std::ssize(named.tensor.elements);
      bundle.tensors.push_back(std::move(named));
    } else {
      value.reject("is no tensor of integers");
    }
  }
}

/// The part of a tensor below an index of each axis before `axis`.
Json nested(const Tensor& tensor, std::size_t axis, std::size_t& place) {
  if (axis == tensor.shape.size()) {
    const std::int64_t element = tensor.elements[place++];
    return tensor.dtype == Dtype::boolean ? Json(element != 0) : Json(element);
  }
  Json items = Json::array();
  for (std::int64_t index = 0; index < tensor.shape[axis]; ++index)
    items.push_back(nested(tensor, axis + 1, place));
  return items;
}

}  // namespace

Bundle read_json_tensors(const JsonValue& object, const std::string& source) {
  Bundle bundle{.source = source};
  std::int64_t left = kMaxElements;
  std::set<std::string> names;
  read_members(object, "", bundle, names, left);
  return bundle;
}

std::string write_json_tensors(const Bundle& bundle) {
  std::string text = "{";
  const char* separator = "\n ";
  const auto add = [&](const std::string& name, const std::string& value) {
    text += separator + json_quote(name) + ": " + value;
    separator = ",\n ";
  };
  for (const auto& [name, words] : bundle.words)
    add(name, json_quote(words));
  for (const NamedTensor& each : bundle.tensors) {
    std::size_t place = 0;
    add(each.name, nested(each.tensor, 0, place).line());
  }
  return text + "}\n";
}

}  // namespace stagger::formats
