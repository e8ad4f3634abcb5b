#pragma once

#include "core/error.hpp"
#include "workbench/stagger.h"

#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace stagger::workbench::c {

/// A failure with a code of the C interface that no ErrorKind has.
class Failure : public std::runtime_error {
 public:
  Failure(stagger_error code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] stagger_error code() const { return code_; }

 private:
  stagger_error code_;
};

[[nodiscard]] stagger_error code_of(ErrorKind kind);

/// Keeps what stagger_last_error() says to this thread, and returns the code.
std::int32_t failed(stagger_error code, const char* what) noexcept;
[[nodiscard]] const char* last_error() noexcept;

/// Text that stagger_free() frees.
[[nodiscard]] char* copied(const std::string& text);

/// Throws Failure{code} if a pointer is none.
void expect(const void* pointer, const char* name, stagger_error code = STAGGER_E_USAGE);

/// Runs `work`: no exception crosses into C.
template <class Work>
std::int32_t guarded(Work work) noexcept {
  try {
    work();
    return STAGGER_OK;
  } catch (const Failure& failure) {
    return failed(failure.code(), failure.what());
  } catch (const Error& error) {
    return failed(code_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return failed(STAGGER_E_LIMIT, "out of memory");
  } catch (const std::exception& error) {
    return failed(STAGGER_E_INTERNAL, error.what());
  } catch (...) {
    return failed(STAGGER_E_INTERNAL, "an unknown failure");
  }
}

}  // namespace stagger::workbench::c
