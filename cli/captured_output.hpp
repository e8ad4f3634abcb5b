#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagger::cli {

/// While there is one, what this thread writes to standard output or complains of is kept instead,
/// and no progress is shown: a command has been called by a program.
class CapturedOutput {
 public:
  CapturedOutput();
  ~CapturedOutput();
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<std::string>& complaints() const { return complaints_; }
  /// Keeps text or a complaint; false if this thread has nothing to keep it in.
  static bool keep(std::string_view text);
  static bool keep_complaint(const std::string& text);
  /// Whether this thread has one.
  [[nodiscard]] static bool is_there();

 private:
  std::string text_;
  std::vector<std::string> complaints_;
  CapturedOutput* outer_;
};

}  // namespace stagger::cli
