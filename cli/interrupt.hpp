#pragma once

#include <atomic>
#include <functional>
#include <memory>

namespace stagger::cli {

/// From now on the first interrupt (SIGINT, SIGTERM) only makes interrupted() true, so that work
/// can end with what it has; a second one ends the program with exit code 130, as the first does
/// before.
void finish_on_interrupt();

/// Installs the handlers; called once.
void handle_interrupts();

/// Whether the program was interrupted, or the command that this thread runs was cancelled.
[[nodiscard]] bool interrupted() noexcept;

/// What interrupted() is to this thread, to be asked from any thread.
[[nodiscard]] std::function<bool()> interruption();

/// While there is one, the command that this thread runs is cancelled once the flag is set.
class Cancellable {
 public:
  explicit Cancellable(std::shared_ptr<const std::atomic<bool>> cancelled);
  ~Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

 private:
  std::shared_ptr<const std::atomic<bool>> outer_;
};

}  // namespace stagger::cli
