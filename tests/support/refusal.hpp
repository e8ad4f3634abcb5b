#pragma once

#include "core/error.hpp"
#include "tests/support/catch.hpp"

#include <string>

namespace stagger::test {

/// What `act` says as it fails with an error of that kind; that it fails is checked.
template <class Act>
std::string message_of(const Act& act, ErrorKind kind) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  FAIL("accepted");
  return "";
}

/// What `act` says, or the kind and the words of the error that it fails with.
template <class Act>
std::string said(const Act& act) {
  try {
    return act();
  } catch (const Error& error) {
    return "refused " + std::to_string(static_cast<int>(error.kind())) + ": " + error.what();
  }
}

/// The text with its first `from` replaced by `to`; that there is one is required.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  CAPTURE(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace stagger::test
