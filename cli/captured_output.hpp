#pragma once

#include <string>

namespace stagger::cli {

/// While there is one, what this thread writes to standard output is kept instead, and no progress
/// is shown: a command has been called by a program.
class CapturedOutput {
 public:
  CapturedOutput();
  ~CapturedOutput();
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  [[nodiscard]] const std::string& text() const { return text_; }
  /// Whether this thread has one.
  [[nodiscard]] static bool is_there();

 private:
  std::string text_;
  std::string* outer_;
};

}  // namespace stagger::cli
