#include "workbench/c_guard.hpp"

#include <cstdlib>
#include <cstring>

namespace stagger::workbench::c {
namespace {

/// Without an allocation that could fail while a failure is told.
thread_local char t_last_error[2048] = "";

}  // namespace

stagger_error code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return STAGGER_E_USAGE;
    case ErrorKind::invalid_input:
      return STAGGER_E_INPUT;
    case ErrorKind::unsupported:
      return STAGGER_E_UNSUPPORTED;
    case ErrorKind::limit:
      return STAGGER_E_LIMIT;
    case ErrorKind::io:
      return STAGGER_E_IO;
    case ErrorKind::device:
      break;
  }
  return STAGGER_E_DEVICE;
}

std::int32_t failed(stagger_error code, const char* what) noexcept {
  std::strncpy(t_last_error, what, sizeof t_last_error - 1);
  return code;
}

const char* last_error() noexcept {
  return t_last_error;
}

char* copied(const std::string& text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void expect(const void* pointer, const char* name, stagger_error code) {
  if (pointer == nullptr) throw Failure(code, std::string(name) + " is NULL");
}

}  // namespace stagger::workbench::c
