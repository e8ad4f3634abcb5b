#pragma once

#include "core/error.hpp"

#include <string>
#include <utility>

namespace stagger {

/// What is wrong with a value of a JSON document, and which: what a JsonValue throws.
class JsonError : public Error {
 public:
  JsonError(const std::string& what, std::string pointer)
      : Error(ErrorKind::invalid_input, what), pointer_(std::move(pointer)) {}
  /// The value's pointer (`/lanes/3/0`; empty: the whole document).
  [[nodiscard]] const std::string& pointer() const { return pointer_; }

 private:
  std::string pointer_;
};

}  // namespace stagger
