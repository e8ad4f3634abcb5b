#pragma once

#include "core/formats/tensor.hpp"
#include "core/json_value.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagger::formats {

/// Elements of all tensors of a file: half a GiB.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 26;

struct NamedTensor {
  std::string name = {};
  Tensor tensor = {};
  std::string refused = {};  ///< why it is not read: its elements are floats; empty: it is
};

/// Named tensors and words: what an `.npz`, a `.safetensors` or a JSON object holds.
struct Bundle {
  std::string source = {};  ///< the file, in messages
  std::vector<NamedTensor> tensors = {};
  std::map<std::string, std::string, std::less<>> words = {};
  std::map<std::string, std::vector<std::string>, std::less<>> lists = {};  ///< of words

  [[nodiscard]] bool has(std::string_view name) const;
  /// nullptr if there is none of that name. Throws Error{invalid_input} if it could not be read.
  [[nodiscard]] const Tensor* find(std::string_view name) const;
  /// Throws Error{invalid_input}, naming what is there, if there is none.
  [[nodiscard]] const Tensor& at(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[noreturn]] void reject(const std::string& what) const;
};

/// What a file of tensors is, by its first bytes. Throws Error{invalid_input} if it is none of
/// these and `source` has the extension of one.
enum class Container { npz, npy, safetensors, other };
[[nodiscard]] Container container_of(std::string_view bytes, const std::string& source);

// Readers throw Error{invalid_input}, naming the entry or tensor, and Error{limit} above
// kMaxElements. What is neither integer nor boolean is refused only where it is asked for.

[[nodiscard]] Bundle read_npz(std::string_view bytes, const std::string& source);
/// One tensor, of no name.
[[nodiscard]] Bundle read_npy_bundle(std::string_view bytes, const std::string& source);
/// `__metadata__` becomes words.
[[nodiscard]] Bundle read_safetensors(std::string_view bytes, const std::string& source);
/// Nested arrays of integers or booleans are tensors (rows that are too short are filled with -1),
/// null is nothing, and an object's members are named `OBJECT.MEMBER`.
[[nodiscard]] Bundle read_json_tensors(const JsonValue& object, const std::string& source);

// Writers give the same bytes for the same bundle.

[[nodiscard]] std::string write_npz(const Bundle& bundle);  ///< words are left out
[[nodiscard]] std::string write_safetensors(const Bundle& bundle);
[[nodiscard]] std::string write_json_tensors(const Bundle& bundle);

}  // namespace stagger::formats
