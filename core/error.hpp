#pragma once

#include <stdexcept>
#include <string>

namespace stagger {

/// What went wrong outside the program; `cli` maps each kind to an exit code.
enum class ErrorKind {
  usage,          ///< an option or a combination of options makes no sense
  invalid_input,  ///< a file's content is malformed
  unsupported,    ///< a schedule does not apply to the problem
  limit,          ///< a size, number or memory limit is exceeded
  io,             ///< a file cannot be read or written
  device,         ///< an accelerator failed, or lacks what is asked of it
};

/// The world's fault: bad input, an unknown name, an unwritable file. Caught once, in `cli`.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Our fault: a precondition or an invariant does not hold. Never caught in the library.
class ContractViolation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void contract_violated(const char* condition, const char* file, int line);

}  // namespace stagger

/// Checks a precondition in every build type; throws ContractViolation.
#define STAGGER_EXPECTS(condition)                                  \
  do {                                                              \
    if (!(condition)) {                                             \
      ::stagger::contract_violated(#condition, __FILE__, __LINE__); \
    }                                                               \
  } while (false)
